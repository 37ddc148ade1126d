"""The table, as text and as CSV."""

import csv
import io

from judge import Row

HEAD = ("allocator", "workload", "shootdowns per 1,000", "stopped", "95 % interval", "predicted", "memory", "time", "verdict")


def count(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"


def share(value: float | None) -> str:
    return "-" if value is None else f"{value * 100:.1f}".removesuffix(".0") + " %"


def times(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def cells(row: Row) -> tuple:
    before, after = row.per_thousand("before"), row.per_thousand("after")
    counts = count(before) if after is None else f"{count(before)} to {count(after)}"
    low, high = row.interval()
    interval = "-" if low is None or high is None else f"{low * 100:.1f} to {high * 100:.1f}"
    planned = bool(row.proof and row.proof["plan"])
    return (row.allocator, row.workload, counts, share(row.reduction), interval,
            share(row.predicted) if planned else "-", times(row.ratio("max_rss")), times(row.ratio("wall_ns")),
            row.judge()[0])


def text(rows: list) -> str:
    lines = [HEAD] + [cells(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines)]
    left = (0, 1, 8)
    table = ["  ".join(cell.ljust(width) if i in left else cell.rjust(width)
                       for i, (cell, width) in enumerate(zip(line, widths))).rstrip() for line in lines]
    return "\n".join(table + what_they_set(rows))


def what_they_set(rows: list) -> list:
    found = plans(rows)
    return ["", "What the plans set:", ""] + ["  " + line for line in found] if found else []


def plans(rows: list) -> list:
    """Each plan once, with the rows that it was chosen for."""
    chosen: dict = {}
    for row in rows:
        if row.plan():
            chosen.setdefault(row.plan(), {}).setdefault(row.allocator, []).append(row.workload)
    found = []
    for plan, by in chosen.items():
        names = ", ".join(f"{allocator} ({' '.join(workloads)})" for allocator, workloads in by.items())
        found.append(f"{names}: {plan}")
    return found


# As docs/data/remedies-measured.csv has them; the date and the number of pairs come first there.
COLUMNS = ("allocator", "workload", "before_per_1000", "after_per_1000", "stopped_percent", "ci95_low_percent", "ci95_high_percent",
           "predicted_percent", "memory_ratio", "time_ratio", "verdict", "plan")


def fields(row: Row) -> tuple:
    """The cells of a row with a figure each, and nothing where there is none."""
    _, _, counts, stopped, interval, predicted, memory, time, verdict = cells(row)
    before, _, after = counts.partition(" to ")
    low, _, high = interval.partition(" to ")
    figures = (before, after, stopped, low, high, predicted, memory, time)
    plain = (figure.removesuffix(" %") for figure in figures)
    return (row.allocator, row.workload, *("" if figure == "-" else figure for figure in plain), verdict, row.plan() or "")


def as_csv(rows: list, date: str) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("measured", "pairs", *COLUMNS))
    writer.writerows((date, len(row.series("wall_ns", "before")), *fields(row)) for row in rows)
    return out.getvalue().rstrip("\n")
