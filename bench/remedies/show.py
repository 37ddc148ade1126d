"""The table, as text and as Markdown."""

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
    return "\n".join(table + what_they_set(rows, "  "))


def what_they_set(rows: list, mark: str) -> list:
    found = plans(rows)
    return ["", "What the plans set:", ""] + [mark + line for line in found] if found else []


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


def markdown(rows: list) -> str:
    lines = ["| " + " | ".join(HEAD) + " |", "| " + " | ".join(["---"] * len(HEAD)) + " |"]
    lines += ["| " + " | ".join(cells(row)) + " |" for row in rows]
    return "\n".join(lines + what_they_set(rows, "- "))
