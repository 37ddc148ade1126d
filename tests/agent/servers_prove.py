"""Shows that each check of servers_checks.py fails: on what was just measured, with one thing changed."""

from __future__ import annotations

import copy
from typing import Any

import servers_checks as checks
from dashboards_check import Wrong
from servers_checks import changed, fails

WAIT, STALL = "quell_wait_distribution_seconds", "quell_stall_distribution_seconds"


def more(n: int) -> int:
    return n + 1


def figures(views: dict[str, Any]) -> int:
    """Of `same` and `distributions`; how many changes were found."""
    name = list(views)[-1]
    some = next(iter(views[name]["quell_shootdowns"]))
    found = 0
    for family, key in (("quell_shootdowns", some), ("quell_wait_seconds", some), ("quell_empty_sends", ()), ("quell_agent_series", ())):
        fails(f"{family} differs", checks.same, changed(views, name, family, key, to=more))
        found += 1
    for part in ("count", "sum", "inf"):
        fails(f"{part} differs", checks.same, changed(views, name, WAIT, (), part, to=more))
        found += 1
    lacks = copy.deepcopy(views)
    del lacks[name]["quell_victims"]
    fails("a family is missing", checks.same, lacks)
    lacks = copy.deepcopy(views)
    lacks[name]["quell_shootdowns"].pop(some)
    fails("a series is missing", checks.same, lacks)
    one = views[name]
    top = one[WAIT][()]["count"]
    wrong = [
        ("a bucket is missing", changed(one, WAIT, (), "within", 3, to=None)),
        ("the last bucket is missing", changed(one, WAIT, (), to=lambda times: {k: v for k, v in times.items() if k != "inf"})),
        ("buckets shrink", changed(one, WAIT, (), "within", 0, to=top + 1)),
        ("+Inf is not the count", changed(one, WAIT, (), "inf", to=more)),
        ("the sum is too large", changed(one, WAIT, (), "sum", to=lambda n: n * 1000)),
        ("the sum is too small", changed(one, WAIT, (), "sum", to=0)),
        ("the sum is not that of the causes", changed(one, WAIT, (), "sum", to=more)),
        ("the sum of stalls is not that of the causes", changed(one, "quell_stall_seconds", next(iter(one["quell_stall_seconds"])), to=more)),
        ("more waits than shootdowns", changed(one, "quell_shootdowns", to=lambda series: {key: -n for key, n in series.items()})),
        ("fewer waits than shootdowns", changed(one, "quell_shootdowns", some, to=lambda n: n + 10**9)),
    ]
    for what, is_ in wrong:
        fails(what, checks.distributions, is_)
    lacks = copy.deepcopy(one)
    del lacks[STALL]
    fails("a distribution is missing", checks.distributions, lacks)
    return found + 3 + len(wrong)


def program(begin: Any, end: Any, cgroup: str, made: int, runs: int, grown: dict[str, int]) -> int:
    mine = next(key for key in end["quell_cgroup_shootdowns"] if checks.re.fullmatch(cgroup, dict(key)["cgroup"]))
    cause = next(key for key in end["quell_shootdowns"] if dict(key)["cause"] == "munmap")
    asked = (cgroup, made, runs)
    empty = checks.growth(begin, end, "quell_empty_sends")
    fails("its cgroup has none", checks.program, begin, changed(end, "quell_cgroup_shootdowns", mine, to=0), *asked)
    fewer = changed(end, "quell_empty_sends", (), to=lambda n: n - empty)
    fails("its cgroup lacks one", checks.program, begin, changed(fewer, "quell_cgroup_shootdowns", mine, to=made - 1), *asked)
    fails("its cgroup has twice as many", checks.program, begin, changed(end, "quell_cgroup_shootdowns", mine, to=lambda n: 2 * n), *asked)
    fails("its causes have twice as many", checks.program, begin, changed(end, "quell_shootdowns", cause, to=lambda n: n + made), *asked)
    fails("cgroups are not causes", checks.program, begin, changed(end, "quell_cgroup_shootdowns", mine, to=more), *asked)
    fails("servers differ", checks.grown, changed(grown, next(iter(grown)), to=more), made)
    fails("too few", checks.grown, {name: made - 1 for name in grown}, made)
    return 7


def otlp(told: list[dict[str, Any]], page: str, host: str) -> int:
    name, last = "quell_shootdowns", len(told) - 1
    at = (last, "metrics", name)
    wait = (last, "metrics", WAIT)
    wrong = [
        ("a gauge", changed(told, *at, "kind", to="gauge")),
        ("a delta", changed(told, *at, "cumulative", to=False)),
        ("not monotonic", changed(told, *at, "monotonic", to=False)),
        ("a wrong unit", changed(told, last, "metrics", "quell_wait_seconds", "unit", to="1")),
        ("a gauge that is a sum", changed(told, last, "metrics", "quell_agent_resident_bytes", "kind", to="sum")),
        ("bytes without their unit", changed(told, last, "metrics", "quell_agent_resident_bytes", "unit", to="1")),
        ("another bound", changed(told, *wait, "points", (), "bounds", 3, to=1.5)),
        ("too few buckets", changed(told, *wait, "points", (), "buckets", to=lambda all_: all_[:-1])),
        ("a count that is not the buckets'", changed(told, *wait, "points", (), "count", to=more)),
        ("another host", changed(told, last, "resource", "host.name", to="b")),
        ("another service", changed(told, last, "resource", "service.name", to="b")),
        ("no version", changed(told, last, "resource", "service.version", to="")),
        ("a second beginning", changed(told, *at, "times", to=lambda times: [(times[0][0] + 1, times[0][1])])),
        ("an old request", [told[-1], *told[:-1]]),
        ("a metric without points", changed(told, *at, "points", to={})),
        ("one request", told[:1]),
    ]
    for what, is_ in wrong:
        fails(what, checks.otlp, is_, page, host)
    lacks = copy.deepcopy(told)
    del lacks[-1]["metrics"][name]
    fails("a metric is missing", checks.otlp, lacks, page, host)
    return len(wrong) + 1


def rest() -> int:
    steady = [40 << 20] * 100
    checks.memory(steady)
    fails("memory grows", checks.memory, [(40 << 20) + (n * 5 << 12) for n in range(200)])
    checks.pushes(20, 0, 3, 16, False)
    checks.pushes(20, 20, 0, 0, True)
    wrong = [(20, 0, 0, 19, False), (20, 0, 19, 0, False), (20, 0, 3, 6, False), (20, 0, 3, 40, False), (20, 3, 3, 13, False), (20, 0, 4, 16, True)]
    for one in wrong:
        fails(f"pushes {one}", checks.pushes, *one)
    try:
        fails("nothing", checks.memory, steady)
    except Wrong:
        return 2 + len(wrong)
    raise Wrong("a check that does not fail is not found")
