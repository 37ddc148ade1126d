"""What a row of the trial is: a program or a package, how it gets here, and a command that uses it a little."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Row:
    """The texts are for bash. They find, as variables: KIT, the folder with `files` and what `prepare` made; WORK, an empty
    folder, which is also the current one and HOME; VENV, the virtual environment; NODE_PATH; and PORT, a free one of TCP.
    What the command prints has to be the same each time: no times, addresses or numbers of processes."""

    name: str
    group: str
    command: str
    apt: tuple[str, ...] = ()
    pip: tuple[str, ...] = ()
    npm: tuple[str, ...] = ()
    # Name to text, written into KIT.
    files: dict[str, str] = field(default_factory=dict)
    # Once, after installing and without the library: builds the program, makes the data.
    prepare: str = ""
    # With one, it is the server that is under the library and counted, and `command` is its client, without the library.
    # It has to be an `exec`, so that the signal that ends it reaches it.
    server: str = ""
    # What answers when the server is ready: `tcp` for PORT, or the name of a Unix socket in WORK.
    ready: str = "tcp"
    # The signal that asks the server to end.
    stop: str = "TERM"
    # Processes of one thread each that take turns, thousands of times a second (a server and its client, a tracer and what
    # it traces): all run on one CPU then. On two, how long the other sleeps until it is woken moves the CPU time by several
    # percent from hour to hour.
    one_cpu: bool = False
    # Programs that refuse root, or whose sandbox needs another user, run as this one where the trial is run by root.
    user: str = ""
    # Why the library is not for this program. Its figures are not judged then, but it still has to run the same.
    refused: str = ""
    # Seconds; no run takes a tenth of it on a quiet machine.
    timeout: float = 120.0


def tidy(text: str) -> str:
    """A program as the catalogue has it, indented, without its indentation."""
    return textwrap.dedent(text).strip("\n") + "\n"


def python(name: str, pip: str, program: str) -> Row:
    """A package of PyPI (or several, with blanks between), and a program that uses it."""
    return Row(
        name, "pypi", 'exec "$VENV/bin/python" "$KIT/main.py"', pip=tuple(pip.split()), files={"main.py": tidy(program)}
    )


def node(name: str, npm: str, program: str) -> Row:
    """A package of npm, and a program that uses it; `await` is there at its top."""
    return Row(
        f"npm-{name}",
        "npm",
        'exec node "$KIT/main.mjs"',
        npm=tuple(npm.split()),
        files={"main.mjs": tidy(program)},
        # What is imported is looked for beside the program; NODE_PATH is for require alone.
        prepare='ln -s "$NODE_PATH" node_modules',
    )
