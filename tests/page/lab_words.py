"""What a page of lab results must say and where it must draw it, told from the results themselves.

Numbers are as crates/page/src/web/units.js writes them, places as crates/page/src/lab/web/gaps.js has them.
"""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Decimal

ARMS = ["idle", "sham", "real", "untraced"]
SEEN = ["idle", "sham", "real"]
# Each with what it is, and its colour in page.css.
CLASSES = {
    "tlb": ("a shootdown", "c0"),
    "fault": ("a page fault", "c3"),
    "timer": ("the CPU’s timer", "c2"),
    "irq": ("another interrupt", "c1"),
    "callfn": ("another function that a CPU asked for", "c4"),
    "sched": ("another thread ran", "c5"),
    "none": ("nothing that the kernel knows of", "c-other"),
}
WORD = {
    "shown": "shown",
    "not-shown": "not shown",
    "too-noisy": "this machine is too noisy",
    "too-short": "the time was too short",
}
TURNS = ["p50", "p90", "p99", "p999", "p9999", "p99999"]
# Gaps and operations of a block that are kept: MAX_TIMELINE_ENTRIES in crates/lab/src/summary/turns.rs.
KEPT = 4000


def fixed(n: float, digits: int) -> str:
    return str(Decimal(n).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP))


def count(n: float) -> str:
    return f"{math.floor(n + 0.5):,}"


def time(ns: float) -> str:
    unit, units = 0, ["ns", "µs", "ms", "s"]
    while ns >= 999.5 and unit < 3:
        ns, unit = ns / 1000, unit + 1
    digits = 0 if unit == 0 and ns == int(ns) else 2 if ns < 9.995 else 1 if ns < 99.95 else 0
    return f"{fixed(ns, digits)} {units[unit]}"


def precise(ns: float) -> str:
    return f"{fixed(ns / 1e6, 4)} ms" if ns >= 1e6 else f"{fixed(ns / 1e3, 2)} µs"


def percent(share: float) -> str:
    p = share * 100
    if p == 0:
        return "0 %"
    if p < 0.05:
        return "<0.1 %"
    if 99.5 <= p < 100:
        return f"{math.floor(p * 10) / 10:g} %"
    return f"{fixed(p, 1 if p < 9.95 else 0)} %"


def plural(n: int, word: str) -> str:
    return f"{count(n)} {word}{'' if n == 1 else 's'}"


def ppm(n: float) -> str:
    return count(n).replace("-", "−")


def interval(i: dict) -> str:
    if i["signs"][1] == 0:
        return "not known, for no round counts"
    low, high = ("?" if end is None else ppm(end) for end in i["ci95"])
    return f"{'+' if i['difference'] >= 0 else ''}{ppm(i['difference'])} ppm ({low} to {high})"


def per_op(n: float) -> str:
    return fixed(n, 0 if n >= 100 else 1 if n >= 10 else 3)


def asleep(result: dict) -> bool:
    return result["victim"] == "sleep"


def answer(result: dict) -> list[str]:
    """Everything that the answer has to say, in its words."""
    effect, spun = result["effect"], not asleep(result)
    said = [
        f"{WORD[result['verdict']]} {result['why']}.",
        f"Control in another address space: {WORD[result['sham_verdict']]}: {result['sham_why']}.",
    ]
    if result["shootdowns_per_op"] is not None:
        said.append(f"{per_op(result['shootdowns_per_op'])} shootdowns reached the victim for each operation")
        if result["expected_per_op"] is not None:
            said.append(f"where the kernel’s code lets expect {result['expected_per_op']:g}.")
    if (result["faults_per_op"] or 0) >= 0.0005:
        said.append(f"The victim took {per_op(result['faults_per_op'])} faults for each operation.")
    if spun:
        stall = effect["stall_ppm"]
        if stall["signs"][1] > 0:
            up, rounds = stall["signs"]
            said.append(f"stall by {interval(stall)} of its time, upwards in {up} of {rounds} rounds.")
        said.append(f"All gaps, whatever their cause: {interval(effect['all_gaps_ppm'])}.")
        said.append(f"Without the probe, in short gaps: {interval(effect['untraced_ppm'])}.")
        if effect["ns_per_event"] is not None:
            cost = time(math.floor(effect["ns_per_event"] + 0.5))
            said.append(f"Each cost it {cost}, in the mean of {count(effect['events'])}.")
        if result["matched"] is not None:
            said.append(f"{percent(result['matched'])} lie in a gap that the victim saw itself")
    return said


def params(result: dict) -> str:
    return ", ".join(f"{name}={value}" for name, value in result["params"].items())


def overview_row(result: dict) -> list[str]:
    effect, spun = result["effect"], not asleep(result)
    of = ", ".join(filter(None, [params(result), "" if spun else "victim asleep"]))
    stall, each, ops = effect["stall_ppm"], effect["ns_per_event"], result["arms"]["real"]["op_ns"]
    low, high = ("?" if end is None else ppm(end) for end in stall["ci95"])
    return [
        f"{result['experiment']} {of}".strip(),
        WORD[result["verdict"]],
        WORD[result["sham_verdict"]],
        ppm(stall["difference"]) if spun and stall["signs"][1] else "",
        f"{low} to {high}" if spun and stall["signs"][1] else "",
        "" if result["shootdowns_per_op"] is None else per_op(result["shootdowns_per_op"]),
        time(math.floor(each + 0.5)) if spun and each is not None else "",
        time(ops[0]) if ops else "",
    ]


def arms_rows(result: dict) -> list[list[str]]:
    rows = []
    for name in ARMS:
        arm = result["arms"][name]
        first = [name, count(arm["blocks"]), count(sum(arm["invalid"].values()))]
        if not arm["blocks"]:
            rows.append(first + ["-"] * 7)
            continue
        ran, both = max(1, arm["ran_ns"]), max(1, arm["ran_ns"] + arm["away_ns"])
        p50, p99 = (time(ns) for ns in arm["op_ns"]) if arm["op_ns"] else ("", "")
        seen = [count(arm["caused"] * 1e9 / ran), count(arm["faults"] * 1e9 / ran), count(arm["stall_ppm"])]
        rows.append(
            first
            + ["" if name == "untraced" else percent(arm["ran_ns"] / both)]
            + [count(arm["ops"] * 1e9 / both), p50, p99]
            + (["", "", ""] if name == "untraced" else seen)
        )
    return rows


def share(arm: dict, name: str) -> float:
    """Time in gaps of a class, ppm."""
    if name == "sched":
        return arm["away_ns"] * 1e6 / max(1, arm["ran_ns"] + arm["away_ns"])
    return arm["gaps"].get(name, [0, 0])[1] * 1e6 / max(1, arm["ran_ns"])


def classes_rows(result: dict) -> list[list[str]]:
    arms = [result["arms"][name] for name in SEEN]
    rows = []
    for name, (what, _) in CLASSES.items():
        rates = [count(arm["gaps"].get(name, [0])[0] * 1e9 / max(1, arm["ran_ns"])) for arm in arms]
        of_each = zip(arms, rates)
        cells = [text for arm, rate in of_each for text in ((count(share(arm, name)), rate) if arm["blocks"] else ("-", "-"))]
        rows.append([f"{name}: {what}", *cells])
    return rows


WHO = {"culprit": "the culprit", "victim": "the victim’s own process", "nobody": "no process"}


def matrix_rows(result: dict) -> list[list[str]]:
    """Who took the victim's time: the culprit first, of the same the most first."""
    found: dict[tuple, dict] = {}
    for name in SEEN:
        for taken in result["arms"][name].get("by", []):
            key = (taken["who"], taken.get("comm", ""), taken["class"])
            time_of = result["arms"][name]["ran_ns"]
            if taken["class"] == "sched":
                time_of += result["arms"][name]["away_ns"]
            arms = found.setdefault(key, {})
            ppm, gaps = arms.get(name, (0, 0))
            arms[name] = (ppm + taken["ns"] * 1e6 / max(1, time_of), gaps + taken["gaps"])
    order = ["culprit", "daemon", "victim", "other", "nobody"]
    told = sorted(found.items(), key=lambda row: (order.index(row[0][0]), -max(n for n, _ in row[1].values())))
    lines = []
    for (who, comm, cls), arms in told:
        name = f"{comm}, for the culprit" if who == "daemon" else WHO.get(who) or comm or "other processes"
        cells = [arms.get(arm, (0, 0)) for arm in SEEN]
        lines.append([f"{name}: {cls}"] + [f"{count(n)} {plural(gaps, 'gap')}" for n, gaps in cells])
    return lines


class Frame:
    """A function of the culprit's in a flame graph, with what came through it."""

    def __init__(self, name: str):
        self.name, self.stall, self.shootdowns, self.value = name, 0, 0, 0
        self.children: dict[str, Frame] = {}

    @classmethod
    def of(cls, ways: list[dict]) -> Frame:
        root = cls("all")
        by = "stall_ns" if sum(way["stall_ns"] for way in ways) else "shootdowns"
        for way in ways:
            path = [root]
            for name in reversed(way["culprit"]):
                path.append(path[-1].children.setdefault(name, cls(name)))
            for frame in path:
                frame.stall += way["stall_ns"]
                frame.shootdowns += way["shootdowns"]
                frame.value += way[by]
        return root

    def widest(self) -> Frame:
        return max(self.children.values(), key=lambda frame: frame.value)

    def words(self, root: Frame) -> str:
        cost = f"{time(self.stall)} of the victim’s in {plural(self.shootdowns, 'shootdown')}"
        return f"{self.name}: {cost}, {percent(self.value / root.value)} of all"


def turns_rows(result: dict) -> list[list[str]]:
    turns = [(name, result["arms"][name]["turn_ns"]) for name in ARMS]
    return [[name, *(time(ns[p]) if p in ns else "–" for p in TURNS)] for name, ns in turns]


def lengths_at(histogram: list[list[int]], low: float, high: float) -> list[int]:
    """The lengths of turns that 10^-low to 10^-high of all are longer than."""
    total, seen, found = sum(n for _, n in histogram), 0, []
    for ns, n in sorted(histogram):
        if seen < total * (1 - 10**-high) and seen + n >= total * (1 - 10**-low):
            found.append(ns)
        seen += n
    return found


def legend(lists: list[list]) -> list[str]:
    """Each class that occurs in some lists of gaps; the culprit's apart from others'."""
    seen = {(name, bool(caused)) for gaps in lists for _, _, name, caused in gaps}
    said = []
    for name in CLASSES:
        mine, others = (name, True) in seen, (name, False) in seen
        said += [f"{name}, the culprit’s"] * mine + [f"{name}, by others" if mine else name] * others
    return said


def loneliest(places: list[tuple[float, float]], among: list[int], others: list[int], least: float) -> int | None:
    """Which of `among` is farthest from all `others`, if that is far enough; of very many, some are tried."""
    best = None
    for i in among[:: 1 + len(among) // 200]:
        x, y = places[i]
        room = min((math.hypot(x - places[k][0], y - places[k][1]) for k in others if k != i), default=math.inf)
        if room >= least:
            best, least = i, room
    return best


def apart(places: list[tuple[float, float]], gaps: list[list], of: str) -> tuple[float, float] | None:
    mine = [i for i, gap in enumerate(gaps) if gap[2] == of]
    best = loneliest(places, mine, [i for i, gap in enumerate(gaps) if gap[2] != of], 12)
    return None if best is None else places[best]


class Timeline:
    """The gaps and operations that a page draws of a result, and where."""

    def __init__(self, result: dict):
        self.kept, self.gaps, self.ops, whole, known = {}, {}, {}, 0, math.inf
        for name in SEEN:
            arm = result["arms"][name]
            gaps = sorted(arm.get("timeline", []), key=lambda gap: gap[0])
            ops = sorted(arm.get("timeline_ops", []))
            whole = max([whole] + [g[0] + g[1] for g in gaps[-1:]] + [end for _, end in ops[-1:]])
            # gaps chosen among all of the block leave no end of it out
            if len(gaps) >= KEPT and not arm.get("timeline_of"):
                known = min(known, gaps[-1][0])
            if len(ops) >= KEPT:
                known = min(known, ops[-1][1])
            self.kept[name], self.ops[name] = gaps, ops
        self.span, self.cut = min(whole, known), known < whole
        for name in SEEN:
            self.gaps[name] = [g for g in self.kept[name] if not self.cut or g[0] < self.span]
            self.ops[name] = [op for op in self.ops[name] if not self.cut or op[0] < self.span]
        lengths = [max(1, ns) for gaps in self.kept.values() for _, ns, _, _ in gaps] or [1]
        self.low = 10 ** math.floor(math.log10(min(lengths)) + 1e-9)
        self.high = max(10 ** math.ceil(math.log10(max(lengths)) - 1e-9), self.low * 10)

    def words(self, arm: str, i: int) -> str:
        begin, ns, name, caused = self.gaps[arm][i]
        by = ", by the culprit" if caused else ""
        return f"{time(ns)} at {precise(begin)} of {arm}: {name}, {CLASSES[name][0]}{by}"

    def t(self, x: float, width: float, view: tuple[float, float]) -> float:
        return view[0] + (x - 58) / (width - 68) * (view[1] - view[0])

    def place(self, arm: str, i: int, width: float, view: tuple[float, float]) -> tuple[float, float]:
        begin, ns, _, _ = self.gaps[arm][i]
        x = 58 + (begin - view[0]) / (view[1] - view[0]) * (width - 68)
        top = 20 + SEEN.index(arm) * 176
        high = math.log(max(ns, self.low) / self.low) / math.log(self.high / self.low)
        return x, top + 138 - high * 138

    def alone(self, arm: str, width: float, view: tuple[float, float]) -> int | None:
        """The gap in view that has most room around it, so much that a pointer tells it from the others."""
        places = [self.place(arm, i, width, view) for i in range(len(self.gaps[arm]))]
        shown = [i for i, (x, _) in enumerate(places) if 62 <= x <= width - 14]
        return loneliest(places, shown, list(range(len(places))), 3)

    def marked(self, arm: str, width: float, of: str) -> tuple[float, float] | None:
        """Where a mark of a class is, with no mark of another class near it."""
        places = [self.place(arm, i, width, (0, self.span)) for i in range(len(self.gaps[arm]))]
        return apart(places, self.gaps[arm], of)

    def regular(self, arm: str, width: float, of: str) -> tuple[float, float] | None:
        """The same in the first picture of regular times."""
        columns = 3 if width > 700 else 1
        wide = (width - 70 - (columns - 1) * 16) / columns
        bottom = 142 + (0 if arm == "idle" else 3 // columns * 166)
        decades = math.log(self.high / self.low)
        places = [
            (58 + begin % 1e6 / 1e6 * wide, bottom - math.log(max(ns, self.low) / self.low) / decades * 120)
            for begin, ns, _, _ in self.kept[arm]
        ]
        return apart(places, self.kept[arm], of)

    def fullest(self, arm: str, width: float) -> tuple[float, float, int]:
        """Where the cell with the most gaps is in lengths over time, from the left and from below, and how many."""
        columns, high = max(10, math.floor((width - 68) / 7)), round(math.log10(self.high / self.low)) * 6
        cells: dict[tuple[int, int], int] = {}
        for begin, ns, _, _ in self.gaps[arm]:
            row = math.floor(math.log10(max(1, ns / self.low)) * 6)
            cell = math.floor(begin / self.span * columns), min(high - 1, row)
            cells[cell] = cells.get(cell, 0) + 1
        (column, row), most = max(cells.items(), key=lambda item: item[1])
        return 58 + (column + 0.5) * (width - 68) / columns, 24 + (row + 0.5) * 9, most
