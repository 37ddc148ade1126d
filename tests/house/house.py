"""Where the tests of the house find what they read."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def crates():
    """Every crate of the workspace by its folder's name."""
    return {manifest.parent.name: manifest.parent for manifest in sorted(ROOT.glob("crates/*/Cargo.toml"))}


def root_file(crate):
    """The file in which a crate begins."""
    library = crate / "src/lib.rs"
    return library if library.exists() else crate / "src/main.rs"


def tracked(*patterns):
    """The files that git knows of; without git, those that are there."""
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    if listed.returncode == 0:
        names = listed.stdout.splitlines()
    else:
        names = [str(path.relative_to(ROOT)) for pattern in patterns for path in ROOT.glob(pattern)]
    return sorted(ROOT / name for name in names if (ROOT / name).is_file())


def pages():
    """Every page of text that the project shows people: at the top, in docs/, and beside the code."""
    return tracked("*.md", "docs/*.md", "docs/**/*.md", "kernel/**/*.md")


def table_rows(text, first_head):
    """The rows of the table whose first head is `first_head`, as lists of cells."""
    rows, within = [], False
    for line in text.splitlines():
        if not line.startswith("|"):
            within = False
            continue
        cells = cells_of(line)
        if cells[0] == first_head:
            within = True
        elif within and not set(cells[0]) <= set("-: "):
            rows.append(cells)
    return rows


def cells_of(line):
    """The cells of one line of a table; a `|` that is escaped is part of its cell."""
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
