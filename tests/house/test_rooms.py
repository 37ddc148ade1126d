"""The table of rooms in CONTRIBUTING.md, beside what the crates really use."""

import re
import unittest

from house import ROOT, crates, root_file, table_rows, tracked
from rust_modules import read_crate
from rust_source import without_comments, without_tests

OURS = re.compile(r"\bquell_([a-z]+)\b")


def rooms():
    """What the table says of each room: its second and third column by its name."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    return {row[0].strip("`"): row[1:] for row in table_rows(text, "room")}


def dependencies(manifest):
    """The crates of ours that a manifest names, but for tests; read by line, for Python has a reader of TOML only since 3.11."""
    found, counts = set(), False
    for line in manifest.read_text().splitlines():
        if section := re.match(r"\[(.*)\]\s*$", line):
            counts = section.group(1).rsplit(".", 1)[-1] in ("dependencies", "build-dependencies")
        elif counts and (key := re.match(r"quell-(\w+)", line)):
            found.add(key.group(1))
    return found


def allowed(may_use, every):
    """The crates that a cell of the column `may use` names."""
    if may_use == "every crate":
        return set(every)
    if may_use.startswith("none"):
        return set()
    return {word.strip() for word in may_use.split(",")}


class Rooms(unittest.TestCase):
    def test_every_room_has_a_row(self):
        """Check that each crate, and each folder at the top that holds tracked files, has a row that says what lives there."""
        rows = {name.rstrip("/") for name in rooms()}
        wanted = {f"crates/{name}" for name in crates()}
        for path in tracked():
            top = path.relative_to(ROOT).parts[0]
            if (ROOT / top).is_dir() and top not in ("crates", "kernel") and not top.startswith("."):
                wanted.add(top)
        self.assertEqual(wanted - rows, set(), "CONTRIBUTING.md, The house: these have no row")
        gone = {name for name in rows if not (ROOT / name).exists()}
        self.assertEqual(gone, set(), "CONTRIBUTING.md, The house: these are not there")

    def test_manifests_keep_to_the_table(self):
        """Check that each crate depends on just the crates of ours that its row allows; what its tests depend on is free."""
        for name, folder in crates().items():
            depends = dependencies(folder / "Cargo.toml")
            may = allowed(rooms()[f"crates/{name}"][1], set(crates()) - {"quell"})
            self.assertEqual(depends - may, set(), f"crates/{name}/Cargo.toml: the table of rooms does not allow these")
            self.assertEqual(may - depends, set(), f"crates/{name}: the table of rooms allows what the manifest does not use")

    def test_code_uses_what_it_may(self):
        """Check that the code of each crate, less its tests, names just the crates of ours in its row, and each of them."""
        for name, folder in crates().items():
            used = {}
            for file in {module.file for module in read_crate(root_file(folder)).values()} | set(folder.glob("build.rs")):
                code = without_tests(without_comments(file.read_text()))
                for other in OURS.findall(code):
                    used.setdefault(other, file.relative_to(ROOT))
            used = {other: file for other, file in used.items() if other in crates() and other != name}
            may = allowed(rooms()[f"crates/{name}"][1], set(crates()) - {"quell"})
            wrong = {other: str(file) for other, file in used.items() if other not in may}
            self.assertEqual(wrong, {}, f"crates/{name} uses crates that the table of rooms does not allow")
            self.assertEqual(may - set(used), set(), f"crates/{name} declares crates of ours that its code does not use")

    def test_what_is_loaded_into_programs_has_no_standard_library(self):
        """Check that the preload library says `no_std`, and that no file of it names std."""
        folder = crates()["shim"]
        self.assertIn("not even std", rooms()["crates/shim"][1])
        self.assertRegex(root_file(folder).read_text(), r"#!\[cfg_attr\(.*\bno_std\)\]")
        for module in read_crate(root_file(folder)).values():
            code = without_tests(without_comments(module.file.read_text()))
            self.assertIsNone(re.search(r"\bstd::", code), f"{module.file.relative_to(ROOT)} uses std")


if __name__ == "__main__":
    unittest.main()
