"""The figures of one look of an agent, as each server has them.

All are brought into one form: by family (docs/agent.md's name) and labels, whole numbers, seconds as ns; a distribution is
its count, its sum, and how many lie within each bound. A look is found by its number, `quell_agent_looks`: what was told at
that look is the same for all, however often each of them asks.
"""

from __future__ import annotations

import json
import re
import urllib.parse
from typing import Any

from servers_receive import Receiver, read
from servers_start import fail, get

Labels = tuple[tuple[str, str], ...]
Figures = dict[str, dict[Labels, Any]]
# ns, as docs/agent.md has them
BOUNDS = [m * 10**e for e in range(2, 9) for m in (1, 2, 5) if 500 <= m * 10**e] + [10**9]
LE = {f"{bound / 1e9:.10f}".rstrip("0"): i for i, bound in enumerate(BOUNDS)}
KNOWN = "munmap|mprotect|madvise.dontneed"


def labelled(labels: dict[str, str], *without: str) -> Labels:
    return tuple(sorted((k, v) for k, v in labels.items() if k not in without and v))


class Prom:
    """Prometheus, or who has its interface. `influx`: the figures came as InfluxDB's lines, and have their names."""

    def __init__(self, name: str, url: str, which: str, influx: bool = False):
        self.name, self.url, self.which, self.influx = name, url, which, influx

    def api(self, path: str, **asked: Any) -> Any:
        status, said = get(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(asked)}")
        found = json.loads(said) if said.startswith(b"{") else {}
        if status != 200 or found.get("status") != "success":
            fail(f"{self.name}: {path} {asked}: {status} {said[:300]!r}")
        return found["data"]

    def query(self, text: str, **at: Any) -> list[dict[str, Any]]:
        return self.api("query", query=text, **at)["result"]

    def when(self, look: int) -> str | None:
        """A time at which that look is what is known: just after a sample of it, for who rounds to the ms below would miss it."""
        name = "quell_agent_looks_count" if self.influx else "quell_agent_looks_total"
        for series in self.query(f"{name}{{{self.which}}}[4m]"):
            for t, value in series["values"]:
                if float(value) == look:
                    return f"{t + 0.002:.3f}"
        return None

    def figures(self, at: str) -> Figures:
        found: Figures = {}
        for series in self.query(f'{{__name__=~"quell_.*",{self.which}}}', time=at):
            name, value = series["metric"]["__name__"], float(series["value"][1])
            labels = dict(series["metric"])
            (self._influx if self.influx else self._scraped)(found, name, labels, value)
        return found

    def _scraped(self, found: Figures, name: str, labels: dict[str, str], value: float) -> None:
        key = labelled(labels, "__name__", "instance", "job", "le")
        timed = re.fullmatch(r"(quell_\w+_distribution_seconds)_(bucket|sum|count)", name)
        if not timed:
            family = name.removesuffix("_total")
            scale = 1e9 if family.endswith("_seconds") else 1
            found.setdefault(family, {})[key] = round(value * scale)
            return
        times = found.setdefault(timed[1], {}).setdefault(key, {"within": [None] * len(BOUNDS)})
        if timed[2] == "bucket":
            if labels["le"] == "+Inf":
                times["inf"] = round(value)
            else:
                bound = LE.get(f"{float(labels['le']):.10f}".rstrip("0"))
                if bound is None:
                    fail(f"{self.name}: {timed[1]} has a bucket le={labels['le']}")
                times["within"][bound] = round(value)
        else:
            times[timed[2]] = round(value * (1e9 if timed[2] == "sum" else 1))

    def _influx(self, found: Figures, name: str, labels: dict[str, str], value: float) -> None:
        key = labelled(labels, "__name__", "host", "db")
        timed = re.fullmatch(r"(quell_\w+_distribution_seconds)_(.*)", name)
        if not timed:
            found.setdefault(re.sub("_(count|ns|now)$", "", name), {})[key] = round(value)
            return
        times = found.setdefault(timed[1], {}).setdefault(key, {"within": [None] * len(BOUNDS)})
        field(times, timed[2], round(value))

    def grown(self, begin: str, end: str) -> int:
        """How many shootdowns of the known causes, and flushes that found nobody, as the server itself counts them."""
        suffix = "count" if self.influx else "total"
        shot = f'sum(quell_shootdowns_{suffix}{{cause=~"{KNOWN}",{self.which}}})'
        asked = f"{shot} + sum(quell_empty_sends_{suffix}{{{self.which}}})"
        is_, was = (float(self.query(asked, time=at)[0]["value"][1]) for at in (end, begin))
        return round(is_ - was)


def field(times: dict[str, Any], name: str, value: int) -> None:
    """A field of a distribution's line."""
    if name.startswith("le_"):
        times["within"][BOUNDS.index(int(name[3:]))] = value
    elif name in ("count", "sum_ns"):
        times[name.removesuffix("_ns")] = value
        if name == "count":
            times["inf"] = value


class Influx:
    def __init__(self, url: str, host: str, database: str):
        self.name, self.url, self.host, self.database = "influxdb", url, host, database

    def ask(self, text: str, epoch: str = "ns") -> list[dict[str, Any]]:
        asked = urllib.parse.urlencode({"q": text, "db": self.database, "epoch": epoch}).encode()
        status, said = get(f"{self.url}/query", asked)
        found = json.loads(said) if said.startswith(b"{") else {}
        wrong = found.get("error") or [r["error"] for r in found.get("results", []) if "error" in r]
        if status != 200 or wrong:
            fail(f"influxdb: {text}: {status} {wrong or said[:300]!r}")
        return [series for result in found["results"] for series in result.get("series", [])]

    def when(self, look: int) -> str | None:
        found = self.ask(f'SELECT "count" FROM "quell_agent_looks" WHERE "host" = \'{self.host}\' AND "count" = {look}')
        return str(found[-1]["values"][-1][0]) if found else None

    def figures(self, at: str) -> Figures:
        found: Figures = {}
        for series in self.ask(f"SELECT * FROM /^quell_/ WHERE \"host\" = '{self.host}' AND time = {at} GROUP BY *"):
            name, key = series["name"], labelled(series.get("tags", {}), "host")
            for row in series["values"]:
                fields = {k: v for k, v in zip(series["columns"], row) if k != "time" and v is not None}
                if name.endswith("_distribution_seconds"):
                    times = found.setdefault(name, {}).setdefault(key, {"within": [None] * len(BOUNDS)})
                    for one, value in fields.items():
                        field(times, one, value)
                else:
                    (value,) = fields.values()
                    found.setdefault(name, {})[key] = value
        return found

    def grown(self, begin: str, end: str) -> int:
        sums = []
        for at in (begin, end):
            where = f"WHERE \"host\" = '{self.host}' AND time = {at}"
            shot = self.ask(f'SELECT sum("count") FROM "quell_shootdowns" {where} AND "cause" =~ /^({KNOWN})$/')
            empty = self.ask(f'SELECT sum("count") FROM "quell_empty_sends" {where}')
            sums.append(sum(series["values"][0][1] for series in shot + empty))
        return sums[1] - sums[0]


class Otlp:
    """The receiver, as one more server."""

    def __init__(self, receiver: Receiver, host: str):
        self.name, self.receiver, self.host = "otlp", receiver, host

    def told(self) -> list[dict[str, Any]]:
        found = [read(request) for request in list(self.receiver.requests)]
        return [one for one in found if one["resource"].get("host.name") == self.host]

    def when(self, look: int) -> str | None:
        for i, one in enumerate(self.told()):
            if one["metrics"]["quell_agent_looks"]["points"][()] == look:
                return str(i)
        return None

    def figures(self, at: str) -> Figures:
        found: Figures = {}
        for name, metric in self.told()[int(at)]["metrics"].items():
            for key, is_ in metric["points"].items():
                if metric["kind"] == "histogram":
                    sums = [sum(is_["buckets"][: i + 1]) for i in range(len(is_["buckets"]))]
                    is_ = {"count": is_["count"], "sum": is_["sum"], "inf": sums[-1], "within": sums[:-1]}
                found.setdefault(name, {})[key] = is_
        return found

    def grown(self, begin: str, end: str) -> int:
        sums = []
        for at in (begin, end):
            figures = self.figures(at)
            shot = (n for key, n in figures["quell_shootdowns"].items() if re.fullmatch(KNOWN, dict(key)["cause"]))
            sums.append(sum(shot) + figures["quell_empty_sends"][()])
        return sums[1] - sums[0]
