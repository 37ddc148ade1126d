"""What Grafana would stumble over in a dashboard, as far as that can be told without Grafana. Run as a program it checks the
committed ones; a last line says how many checks there were.

    dashboards_check.py FILE...

Where grafana-foundation-sdk is installed (Grafana's types of a dashboard, from PyPI), each is also read and written by it: a key
that Grafana doesn't know is gone afterwards.
"""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Any

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# What is ours to fill in; all others are Grafana's own.
OWN = re.compile(r"\$\{?([A-Za-z_]+)\}?")
GIVEN = {"__interval", "__rate_interval", "__range", "timeFilter", "__all", "col"}
NAME = re.compile(r"quell_[a-z_]+")
SUFFIXES = ("_total", "_bucket", "_sum", "_count")
PANELS = {"row", "timeseries", "heatmap", "table"}


class Wrong(Exception):
    """What is wrong with it."""


def need(holds: object, what: str) -> None:
    if not holds:
        raise Wrong(what)


def targets(dashboard: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Every query: where it stands, and its target."""
    found = [(p["title"], t) for p in dashboard["panels"] for t in p.get("targets", [])]
    notes = [(note["name"], note["target"] | {"datasource": note["datasource"]}) for note in dashboard["annotations"]["list"]]
    values = []
    for one in dashboard["templating"]["list"]:
        if one["type"] == "query":
            query = one["query"]
            text = query["query"] if isinstance(query, dict) else query
            values.append((f"variable {one['name']}", {"datasource": one["datasource"], "query": text, "resultFormat": "variable"}))
    return found + notes + values


def text(target: dict[str, Any]) -> str:
    return target.get("expr") or target["query"]


def known_names() -> set[str]:
    """Families of docs/agent.md, measurements of docs/lab-report.md."""
    names: set[str] = set()
    for page in ("agent.md", "lab-report.md"):
        with open(os.path.join(ROOT, "docs", page), encoding="utf-8") as f:
            names |= set(re.findall(r"`(quell_[a-z_]+)`", f.read()))
    return names


def family(name: str, known: set[str]) -> bool:
    stems = [name] + [name.removesuffix(suffix) for suffix in SUFFIXES]
    return any(stem in known for stem in stems)


def overlap(a: dict[str, int], b: dict[str, int]) -> bool:
    return a["x"] < b["x"] + b["w"] and b["x"] < a["x"] + a["w"] and a["y"] < b["y"] + b["h"] and b["y"] < a["y"] + a["h"]


def check_places(panels: list[dict[str, Any]]) -> None:
    ids = [p["id"] for p in panels]
    need(len(set(ids)) == len(ids), f"two panels have the same id: {ids}")
    for i, a in enumerate(panels):
        at = a["gridPos"]
        need(at["x"] >= 0 and at["x"] + at["w"] <= 24, f"{a['title']}: lies beside the grid: {at}")
        for b in panels[:i]:
            need(not overlap(at, b["gridPos"]), f"{a['title']} lies over {b['title']}")


def check_panels(dashboard: dict[str, Any]) -> None:
    titles = [p["title"] for p in dashboard["panels"]]
    need(len(set(titles)) == len(titles), "two panels have the same title")
    for p in dashboard["panels"]:
        need(p["type"] in PANELS, f"{p['title']}: a panel of type {p['type']}")
        if p["type"] == "row":
            continue
        # what it shows with its unit, and what to do next
        about = p.get("description", "")
        need(about.count(". ") >= 1 and about.endswith("."), f"{p['title']}: no description of two sentences")
        need(p["fieldConfig"]["defaults"].get("unit"), f"{p['title']}: no unit")
        need(p["datasource"]["uid"] == "${datasource}", f"{p['title']}: not the variable's data source")
        need(p["targets"], f"{p['title']}: no query")
        letters = [t["refId"] for t in p["targets"]]
        need(len(set(letters)) == len(letters), f"{p['title']}: two queries of one name")


def check_queries(dashboard: dict[str, Any], known: set[str]) -> None:
    own = {one["name"] for one in dashboard["templating"]["list"]}
    plugin = next(one["query"] for one in dashboard["templating"]["list"] if one["type"] == "datasource")
    for where, target in targets(dashboard):
        at = target["datasource"]
        need(at == {"type": plugin, "uid": "${datasource}"}, f"{where}: a query goes to {at}")
        asked = text(target)
        need(asked.strip(), f"{where}: an empty query")
        for name in OWN.findall(asked):
            need(name in own or name in GIVEN or name.startswith("tag_"), f"{where}: there is no variable {name}")
        if where.startswith("variable"):
            continue
        if target.get("resultFormat") != "variable" and plugin == "influxdb":
            need("$timeFilter" in asked, f"{where}: not of the chosen time")
        names = NAME.findall(asked)
        need(names, f"{where}: asks for nothing of quell's")
        for name in names:
            need(family(name, known), f"{where}: docs know no {name}")


def told_by(dashboard: dict[str, Any]) -> set[str]:
    """The families that it asks for."""
    return {name for _, target in targets(dashboard) for name in NAME.findall(text(target))}


def check(dashboard: dict[str, Any], known: set[str]) -> None:
    check_places(dashboard["panels"])
    check_panels(dashboard)
    check_queries(dashboard, known)


def lost_keys(is_: Any, was: Any, at: str = "") -> list[str]:
    """What `was` has and `is_` has not, but for what is empty."""
    if isinstance(was, dict):
        if not isinstance(is_, dict):
            return [at]
        found = [f"{at}.{key}" for key in was if key not in is_ and was[key] not in (None, {}, [], "", False)]
        return found + [k for key in was if key in is_ for k in lost_keys(is_[key], was[key], f"{at}.{key}")]
    if isinstance(was, list):
        if not isinstance(is_, list) or len(is_) != len(was):
            return [at]
        return [k for i, one in enumerate(was) for k in lost_keys(is_[i], one, f"{at}[{i}]")]
    return [] if is_ == was else [f"{at}: {was!r} became {is_!r}"]


def check_types(dashboard: dict[str, Any]) -> bool:
    """By Grafana's own types, if they are there."""
    try:
        from grafana_foundation_sdk.cog.encoder import JSONEncoder
        from grafana_foundation_sdk.cog.plugins import register_default_plugins
        from grafana_foundation_sdk.models.dashboard import Dashboard
    except ImportError:
        return False
    register_default_plugins()
    # They have no type for InfluxDB's queries, and pass them through; a field of an annotation's query is free in Grafana.
    try:
        read = Dashboard.from_json(json.loads(json.dumps(dashboard)))
        again = json.loads(json.dumps(read, cls=JSONEncoder))
    except (KeyError, TypeError, ValueError, AttributeError) as wrong:
        raise Wrong(f"Grafana's types don't take it: {type(wrong).__name__}: {wrong}") from wrong
    lost = [key for key in lost_keys(again, dashboard) if not re.match(r"\.annotations\.list\[\d+\]\.target\.", key)]
    need(not lost, f"Grafana's types know nothing of {', '.join(lost[:8])}")
    return True


def main() -> None:
    known = known_names()
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as f:
            dashboard = json.load(f)
        try:
            check(dashboard, known)
            typed = check_types(dashboard)
        except Wrong as wrong:
            sys.exit(f"dashboards: {os.path.basename(path)}: {wrong}")
        how = "and Grafana's types take it" if typed else "without Grafana's types"
        asked = len(targets(dashboard))
        print(f"dashboards  {os.path.basename(path)}: {len(dashboard['panels'])} panels, {asked} queries, {how}")


if __name__ == "__main__":
    main()
