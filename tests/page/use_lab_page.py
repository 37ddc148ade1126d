"""Uses pages of `quell lab report --html` as a reader would, and checks what they show against the results.

    use_lab_page.py RESULTS [FOLDER]     keeps pages and screenshots in FOLDER

RESULTS is of `quell lab run -o`: at least two experiments with a victim that spins, one whose victim sleeps, and one
that comes from a document and keeps stacks.
QUELL names the binary that writes the page_checks.
"""

from __future__ import annotations

import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

import lab_parts as parts
import lab_words as words
import page_checks
from lab_words import ARMS, CLASSES, SEEN, Timeline
from page_checks import check, label, picture, quiet, raw, rows, same, texts, tip
from browser import Browser, move, press, release

ROOT = pathlib.Path(__file__).resolve().parents[2]
QUELL = os.environ.get("QUELL") or str(ROOT / "target/release/quell")
PARTS = "header > *, #overview, .experiment > :not(figure), .experiment figure > *, #words"
DRAWN = ".experiment .plot"
WINDOWS = [(1920, 1080), (1280, 900), (768, 1024), (390, 844), (320, 640)]


EACH = "return [...document.querySelectorAll(arguments[0])]"


def page_of(results: list[dict], folder: str, name: str, *without: str) -> str:
    """The page that quell writes of results; with `--json`, of what that prints of them."""
    path, page = os.path.join(folder, f"{name}.jsonl"), os.path.join(folder, f"{name}.html")
    lines = "".join(json.dumps(result) + "\n" for result in results)
    pathlib.Path(path).write_text(lines, encoding="utf-8")
    if without:
        printed = subprocess.run([QUELL, "lab", "report", path, *without], check=True, stdout=subprocess.PIPE)
        pathlib.Path(path).write_bytes(printed.stdout)
    subprocess.run([QUELL, "lab", "report", path, "--html", page], check=True)
    return page


def says(b: Browser, results: list[dict]) -> None:
    """Words and numbers are those of the results."""
    same(len(texts(b, ".experiment")), len(results), "experiments")
    for n, result in enumerate(results):
        box = f"#experiment-{n + 1}"
        name = result["experiment"]
        same(raw(b, f"{box} h2"), name, "the name of an experiment")
        what = f"{result['about']} ({words.params(result)})" if result["params"] else result["about"]
        same(raw(b, f"{box} .what"), what, f"{name}: what it does")
        machine, where = result["machine"], raw(b, f"{box} .where")
        for part in (f"Linux {machine['kernel']}", machine["cpu"], f"Victim on CPU {machine['victim_cpu']}"):
            check(part in where, f"{name}: '{part}' is where it ran: {where}")
        same("asleep" in where, words.asleep(result), f"{name}: whether its victim is said to sleep")
        answer = raw(b, f"{box} .answer")
        for part in words.answer(result):
            check(part in answer, f"{name}: the answer says '{part}': {answer}")
        same(raw(b, f"{box} .verdict"), words.WORD[result["verdict"]], f"{name}: the verdict")
        same(rows(b, f"{box} .arms"), words.arms_rows(result), f"{name}: the arms")
        if not words.asleep(result):
            same(rows(b, f"{box} .budget"), words.classes_rows(result), f"{name}: gaps by class")
            same(rows(b, f"{box} .percentiles"), words.turns_rows(result), f"{name}: lengths of turns")
            parts.matrix(b, box, result)
        parts.ways(b, box, result)
        parts.document(b, box, result, QUELL)
    unnamed = b.js(
        "return [...document.querySelectorAll('canvas, svg[role], [tabindex=\"0\"]')]"
        ".filter((e) => !e.getAttribute('aria-label') || !e.getAttribute('role')).map((e) => e.outerHTML.slice(0, 99))"
    )
    same(unnamed, [], "pictures and regions without a name for who can't see them")


def overview(b: Browser, results: list[dict]) -> None:
    """The table of all, and its links."""
    same(raw(b, "h1"), f"{len(results)} experiments of the lab", "the title of several experiments")
    same(rows(b, "#overview"), [words.overview_row(r) for r in results], "the table of all experiments")
    for n in range(len(results)):
        b.js("document.querySelectorAll('#overview a')[arguments[0]].click()", n)
        place = b.js(f"return document.querySelector('#experiment-{n + 1}').getBoundingClientRect().top")
        bottom = b.js("return document.documentElement.scrollHeight - scrollY - innerHeight")
        check(abs(place) < 2 or bottom < 2, f"the link of experiment {n + 1} leads to it: it is at {place}")


def legends(b: Browser, box: str, result: dict, line: Timeline) -> None:
    """They name every class that is drawn, and nothing else; and so do the words of pictures."""
    same(texts(b, f"{box} .gaps .legend > span"), words.legend(list(line.gaps.values())), "the legend of gaps")
    kept = [line.kept["idle"], line.kept["real"]]
    same(texts(b, f"{box} .phase .legend > span"), words.legend(kept), "the legend of regular times")
    arms = [result["arms"][name] for name in SEEN]
    used = [c for c in CLASSES if c != "sched" and any(words.share(arm, c) > 0 for arm in arms)]
    same(texts(b, f"{box} .budget .legend > span"), used, "the legend of the budget")
    same(texts(b, f"{box} .budget svg .label"), SEEN, "the bars of the budget")
    named = texts(b, f"{box} .percentiles svg .label")
    same(sorted(named), sorted(a for a in ARMS if result["arms"][a].get("histogram")), "the names at the curves")
    said = label(b, f"{box} .gaps canvas")
    for arm in SEEN:
        names = [name for _, _, name, _ in line.gaps[arm]]
        gaps = ", ".join(f"{words.count(names.count(c))} {c}" for c in CLASSES if c in names) or "no gap"
        check(f"{arm}: {gaps}, {words.count(len(line.ops[arm]))} operation" in said, f"gaps of {arm} in words: {said}")
    cut = f"The first {words.time(line.span)} of a block" in raw(b, f"{box} .gaps figcaption")
    same(cut, line.cut, "whether the page says that it draws less than the block")
    heat = f"real arm by time and length: {words.count(len(line.gaps['real']))} in {words.time(line.span)}"
    check(heat in label(b, f"{box} .heat canvas"), f"'{heat}' is in the words of lengths over time")
    said = label(b, f"{box} .phase canvas")
    for arm in ("idle", "real"):
        for period, name in ((1e6, "1 ms"), (4e6, "4 ms"), (10e6, "10 ms")):
            tenths = [math.floor(begin % period / period * 10) for begin, _, _, _ in line.kept[arm]]
            most = max(tenths.count(n) for n in range(10)) / len(tenths) if tenths else 0
            check(f"{arm}, modulo {name}: {words.percent(most)}" in said, f"{arm} modulo {name} in words: {said}")


MARKED = """
const [selector, x, y, name] = arguments;
const probe = document.createElement("span");
probe.style.color = `var(--${name})`;
document.body.append(probe);
const wanted = getComputedStyle(probe).color.match(/[\\d.]+/g).map(Number);
probe.remove();
const pen = document.querySelector(selector).getContext("2d");
const { data } = pen.getImageData(Math.round(x) - 6, Math.round(y) - 6, 13, 13);
let far = 999;
for (let i = 0; i < data.length; i += 4) {
  if (data[i + 3] > 20) far = Math.min(far, Math.hypot(...[0, 1, 2].map((k) => data[i + k] - wanted[k])));
}
return far;"""


def marks(b: Browser, box: str, line: Timeline, width: float) -> None:
    """A gap of each class and arm is drawn at its time and length, in its colour; and so is what is made of gaps."""
    seen = 0
    for arm in SEEN:
        for name, (_, colour) in CLASSES.items():
            for part, place in (("gaps", line.marked), ("phase", line.regular)):
                spot = place(arm, width, name) if part == "gaps" or arm != "sham" else None
                if spot:
                    far = b.js(MARKED, f"{box} .{part} canvas", *spot, colour)
                    check(far < 40, f"{part}: {name} of {arm} is drawn at {spot}: its colour is {far:.0f} away")
                    seen += part == "gaps"
    check(seen, "there is a mark that no other lies near")
    # A victim that got next to no CPU may have no gap, and then there is no cell.
    if not line.gaps["real"]:
        return
    x, up, _ = line.fullest("real", width)
    height = b.js(f"return document.querySelector('{box} .heat canvas').height")
    far = b.js(MARKED, f"{box} .heat canvas", x, height - up, "heat-high")
    check(far < 40, f"the fullest cell of lengths over time has the darkest colour: it is {far:.0f} away")


def shapes(b: Browser, box: str, result: dict) -> None:
    """Curves and bars are there, and bars are as long as what they stand for."""
    arms = [a for a in ARMS if result["arms"][a].get("histogram")]
    curves = b.js(EACH + ".filter((p) => p.getTotalLength() > 50).length", f"{box} .percentiles svg path")
    check(curves >= len(arms), f"each of {len(arms)} arms has its curve: {curves}")
    axes = texts(b, f"{box} .percentiles svg text:not(.label)")
    times = [text for text in axes if text.endswith(("ns", "µs", "ms", " s"))]
    check(len(times) > 1 and sum(text.startswith("1 in ") for text in axes) > 1, f"curves have two axes: {axes}")
    wide = b.js(EACH + ".map((r) => r.width.baseVal.value)", f"{box} .budget svg rect")
    shares = [words.share(result["arms"][a], c) for a in SEEN for c in CLASSES if c != "sched"]
    shares = [share for share in shares if share > 0]
    same(len(wide), len(shares), "bars")
    pixel = max(shares) / max(wide)
    for share, bar in zip(shares, wide):
        wanted = max(0.5, share / pixel)
        check(abs(bar - wanted) < 0.1, f"a bar of {share:.0f} ppm is {wanted:.1f} px long: {bar}")


def keyboard(b: Browser, box: str, line: Timeline) -> None:
    """Arrows read gap after gap, + and − look closer and farther, Esc shows all, and leaving lets go."""
    canvas, read = f"{box} .gaps canvas", lambda: raw(b, f"{box} .gaps .read")
    whole, shown = picture(b, canvas), [arm for arm in SEEN if line.gaps[arm]]
    width = b.box(canvas)["width"]

    def far(one: tuple[str, int], other: tuple[str, int]) -> float:
        return math.dist(*(line.place(*gap, width, (0, line.span)) for gap in (one, other)))

    b.js("document.querySelector(arguments[0]).focus()", canvas)
    arm, i = shown[-1], 0
    for key in ("Right", "Right", "Right", "Left", "Left", "Left", "Up", "Right", "Up", "Up", "Down", "Down", "Down"):
        before = picture(b, canvas), read()
        b.keys(key)
        gaps, moves, was = line.gaps[arm], {"Left": -1, "Right": 1}.get(key, 0), (arm, i)
        if not before[1]:
            i = 0
        elif moves:
            i = max(0, min(len(gaps) - 1, i + moves))
        else:
            begin = gaps[i][0]
            arm = shown[max(0, min(len(shown) - 1, shown.index(arm) + (-1 if key == "Up" else 1)))]
            later = [k for k, gap in enumerate(line.gaps[arm]) if gap[0] >= begin]
            i = later[0] if later else len(line.gaps[arm]) - 1
        same(read(), line.words(arm, i), f"what {key} reads")
        if not before[1] or far(was, (arm, i)) > 0.5:
            check(picture(b, canvas) != before[0], f"{key} moves the ring")
    ringed = picture(b, canvas)
    b.keys("+")
    check(picture(b, canvas) != ringed, "+ looks closer")
    b.keys("-")
    check(picture(b, canvas) == ringed, "- looks farther again")
    b.keys("+", "Escape")
    check(picture(b, canvas) == ringed, "Esc after + shows all")
    b.keys(*"++++")
    for _ in range(12):
        before, was, i = picture(b, canvas), (arm, i), min(i + 1, len(line.gaps[arm]) - 1)
        b.keys("Right")
        same(read(), line.words(arm, i), "what Right reads, looked at closely")
        # sixteen times as close, it is seen where it goes
        if far(was, (arm, i)) > 0.5 / 16:
            check(picture(b, canvas) != before, "Right moves the ring, looked at closely")
    b.keys("Escape")
    b.js("document.activeElement.blur()")
    b.settle()
    same(read(), "", "what is read once the keyboard has left")
    check(picture(b, canvas) == whole, "the ring goes when the keyboard leaves")


def zoom(b: Browser, box: str, line: Timeline) -> None:
    """A drag looks closer at what was dragged over; Esc and a double click show all again."""
    canvas = f"{box} .gaps canvas"
    whole, place = picture(b, canvas), b.box(canvas)
    left, width, y = place["x"], place["width"], place["y"] + 20 + 2 * 176 + 60
    for share_from, share_to in ((0.1, 0.3), (0.6, 0.35), (0.9, 1.2)):
        xs = [round(left + 58 + (width - 68) * share) for share in (share_from, share_to)]
        xs[1] = min(xs[1], b.js("return innerWidth") - 2)
        b.drag(xs[0], y, xs[1], y)
        check(picture(b, canvas) != whole, f"a drag from {share_from} to {share_to} looks closer")
        inside = sorted(min(x - left, width - 10) for x in xs)
        view = (line.t(inside[0], width, (0, line.span)), line.t(inside[1], width, (0, line.span)))
        for arm in SEEN:
            hover(b, canvas, line, arm, view, f"after a drag from {share_from} to {share_to}")
        b.keys("Escape")
        check(picture(b, canvas) == whole, "Esc after a drag shows all")
    b.drag(left + width * 0.4, y, left + width * 0.5, y)
    check(picture(b, canvas) != whole, "a drag looks closer")
    b.mouse(move(left + width * 0.5, y), press, release, press, release)
    check(picture(b, canvas) == whole, "a double click shows all")
    b.click(left + width * 0.5, y)
    check(picture(b, canvas) == whole, "a click alone changes nothing")
    check(b.js(f"return document.querySelector('{box} .chosen').hidden"), "nothing stays chosen")


def hover(b: Browser, canvas: str, line: Timeline, arm: str, view: tuple[float, float], when: str) -> None:
    """The pointer on a gap reads it."""
    place = b.box(canvas)
    i = line.alone(arm, place["width"], view)
    if i is None:
        return
    x, y = line.place(arm, i, place["width"], view)
    b.mouse(move(place["x"] + x, place["y"] + y))
    check(line.words(arm, i) in tip(b), f"{when}, the pointer reads '{line.words(arm, i)}': {tip(b)}")


def tips(b: Browser, box: str, result: dict, line: Timeline) -> None:
    """What the pointer reads in each picture."""
    for arm in SEEN:
        hover(b, f"{box} .gaps canvas", line, arm, (0, line.span), "with all in view")
    # the cell with the most gaps, of which a victim that got next to no CPU may have none
    if line.gaps["real"]:
        heat = b.box(f"{box} .heat canvas")
        x, up, most = line.fullest("real", heat["width"])
        b.mouse(move(heat["x"] + x, heat["y"] + heat["height"] - up))
        begins = f"{words.count(most)} gap{'' if most == 1 else 's'} of "
        check(tip(b) and tip(b)[0].startswith(begins), f"the fullest cell reads '{begins}…': {tip(b)}")
        same(texts(b, f"{box} .heat .legend > span")[-2], words.count(most), "the most in the legend of lengths")
    # the class that took the real arm most time
    shares = {c: words.share(result["arms"]["real"], c) for c in CLASSES if c != "sched"}
    name = max(shares, key=lambda c: shares[c])
    bars = [(a, c) for a in SEEN for c in shares if words.share(result["arms"][a], c) > 0]
    b.box(f"{box} .budget svg")
    places = b.js(EACH + ".map((e) => e.getBoundingClientRect().toJSON())", f"{box} .budget svg rect")
    bar = places[bars.index(("real", name))]
    b.mouse(move(bar["x"] + bar["width"] / 2, bar["y"] + bar["height"] / 2))
    same(tip(b), [f"real: {words.count(shares[name])} ppm {name}, {CLASSES[name][0]}"], "what the longest bar reads")
    # one turn in a thousand, and how long it takes in each arm
    curves = b.box(f"{box} .percentiles .plot")
    turns = {arm: result["arms"][arm]["histogram"] for arm in ARMS if result["arms"][arm].get("histogram")}
    deepest = math.log10(max(sum(n for _, n in lengths) for lengths in turns.values()))
    x = round(curves["x"] + 58 + 3 / deepest * (curves["width"] - 124))
    b.mouse(move(x, curves["y"] + 100))
    said = tip(b)
    check(said and said[0].startswith("99.") and said[0].endswith("% of turns are no longer than"), f"turns: {said}")
    for arm, lengths in turns.items():
        # a pixel is some hundredths of a step to the next tenth
        allowed = [f"{arm}: {words.time(ns)}" for ns in words.lengths_at(lengths, 2.98, 3.02)]
        check(any(text in allowed for text in said), f"one turn in 1000 of {arm} is one of {allowed}: {said}")
    b.mouse(move(2, 2))
    same(tip(b), [], "what is read where nothing is")


def windows(b: Browser, folder: str, name: str) -> None:
    """Nothing overlaps or is blank, however wide the window and whatever the theme, and all follow a change of them."""
    papers = set()
    for dark in (False, True):
        for width, height in WINDOWS:
            b.emulate(width, height, dark)
            b.wait_until_drawn()
            where = f"{name}-{'dark' if dark else 'light'}-{width}"
            page_checks.structure(b, folder, where, PARTS, DRAWN)
            own = ".map((e) => [e.viewBox?.baseVal.width ?? e.width, e.parentElement.clientWidth])"
            wide = b.js(EACH + own, "canvas, svg[role]")
            check(all(own == column for own, column in wide), f"{where}: pictures are as wide as their columns: {wide}")
            page_checks.texts_apart(b, where)
            papers.add((dark, b.js("return getComputedStyle(document.body).backgroundColor")))
    same(len(papers), 2, "papers of two themes")
    b.emulate(1280, 900, False)
    b.wait_until_drawn()


def single(b: Browser, result: dict, folder: str, name: str) -> Timeline:
    """The page of one experiment has its pictures in their order, with what they should show."""
    line, box = Timeline(result), "#experiment-1"
    b.open(page_of([result], folder, name))
    b.wait_until_drawn()
    same(raw(b, "h1"), f"Does {result['experiment']} stall other threads?", f"{name}: the title of one experiment")
    check(b.js("return document.getElementById('overview').hidden"), f"{name}: one experiment needs no table of all")
    shown = b.js(EACH + ".map((e) => e.className)", f"{box} > figure")
    same(shown, parts.figures(result), f"{name}: pictures in their order")
    says(b, [result])
    legends(b, box, result, line)
    shapes(b, box, result)
    marks(b, box, line, b.box(f"{box} .gaps canvas")["width"])
    return line


def use(results: list[dict], subject: dict, seeds: list[dict], slept: list[dict], folder: str) -> None:
    box = "#experiment-1"
    with Browser(1280, 900, network=True) as b:
        for n, seed in enumerate(seeds):
            single(b, seed, folder, f"seed-{n}")
            if "tlb" in seed["arms"]["real"]["gaps"]:
                same(rows(b, f"{box} .matrix")[0][0], "the culprit: tlb", "who took the victim's time first of all")
            quiet(b, "an experiment of a document")
        line = single(b, subject, folder, "one")
        keyboard(b, box, line)
        zoom(b, box, line)
        tips(b, box, subject, line)
        page_checks.theme(b)
        quiet(b, "one experiment")
        page_checks.alone(b, "one experiment")

        b.open(page_of(results, folder, "all"))
        b.wait_until_drawn()
        overview(b, results)
        says(b, results)
        windows(b, folder, "all")
        quiet(b, "several experiments")
        page_checks.alone(b, "several experiments")

        b.open(page_of(slept, folder, "asleep"))
        b.wait_until_drawn()
        says(b, slept)
        check("reach a CPU that idles?" in raw(b, "h1") or len(slept) > 1, "the title asks for a CPU that idles")
        check("The victim slept." in raw(b, box), "a page says that the victim slept")
        same(b.js("return document.querySelectorAll('figure, canvas').length"), 0, "pictures of a victim that slept")
        quiet(b, "a victim that slept")

        b.open(page_of([subject], folder, "bare", "--json"))
        b.wait_until_drawn()
        says(b, [json.loads(pathlib.Path(folder, "bare.jsonl").read_text(encoding="utf-8"))])
        for part in ("gaps", "heat", "phase", "percentiles"):
            what = "distribution" if part == "percentiles" else "timeline"
            missing = f"This result holds no {what}: it was printed with --json, and not written with -o."
            same(raw(b, f"{box} .{part} .plot"), missing, f"{part} without a {what}")
        same(texts(b, f"{box} .budget svg .label"), SEEN, "the bars without a timeline")
        quiet(b, "no timeline")

        b.open(page_of(parts.spoilt(results), folder, "hostile"))
        b.wait_until_drawn()
        page_checks.hostile(b, "hostile names")
        says(b, parts.spoilt(results))
        b.emulate(390, 844, True)
        b.wait_until_drawn()
        page_checks.structure(b, folder, "hostile-390", PARTS, DRAWN)
        quiet(b, "hostile names")
        page_checks.alone(b, "hostile names")


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        results = [json.loads(text) for text in file if text.strip()]
    slept = [r for r in results if words.asleep(r)]
    check(slept and len(results) - len(slept) >= 2, "RESULTS has two experiments that spin, and one that sleeps")
    seeds = [r for r in results if r["experiment"] == "seed-free" and r.get("backtraces")]
    subjects = [r for r in results if r not in seeds + slept and len(Timeline(r).gaps["real"]) > 2]
    if not subjects:
        print("SKIPPED use_lab_page: this machine was too busy for a block with gaps to draw")
        return
    if not seeds:
        print("SKIPPED use_lab_page, both sides of shootdowns: none of seed-free was seen")
    with tempfile.TemporaryDirectory(prefix="quell-page-") as temporary:
        folder = sys.argv[2] if len(sys.argv) > 2 else temporary
        os.makedirs(folder, exist_ok=True)
        use(results, subjects[0], seeds, slept, folder)
    print(page_checks.passed(sys.argv[1]))


main()
