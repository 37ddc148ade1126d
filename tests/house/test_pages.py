"""The pages of text: their links lead somewhere, their tables can be read, and none is longer than a reader's patience."""

import re
import unittest

from house import ROOT, pages
from markdown import anchors, links, tables, words

# More than this is prose that somebody has squeezed into a cell.
WORDS_OF_A_CELL = 25
# A page of use or of reference that is longer is two pages. Generated pages may be as long as what they list.
LINES_OF_A_PAGE = 250
LONG_PAGES = {"docs/advice-catalogue.md"}


def problems_of_links(page, text):
    """The links of a page that lead nowhere in the project."""
    found = []
    for number, target in links(text):
        if "://" in target or target.startswith("mailto:"):
            continue
        name, _, anchor = target.partition("#")
        place = f"{page.relative_to(ROOT)}:{number}: {target}"
        file = (page.parent / name).resolve() if name else page
        if not file.exists():
            found.append(f"{place}: there is no such file")
        elif not file.is_relative_to(ROOT):
            found.append(f"{place}: outside of the project")
        elif anchor and file.suffix == ".md" and anchor not in anchors(file.read_text() if name else text):
            found.append(f"{place}: there is no such heading")
    return found


class Pages(unittest.TestCase):
    def test_links_lead_somewhere(self):
        """Check that each link in each page leads to a file, and to a heading of it, that is there."""
        seen = sum(len(links(page.read_text())) for page in pages())
        self.assertGreater(seen, 100, "hardly a link was found: are pages still read?")
        wrong = [problem for page in pages() for problem in problems_of_links(page, page.read_text())]
        self.assertEqual(wrong, [], "\n".join(wrong))

    def test_dead_links_are_found(self):
        """Check that a file that is not there, a heading that is not there, and only these are found."""
        page = ROOT / "README.md"
        text = "# One `two`, three\n[a](no/such.md) [b](#one-two-three) [c](#two) [d](https://x.example/y#z) `[e](f)`\n"
        text += "```\n[g](h)\n```\n| [i](docs/how.md#no-such) | ![j](docs/none.svg) |\n[k](docs/how.md#backends)\n[l]: nowhere.md\n"
        found = [problem.split(": ", 2)[1] for problem in problems_of_links(page, text)]
        self.assertEqual(found, ["no/such.md", "#two", "docs/how.md#no-such", "docs/none.svg", "nowhere.md"])

    def test_named_files_are_there(self):
        """Check that each file or folder of the sources that a page names is there, so that nobody is sent to what was renamed."""
        named = re.compile(r"`((?:crates|tests|scripts|bench|packaging|kernel/luf|tools|demo|fuzz)/[\w./-]+)`")
        found = [(page.relative_to(ROOT), name) for page in pages() for name in named.findall(page.read_text())]
        self.assertGreater(len(found), 50, "hardly a file was found: are pages still read?")
        gone = [f"{page}: {name}" for page, name in found if not (ROOT / name).exists()]
        self.assertEqual(gone, [], "\n".join(gone))

    def test_cells_can_be_read(self):
        """Check that no cell of a table has more words than a reader takes in at a look."""
        wrong = []
        for page in pages():
            for number, cells in tables(page.read_text()):
                wrong += [
                    f"{page.relative_to(ROOT)}:{number}: {words(cell)} words: {cell[:60]}…" for cell in cells if words(cell) > WORDS_OF_A_CELL
                ]
        self.assertEqual(wrong, [], "\n".join(wrong))

    def test_pages_end(self):
        """Check that no page of docs/ is longer than its bound, and that each is on the map."""
        listed = {target for _, target in links((ROOT / "docs/README.md").read_text())}
        for page in ROOT.glob("docs/**/*.md"):
            name = str(page.relative_to(ROOT))
            lines = page.read_text().count("\n")
            if name not in LONG_PAGES:
                self.assertLessEqual(lines, LINES_OF_A_PAGE, f"{name} has {lines} lines: make two pages of it, use and reference")
            if page.name != "README.md":
                known = {(ROOT / "docs" / target.partition("#")[0]).resolve() for target in listed}
                self.assertIn(page.resolve(), known, f"docs/README.md does not lead to {name}")


if __name__ == "__main__":
    unittest.main()
