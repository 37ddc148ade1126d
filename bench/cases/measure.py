"""Runs quell prove on each case, and the case's known fix beside it as it is; prints one table and says where quell is wrong."""

import json
import os
import random
import re
import statistics
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROUNDS = 7
ENOUGH = 0.8


@dataclass
class Case:
    """A case: how it is run, its figure, and what the right answer is."""

    name: str
    mode: str
    # Its figure, as `quell prove --metric` takes it; empty where time alone is to be judged.
    metric: str = ""
    arguments: list = field(default_factory=lambda: ["2"])
    # The mode of run.sh that is the known fix, where a setting reaches it.
    fix: str = ""
    # The entries of the catalogue of advice of which one has to be named, where none does.
    advice: tuple = ()


CASES = [
    Case("01-gperftools-release", "bad", "operations^=operations ([0-9]+)", fix="fix"),
    Case("02-malloc-trim-timer", "bad", "operations^=operations ([0-9]+)", fix="stub"),
    Case("03-spawn-fork", "bad", "spawn=spawn median ([0-9.]+) ms", ["600"], advice=("fork.libuv", "fork.spawn")),
    Case("04-cadvisor-clear-refs", "bad", "worst=munmap: worst ([0-9]+) us", ["4", "1500"], advice=("proc.clear-refs", "proc.smaps")),
    Case("06-madvise-convoy", "bad", "mincore^=mincore ([0-9]+) a second", advice=("mmap.read-advice", "lucene.prefetch")),
    Case("12-wasmtime-instances", "ondemand", "instances^=([0-9]+) instances a second", advice=("wasmtime.pool", "wasmtime.keep-resident")),
    Case("13-luajit-mcode", "churn", "rounds^=loops \\[([0-9]+)", advice=("luajit.machine-code",)),
    Case("17-advice-24", "bad"),
    Case("19-java-arena-close", "bad", "rounds^=([0-9]+) rounds of the reader", advice=("java.arena-close",)),
]


def command(cases, case, mode):
    """The words that run a case."""
    return ["sh", str(cases / case.name / "run.sh"), mode, *case.arguments]


def proof_of(quell, cases, case):
    """What quell prove says, as its JSON object."""
    metric = ["--metric", case.metric] if case.metric else []
    words = [quell, "prove", "--json", *metric, "--", *command(cases, case, case.mode)]
    done = subprocess.run(words, stdout=subprocess.PIPE, check=False)
    if done.returncode not in (0, 1):
        sys.exit(f"bench/cases: {' '.join(words)} ended with {done.returncode}")
    return json.loads(done.stdout)


def figure(cases, case, mode):
    """The case's own figure of one run."""
    done = subprocess.run(command(cases, case, mode), capture_output=True, text=True, check=True)
    pattern = case.metric.split("=", 1)[1]
    found = re.findall(pattern, done.stdout)
    if not found:
        sys.exit(f"bench/cases: {case.name} {mode} says nothing that fits {pattern}")
    return float(found[-1])


def fix_of(cases, case):
    """The figure with the known fix over that without, of each round; the order within a round by chance."""
    ratios = []
    for _ in range(ROUNDS):
        modes = [case.mode, case.fix]
        random.shuffle(modes)
        values = {mode: figure(cases, case, mode) for mode in modes}
        ratios.append(values[case.fix] / values[case.mode])
    return ratios


def gain(ratio, case):
    """By which share the figure is better: 0.5 is half as much again, or as much less time."""
    return ratio - 1 if "^=" in case.metric else 1 / ratio - 1


def change(ratio):
    return f"x{ratio:.1f}" if ratio >= 2 else f"{(ratio - 1) * 100:+.0f} %"


def row_of(quell, cases, kept, case):
    """A row of the table, and what is wrong; what was measured before is not measured again."""
    path = kept / f"{case.name}.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    if "proof" not in known:
        known["proof"] = proof_of(quell, cases, case)
        path.write_text(json.dumps(known))
    if case.fix and "fix" not in known:
        known["fix"] = fix_of(cases, case)
        path.write_text(json.dumps(known))
    proof = known["proof"]
    objective = proof["objective"]
    plan = [one["remedy"] for one in proof["plan"]] if proof["verdict"] == "better" else []
    advised = [one["id"] for one in proof.get("advice", [])]
    won = wrong = ""
    if objective:
        low, high = objective["ci95"]
        ends = f"{change(low)} to {change(high)}" if low is not None and high is not None else "unknown"
        won = f"{change(objective['ratio'])} ({ends})"
    fix = ""
    if case.fix:
        middle = statistics.median(known["fix"])
        fix = f"{change(middle)} ({change(min(known['fix']))} to {change(max(known['fix']))})"
        share = gain(objective["ratio"], case) / gain(middle, case) if plan and objective else 0.0
        won = f"{won}: {share:.0%} of the fix"
        wrong = "" if share >= ENOUGH else "too little"
    elif case.advice:
        wrong = "" if set(case.advice) & set(advised) else "the switch is not named"
    elif plan:
        wrong = "recommends what can't help"
    return [case.name, fix, ", ".join(plan) or "-", won or "-", ", ".join(advised) or "-", wrong or "right"]


def main():
    quell, cases, kept, *wanted = sys.argv[1:]
    cases, kept = Path(cases), Path(kept)
    kept.mkdir(parents=True, exist_ok=True)
    os.environ["LC_ALL"] = "C"
    rows = [["case", "known fix", "recommended", "proved", "advice", "answer"]]
    for case in CASES:
        if wanted and not any(case.name.startswith(one) for one in wanted):
            continue
        print(f"bench/cases: {case.name}", file=sys.stderr, flush=True)
        rows.append(row_of(quell, cases, kept, case))
    for number, row in enumerate(rows):
        print(f"| {' | '.join(row)} |")
        if number == 0:
            print(f"|{' --- |' * len(row)}")
    sys.exit(1 if any(row[-1] not in ("answer", "right") for row in rows) else 0)


main()
