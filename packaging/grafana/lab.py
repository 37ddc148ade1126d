"""The dashboard of `quell lab run ... --influx`: a latency line, and a marker at each call of the culprit's."""

from __future__ import annotations

from typing import Any

from grafana import dashboard, influx, lines, source, table, variables

WHERE = '"experiment" =~ /^$experiment$/ AND $timeFilter'
PLUGIN = "influxdb"


def _by_block(field: str, alias: str = "$tag_arm", scale: str = "") -> dict[str, Any]:
    """Of the blocks that count, each arm a line."""
    asked = f'SELECT mean("{field}"){scale} FROM "quell_lab_block" WHERE "valid" = 1 AND "class" = \'all\' AND {WHERE}'
    return influx(f'{asked} GROUP BY time($__interval), "experiment", "arm" fill(none)', alias)


def _marks(name: str, color: str, query: str, text: str, tags: str) -> dict[str, Any]:
    target = {
        "name": name,
        "query": query,
        "queryType": "tags",
        "fromAnnotations": True,
        "rawQuery": True,
        "refId": name,
        "textColumn": text,
        "tagsColumn": tags,
        "titleColumn": "",
        "timeEndColumn": "",
    }
    return {"name": name, "datasource": source(PLUGIN), "enable": True, "iconColor": color, "target": target}


def _annotations() -> list[dict[str, Any]]:
    each = f'SELECT "n", "experiment", "mark", "arm" FROM "quell_lab_mark" WHERE "mark" = \'%s\' AND {WHERE}'
    begins = 'SELECT "n", "experiment", "mark" FROM "quell_lab_mark" WHERE ("mark" = \'begin\' OR "mark" = \'end\') AND $timeFilter'
    return [
        _marks("The culprit's call", "red", each % "operation", "experiment", "arm,mark"),
        _marks("The call has ended", "orange", each % "operation-end", "experiment", "arm,mark"),
        _marks("Experiments begin and end", "blue", begins, "experiment", "mark"),
    ]


def made() -> dict[str, Any]:
    gap = f'FROM "quell_lab_gap" WHERE {WHERE} GROUP BY time($__interval)'
    dots = {"drawStyle": "points", "pointSize": 4, "showPoints": "always"}
    fine = {"interval": "1ms", "width": 24}
    panels = [
        lines(
            "The victim's gaps: the longest, by arm",
            "Latency, ns: how long the victim did not run though it wanted to, the longest in each step of time. Red markers are the "
            "culprit's calls, orange ones their ends. A line that jumps within them, and in no other arm, is the stall that the culprit "
            "caused; one that jumps elsewhere is the machine's noise: look at the classes below.",
            [influx(f'SELECT max("ns") {gap}, "arm" fill(none)', "$tag_arm")],
            unit="ns",
            height=11,
            maxDataPoints=4000,
            **fine,
        ),
        lines(
            "The victim's gaps by class",
            "The longest gap, ns, in each step of time by class of docs/lab-reference.md (tlb, fault, sched, timer, irq, callfn, none). tlb "
            "within the markers is the culprit's; sched is another thread that had the CPU; none is the hypervisor's or unknown.",
            [influx(f'SELECT max("ns") {gap}, "class" fill(none)', "$tag_class")],
            unit="ns",
            custom=dots,
            maxDataPoints=4000,
            **fine,
        ),
        lines(
            "Gaps that the culprit caused",
            "How many gaps in each step of time hold a shootdown of the culprit's, or a fault that its call makes, by arm. Only the "
            "arm real should have any: the sham arm does the same work without the shootdown.",
            [influx(f'SELECT sum("caused") {gap}, "arm" fill(none)', "$tag_arm")],
            custom=dots,
            maxDataPoints=4000,
            **fine,
        ),
        lines(
            "Stall of each block, by arm",
            "Time that the culprit took from the victim, millionths of the time that it ran: 10,000 are 1 %. The verdict of quell "
            "lab rests on real less sham; see the text that quell lab run prints.",
            [_by_block("stall_ppm", "$tag_experiment $tag_arm")],
            interval="1ms",
            unit="ppm",
            custom=dots,
        ),
        lines(
            "Shootdowns and operations of each block",
            "Shootdowns that reached the victim's CPU, those that the culprit asked for, and its operations, by arm. Operations "
            "without shootdowns found the victim off its CPU, or do not shoot on this kernel.",
            [_by_block(field, f"{field} $tag_arm") for field in ("shootdowns", "caused", "ops")],
            interval="1ms",
            custom=dots,
        ),
        table(
            "Time in gaps, by class and arm",
            "Over the chosen time and the blocks that count: gaps and their time, ns. Compare the arms: what real has more than sham "
            "is the mechanism's, what all have is the machine's.",
            [
                influx(
                    f'SELECT sum("gaps") AS "gaps", sum("gaps_ns") AS "time" FROM "quell_lab_block" '
                    f'WHERE "valid" = 1 AND "class" <> \'all\' AND {WHERE} GROUP BY "experiment", "arm", "class"',
                    "",
                    "table",
                )
            ],
            names={"experiment": "experiment", "arm": "arm", "class": "class", "gaps": "gaps", "time": "time"},
            hide=["Time"],
            sort="time",
            width=24,
            overrides=[{"matcher": {"id": "byName", "options": "time"}, "properties": [{"id": "unit", "value": "ns"}]}],
        ),
    ]
    tags = 'SHOW TAG VALUES FROM "quell_lab_block" WITH KEY = "experiment"'
    return dashboard(
        "quell-lab-influxdb",
        "quell: lab (InfluxDB)",
        "What quell lab run --influx sends: the victim's latency as a line, with a marker at each call of the culprit's.",
        PLUGIN,
        panels,
        variables=variables(PLUGIN, "experiment", "Experiment", tags, "Where quell lab sends its lines"),
        annotations=_annotations(),
        since="now-15m",
        refresh="10s",
    )
