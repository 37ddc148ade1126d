"""Import circles between the modules of a crate: how many files stand in one, and that no more come."""

import sys
import tempfile
import unittest
from pathlib import Path

from house import crates, root_file
from rust_modules import circles, read_crate, uses

# How many files of each crate stand in a circle of imports, parent and child left out. It may only go down: who takes a circle
# apart lowers the number here, and nobody raises one.
FILES_IN_CIRCLES = {
    "lab": 14,
}


class Circles(unittest.TestCase):
    def test_no_new_circle(self):
        """Check that no crate has more files in import circles than the bound says, and that the bound is not slack."""
        found = {name: circles(uses(read_crate(root_file(folder)))) for name, folder in crates().items()}
        for name, groups in found.items():
            for group in groups:
                files = ", ".join(str(file.relative_to(crates()[name] / "src")) for file in group)
                print(f"a circle of {len(group)} in crates/{name}: {files}", file=sys.stderr)
        for name, groups in found.items():
            there, bound = sum(map(len, groups)), FILES_IN_CIRCLES.get(name, 0)
            self.assertLessEqual(there, bound, f"crates/{name} has a new circle of imports: see the list above")
            self.assertEqual(there, bound, f"crates/{name} has fewer files in circles: write {there} into FILES_IN_CIRCLES")

    def test_circles_are_found(self):
        """Check that a circle is found through `use`, a path and a name that is passed on, and that what tests use is none."""
        self.assertEqual(self.circles_of({"a.rs": "use crate::b::B;", "b.rs": "pub struct B; fn f() { super::a::g() }"}), [["a.rs", "b.rs"]])
        passed_on = {
            "lib.rs": "mod a; mod b; mod c; pub use c::{C as Known, *};",
            "a.rs": "use crate::Known;",
            "b.rs": "use crate::Other;",
            "c.rs": "use crate::a; use crate::b::x; pub struct C; pub struct Other;",
        }
        self.assertEqual(self.circles_of(passed_on), [["a.rs", "b.rs", "c.rs"]])
        only_tests = {"a.rs": "use crate::b::B;", "b.rs": "#[cfg(test)]\nmod tests { use crate::a::A; fn f() { let s = \"}\"; } }"}
        self.assertEqual(self.circles_of(only_tests), [])
        said = {"a.rs": "use crate::b::B;", "b.rs": "//! See crate::a::A.\n/* use crate::a::A; */ const S: &str = \"crate::a::A\";"}
        self.assertEqual(self.circles_of(said), [])

    def test_parent_and_child_are_no_circle(self):
        """Check that a module and its own children may use each other, and that two children of one module may not."""
        family = {"lib.rs": "mod a; pub struct Root;", "a.rs": "mod b; use b::B; pub struct A;", "a/b.rs": "use super::A; pub struct B;"}
        self.assertEqual(self.circles_of(family), [])
        family["a.rs"] = "mod b; mod c;"
        family["a/b.rs"] = "use super::c::C; pub struct B;"
        family["a/c.rs"] = "use super::b::B; pub struct C;"
        self.assertEqual(self.circles_of(family), [["a/b.rs", "a/c.rs"]])

    def circles_of(self, files):
        """The circles of a crate that is made of these files."""
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder)
            files.setdefault("lib.rs", "mod a; mod b;")
            for name, text in files.items():
                (source / name).parent.mkdir(exist_ok=True)
                (source / name).write_text(text)
            groups = circles(uses(read_crate(source / "lib.rs")))
            return [[str(file.relative_to(source)) for file in group] for group in groups]


if __name__ == "__main__":
    unittest.main()
