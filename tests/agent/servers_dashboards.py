"""Runs every query of the dashboards on the server that it is for, as Grafana would with its variables filled in."""

from __future__ import annotations

import json
import os
import re
import time
from typing import Any

import dashboards_check
from servers_ask import Influx, Prom
from servers_start import fail, get

FOLDER = os.path.join(dashboards_check.ROOT, "packaging", "grafana")
# Panels that a machine may have nothing for: isolated CPUs, a kernel with LUF, rules that begin traces, swap.
MAY_BE_EMPTY = {
    "Hits on isolated CPUs by cause",
    "LUF",
    "Traces by rule and result",
    "Swap and same-page merging",
    "Migration and NUMA balancing",
    "Gaps that the culprit caused",
    # of who spent any: no cgroup may have slept for it
    "Cgroups and pods by time in memory management",
}


def load(name: str) -> dict[str, Any]:
    with open(os.path.join(FOLDER, f"{name}.json"), encoding="utf-8") as f:
        dashboard = json.load(f)
    dashboards_check.check(dashboard, dashboards_check.known_names())
    return dashboard


def filled(text: str, values: dict[str, str]) -> str:
    """With every variable filled in; one that is not known stays, and the server then says what it thinks of it."""
    for name, value in values.items():
        text = re.sub(rf"\$\{{{name}\}}|\${name}\b", lambda _: value, text)
    return text


def prometheus(server: Prom, dashboard: dict[str, Any], host: str, since: float) -> tuple[int, int]:
    """How many queries ran, and how many of them have data. Those that must have some have."""
    now = time.time()
    values = {"host": host, "__rate_interval": "8s", "__interval": "2s", "__range": f"{int(now - since)}s"}
    ran = full = 0
    for where, target in dashboards_check.targets(dashboard):
        text = filled(dashboards_check.text(target), values)
        label = re.fullmatch(r"label_values\((\w+), (\w+)\)", text)
        if label:
            found = server.api(f"label/{label[2]}/values", **{"match[]": label[1]})
        elif target["instant"]:
            found = server.query(text, time=f"{now:.3f}")
        else:
            found = server.api("query_range", query=text, start=f"{since:.3f}", end=f"{now:.3f}", step="2")["result"]
            found = [series for series in found if any(value not in ("NaN", "+Inf") for _, value in series["values"])]
        if not found and where not in MAY_BE_EMPTY:
            fail(f"{server.name}: {where}: no data: {text}")
        ran, full = ran + 1, full + bool(found)
    return ran, full


def influxdb(server: Influx, dashboard: dict[str, Any], values: dict[str, str], since: float) -> tuple[int, int]:
    begin, end = int(since * 1000), int(time.time() * 1000) + 1000
    values = values | {"timeFilter": f"time >= {begin}ms and time <= {end}ms", "__interval": "2s"}
    ran = full = 0
    for where, target in dashboards_check.targets(dashboard):
        text = filled(dashboards_check.text(target), values)
        # Grafana asks in ms
        found = server.ask(text, "ms")
        columns = {column for series in found for column in series["columns"]}
        wanted = [target[key] for key in ("textColumn",) if target.get(key)] + [t for t in target.get("tagsColumn", "").split(",") if t]
        if found and not columns >= set(wanted):
            fail(f"influxdb: {where}: columns {sorted(columns)}, {wanted} are wanted")
        if "derivative" in text or "difference" in text:
            low = [v for series in found for row in series["values"] for v in row[1:] if v is not None and v < 0]
            if low:
                fail(f"influxdb: {where}: a rate below zero: {low[:3]}")
        if not found and where not in MAY_BE_EMPTY:
            fail(f"influxdb: {where}: no data: {text}")
        ran, full = ran + 1, full + bool(found)
    return ran, full


def write(server: Influx, lines: bytes) -> None:
    status, said = get(f"{server.url}/write?db={server.database}", lines)
    if status != 204:
        fail(f"influxdb: takes no lines: {status} {said[:300]!r}")


def made_up(now: float) -> bytes:
    """Lines as docs/lab-report.md has them, for a machine where the lab can't measure."""
    t, out = int(now * 1e9) - 20 * 10**9, []
    for mark, at in (("begin", 0), ("operation", 3), ("operation-end", 4), ("end", 10)):
        arm = ",arm=real" if mark.startswith("op") else ""
        out.append(f"quell_lab_mark,experiment=seed-free,mark={mark}{arm} n=1i {t + at * 10**9}")
    out.append(f"quell_lab_mark,experiment=lab,mark=begin n=1i {t}")
    for i, arm in enumerate(("idle", "sham", "real")):
        at = t + i * 2 * 10**9
        tags = f"experiment=seed-free,arm={arm}"
        fields = "valid=1i,ran_ns=1000000000i,away_ns=0i,ops=1i,gaps=9i,shootdowns=5i,caused=4i,faults=0i,stall_ppm=40i"
        out.append(f"quell_lab_block,{tags},class=all {fields} {at}")
        out.append(f"quell_lab_block,{tags},class=tlb valid=1i,gaps=5i,gaps_ns=90000i {at}")
        out += [f"quell_lab_gap,{tags},class=tlb ns={9000 + n}i,caused=1i {at + n * 10**8}" for n in range(9)]
    return ("\n".join(out) + "\n").encode()
