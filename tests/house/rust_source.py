"""Rust source without its comments and texts, and the parts of it that tests alone compile."""

import re

_LITERAL = re.compile(
    r"""
    //[^\n]*
  | /\*
  | (?<!\w)[bc]?r(?P<hashes>\#*)"
  | (?<!\w)[bc]?"(?:\\.|[^"\\])*"
  | b?'(?:\\(?:x[0-9a-fA-F]{2}|u\{[^}]*\}|.)|[^'\\\n])'
    """,
    re.VERBOSE | re.DOTALL,
)
_TEST_ONLY = re.compile(r"#\[cfg\((?:all\()?\s*(?:test|loom)\b[^\]]*\]")
_ATTRIBUTE = re.compile(r"\s*#\[")


def without_comments(text):
    """The same code with comments gone and every literal text empty; line breaks stay, so that lines keep their numbers."""
    parts, at = [], 0
    while found := _LITERAL.search(text, at):
        parts.append(text[at : found.start()])
        end = _end_of_literal(text, found)
        literal = text[found.start() : end]
        # an empty text in its place, so that what stands around it still reads as code
        parts.append("" if literal.startswith("/") else '""')
        parts.append("\n" * literal.count("\n"))
        at = end
    return "".join(parts) + text[at:]


def _end_of_literal(text, found):
    if found.group() == "/*":
        return _end_of_block_comment(text, found.end())
    if found.group("hashes") is not None:
        close = '"' + found.group("hashes")
        end = text.find(close, found.end())
        return len(text) if end < 0 else end + len(close)
    return found.end()


def _end_of_block_comment(text, at):
    depth = 1
    for mark in re.compile(r"/\*|\*/").finditer(text, at):
        depth += 1 if mark.group() == "/*" else -1
        if depth == 0:
            return mark.end()
    return len(text)


def without_tests(code):
    """Code (without comments) less every item that only a test build has."""
    at = 0
    while found := _TEST_ONLY.search(code, at):
        end = end_of_item(code, found.end())
        code = code[: found.start()] + "\n" * code.count("\n", found.start(), end) + code[end:]
        at = found.start()
    return code


def end_of_item(code, at):
    """Where the item ends that begins after `at`: behind its `;` or its block, further attributes included."""
    while attribute := _ATTRIBUTE.match(code, at):
        at = matching(code, attribute.end() - 1, "[", "]")
    depth = 0
    while at < len(code):
        here = code[at]
        if here in "([":
            depth += 1
        elif here in ")]":
            depth -= 1
        elif here == "{":
            end = matching(code, at, "{", "}")
            rest = re.match(r"\s*;", code[end:])
            return end + rest.end() if rest and code[at - 2 : at] == "::" else end
        elif (here == ";" or here == ",") and depth == 0:
            return at + 1
        elif here == "}":
            return at
        at += 1
    return at


def matching(code, at, opening, closing):
    """Behind the bracket that closes the one at `at`."""
    depth = 0
    for bracket in re.compile(f"[{re.escape(opening + closing)}]").finditer(code, at):
        depth += 1 if bracket.group() == opening else -1
        if depth == 0:
            return bracket.end()
    return len(code)
