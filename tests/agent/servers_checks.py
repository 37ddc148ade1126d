"""What has to hold of the figures that servers have. Nothing here asks anybody, so that `prove` can show that each fails."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

from dashboards_check import Wrong, need
from servers_ask import BOUNDS, KNOWN, Figures

# A program that starts and ends has some of its own: exec, exit, copies after fork.
BESIDE = 40
# Shootdowns that are counted and whose last victim is not: a CPU settles them some rounds later.
IN_FLIGHT = 64
KINDS = {"counter": "sum", "gauge": "gauge", "histogram": "histogram"}


def same(views: dict[str, Figures]) -> int:
    """What one look told is the same in all servers, to the last ns; how many series that are."""
    (first, mine), *others = views.items()
    for name, theirs in others:
        lacks = sorted(set(mine) ^ set(theirs))
        need(not lacks, f"{first} and {name} don't both have {', '.join(lacks)}")
        for family in mine:
            a, b = mine[family], theirs[family]
            keys = sorted(set(a) ^ set(b))
            need(not keys, f"{family}: {first} and {name} don't both have {keys[:3]}")
            for key in a:
                need(a[key] == b[key], f"{family} {dict(key)}: {a[key]} in {first}, {b[key]} in {name}")
    return sum(len(series) for series in mine.values())


def grown(views: dict[str, int], made: int) -> int:
    """All servers have the same growth, and it holds what the program made."""
    for name, n in views.items():
        need(n >= made, f"{name}: {n} shootdowns and empty sends came; the program made {made}")
    need(len(set(views.values())) == 1, f"servers differ: {views}")
    return next(iter(views.values()))


def counts_since(name: str) -> str:
    """Since when a counter counts: the machine's start, the agent's, or when the cgroup got its name."""
    if name in ("quell_tlb_interrupts", "quell_page_faults", "quell_vm_events"):
        return "kernel"
    return "cgroup" if name.startswith("quell_cgroup_") else "agent"


def growth(begin: Figures, end: Figures, family: str, **labels: str) -> int:
    """Of a family, of series whose labels match."""

    def total(figures: Figures) -> int:
        series = figures.get(family, {}).items()
        return sum(n for key, n in series if all(re.fullmatch(v, dict(key).get(k, "")) for k, v in labels.items()))

    return total(end) - total(begin)


def program(begin: Figures, end: Figures, cgroup: str, made: int, runs: int) -> tuple[int, int]:
    """No more is told of it than it did: by its cgroup, and by cause beyond what all others did. Its shootdowns, and empty sends."""
    own = growth(begin, end, "quell_cgroup_shootdowns", cgroup=cgroup)
    every = growth(begin, end, "quell_cgroup_shootdowns")
    empty = growth(begin, end, "quell_empty_sends")
    known = growth(begin, end, "quell_shootdowns", cause=KNOWN)
    need(own > made // 2, f"its cgroup has {own} shootdowns of {made}: most of its flushes found nobody, which tells too little")
    need(own >= made - empty, f"its cgroup has {own} shootdowns; it made {made}, and {empty} flushes found nobody")
    need(own <= made + BESIDE * runs, f"its cgroup has {own} shootdowns; it made {made}")
    need(known <= made + BESIDE * runs + every - own, f"{known} of its causes, {every - own} of others; it made {made}")
    causes = growth(begin, end, "quell_shootdowns")
    need(every == causes, f"{every} by cgroup, {causes} by cause")
    return own, empty


def distributions(figures: Figures) -> dict[str, int]:
    """Each grows from bound to bound, and its sum lies between what the bounds let be. Counts by name."""
    found = {}
    for family, series in figures.items():
        if not family.endswith("_distribution_seconds"):
            continue
        for times in series.values():
            within, count, total = times["within"], times["count"], times["sum"]
            need(None not in within and "inf" in times, f"{family}: a bucket is missing: {within}, +Inf {times.get('inf')}")
            need(all(a <= b for a, b in zip(within, within[1:])), f"{family}: buckets shrink: {within}")
            need(times["inf"] == count and within[-1] <= count, f"{family}: {count} of which {times['inf']} in buckets")
            each = [b - a for a, b in zip([0, *within], [*within, count])]
            least = sum(n * bound for n, bound in zip(each[1:], BOUNDS))
            # a time just below a bound may count as above it, by 3 %
            need(total >= 0.96 * least, f"{family}: a sum of {total} ns, and {least} ns at least by its buckets")
            most = sum(n * bound for n, bound in zip(each, BOUNDS))
            need(each[-1] or total <= most, f"{family}: a sum of {total} ns, and {most} ns at most by its buckets")
            found[family] = count
    need(len(found) == 3, f"not three distributions: {sorted(found)}")
    for name in ("wait", "stall"):
        by_cause = sum(figures[f"quell_{name}_seconds"].values())
        total = figures[f"quell_{name}_distribution_seconds"][()]["sum"]
        need(by_cause == total, f"{name}: {by_cause} ns by cause, {total} ns in the distribution")
    waits, shootdowns = found["quell_wait_distribution_seconds"], sum(figures["quell_shootdowns"].values())
    # At high rates one that is timed stands for several, so the number of waits is an estimate there.
    lost = {dict(key)["missing"]: n for key, n in figures["quell_lost_events"].items()}
    few, many = shootdowns - lost["untimed"] - lost["unseen"] - IN_FLIGHT, shootdowns + lost["untimed"]
    need(waits > 0 and few <= waits <= many, f"{waits} waits of {shootdowns} shootdowns, {lost}")
    return found


def declared(page: str) -> tuple[dict[str, str], dict[str, str]]:
    """Types and units by family, as the agent's page declares them."""
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", page, re.M))
    return types, dict(re.findall(r"^# UNIT (\S+) (\S+)$", page, re.M))


def otlp(told: list[dict[str, Any]], page: str, host: str) -> int:
    """Kinds, units, times and the resource of all requests of a host; how many metrics."""
    types, units = declared(page)
    need(len(told) > 1, f"{host}: {len(told)} requests")
    begins = {"agent": set(), "kernel": set(), "cgroup": set()}
    for one in told:
        is_ = {k: one["resource"].get(k) for k in ("host.name", "service.name")}
        need(is_ == {"host.name": host, "service.name": "quell"}, f"the resource is {one['resource']}")
        need(one["resource"].get("service.version"), "the resource has no version")
        for name, metric in one["metrics"].items():
            kind = KINDS[types.get(name, "counter")]
            need(name not in types or metric["kind"] == kind, f"{name} is a {metric['kind']}, and a {types.get(name)} on the page")
            unit = {"seconds": "s", "bytes": "By"}.get(units.get(name, ""), "1")
            need(name not in types or metric["unit"] == unit, f"{name} has the unit {metric['unit']!r}, and {unit!r} on the page")
            need(metric.get("cumulative", True), f"{name} is not cumulative")
            need(metric.get("monotonic", True), f"{name} is a sum that may fall")
            need(metric["points"], f"{name} has no points")
            for begin, t in metric["times"]:
                need(0 < begin <= t, f"{name} begins at {begin}, and is of {t}")
                begins[counts_since(name)].add(begin)
            if metric["kind"] == "histogram":
                bounds = [bound / 1e9 for bound in BOUNDS]
                for is_ in metric["points"].values():
                    need(is_["bounds"] == bounds, f"{name}: its bounds are {is_['bounds']}")
                    need(len(is_["buckets"]) == len(bounds) + 1, f"{name}: {len(is_['buckets'])} buckets")
                    need(sum(is_["buckets"]) == is_["count"], f"{name}: its buckets are not its count")
    need(len(begins["agent"]) == 1, f"{host}: counters begin at {len(begins['agent'])} times, though the agent began once")
    need(len(begins["kernel"]) == 1, f"{host}: the kernel's own counts begin at {len(begins['kernel'])} times")
    agent, kernel = max(begins["agent"]), max(begins["kernel"])
    need(kernel < agent, f"{host}: the kernel's own counts begin at {kernel}, after the agent")
    need(min(begins["cgroup"], default=agent) >= agent, f"{host}: a cgroup's counts begin before the agent")
    times = [t for one in told for metric in one["metrics"].values() for _, t in metric["times"]]
    need(times == sorted(times), f"{host}: a request is older than the one before")
    need(set(types) <= set(told[-1]["metrics"]), f"not told: {sorted(set(types) - set(told[-1]['metrics']))}")
    return len(told[-1]["metrics"])


def memory(resident: list[int]) -> tuple[int, int]:
    """The agent's memory while it is scraped: the last quarter has no more than a megabyte above the first."""
    quarter = max(1, len(resident) // 4)
    was, is_ = max(resident[:quarter]), max(resident[-quarter:])
    need(is_ <= was + (1 << 20), f"the agent's memory grows: {was >> 10} kB, then {is_ >> 10} kB")
    return was, is_


def pushes(looks: int, taken: int, failed: int, dropped: int, taken_is_wanted: bool) -> None:
    """Each look's figures were taken, failed, replaced, or are still under way (of two looks at most)."""
    told = taken + failed + dropped
    need(looks - 3 <= told <= looks, f"{looks} looks, of which {told} are accounted for ({taken}, {failed}, {dropped})")
    need((taken > 0) == taken_is_wanted, f"{taken} pushes were taken")
    need(taken_is_wanted or (failed > 0 and dropped > 0), f"{failed} failed and {dropped} dropped: a server that is away has to show")


def fails(what: str, check: Callable[..., Any], *args: Any) -> None:
    """That a check finds what is wrong."""
    try:
        check(*args)
    except (Wrong, SystemExit):
        return
    raise Wrong(f"the check does not find: {what}")


def changed(value: Any, *path: Any, to: Any) -> Any:
    """A copy, with one thing replaced: by `to`, or by what `to` makes of it."""
    value = copy.deepcopy(value)
    at = value
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = to(at[path[-1]]) if callable(to) else to
    return value
