"""Import circles between the modules of a crate, parent and child left out: there are none."""

import tempfile
import unittest
from pathlib import Path

from house import crates, root_file
from rust_modules import circles, read_crate, uses


class Circles(unittest.TestCase):
    def test_no_circle(self):
        """Check that no two files of a crate import each other, by whichever way, unless one is the other's parent."""
        for name, folder in crates().items():
            there = [", ".join(str(file.relative_to(folder / "src")) for file in group) for group in circles(uses(read_crate(root_file(folder))))]
            self.assertEqual(there, [], f"crates/{name} has a circle of imports: move what both need into a file below both")

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
