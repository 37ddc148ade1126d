"""What the trial came to: a row for each program, and the sums by which it is judged."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import Any

from pairs import failed, lines, true_ratio
from program import Program
from proof import PROOFS, SAME, kept, recommends

HEAD = ["program", "stake", "at stake", "proof", "verdict", "proved", "kept", "pairs", "true", "true CPU", "predicted CPU", "held"]
# By so much may a plan that was recommended lose at another hour.
MOST_LOSS = 1.02
# How quell's note begins where `--budget-time` leaves too little for a race.
NO_TIME = "no time or no runs are left to try"
# How often the intervals of prediction should hold what is measured, and of how many comparisons with itself one may claim.
SHOULD_HOLD, MAY_CLAIM = 0.85, 1


@dataclass
class Sums:
    """What is counted over all rows."""

    proofs: int = 0
    unmade: int = 0
    # Without pairs: those where nothing could help or nothing won, and those whose time was too short to try anything.
    nothing: int = 0
    short: int = 0
    better: int = 0
    recommended: int = 0
    waiting: int = 0
    # Of those with pairs: a verdict of `better` whose objective was no better, and a plan that cost time.
    not_better: list[str] = field(default_factory=list)
    slower: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    # Of a plan's prediction, by pairs or by its proof, and of every change that was tried, by its race.
    plans: list[bool] = field(default_factory=list)
    raced: list[bool] = field(default_factory=list)
    # Of proved intervals of 95 %, which held what came of it.
    proved: list[bool] = field(default_factory=list)
    # The ratios of the objective at another hour.
    truths: list[float] = field(default_factory=list)


def change(ratio: float | None) -> str:
    return "?" if ratio is None else f"{(ratio - 1) * 100:+.1f} %"


def spread(low: float | None, high: float | None) -> str:
    return f"{change(low)} to {change(high)}"


def holds(interval: list[float | None], value: float) -> bool:
    low, high = interval
    return (low is None or low <= value) and (high is None or value <= high)


def stake(proof: dict[str, Any]) -> str:
    """The most that any change could win, of CPU time and of the time that passed."""
    ceiling = (proof.get("account") or {}).get("ceiling")
    return f"{ceiling['cpu']:.1%}, {ceiling['wall']:.1%}" if ceiling else "?"


def races(proof: dict[str, Any], sums: Sums) -> None:
    """What was predicted of each single change beside how it fared in its race: there the middle of CPU and wall time."""
    for one in proof["tried"]:
        if one.get("predicted") and one["runs"] >= 3:
            low, high = one["predicted"]
            sums.raced.append(low <= one["ratio"] - 1 <= high)


def cells(program: Program, number: int, record: dict[str, Any], sums: Sums) -> list[str]:
    """The row of one proof, and what it adds to the sums."""
    sums.proofs += 1
    label = f"{program.name} {number}"
    row = dict.fromkeys(HEAD, "-") | {"program": program.name, "stake": program.stake, "proof": str(number)}
    proof = record["proof"]
    if not proof:
        sums.unmade += 1
        return list((row | {"verdict": f"FAILED: {record['error']}"}).values())
    verdict = proof["verdict"]
    if proof["reason"]:
        short = not proof["tried"] and any(NO_TIME in note for note in proof["notes"])
        verdict = "no time to try" if short else "nothing to try"
        sums.short += short
        sums.nothing += not short
    row |= {"at stake": stake(proof), "verdict": verdict}
    sums.better += proof["verdict"] == "better"
    races(proof, sums)
    objective = proof["objective"]
    if objective:
        row["proved"] = f"{objective['name']} {change(objective['ratio'])} ({spread(*objective['ci95'])})"
    predicted = proof["plan"][0]["predicted"] if len(proof["plan"]) == 1 else None
    cpu = (proof["metrics"].get("cpu_ns") or {}).get("ratio") if objective else None
    if recommends(record):
        sums.recommended += 1
        row["kept"] = ", ".join(one["remedy"] for one in proof["plan"])
        cpu = judge(program, number, proof, row, sums) or cpu
    if predicted and cpu:
        held = predicted[0] <= cpu - 1 <= predicted[1]
        sums.plans.append(held)
        row |= {"predicted CPU": spread(1 + predicted[0], 1 + predicted[1]), "held": f"{'yes' if held else 'NO'} ({change(cpu)})"}
    if record["status"] == 0 and proof["verdict"] != "better":
        sums.broken.append(f"{label}: exit status 0 without a gain")
    return list(row.values())


def judge(program: Program, number: int, proof: dict[str, Any], row: dict[str, str], sums: Sums) -> float | None:
    """What the pairs at another hour say of a plan that was recommended; their ratio of CPU time, if there are pairs."""
    label, pairs = f"{program.name} {number}", lines(program, number)
    row["pairs"] = str(len(pairs))
    wrong = next((failed(pair) for pair in pairs if failed(pair)), "")
    if wrong:
        sums.broken.append(f"{label}: {wrong}")
        row["true"] = "FAILED"
        return None
    ratios = {figure: true_ratio(pairs, figure) for figure in ("cpu_ns", "wall_ns")}
    objective = proof["objective"]
    truth = ratios.get(objective["name"])
    if truth is None:
        sums.waiting += 1
        return None
    ratio, low, high = truth
    row |= {"true": f"{change(ratio)} ({spread(low, high)})", "true CPU": change(ratios["cpu_ns"][0])}
    if ratio > 1:
        sums.not_better.append(f"{label}: {change(ratio)} ({spread(low, high)})")
    sums.slower += [f"{label}: {figure} {change(one[0])}" for figure, one in ratios.items() if one[0] > MOST_LOSS]
    sums.proved.append(holds(objective["ci95"], ratio))
    sums.truths.append(ratio)
    return ratios["cpu_ns"][0]


def against_itself(programs: list[Program]) -> tuple[int, int, list[str]]:
    """How many proofs of nothing there are, how many failed, and which made a claim."""
    made = [(f"{one.name} {number}", record) for one in programs for number, record in kept(SAME, one)]
    claims = [f"{label}: {record['proof']['verdict']}" for label, record in made if record["proof"] and record["proof"]["verdict"] != "no evidence"]
    return len(made), sum(record["proof"] is None for _, record in made), claims


def share(held: list[bool]) -> str:
    return f"{sum(held)} of {len(held)} ({sum(held) / len(held):.0%})" if held else "0 of 0"


def named(what: list[str]) -> str:
    return f"{len(what)}" + (f" ({'; '.join(what)})" if what else "")


def conclude(sums: Sums, same: tuple[int, int, list[str]]) -> tuple[list[str], bool]:
    """The sums, and whether what is claimed holds; what there is too little of does not."""
    made, failures, claims = same
    said = [
        f"proofs: {sums.proofs}, of which {sums.unmade} failed, {sums.nothing} found nothing to prove and {sums.short} had no time to try",
        f"better: {sums.better}; recommended: {sums.recommended}, of which {sums.waiting} wait for pairs",
        f"better, but not at another hour: {named(sums.not_better)}",
        f"recommended, and over 2 % slower at another hour: {named(sums.slower)}",
        f"recommended, and it does not run, or a status that says otherwise: {named(sums.broken)}",
        f"A against A: {made} proofs, of which {failures} failed; with a verdict: {named(claims)}",
        f"the predicted interval of 90 % held, of plans of one change: {share(sums.plans)}; of changes in their race: {share(sums.raced)}",
        f"the proved interval of 95 % held the ratio at another hour: {share(sums.proved)}",
    ]
    if sums.truths:
        said.append(f"median of the true ratios: {change(statistics.median(sums.truths))}")
    rows = sums.plans + sums.raced
    held = bool(rows) and sum(rows) >= SHOULD_HOLD * len(rows)
    wrong = sums.not_better or sums.slower or sums.broken or len(claims) > MAY_CLAIM
    return said, held and not wrong and not sums.waiting


def show(programs: list[Program]) -> int:
    """Prints it all; the exit status, 0 where everything holds."""
    sums, rows = Sums(), []
    for program in programs:
        rows += [cells(program, number, record, sums) for number, record in kept(PROOFS, program)]
    said, good = conclude(sums, against_itself(programs))
    for row in [HEAD, ["---"] * len(HEAD), *rows]:
        print(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |")
    print()
    for line in said:
        print(f"- {line}")
    return 0 if good else 1
