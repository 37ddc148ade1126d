"""The table of the trial: for people, and as CSV."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from measure import limits
from row import Row

FIGURES = [name for name, _ in limits()]
HEAD = ["name", "group", "verdict", "exit", "output", "CPU s", "MB", *(one.replace("cpu", "CPU") for one in FIGURES), "note"]
WORDS = {"same": "same", "refused": "refused", "differs": "differ", "above": "above", "skipped": "skipped"}


def note(row: Row, result: dict[str, Any]) -> str:
    """What a reader of the row has to know besides."""
    said = []
    if result["verdict"] == "skipped":
        return result["reason"]
    if row.refused:
        said.append(row.refused)
    said += [f"{setting}: {what}" for setting, what in result["differs"].items()]
    said += [f"{what}, as without the library (in one of {count} runs)" for what, count in result.get("alone", {}).items() if count]
    if not result["loaded"]:
        said.append(f"not loaded into {', '.join(result['not_loaded']) or 'anything that was seen'}")
    if result["verdict"] == "above":
        said.append(f"above: {', '.join(result['above'])}")
    if not result["differs"]:
        said.append(f"{result['rounds']} rounds")
    return "; ".join(said)


def cells(row: Row, result: dict[str, Any]) -> list[str]:
    verdict = result["verdict"]
    if verdict == "skipped":
        return [row.name, row.group, verdict, "", "", "", "", *("" for _ in FIGURES), note(row, result)]
    said = result["summary"]
    differs = result["differs"].values()
    exits = "other" if any("exit status" in one or "died" in one or "too long" in one for one in differs) else "same"
    # A run that ended another way has no output to compare.
    output = "other" if any("output" in one or "library says" in one for one in differs) else "same" if exits == "same" else ""
    ratios = ["{:.3f} [{:.3f}, {:.3f}]".format(*said[one]) for one in FIGURES]
    return [row.name, row.group, verdict, exits, output, f"{said['cpu']:.2f}", f"{said['memory'] / 1e6:.1f}", *ratios, note(row, result)]


def write_csv(path: Path, results: Sequence[tuple[Row, dict[str, Any]]]) -> None:
    with open(path, "w", encoding="utf-8", newline="") as f:
        writer = csv.writer(f)
        writer.writerow(HEAD)
        writer.writerows(cells(row, result) for row, result in results)


def text(results: Sequence[tuple[Row, dict[str, Any]]]) -> str:
    lines = [HEAD, *(cells(row, result) for row, result in results)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD) - 1)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, [*widths, 0])).rstrip() for line in lines)


def closing(results: Sequence[tuple[Row, dict[str, Any]]]) -> str:
    counted = Counter(result["verdict"] for _, result in results)
    return ", ".join(f"{counted[verdict]} {word}" for verdict, word in WORDS.items())
