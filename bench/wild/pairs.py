"""Pairs at another hour: the program as it is, and with the plan that a proof recommended, in an order that chance decides."""

from __future__ import annotations

import json
import math
import os
import random
import statistics
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import once
from program import TARGET, Kitchen, Program
from proof import PROOFS, kept, now, recommends

PAIRS = TARGET / "pairs"
WANTED = 30
# So long after a proof it is another hour.
APART = timedelta(hours=1)
RESAMPLES = 2000


def lines(program: Program, number: int) -> list[dict[str, Any]]:
    """The pairs that are there. A last line without an end is of a run that was ended."""
    path = PAIRS / f"{program.name}.{number}.jsonl"
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines(keepends=True) if line.endswith("\n")]


def failed(pair: dict[str, Any]) -> str:
    """What went wrong in a pair, or nothing."""
    wrong = (f"{side}: {pair[side]['error']}" for side in ("plain", "plan") if pair[side].get("error"))
    return next(wrong, "")


def measure(quell: Path, found: Kitchen, program: Program, number: int, record: dict[str, Any]) -> None:
    """Makes the pairs that are missing, a line each; ends with the first that fails."""
    done = lines(program, number)
    if len(done) >= WANTED or any(failed(pair) for pair in done):
        return
    name = f"{program.name} {number}"
    if datetime.now(timezone.utc) - datetime.fromisoformat(record["made"]) < APART and not os.environ.get("SOON"):
        print(f"SKIPPED {name}: its proof is not an hour old", file=sys.stderr)
        return
    plan = PROOFS / f"{program.name}.{number}.toml"
    words, environment = program.words(found), program.environment(found)
    sides = {"plain": words, "plan": [str(quell), "run", "--plan", str(plan), "--", *words]}
    PAIRS.mkdir(parents=True, exist_ok=True)
    path = PAIRS / f"{program.name}.{number}.jsonl"
    path.write_text("".join(json.dumps(pair) + "\n" for pair in done), encoding="utf-8")
    print(f"bench/wild: pairs {name}, {WANTED - len(done)} of them", file=sys.stderr, flush=True)
    for side in sides.values():
        once.run(side, environment, TARGET / "work")
    for _ in range(len(done), WANTED):
        order = random.sample(list(sides), 2)
        pair: dict[str, Any] = {"at": now(), "first": order[0]}
        for side in order:
            pair[side] = once.run(sides[side], environment, TARGET / "work")
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(pair) + "\n")
        if failed(pair):
            return


def measure_all(quell: Path, found: Kitchen, programs: list[Program]) -> None:
    for program in programs:
        for number, record in kept(PROOFS, program):
            if recommends(record):
                measure(quell, found, program, number, record)


def middle(logs: list[float]) -> float:
    """The estimate of Hodges and Lehmann, by which quell's own intervals are made: the median of the means of two."""
    return statistics.median((a + b) / 2 for place, a in enumerate(logs) for b in logs[place:])


def true_ratio(pairs: list[dict[str, Any]], figure: str) -> tuple[float, float, float] | None:
    """The figure with the plan over that without, and its 95 % interval by a bootstrap over pairs; none while there are few."""
    good = [pair for pair in pairs if not failed(pair)]
    if len(good) < WANTED // 2:
        return None
    logs = [math.log(pair["plan"][figure] / pair["plain"][figure]) for pair in good]
    chance = random.Random(len(logs))
    made = sorted(middle(chance.choices(logs, k=len(logs))) for _ in range(RESAMPLES))
    return math.exp(middle(logs)), math.exp(made[RESAMPLES // 40]), math.exp(made[-RESAMPLES // 40 - 1])
