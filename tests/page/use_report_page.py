"""Uses a page of `quell report --html` as a reader would, and checks what it shows.

    use_report_page.py PAGE [FOLDER]     keeps screenshots in FOLDER
"""

from __future__ import annotations

import json
import os
import sys
import tempfile

import page_checks
from page_checks import EVIL, check, quiet, theme
from browser import Browser, move, press, release

PARTS = "header, #answer, #notes, figure, .tables section, #words"
DRAWN = "#spent-plot, #timeline-plot, #matrix-plot, #percentiles-plot, #flame-plot"


def structure(b: Browser, folder: str, name: str) -> None:
    figures = b.js("return document.querySelectorAll(arguments[0]).length", DRAWN)
    check(figures == 5, f"{name}: {figures} of 5 figures are there")
    page_checks.structure(b, folder, name, PARTS, DRAWN)


def brush(b: Browser) -> None:
    """A drag filters all the rest, Esc and a double click bring it back, and so do keys."""
    ids = ["answer", "causes", "pairs", "culprits", "victims", "regions", "percentiles-table", "matrix-scale"]
    texts = lambda: {i: b.text(f"#{i}") for i in ids}  # noqa: E731
    flame = lambda: b.js("return document.getElementById('flame-plot').toDataURL()")  # noqa: E731
    whole, whole_flame = texts(), flame()
    t = b.box("#timeline-plot")
    y = t["y"] + t["height"] / 2
    b.drag(t["x"] + t["width"] * 0.3, y, t["x"] + t["width"] * 0.5, y)
    chosen = texts()
    check("counts" in b.text("#selected"), "a drag says what it chose")
    for i in ids:
        check(chosen[i] != whole[i], f"a drag changes {i}")
    check(flame() != whole_flame, "a drag changes the flame graph")
    made = b.js(SUM)
    check(made["shown"] == made["exact"], f"the tables hold the chosen time: {made}")
    b.keys("Escape")
    check(texts() == whole, "Esc brings back the whole trace")
    b.drag(t["x"] + t["width"] * 0.6, y, t["x"] + t["width"] * 0.4, y)
    check(texts() != whole, "a drag to the left chooses too")
    b.mouse(move(t["x"] + t["width"] * 0.5, y), press, release, press, release)
    check(texts() == whole, "a double click brings back the whole trace")
    b.js("document.getElementById('timeline-plot').focus()")
    b.keys("Right")
    first = b.text("#range")
    b.keys("Right", held="Shift")
    check(first and b.text("#range") != first, "keys choose and change a time")
    b.keys("Escape")
    check(texts() == whole, "Esc after keys brings back the whole trace")


# The shootdowns of the causes' table, and those that the data have for the time that is written above it.
SUM = """
document.querySelector("#causes .more")?.click();
return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => {
  const number = (td) => Number(td.textContent.replaceAll(",", ""));
  const column = (id) => [...document.querySelectorAll(`#${id} tbody tr`)].map((tr) => number(tr.cells[0])).reduce((a, b) => a + b, 0);
  const words = document.querySelector("#answer p:last-child").textContent;
  const shown = column("causes");
  document.querySelector("#causes .more")?.click();
  requestAnimationFrame(() => requestAnimationFrame(() => done({ shown, exact: Number(words.match(/made ([\\d,]+) shootdown/)[1].replaceAll(",", "")) })));
})));"""


def flame(b: Browser) -> None:
    """A click zooms, the switch changes the weight, the search finds, keys walk."""
    check(b.text("#path").startswith("all: "), "the flame graph begins with all")
    f = b.box("#flame-plot")
    b.js("document.getElementById('flame-plot').scrollIntoView({block: 'start'})")
    f = b.js("const b = document.getElementById('flame-plot').getBoundingClientRect(); return {x: b.x, y: b.y}")
    b.click(f["x"] + 30, f["y"] + 19 * 1.5)
    zoomed = b.text("#path")
    check("of all" in zoomed and "(" in zoomed, f"a click zooms: {zoomed}")
    b.click(f["x"] + 30, f["y"] + 19 * 0.5)
    check(b.text("#path").startswith("all: "), "a click on all goes back")
    words = {}
    for weight in ("wait", "count", "stall"):
        b.js("document.querySelector(`input[value=${arguments[0]}]`).click()", weight)
        b.settle()
        words[weight] = b.text("#path")
    check(len(set(words.values())) == 3 and "shootdowns" in words["count"], f"the switch changes the weight: {words}")
    b.js("const s = document.getElementById('search'); s.value = 'madvise'; s.dispatchEvent(new Event('input'))")
    check("matches" in b.text("#found"), "the search finds")
    b.js("const s = document.getElementById('search'); s.value = ''; s.dispatchEvent(new Event('input'))")
    b.js("document.getElementById('flame-plot').focus()")
    b.keys("Down", "Down", "Enter")
    check("of all" in b.text("#path") and b.text("#flame-read"), "keys walk and zoom")
    b.keys("Backspace", "Backspace", "Backspace")
    check(b.text("#path").startswith("all: "), "Backspace goes out")


def spent(b: Browser) -> None:
    """The flame graph of memory management's time: the switch changes the weight, a click zooms, keys go out."""
    seen = {}
    for weight in ("blocked", "cpu"):
        b.js("document.querySelector(`input[name=spent-weight][value=${arguments[0]}]`).click()", weight)
        b.settle()
        seen[weight] = b.text("#spent-path")
    check("asleep" in seen["blocked"] and "CPU time" in seen["cpu"], f"the switch of the time changes it: {seen}")
    b.js("document.getElementById('spent-plot').scrollIntoView({block: 'start'})")
    f = b.js("const b = document.getElementById('spent-plot').getBoundingClientRect(); return {x: b.x, y: b.y}")
    b.click(f["x"] + 30, f["y"] + 19 * 1.5)
    check(not b.text("#spent-path").startswith("all: "), f"a click zooms the time: {b.text('#spent-path')}")
    b.js("document.getElementById('spent-plot').focus()")
    b.keys("Backspace", "Backspace")
    check(b.text("#spent-path").startswith("all: "), "Backspace goes out of the time")
    total = b.js("return JSON.parse(document.getElementById('data').textContent).spent.cpu_ns.reduce((a, b) => a + b, 0)")
    number, unit = b.text("#spent-path").split()[1:3]
    shown = float(number) * {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9}[unit]
    check(abs(shown - total) <= total / 50, f"the graph holds all of the time: {shown} of {total}")


def words(b: Browser) -> None:
    answer = b.text("#answer")
    for word in ("made", "shootdowns", "waited", "stalled", "culprits", "victims"):
        check(word in answer, f"the answer says '{word}': {answer}")
    for heading in ("Why: causes", "Who: culprits", "At whom: victims", "Where: regions", "Who at whom"):
        check(heading in b.text(".tables"), heading)
    check(b.text("#notes"), "the page says what was lost")
    check(b.js("return Number(document.documentElement.dataset.drawnMs) > 0"), "the page says when it was drawn")


def hostile(page: str, folder: str) -> str:
    """The same page with names that would like to run. The data are no script, so no hash covers them."""
    with open(page, encoding="utf-8") as file:
        before, rest = file.read().split('id="data">', 1)
    text, after = rest.split("</script>", 1)
    data = json.loads(text)
    data["processes"] = {pid: EVIL for pid in data["processes"]}
    for key in ("frames", "regions", "notes"):
        data[key] = [EVIL for _ in data[key]] or [EVIL]
    data["spent"]["processes"] = {pid: EVIL for pid in data["spent"]["processes"]}
    data["title"] = data["host"] = data["kernel"] = EVIL
    text = json.dumps(data).replace("<", "\\u003c")
    path = os.path.join(folder, "hostile.html")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'{before}id="data">{text}</script>{after}')
    return path


def use(page: str, folder: str) -> None:
    with Browser(1280, 900) as b:
        b.open(page)
        words(b)
        structure(b, folder, "light-1280")
        brush(b)
        flame(b)
        spent(b)
        theme(b)
        structure(b, folder, "dark-1280")
        quiet(b, "1280 px")
        b.open(hostile(page, folder))
        page_checks.hostile(b, "hostile names")
        quiet(b, "hostile names")
    with Browser(390, 844, dark=True) as b:
        b.open(page)
        words(b)
        structure(b, folder, "dark-390")
        quiet(b, "390 px")


def main() -> None:
    page = sys.argv[1]
    with tempfile.TemporaryDirectory(prefix="quell-page-") as temporary:
        folder = sys.argv[2] if len(sys.argv) > 2 else temporary
        os.makedirs(folder, exist_ok=True)
        use(page, folder)
    print(page_checks.passed(page))


main()
