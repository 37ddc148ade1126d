"""What a proof says of one row, and whether that is what quell promises.

Two kinds of rows are told apart: as people use it, `quell prove` tries what could help and recommends what wins time; and with
--whole it proves all that the tables choose, which says what a plan stops and nothing of whether it pays.
"""

import dataclasses
import re
import statistics

# Fewer in a run than this, and quell itself plans nothing.
FEW = 50
STOPS = 0.95
STOPS_WORST = 0.98
MEMORY = 1.25
# Between predicted and measured, of 1.
APART = 0.10


def percent(share: float) -> str:
    return f"{share * 100:.0f} %"


@dataclasses.dataclass
class Row:
    """One allocator under one workload."""

    allocator: str
    workload: str
    # What the user has set, if this configuration is about that.
    sets: dict
    argv: list
    operations: int = 0
    # Whether the plan was proved as the tables choose it.
    is_whole: bool = False
    proof: dict | None = None
    failure: str | None = None

    @property
    def name(self) -> str:
        return f"{self.allocator} {self.workload}"

    def series(self, metric: str, side: str) -> list:
        found = (self.proof or {}).get("metrics", {}).get(metric, {}).get(side) or []
        if not found and metric == "shootdowns" and side == "before" and self.proof and self.proof.get("observed"):
            return [self.proof["observed"]["shootdowns"]]
        return found

    def per_thousand(self, side: str) -> float | None:
        values = self.series("shootdowns", side)
        return statistics.median(values) / self.operations * 1000 if values else None

    def ratio(self, metric: str) -> float | None:
        found = (self.proof or {}).get("metrics", {}).get(metric) or {}
        return found.get("ratio")

    def interval(self) -> tuple:
        """Of the reduction, which is 1 less the ratio."""
        low, high = ((self.proof or {}).get("metrics", {}).get("shootdowns") or {}).get("ci95") or (None, None)
        return (None if high is None else 1 - high, None if low is None else 1 - low)

    @property
    def reduction(self) -> float | None:
        """By the medians of all runs where the ratio of pairs is not known, as where nothing was left."""
        ratio = self.ratio("shootdowns")
        if ratio is None:
            before, after = self.per_thousand("before"), self.per_thousand("after")
            if not before or after is None:
                return None
            ratio = after / before
        return 1 - ratio

    @property
    def predicted(self) -> float:
        return min(1.0, sum(one["predicted_stop"] for one in self.proof["plan"]))

    @property
    def few(self) -> bool:
        values = self.series("shootdowns", "before")
        return bool(values) and statistics.median(values) < FEW

    @property
    def least(self) -> float:
        """What the plan has to stop here."""
        return STOPS_WORST if self.workload == "raw" or self.allocator.endswith("decay 0") else STOPS

    def plan(self) -> str:
        """What it sets, short: the remedies and their settings."""
        parts = []
        for one in (self.proof or {}).get("plan", []):
            values = [f"{key}={value}" for key, value in (one.get("starts", {}) | one["sets"]).items()]
            # Of a library only its name: where it lies differs by machine.
            values = [re.sub(r"/[^ :]*/(lib[^ :/]*\.so)", r"\1", value) for value in values]
            parts.append(f"{one['remedy']}: {' '.join(values)}" if values else one["remedy"])
        return "; ".join(parts)

    def judge(self) -> tuple:
        """A word for the row, and whether each promise holds: stops, never raises, predicted. None is not asked."""
        if self.failure:
            return f"FAILED: {self.failure}", {}
        if not self.is_whole:
            return self.judge_time()
        raises = self.raises()
        if raises:
            return "RAISES THEM", {"raises": False, "stops": False, "predicted": self.as_predicted()}
        if self.few:
            return "little to stop", {"raises": True}
        if not self.proof["plan"]:
            return self.judge_empty()
        holds = {"raises": True, "predicted": self.as_predicted()}
        memory = self.ratio("max_rss")
        short = []
        if self.reduction is None or self.reduction < self.least:
            short.append(f"stops less than {percent(self.least)}")
        if memory is not None and memory > MEMORY:
            short.append(f"takes more than {percent(MEMORY - 1)} more memory")
        # Where at least so much was promised flatly, to say that it can't is not enough.
        said = self.predicted < self.least == STOPS
        holds["stops"] = not short or (said and memory is not None and memory <= MEMORY)
        words = [" and ".join(short)] if short else ["holds"]
        if short and holds["stops"]:
            words.append("it said so")
        if not holds["predicted"]:
            words.append("not as predicted")
        return "; ".join(words), holds

    def judge_time(self) -> tuple:
        """The same where what wins time was looked for: recommended or not, and whether that holds up."""
        costly = self.shootdowns_cost_most()
        if self.proof["verdict"] != "better":
            # what is not recommended costs nobody time; where shootdowns are what costs it has to say why
            why = self.proof.get("reason") or self.objective().get("reason")
            words = f"nothing recommended{': ' + why if why else ''}"
            return words, {"stops": bool(why)} if costly else {}
        holds = {"time": self.is_no_slower()}
        if costly:
            holds["stops"] = self.reduction is not None and self.reduction >= STOPS
        memory = self.ratio("max_rss")
        holds["memory"] = memory is None or memory <= MEMORY
        short = [text for key, text in (("time", "TAKES LONGER"), ("stops", f"stops less than {percent(STOPS)}"),
                                        ("memory", f"takes more than {percent(MEMORY - 1)} more memory"))
                 if not holds.get(key, True)]
        return "better" + "".join(f"; {text}" for text in short), holds

    def objective(self) -> dict:
        """What the verdict rests on; nothing where no pairs were run."""
        name = (self.proof.get("objective") or {}).get("name")
        return self.proof["metrics"].get(name) or {}

    def is_no_slower(self) -> bool:
        """Of CPU time and wall time neither is more, in the middle of the pairs."""
        return all((self.ratio(metric) or 1) <= 1 for metric in ("wall_ns", "cpu_ns"))

    def shootdowns_cost_most(self) -> bool:
        """Of all that memory management took in the observed run."""
        account = self.proof.get("account") or {}
        took = {one["mechanism"]: one["cpu_ns"] + one["blocked_ns"] for one in account.get("mechanisms") or []}
        return bool(took) and max(took, key=took.get).startswith("shootdown.")

    def judge_empty(self) -> tuple:
        why = self.proof.get("reason") or "no reason given"
        said = bool(self.proof.get("reason")) and self.least == STOPS
        return f"can't: {why}", {"raises": True, "stops": said}

    def raises(self) -> bool:
        """More than before, by more than a few, and beyond what chance brings to pairs so far apart."""
        before, after = self.series("shootdowns", "before"), self.series("shootdowns", "after")
        if not after:
            return False
        if self.proof["metrics"]["shootdowns"]["verdict"] == "worse":
            return True
        most = self.interval()[1]
        least = statistics.median(before)
        return (most is None or most < 0) and statistics.median(after) > max(least * 1.1, least + FEW)

    def as_predicted(self) -> bool:
        return self.reduction is not None and abs(self.reduction - self.predicted) <= APART


def claims(rows: list) -> list:
    """What quell promises over all rows, each as (text, whether it holds, the rows that don't)."""
    if not all(row.is_whole for row in rows):
        return judged_claims(rows, {
            "time": "no plan that is recommended takes more time, of CPUs or in all",
            "stops": f"where shootdowns are what costs the most, it stops {percent(STOPS)} of them, or says why not",
            "memory": f"no plan that is recommended takes more than {percent(MEMORY - 1)} more memory",
        })
    return judged_claims(rows, {
        "stops": f"each plan stops {percent(STOPS)} of the shootdowns ({percent(STOPS_WORST)} for raw and for jemalloc with "
                 f"decay 0) within {percent(MEMORY - 1)} more memory, or says that it can't and why",
        "raises": "no plan raises them",
        "predicted": f"predicted and measured differ by at most {APART * 100:.0f} points",
    })


def judged_claims(rows: list, texts: dict) -> list:
    """Each text with how many rows it holds for."""
    found = []
    for key, text in texts.items():
        judged = [(row, row.judge()[1].get(key)) for row in rows]
        asked = [(row, holds) for row, holds in judged if holds is not None]
        if asked:
            broken = [row.name for row, holds in asked if not holds]
            found.append((f"{text}: {len(asked) - len(broken)} of {len(asked)} rows", not broken, broken))
    failed = [row.name for row in rows if row.failure]
    if failed:
        found.append((f"every row could be measured: {len(failed)} could not", False, failed))
    return found
