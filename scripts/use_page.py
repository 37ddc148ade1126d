"""Uses a page of `quell report --html` as a reader would, and checks what it shows.

    use_page.py PAGE [FOLDER]     keeps screenshots in FOLDER
"""

import json
import os
import struct
import sys
import tempfile
import zlib

from webdriver import DOWN, UP, Browser, move

checks = 0


def check(holds: object, what: str) -> None:
    global checks
    checks += 1
    if not holds:
        sys.exit(f"test-page: FAILED: {what}")


def pixels(path: str) -> tuple[int, int, list[bytes]]:
    """Width, bytes a pixel, and rows of a PNG with 8 bits a channel (https://www.w3.org/TR/png/)."""
    with open(path, "rb") as file:
        data = file.read()
    at, packed = 8, b""
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        body = data[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            width, height, _, colour = struct.unpack(">IIBB", body[:10])
            size = {2: 3, 6: 4}[colour]
        elif kind == b"IDAT":
            packed += body
        at += length + 12
    raw, line, rows = zlib.decompress(packed), width * size, []
    before = bytearray(line)
    for y in range(height):
        how, row = raw[y * (line + 1)], bytearray(raw[y * (line + 1) + 1 : (y + 1) * (line + 1)])
        for i in range(line) if how else ():
            left = row[i - size] if i >= size else 0
            up, corner = before[i], before[i - size] if i >= size else 0
            if how == 4:
                guess = left + up - corner
                add = min((left, up, corner), key=lambda v: abs(guess - v))
            else:
                add = (0, left, up, (left + up) // 2)[how]
            row[i] = (row[i] + add) & 255
        rows.append(bytes(row))
        before = row
    return width, size, rows


LAYOUT = """
const parts = [...document.querySelectorAll("header, #answer, #notes, figure, .tables section, #words")];
const box = (e) => { const b = e.getBoundingClientRect(); return [b.left, b.top + scrollY, b.right, b.bottom + scrollY]; };
return {
  parts: parts.map((e) => [e.id || e.tagName, ...box(e)]),
  drawn: ["timeline-plot", "matrix-plot", "percentiles-plot", "flame-plot"].map((id) => [id, ...box(document.getElementById(id))]),
  width: innerWidth, wide: document.documentElement.scrollWidth,
};"""


def structure(b: Browser, folder: str, name: str) -> None:
    """Nothing overlaps or sticks out, and every figure has something in it."""
    b.js("scrollTo(0, 0)")
    b.screenshot(os.path.join(folder, f"{name}.png"))
    layout = b.js(LAYOUT)
    check(layout["wide"] <= layout["width"], f"{name}: wider than the window: {layout['wide']}")
    parts = layout["parts"]
    for i, (one, l1, t1, r1, b1) in enumerate(parts):
        check(l1 >= -1 and r1 <= layout["width"] + 1, f"{name}: {one} sticks out")
        for other, l2, t2, r2, b2 in parts[i + 1 :]:
            apart = r1 <= l2 + 1 or r2 <= l1 + 1 or b1 <= t2 + 1 or b2 <= t1 + 1
            check(apart, f"{name}: {one} and {other} overlap")
    for figure, *place in layout["drawn"]:
        path = os.path.join(folder, f"{name}-{figure}.png")
        b.screenshot(path, place)
        width, size, rows = pixels(path)
        seen = {row[x * size : x * size + 3] for row in rows for x in range(width)}
        check(len(seen) >= 5, f"{name}: {figure} is blank: {len(seen)} colours")


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
    b.mouse(move(t["x"] + t["width"] * 0.5, y), DOWN, UP, DOWN, UP)
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


def words(b: Browser) -> None:
    answer = b.text("#answer")
    for word in ("made", "shootdowns", "waited", "stalled", "culprits", "victims"):
        check(word in answer, f"the answer says '{word}': {answer}")
    for heading in ("Why: causes", "Who: culprits", "At whom: victims", "Where: regions", "Who at whom"):
        check(heading in b.text(".tables"), heading)
    check(b.text("#notes"), "the page says what was lost")
    check(b.js("return Number(document.documentElement.dataset.drawnMs) > 0"), "the page says when it was drawn")


def theme(b: Browser) -> None:
    paper = "return getComputedStyle(document.body).backgroundColor"
    before = b.js(paper)
    b.js("document.getElementById('theme').click()")
    light = b.js(paper)
    b.js("document.getElementById('theme').click()")
    dark = b.js(paper)
    check(light != dark and before in (light, dark), f"the theme changes the paper: {before}, {light}, {dark}")


def hostile(page: str, folder: str) -> str:
    """The same page with names that would like to run. The data are no script, so no hash covers them."""
    evil = "</script><img src=x onerror=document.title='ran'><b onmouseover=alert(1)>"
    with open(page, encoding="utf-8") as file:
        before, rest = file.read().split('id="data">', 1)
    text, after = rest.split("</script>", 1)
    data = json.loads(text)
    data["processes"] = {pid: evil for pid in data["processes"]}
    for key in ("frames", "regions", "notes"):
        data[key] = [evil for _ in data[key]] or [evil]
    data["title"] = data["host"] = data["kernel"] = evil
    text = json.dumps(data).replace("<", "\\u003c")
    path = os.path.join(folder, "hostile.html")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'{before}id="data">{text}</script>{after}')
    return path


def quiet(b: Browser, where: str) -> None:
    console = b.console()
    check(not console, f"{where}: the console is quiet: {console}")


def use(page: str, folder: str) -> None:
    with Browser(1280, 900) as b:
        b.open(page)
        words(b)
        structure(b, folder, "light-1280")
        brush(b)
        flame(b)
        theme(b)
        b.settle()
        structure(b, folder, "dark-1280")
        quiet(b, "1280 px")
        b.open(hostile(page, folder))
        words_there = b.js("return document.body.innerText.includes('onerror=')")
        check(words_there, "hostile names are shown as text")
        check(b.js("return document.images.length") == 0, "hostile names make no element")
        check("ran" != b.js("return document.title"), "hostile names do not run")
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
    print(f"test-page: {checks} checks passed on {os.path.basename(page)}")


main()
