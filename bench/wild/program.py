"""The programs of programs.csv: how each gets here, and the words that run it."""

from __future__ import annotations

import csv
import os
import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# What is installed, the inputs, and what was measured.
TARGET = ROOT / "target/bench-wild"
# A package that is a workspace of its own: "cargo init" would enter it into quell's.
MANIFEST = r"""mkdir -p src && : >src/lib.rs && printf '[package]\nname = "source"\nversion = "0.1.0"\nedition = "2021"\n[workspace]\n' >Cargo.toml"""

# What tests/wild has for its own rows brings Debian's, PyPI's and npm's packages here too.
sys.path.append(str(ROOT / "tests/wild"))
from install import Kitchen, Missing  # noqa: E402
from row import Row  # noqa: E402

__all__ = ["TARGET", "Kitchen", "Missing", "Program", "kitchen", "programs"]

# Only these are replaced in a command, since `$3` and the like belong to awk, Perl or the shell.
VARIABLES = re.compile(r"\$(KIT|VENV|NODE_PATH|HERE|WORK)\b")
# What programs of other sources need of Debian's.
NEED = {"lightgbm": ("libgomp1",), "scikit-learn": ("libgomp1",)}


@dataclass(frozen=True)
class Program:
    """A row. `stake` is what the author of the list expected: `some` or `none`."""

    name: str
    stake: str
    source: str
    packages: tuple[str, ...]
    versions: tuple[str, ...]
    prepare: str
    command: str

    def row(self) -> Row:
        """As tests/wild installs and prepares it."""
        prepare = "\n".join([*self.fetched(), self.prepare])
        apt = self.packages if self.source == "debian" else NEED.get(self.name, ())
        pip = self.pinned("pypi", "==")
        npm = self.pinned("npm", "@")
        return Row(self.name, "bench", self.command, apt=apt, pip=pip, npm=npm, prepare=prepare)

    def pinned(self, source: str, sign: str) -> tuple[str, ...]:
        """Its packages with their versions, if they are from there. Of Debian's, the list says which were measured; who has others gets those."""
        if self.source != source:
            return ()
        return tuple(f"{name}{sign}{version}" for name, version in zip(self.packages, self.versions, strict=True))

    def fetched(self) -> list[str]:
        """Lines of bash that bring what the clients of Go, Maven and Cargo bring, into the program's own folder."""
        pairs = list(zip(self.packages, self.versions, strict=True))
        if self.source == "go":
            return [f"GOBIN=$KIT/bin GOFLAGS=-modcacherw go install {name}@{version}" for name, version in pairs]
        if self.source == "cargo":
            return [
                f"{MANIFEST} && cargo add -q {name}@={version} && cargo vendor -q && ln -s vendor/{name}/src srcs"
                for name, version in pairs
            ]
        lines = []
        for name, version in pairs if self.source == "maven" else []:
            group, artifact, *classifier = name.split(":")
            coordinates = ":".join([group, artifact, version, *(["jar", *classifier] if classifier else [])])
            lines.append(
                "mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy "
                f"-Dartifact={coordinates} -DoutputDirectory=$KIT -Dmdep.stripVersion=true"
            )
        return lines

    def environment(self, found: Kitchen) -> dict[str, str]:
        """Little, and the same each time; `WORK` is one empty folder for all."""
        work = TARGET / "work"
        work.mkdir(parents=True, exist_ok=True)
        return found.environment(self.row(), work) | {"HERE": str(HERE)}

    def words(self, found: Kitchen) -> list[str]:
        """The words of its command, with its folders in them: no shell is between it and quell, unless it is part of the command."""
        known = self.environment(found)
        return shlex.split(VARIABLES.sub(lambda one: known[one[1]], self.command).replace("\\", "\\\\"))

    def is_prepared(self, found: Kitchen) -> bool:
        return (found.kit(self.row()) / ".prepared").exists()


def kitchen() -> Kitchen:
    """Where everything is installed. What `prepare` steps are written with has to be in the environment."""
    os.environ["INPUTS"] = f"{shlex.quote(sys.executable)} {shlex.quote(str(HERE / 'inputs.py'))}"
    TARGET.mkdir(parents=True, exist_ok=True)
    return Kitchen(TARGET, "bench/wild")


def programs(names: list[str]) -> list[Program]:
    """Those of the list, or those named, in its order."""
    with (HERE / "programs.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    found = [
        Program(row["name"], row["stake"], row["from"], tuple(row["package"].split()), tuple(row["version"].split()), row["prepare"], row["command"])
        for row in rows
    ]
    unknown = set(names) - {one.name for one in found}
    if unknown:
        sys.exit(f"bench/wild: programs.csv has no {', '.join(sorted(unknown))}")
    return [one for one in found if not names or one.name in names]
