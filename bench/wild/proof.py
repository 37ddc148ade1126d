"""Proofs by `quell prove`, a file each: NAME.N.json has when it was made and what it says, NAME.N.toml its plan."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from program import TARGET, Kitchen, Program

PROOFS, SAME = TARGET / "proofs", TARGET / "same"
# Seconds for all of a proof, as its users would give, and after which one run is given up. Of 180 s, 13 runs are the proof's own:
# of a program that takes 6 s as long again is left to try changes in.
BUDGET_S, RUN_S = int(os.environ.get("BUDGET_S", "180")), 90
# A proof that makes its runs in any case takes a little more than its budget, never this long.
LIMIT_S = 1500.0
# With a plan that holds nothing, both sides of every pair are the program as it is; quell takes it and says so.
NOTHING = 'schema = "quell/plan/1"\n'


def rounds(programs: list[Program]) -> Iterator[tuple[Program, int]]:
    """Which proofs are made, in turn: of 40 programs, of which 20 have something at stake, 100, or of A against A 60."""
    for number in (1, 2):
        yield from ((one, number) for one in programs)
    yield from ((one, 3) for one in programs if one.stake == "some")


def same_rounds(programs: list[Program]) -> Iterator[tuple[Program, int]]:
    yield from ((one, 1) for one in programs)
    yield from ((one, 2) for one in programs if one.stake == "some")


def now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def prove(quell: Path, found: Kitchen, program: Program, number: int, folder: Path, more: list[str]) -> None:
    """Makes a proof, unless there is one, and writes it when it is whole; one that fails is written too, and says why."""
    path = folder / f"{program.name}.{number}.json"
    if path.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    log = path.with_suffix(".log")
    words = [str(quell), "prove", "--json", "--timeout", str(RUN_S), *more, "--", *program.words(found)]
    print(f"bench/wild: {folder.name} {program.name} {number}", file=sys.stderr, flush=True)
    made, began = now(), time.monotonic()
    with log.open("wb") as errors:
        process = subprocess.Popen(
            words, env=program.environment(found), cwd=TARGET / "work", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
        )
        try:
            out, _ = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            out = b""
        finally:
            end(process)
    record: dict[str, Any] = {
        "made": made,
        "took_s": round(time.monotonic() - began, 1),
        "quell": hashlib.sha256(quell.read_bytes()).hexdigest()[:12],
        "budget_s": BUDGET_S,
        "status": process.returncode,
        "proof": None,
    }
    try:
        record["proof"] = json.loads(out)
    except ValueError:
        said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        # The last lines are the program's own, where it failed.
        record["error"] = next((line for line in said if "exit status" in line or "rror" in line), said[-1] if said else "it says nothing")[:300]
    part = path.with_suffix(".part")
    part.write_text(json.dumps(record), encoding="utf-8")
    part.rename(path)


def end(process: subprocess.Popen) -> None:
    """Asks quell to end, which ends what it runs, and insists after a while; also where this program is ended itself."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def prove_all(quell: Path, found: Kitchen, programs: list[Program]) -> None:
    for program, number in rounds(programs):
        if program.is_prepared(found):
            plan = PROOFS / f"{program.name}.{number}.toml"
            PROOFS.mkdir(parents=True, exist_ok=True)
            prove(quell, found, program, number, PROOFS, ["--budget-time", str(BUDGET_S), "--save", str(plan)])


def prove_same(quell: Path, found: Kitchen, programs: list[Program]) -> None:
    SAME.mkdir(parents=True, exist_ok=True)
    nothing = SAME / "nothing.toml"
    nothing.write_text(NOTHING, encoding="utf-8")
    for program, number in same_rounds(programs):
        if program.is_prepared(found):
            prove(quell, found, program, number, SAME, ["--plan", str(nothing)])


def kept(folder: Path, program: Program) -> list[tuple[int, dict[str, Any]]]:
    """What is there of a program: number and record, in order."""
    paths = [path for path in folder.glob(f"{program.name}.*.json") if path.name.split(".")[-2].isdigit()]
    numbered = sorted((int(path.name.split(".")[-2]), path) for path in paths)
    return [(number, json.loads(path.read_text(encoding="utf-8"))) for number, path in numbered]


def recommends(record: dict[str, Any]) -> bool:
    """Whether it tells its user to take the plan: by its word or by its exit status."""
    proof = record["proof"]
    return bool(proof) and bool(proof["plan"]) and (proof["verdict"] == "better" or record["status"] == 0)
