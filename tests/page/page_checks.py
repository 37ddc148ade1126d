"""Checks that the tests of all pages share, and how things lie beside each other."""

from __future__ import annotations

import os
import sys

from browser import Browser
from PIL import Image

EVIL = "</script><img src=x onerror=document.title='ran'><b onmouseover=alert(1)>"

checks = 0


def check(holds: object, what: str) -> None:
    global checks
    checks += 1
    if not holds:
        sys.exit(f"test-page: FAILED: {what}")


def same(shown: object, wanted: object, what: str) -> None:
    check(shown == wanted, f"{what}: {wanted!r} is wanted, {shown!r} is shown")


def passed(page: str) -> str:
    return f"test-page: {checks} checks passed on {os.path.basename(page)}"


def rows(b: Browser, selector: str) -> list[list[str]]:
    return b.js(
        "return [...document.querySelectorAll(`${arguments[0]} tbody tr`)]"
        ".map((tr) => [...tr.cells].map((c) => c.textContent.trim()))",
        selector,
    )


def raw(b: Browser, selector: str) -> str:
    """Text as it is in the page, whether a style changes it or not."""
    return b.js("return document.querySelector(arguments[0]).textContent", selector)


def texts(b: Browser, selector: str) -> list[str]:
    return b.js("return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)", selector)


def label(b: Browser, selector: str) -> str:
    return b.js("return document.querySelector(arguments[0]).getAttribute('aria-label')", selector)


def picture(b: Browser, selector: str) -> str:
    return b.js("return document.querySelector(arguments[0]).toDataURL()", selector)


def tip(b: Browser) -> list[str]:
    shown = "const tip = document.getElementById('tip'); return tip.hidden ? [] : "
    return b.js(shown + "[...tip.children].map((e) => e.textContent)")


LAYOUT = """
const name = (e) => e.id || [e.parentElement.className, e.className, e.tagName].filter(Boolean).join(" ");
const box = (e) => {
  const b = e.getBoundingClientRect();
  return [b.left, b.top + scrollY, b.right, b.bottom + scrollY];
};
const listed = (selector) => [...document.querySelectorAll(selector)].map((e) => [name(e), ...box(e)])
  .filter(([, left, top, right, bottom]) => right > left && bottom > top);
const [parts, drawn] = [...arguments].map(listed);
return { parts, drawn, width: innerWidth, wide: document.documentElement.scrollWidth };"""


def structure(b: Browser, folder: str, name: str, parts: str, drawn: str) -> None:
    """Nothing of `parts` overlaps or sticks out, and everything of `drawn` has something in it."""
    b.js("scrollTo(0, 0)")
    b.screenshot(os.path.join(folder, f"{name}.png"))
    layout = b.js(LAYOUT, parts, drawn)
    check(layout["wide"] <= layout["width"], f"{name}: wider than the window: {layout['wide']}")
    check(layout["parts"], f"{name}: there are parts")
    for i, (one, l1, t1, r1, b1) in enumerate(layout["parts"]):
        check(l1 >= -1 and r1 <= layout["width"] + 1, f"{name}: {one} sticks out")
        apart = lambda l2, t2, r2, b2: r1 <= l2 + 1 or r2 <= l1 + 1 or b1 <= t2 + 1 or b2 <= t1 + 1  # noqa: B023, E731
        over = [other for other, *place in layout["parts"][i + 1 :] if not apart(*place)]
        check(not over, f"{name}: {one} and {over} overlap")
    for n, (figure, *place) in enumerate(layout["drawn"]):
        path = os.path.join(folder, f"{name}-{n}.png")
        b.screenshot(path, place, scale=0.25)
        with Image.open(path) as shot:
            colours = len(set(shot.convert("RGB").getdata()))
        check(colours >= 5, f"{name}: {figure} is blank: {colours} colours")


def theme(b: Browser) -> None:
    """The button goes from the system's theme to light, to dark, and back. Leaves it dark."""
    paper = "return getComputedStyle(document.body).backgroundColor"
    before = b.js(paper)
    b.js("document.getElementById('theme').click()")
    light = b.js(paper)
    b.js("document.getElementById('theme').click()")
    dark = b.js(paper)
    check(light != dark and before in (light, dark), f"the theme changes the paper: {before}, {light}, {dark}")
    b.settle()


def hostile(b: Browser, where: str) -> None:
    """A page that is open, with EVIL in all its names, has run none of it."""
    check(b.js("return document.body.innerText.includes('onerror=')"), f"{where}: hostile names are shown as text")
    same(b.js("return document.images.length"), 0, f"{where}: elements that hostile names make")
    same(b.js("return document.querySelectorAll('[onmouseover]').length"), 0, f"{where}: handlers of hostile names")
    check("ran" != b.js("return document.title"), f"{where}: hostile names do not run")


def quiet(b: Browser, where: str) -> None:
    # Chromium's hint for whoever reads canvases back, as these tests do, and pages don't
    console = [line for line in b.console() if "willReadFrequently" not in line]
    check(not console, f"{where}: the console is quiet: {console}")


def alone(b: Browser, where: str) -> None:
    """Of all that went to the network since the last time, there is nothing but the pages that were opened."""
    asked = b.requests()
    check(any(url in b.opened for url in asked), f"{where}: the page itself is among what is fetched: {asked}")
    more = [url for url in asked if url not in b.opened]
    check(not more, f"{where}: nothing else is fetched: {more}")
    b.opened.clear()


OVERLAPS = """
const bad = [];
for (const svg of document.querySelectorAll("svg[role]")) {
  const all = svg.getBoundingClientRect();
  const boxes = [...svg.querySelectorAll("text")].map((e) => [e.textContent, e.getBoundingClientRect()]);
  boxes.forEach(([text, a], i) => {
    const wide = a.left >= all.left - 1 && a.right <= all.right + 1;
    const high = a.top >= all.top - 1 && a.bottom <= all.bottom + 1;
    if (!wide || !high) bad.push(`${text} is cut`);
    for (const [other, b] of boxes.slice(i + 1)) {
      const across = a.left < b.right && b.left < a.right;
      // a line's box is higher than its letters
      const along = a.top + 3 < b.bottom && b.top + 3 < a.bottom;
      if (across && along) bad.push(`${text} on ${other}`);
    }
  });
}
return bad;"""


def texts_apart(b: Browser, where: str) -> None:
    same(b.js(OVERLAPS), [], f"{where}: texts in pictures that lie on others or are cut")
