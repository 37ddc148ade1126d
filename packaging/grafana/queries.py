"""Queries of the agent's figures, each in both languages: Prometheus' and InfluxDB's (InfluxQL)."""

from __future__ import annotations

from typing import Any, NamedTuple

from grafana import influx, prometheus

# As docs/agent.md has them; ns.
BOUNDS = [m * 10**e for e in range(2, 9) for m in (1, 2, 5) if 500 <= m * 10**e] + [10**9]
NS = 1_000_000_000
HERE = '{instance=~"$host"%s}'
WHERE = '"host" =~ /^$host$/%s AND $timeFilter'

Targets = list[dict[str, Any]]


class Both(NamedTuple):
    """A panel's queries for either."""

    prometheus: Targets
    influxdb: Targets

    def __add__(self, more: Both) -> Both:  # type: ignore[override]
        return Both(self.prometheus + more.prometheus, self.influxdb + more.influxdb)


def span(ns: int) -> str:
    for unit, name in ((NS, "s"), (10**6, "ms"), (10**3, "µs"), (1, "ns")):
        if ns >= unit:
            return f"{ns // unit} {name}"
    raise ValueError(ns)


def _narrowed(tag: str, values: str) -> tuple[str, str]:
    """To series whose label matches a regular expression."""
    return (f', {tag}=~"{values}"', f' AND "{tag}" =~ /^({values})$/') if tag else ("", "")


def _told(by: list[str], label: str) -> tuple[str, str, str, str]:
    """Labels of Prometheus and tags of InfluxDB to group by, and the names of the lines in each."""
    keys = ["instance" if key == "host" else key for key in by]
    tags = "".join(f', "{key}"' for key in by)
    return ", ".join(keys), tags, label or " ".join("{{%s}}" % key for key in keys), label or " ".join(f"$tag_{key}" for key in by)


def rate(name: str, by: list[str], field: str = "count", tag: str = "", values: str = "", label: str = "") -> Both:
    """Growth a second, summed by labels; `host` is Prometheus' `instance`. Of `field` ns it is seconds a second.

    The innermost query is by all tags, for a counter is a series of its own."""
    more, where = _narrowed(tag, values)
    name_of = "quell_" + name
    labels, tags, legend, alias = _told(by, label)
    asked = f"sum by ({labels}) (rate({name_of}_total{HERE % more}[$__rate_interval]))"
    scale = f" / {NS}" if field == "ns" else ""
    inner = (
        f'SELECT non_negative_derivative(last("{field}"), 1s) AS "rate" FROM "{name_of}" '
        f"WHERE {WHERE % where} GROUP BY time($__interval), * fill(none)"
    )
    lines = f'SELECT sum("rate"){scale} FROM ({inner}) WHERE $timeFilter GROUP BY time($__interval){tags} fill(none)'
    return Both([prometheus(asked, legend)], [influx(lines, alias)])


def now(name: str, by: list[str], label: str = "") -> Both:
    """What it is at each time, the largest where there are several."""
    labels, tags, legend, alias = _told(by, label)
    lines = f'SELECT max("now") FROM "quell_{name}" WHERE {WHERE % ""} GROUP BY time($__interval){tags} fill(none)'
    return Both([prometheus(f"max by ({labels}) (quell_{name}{HERE % ''})", legend)], [influx(lines, alias)])


def whole(name: str, by: list[str], column: str, field: str = "count") -> Both:
    """Growth over the whole range, by labels: a column of a table."""
    labels = ", ".join(by)
    asked = f"sum by ({labels}) (increase(quell_{name}_total{HERE % ''}[$__range])) > 0"
    scale = f" / {NS}" if field == "ns" else ""
    tags = ", ".join(f'"{key}"' for key in by)
    inner = (
        f'SELECT non_negative_difference(last("{field}")) AS "grown" FROM "quell_{name}" '
        f"WHERE {WHERE % ''} GROUP BY time($__interval), * fill(none)"
    )
    lines = f'SELECT sum("grown"){scale} AS "{column}" FROM ({inner}) WHERE $timeFilter GROUP BY {tags}'
    return Both([prometheus(asked, "", "table")], [influx(lines, "", "table")])


def distribution(name: str) -> Both:
    """How many lay in each bucket. InfluxDB's fields say how many within a bound: the one below is taken off."""
    name = f"quell_{name}_distribution_seconds"
    asked = f"sum by (le) (increase({name}_bucket{HERE % ''}[$__rate_interval]))"
    grown = [f'non_negative_difference(last("le_{ns}"))' for ns in BOUNDS] + ['non_negative_difference(last("count"))']
    each = [grown[0]] + [f"{upper} - {lower}" for lower, upper in zip(grown, grown[1:])]
    labels = [span(ns) for ns in BOUNDS] + [f"over {span(BOUNDS[-1])}"]
    inner = ", ".join(f'{what} AS "b{i}"' for i, what in enumerate(each))
    outer = ", ".join(f'sum("b{i}") AS "{label}"' for i, label in enumerate(labels))
    lines = (
        f'SELECT {outer} FROM (SELECT {inner} FROM "{name}" WHERE {WHERE % ""} GROUP BY time($__interval), "host" fill(none)) '
        "WHERE $timeFilter GROUP BY time($__interval) fill(none)"
    )
    return Both([prometheus(asked, "{{le}}", "heatmap")], [influx(lines, "$col")])


def percentiles(name: str) -> Both:
    """Prometheus takes them from the buckets of all hosts; InfluxDB has those of each host's last interval: the worst host's."""
    name = f"quell_{name}_distribution_seconds"
    found: Both = Both([], [])
    for share, field, label in ((0.5, "p50_ns", "p50"), (0.99, "p99_ns", "p99"), (0.999, "p999_ns", "p99.9")):
        asked = f"histogram_quantile({share}, sum by (le) (rate({name}_bucket{HERE % ''}[$__rate_interval])))"
        lines = f'SELECT max("{field}") / {NS} FROM "{name}" WHERE {WHERE % ""} GROUP BY time($__interval) fill(none)'
        found += Both([prometheus(asked, label)], [influx(lines, label)])
    return found
