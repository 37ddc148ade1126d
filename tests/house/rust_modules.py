"""The modules of a crate, and which of them use which: read from the source, for the tests of the house.

A module is a file. What it uses are the modules that its `use` lines and its paths (`crate::a::b`, `super::c`) lead to; a name
that a module passes on (`pub use child::Name`) leads to where it is defined.
"""

import re
from pathlib import Path

from rust_source import matching, without_comments, without_tests

_MODULE = re.compile(r"((?:#\[[^\]]*\]\s*)*)(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)\s*([;{])")
_PATH_ATTRIBUTE = re.compile(r"#\[path\s*=")
_USE = re.compile(r"(?:pub(?:\([^)]*\))?\s+)?\buse\s+([^;]+);")
_INLINE_PATH = re.compile(r"(?<![\w:])(?:r#)?([A-Za-z_]\w*)((?:::(?:r#)?[A-Za-z_]\w*)+)")
_DEFINED = re.compile(r"\b(?:fn|struct|enum|union|trait|type|const|static|mod)\s+(?:mut\s+)?(\w+)")
# A chain of names that are passed on is no longer than this in any sane crate; a circle of `pub use` ends here.
_LONGEST_CHAIN = 20


class Module:
    """A module of a crate: its file, its place in the tree, and what it names."""

    def __init__(self, path, file, parent):
        self.path, self.file, self.parent = path, file, parent
        self.children = {}
        self.imports = {}
        self.globs = []
        self.mentions = []
        self.defined = set()

    def name(self):
        return "::".join(("crate", *self.path))


def read_crate(root_file):
    """Every module that is compiled without tests, by its path; the root is ()."""
    modules = {}
    _read_file(Path(root_file), (), None, modules)
    return modules


def _read_file(file, path, parent, modules):
    raw = file.read_text()
    code = without_tests(without_comments(raw))
    # `mod.rs`, `lib.rs` and `main.rs` have their children beside them, every other file in a folder of its own name
    folder = file.parent if file.name in ("mod.rs", "lib.rs", "main.rs") else file.parent / file.stem
    _read_module(code, raw, file, folder, path, parent, modules)


def _read_module(code, raw, file, folder, path, parent, modules):
    module = Module(path, file, parent)
    modules[path] = module
    code = _read_children(code, raw, file, folder, module, modules)
    for use in _USE.finditer(code):
        for target, name in use_tree(use.group(1)):
            if name == "*":
                module.globs.append(target)
            elif name != "_":
                module.imports[name] = target
            module.mentions.append(target)
    code = _USE.sub("", code)
    for found in _INLINE_PATH.finditer(code):
        module.mentions.append((found.group(1), *found.group(2).replace("r#", "").strip(":").split("::")))
    module.defined = set(_DEFINED.findall(code))


def _read_children(code, raw, file, folder, module, modules):
    """Reads the modules that this one declares; gives back the code without those that stand in the same file."""
    rest, at = [], 0
    while found := _MODULE.search(code, at):
        attributes, name, kind = found.groups()
        rest.append(code[at : found.start()])
        module.children[name] = module.path + (name,)
        at = found.end()
        if kind == "{":
            at = matching(code, found.end() - 1, "{", "}")
            _read_module(code[found.end() : at - 1], raw, file, folder / name, module.path + (name,), module, modules)
        elif child := _file_of(name, attributes, raw, file, folder):
            _read_file(child, module.path + (name,), module, modules)
    return "".join(rest) + code[at:]


def _file_of(name, attributes, raw, file, folder):
    if _PATH_ATTRIBUTE.search(attributes):
        # the literal is gone from the code that was cleaned, so the file itself has it
        written = re.search(r'#\[path\s*=\s*"([^"]+)"\]\s*(?:#\[[^\]]*\]\s*)*(?:pub(?:\([^)]*\))?\s+)?mod\s+' + name + r"\s*;", raw)
        candidates = [file.parent / written.group(1)] if written else []
    else:
        candidates = [folder / f"{name}.rs", folder / name / "mod.rs"]
    return next((candidate for candidate in candidates if candidate.exists()), None)


def use_tree(text, prefix=()):
    """Each path that a `use` names, with the name that it has from there on."""
    text = re.sub(r"\s+", " ", text.strip()).replace("r#", "")
    brace = text.find("{")
    if brace >= 0:
        prefix = prefix + tuple(part for part in text[:brace].split("::") if part.strip())
        inner = text[brace + 1 : matching(text, brace, "{", "}") - 1]
        return [found for part in _split(inner) for found in use_tree(part, prefix)]
    target, _, name = text.partition(" as ")
    parts = prefix + tuple(part.strip() for part in target.strip().split("::") if part.strip())
    if parts[-1] == "*":
        return [(parts[:-1], "*")]
    if parts[-1] == "self" and len(parts) > 1:
        parts = parts[:-1]
    return [(parts, name.strip() or parts[-1])]


def _split(text):
    parts, depth, start = [], 0, 0
    for at, here in enumerate(text):
        depth += (here == "{") - (here == "}")
        if here == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    parts.append(text[start:])
    return [part for part in parts if part.strip()]


class Resolver:
    """Says which module of the crate a path leads to."""

    def __init__(self, modules):
        self.modules = modules

    def owner(self, module, target, depth=0):
        """The module that owns what `target` names as seen from `module`; None for what is not of this crate."""
        if depth > _LONGEST_CHAIN or not target:
            return None
        start, rest = self._start(module, target, depth)
        return start and self._walk(start, rest, depth)

    def _start(self, module, target, depth):
        first, rest = target[0], target[1:]
        if first == "crate":
            return self.modules[()], rest
        if first == "self":
            return module, rest
        if first == "super":
            up = module.parent
            while up and rest and rest[0] == "super":
                up, rest = up.parent, rest[1:]
            return up, rest
        if first in module.children:
            return self.modules.get(module.children[first]), rest
        imported = module.imports.get(first)
        if imported and imported != target and imported[0] != first:
            owner = self.owner(module, imported, depth + 1)
            # only a module that was imported leads on; a type's own functions are where the type is
            is_module = owner and owner.path and owner.path[-1] == imported[-1]
            return owner, rest if is_module else ()
        return None, ()

    def _walk(self, module, rest, depth):
        for at, name in enumerate(rest):
            if name in module.children:
                child = self.modules.get(module.children[name])
                if child is None:
                    return module
                module = child
                continue
            if name in module.imports:
                return self._passed_on(module, module.imports[name], rest[at + 1 :], depth) or module
            if name not in module.defined:
                for glob in module.globs:
                    owner = self.owner(module, glob, depth + 1)
                    if owner and owner is not module and name in owner.defined:
                        return owner
            return module
        return module

    def _passed_on(self, module, target, rest, depth):
        owner = self.owner(module, target, depth + 1)
        if owner and rest and owner.path and owner.path[-1] == target[-1]:
            return self._walk(owner, rest, depth + 1)
        return owner


def uses(modules):
    """Which file uses which, over one crate: parent and child left out, for they know of each other by what modules are."""
    resolver = Resolver(modules)
    edges = {}
    for module in modules.values():
        for target in module.mentions:
            owner = resolver.owner(module, target)
            if owner is None or owner.file == module.file or _are_parent_and_child(module, owner):
                continue
            edges.setdefault(module.file, set()).add(owner.file)
    return edges


def _are_parent_and_child(one, other):
    return any(
        a.parent is not None and a.parent.file == b.file or _outer(a) is not None and _outer(a).file == b.file
        for a, b in ((one, other), (other, one))
    )


def _outer(module):
    """The next module up that is in another file."""
    up = module.parent
    while up and up.file == module.file:
        up = up.parent
    return up


def circles(edges):
    """Groups of files each of which reaches each other by what it uses (Tarjan's strongly connected components, without recursion)."""
    index, low, on_stack, stack, found = {}, {}, set(), [], []
    for root in sorted(edges):
        if root in index:
            continue
        work = [(root, iter(sorted(edges.get(root, ()))))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, targets = work[-1]
            for target in targets:
                if target not in index:
                    index[target] = low[target] = len(index)
                    stack.append(target)
                    on_stack.add(target)
                    work.append((target, iter(sorted(edges.get(target, ())))))
                    break
                if target in on_stack:
                    low[node] = min(low[node], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    group = []
                    while not group or group[-1] != node:
                        group.append(stack.pop())
                        on_stack.discard(group[-1])
                    if len(group) > 1:
                        found.append(sorted(group))
    return found
