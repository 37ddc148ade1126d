"""What a page of Markdown holds, as the forges that show it read it: headings with their anchors, links, tables."""

import re

_FENCE = re.compile(r"^\s*(```|~~~)")
_HEADING = re.compile(r"^(#{1,6})\s+(.*?)\s*#*\s*$")
_LINK = re.compile(r"(?<!\\)!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
_REFERENCE = re.compile(r"^\s{0,3}\[[^\]]+\]:\s*<?(\S+?)>?\s*$")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_SOURCE = re.compile(r"\bsrc(?:set)?=\"([^\"\s]+)\"|\bhref=\"([^\"\s]+)\"")


def prose(text):
    """The lines of a page with their numbers, less comments and blocks between fences."""
    text = _COMMENT.sub(lambda found: "\n" * found.group().count("\n"), text)
    lines, fence = [], None
    for number, line in enumerate(text.splitlines(), 1):
        if mark := _FENCE.match(line):
            fence = None if fence == mark.group(1) else fence or mark.group(1)
            continue
        if fence is None:
            lines.append((number, line))
    return lines


def anchors(text):
    """The anchors that a page's headings get: in lower case, without what is no word, `-` for each space, numbered if not alone."""
    found, seen = set(), {}
    for _, line in prose(text):
        if heading := _HEADING.match(line):
            title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.group(2))
            name = re.sub(r"[^\w\- ]", "", title.replace("`", "").lower()).replace(" ", "-")
            times = seen.get(name, 0)
            seen[name] = times + 1
            found.add(f"{name}-{times}" if times else name)
    return found


def links(text):
    """Each link of a page with its line: of text, of pictures, of references."""
    found = []
    for number, line in prose(text):
        # a span of code holds no link
        line = re.sub(r"(`+)[^`]*\1", "``", line)
        found += [(number, target) for target in _LINK.findall(line)]
        found += [(number, first or second) for first, second in _SOURCE.findall(line)]
        if reference := _REFERENCE.match(line):
            found.append((number, reference.group(1)))
    return found


def tables(text):
    """Each row of each table, with its line, as a list of cells."""
    rows = []
    for number, line in prose(text):
        if line.startswith("|"):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
            if not all(set(cell) <= set("-: ") for cell in cells):
                rows.append((number, cells))
    return rows


def words(cell):
    """How many words a reader has to read in a cell: a link is its text, and code is one word however it is spelled."""
    cell = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", cell)
    cell = re.sub(r"`[^`]*`", "code", cell)
    return len(re.findall(r"[^\W_]+(?:['’.,:/-][^\W_]+)*", cell))
