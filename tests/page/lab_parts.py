"""Checks of what only some results have: who took the victim's time, the ways of shootdowns, a document's figures."""

from __future__ import annotations

import itertools
import json
import os
import pathlib
import subprocess
import tempfile

import lab_words as words
from page_checks import EVIL, check, label, picture, raw, rows, same, texts
from browser import Browser


def matrix(b: Browser, box: str, result: dict) -> None:
    """A row for each process and class, a cell for each arm, all gaps of the arm in them; the darkest has the most."""
    wanted = words.matrix_rows(result)
    if not wanted:
        check("does not say who" in raw(b, f"{box} .matrix .none-drawn"), f"{box}: the page says that nobody is known")
        return
    same(rows(b, f"{box} .matrix"), wanted, f"{box}: who took the victim's time")
    for name in words.SEEN:
        arm = result["arms"][name]
        for cls in words.CLASSES:
            gaps = [taken["gaps"] for taken in arm.get("by", []) if taken["class"] == cls]
            same(sum(gaps), arm["gaps"].get(cls, [0])[0], f"{box}: gaps of class {cls} in {name}")
    heads = texts(b, f"{box} .matrix thead th")
    same(heads, ["who, and why"] + [f"victim, {name}" for name in words.SEEN], f"{box}: columns of who took what")
    cells = b.js(
        "return [...document.querySelectorAll(`${arguments[0]} .matrix td.cell`)]"
        ".map((e) => [Number(e.firstChild.data.replaceAll(',', '')), getComputedStyle(e).backgroundColor])",
        box,
    )
    check(len({colour for _, colour in cells}) > 1, f"{box}: cells have different colours: {cells}")
    last = f"{box} .matrix .legend > span:nth-child(3) .swatch"
    scale = b.js("return getComputedStyle(document.querySelector(arguments[0])).backgroundColor", last)
    most = max(ppm for ppm, _ in cells)
    check(scale in [colour for ppm, colour in cells if ppm == most], f"{box}: the most has the legend's last colour")


def ways(b: Browser, box: str, result: dict) -> None:
    """Both sides row by row, and a flame graph of the culprit's in which the keyboard reads the widest way down."""
    sides = result.get("backtraces")
    if not sides:
        same(texts(b, f"{box} .flame"), [], f"{box}: a flame graph without stacks")
        return
    both = itertools.zip_longest(sides["culprit"], sides["victim"], fillvalue="")
    same(rows(b, f"{box} .flame"), [[name.strip() for name in row] for row in both], f"{box}: both sides")
    said = raw(b, f"{box} .sides")
    check(f"Both sides of {words.plural(sides['shootdowns'], 'shootdown')}" in said, f"{box}: how many: {said}")
    check("arrow keys" in label(b, f"{box} .flame canvas"), f"{box}: the flame graph says how it is read")
    all_ways = sides["ways"]
    same(sum(way["shootdowns"] for way in all_ways[:1]), sides["shootdowns"], f"{box}: the most frequent way")
    read, path = (lambda: raw(b, f"{box} .flame .read")), (lambda: raw(b, f"{box} .path"))
    tree = words.Frame.of(all_ways)
    same(path(), tree.words(tree), f"{box}: what the whole flame graph says")
    canvas = f"{box} .flame canvas"
    whole = picture(b, canvas)
    b.js("document.querySelector(arguments[0]).focus()", canvas)
    width, frame = b.box(canvas)["width"], tree
    for _ in range(4):
        if not frame.children or frame.widest().value / tree.value * width < 2:
            break
        frame = frame.widest()
        b.keys("Down")
        same(read(), frame.words(tree), f"{box}: what Down reads")
    check(frame is not tree, f"{box}: the flame graph has a frame")
    check(picture(b, canvas) != whole, f"{box}: Down shows where it is")
    b.keys("Enter")
    same(path(), frame.words(tree), f"{box}: what Enter zooms to")
    b.keys(*["Backspace"] * 4)
    same(path(), tree.words(tree), f"{box}: what Backspace goes back to")
    b.js("document.activeElement.blur()")
    b.settle()
    check(picture(b, canvas) == whole, f"{box}: the flame graph is as before when the keyboard leaves")


def document(b: Browser, box: str, result: dict, quell: str) -> None:
    """The document's figures beside the measured ones, in the words of the text report."""
    if not result["experiment"].startswith("seed-"):
        same(texts(b, f"{box} .document"), [], f"{box}: a document that there is none of")
        return
    with tempfile.TemporaryDirectory(prefix="quell-page-") as folder:
        path = pathlib.Path(folder, "one.jsonl")
        path.write_text(json.dumps(result) + "\n", encoding="utf-8")
        plain = {**os.environ, "NO_COLOR": "1"}
        told = subprocess.run(
            [quell, "lab", "report", str(path)], check=True, stdout=subprocess.PIPE, env=plain, encoding="utf-8"
        ).stdout
    part = [line.strip() for line in told.split("Beside the document\n")[1].split("\n")]
    name, table, differs = part[0], part[2:], raw(b, f"{box} .differs")
    same(raw(b, f"{box} .from"), name, f"{box}: the document")
    shown = [" ".join(" ".join(row).split()) for row in rows(b, f"{box} .document")]
    same(shown, [" ".join(line.split()) for line in table[: len(shown)]], f"{box}: its figures")
    check(shown, f"{box}: the document has figures")
    same(differs[:1].lower() + differs[1:], table[len(shown)], f"{box}: why they differ, which follows the last figure")


def figures(result: dict) -> list[str]:
    """The pictures of a victim that spun, in the order of the page."""
    flame = ["flame"] if result.get("backtraces") else []
    return ["gaps", "percentiles", "budget", "heat", "matrix", *flame, "phase"]


def spoilt(results: list[dict]) -> list[dict]:
    """The results, by somebody whose machine and experiments have names that would like to run."""
    changed = json.loads(json.dumps(results))
    for result in changed:
        for key in ("experiment", "about", "why", "sham_why"):
            result[key] = EVIL
        result["params"] = {EVIL: 1}
        result["machine"]["kernel"] = result["machine"]["cpu"] = EVIL
        result["arms"]["real"]["invalid"] = {EVIL: 1}
        for taken in result["arms"]["real"].get("by", []):
            taken["comm"] = EVIL
        sides = result.get("backtraces")
        for side in [sides, *sides["ways"]] if sides else []:
            side["culprit"], side["victim"] = [EVIL, "f"], [EVIL]
    return changed
