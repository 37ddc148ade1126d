"""Draws the pictures of the documentation: `draw_pictures.py QUELL FOLDER`. scripts/draw-pictures says more.

A page is opened in Chromium and photographed. A terminal is played by pyte, and what it shows is written as HTML and photographed too.
"""

from __future__ import annotations

import fcntl
import html
import os
import pathlib
import pty
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

import pyte
from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/page"))

from browser import Browser  # noqa: E402

# By names that are the same on every machine, since the pictures show them.
PROGRAM = ["python", "demo/pandas_demo.py"]
WIDTH, HEIGHT = 1280, 900
COLUMNS, LINES = 124, 34
# So long does top watch before it is photographed, seconds: its first intervals hold the program's start.
WATCHED = 8
# A page has few colours, so that a palette of so many shows no difference and makes a picture a third as large.
COLOURS = 96

# pyte's names of colours, as a terminal with a dark ground has them.
INK = {
    "default": "#d6dae0", "black": "#15181d", "red": "#f07178", "green": "#a5d075", "brown": "#e8b863", "yellow": "#e8b863",
    "blue": "#73a8ee", "magenta": "#cf95e4", "cyan": "#6cc7cf", "white": "#d6dae0", "brightblack": "#7c8491",
}  # fmt: skip
GROUND = "#15181d"


def photograph(page: pathlib.Path, picture: pathlib.Path, height: int | None = HEIGHT) -> None:
    """A page from its top, so many pixels high, or as high as it is."""
    with Browser(WIDTH, HEIGHT) as browser:
        browser.open(str(page))
        if height:
            browser.wait_until_drawn()
        whole = browser.js("const b = document.body.getBoundingClientRect(); return [b.right, b.bottom]")
        box = [0, 0, WIDTH, height] if height else [0, 0, *whole]
        browser.screenshot(str(picture), box)
    with Image.open(picture) as shot:
        shot.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(picture, optimize=True)
    print(f"draw-pictures: {picture.name}, {picture.stat().st_size / 1000:.0f} kB", file=sys.stderr)


def run(*command: object) -> None:
    """Runs a command whose output nobody needs; quell's 1 says that it found nothing to tell, which is no failure."""
    done = subprocess.run([str(word) for word in command], stdout=subprocess.DEVNULL, cwd=ROOT, check=False)
    if done.returncode not in (0, 1):
        sys.exit(f"draw-pictures: {' '.join(map(str, command))} ended with {done.returncode}")


def play(command: list[str], seconds: float) -> pyte.Screen:
    """The screen of a terminal in which a command has run for so long; then the command is ended."""
    screen = pyte.Screen(COLUMNS, LINES)
    stream = pyte.ByteStream(screen)
    child, terminal = pty.fork()
    if child == 0:
        os.environ["TERM"] = "xterm-256color"
        os.chdir(ROOT)
        os.execv(command[0], command)
    try:
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if select.select([terminal], [], [], left)[0]:
                stream.feed(os.read(terminal, 1 << 16))
    finally:
        os.kill(child, signal.SIGINT)
        os.close(terminal)
        os.waitpid(child, 0)
    return screen


def as_html(screen: pyte.Screen) -> str:
    """What a terminal shows, each run of characters of one look in a span."""
    lines = []
    for number in range(screen.lines):
        line, row = "", screen.buffer[number]
        for column in range(screen.columns):
            cell = row[column]
            front, back = (colour(cell.fg, INK["default"]), colour(cell.bg, GROUND))
            if cell.reverse:
                front, back = back, front
            weight = ";font-weight:bold" if cell.bold else ""
            line += f'<span style="color:{front};background:{back}{weight}">{html.escape(cell.data)}</span>'
        lines.append(line)
    style = f"margin:0;padding:12px;display:inline-block;background:{GROUND};font:14px/1.3 'DejaVu Sans Mono',monospace"
    return f'<meta charset="utf-8"><body style="margin:0;display:inline-block"><pre style="{style}">' + "\n".join(lines) + "</pre>"


def colour(name: str, default: str) -> str:
    """The colour of a cell: a name of the terminal's eight, or one of 16 million as six hexadecimal digits."""
    if name == "default":
        return default
    return INK.get(name) or f"#{name}"


def main() -> None:
    quell, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    os.environ["PATH"] = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    with tempfile.TemporaryDirectory(prefix="quell-pictures-") as name:
        work = pathlib.Path(name)
        run(quell, "record", "-o", work / "demo.quell", "--", *PROGRAM)
        run(quell, "report", work / "demo.quell", "--html", work / "page.html")
        photograph(work / "page.html", folder / "page.png")

        (work / "top.html").write_text(as_html(play([quell, "top", "--", *PROGRAM], WATCHED)), encoding="utf-8")
        photograph(work / "top.html", folder / "top.png", None)

        run(quell, "lab", "run", "munmap", "--budget", "20s", "-o", work / "lab.jsonl")
        run(quell, "lab", "report", work / "lab.jsonl", "--html", work / "lab.html")
        photograph(work / "lab.html", folder / "lab.png")


main()
