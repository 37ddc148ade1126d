"""Shows that each check of dashboards_check.py fails: on a committed dashboard, with one thing changed.

    dashboards_prove.py FILE
"""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable
from typing import Any

import dashboards_check as checks

PANEL = 1


def wrong_ones() -> list[tuple[str, Callable[[dict[str, Any]], Any]]]:
    def panel(key: str, value: Any) -> Callable[[dict[str, Any]], Any]:
        return lambda d: d["panels"][PANEL].update({key: value})

    def query(text: str) -> Callable[[dict[str, Any]], Any]:
        return lambda d: d["panels"][PANEL]["targets"][0].update({"expr" if "expr" in d["panels"][PANEL]["targets"][0] else "query": text})

    elsewhere = {"type": "prometheus", "uid": "of-somebody"}
    return [
        ("an id twice", lambda d: d["panels"][2].update(id=d["panels"][1]["id"])),
        ("a panel over another", lambda d: d["panels"][3]["gridPos"].update(d["panels"][2]["gridPos"])),
        ("a panel beside the grid", lambda d: d["panels"][1]["gridPos"].update(x=13)),
        ("a title twice", lambda d: d["panels"][2].update(title=d["panels"][1]["title"])),
        ("a kind of panel that is not known", panel("type", "graph")),
        ("no description", panel("description", "")),
        ("a description that does not say what to do", panel("description", "Shootdowns a second.")),
        ("no unit", lambda d: d["panels"][PANEL]["fieldConfig"]["defaults"].pop("unit")),
        ("a panel of another data source", panel("datasource", elsewhere)),
        ("a query of another data source", lambda d: d["panels"][PANEL]["targets"][0].update(datasource=elsewhere)),
        ("no query", panel("targets", [])),
        ("two queries of one name", lambda d: d["panels"][PANEL].update(targets=d["panels"][PANEL]["targets"] * 2)),
        ("an empty query", query(" ")),
        ("a variable that is not there", query('quell_shootdowns_total{instance=~"$hots"} $timeFilter')),
        ("a name that the documentation lacks", query("quell_shoot_downs_total $timeFilter")),
        ("nothing of quell's", query("up $timeFilter")),
    ]


def main() -> None:
    known = checks.known_names()
    with open(sys.argv[1], encoding="utf-8") as f:
        good = json.load(f)
    checks.check(good, known)
    found = 0
    for what, change in wrong_ones():
        bad = copy.deepcopy(good)
        change(bad)
        try:
            checks.check(bad, known)
        except checks.Wrong:
            found += 1
        else:
            sys.exit(f"dashboards: the check does not find: {what}")
    if checks.check_types(good):
        for what, path in (("a panel", ["panels", 1]), ("options", ["panels", 1, "options"]), ("a field", ["panels", 2, "fieldConfig", "defaults", "custom"])):
            bad = copy.deepcopy(good)
            at: Any = bad
            for key in path:
                at = at[key]
            at["unheardOf"] = 1
            try:
                checks.check_types(bad)
            except checks.Wrong:
                found += 1
            else:
                sys.exit(f"dashboards: the types do not find a key that is not known in {what}")
    print(f"dashboards  each check fails when it should: {found} wrong dashboards were found")


if __name__ == "__main__":
    main()
