"""What bench/wild/run starts; its head says what there is to do."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import once
from pairs import measure_all
from program import TARGET, Kitchen, Missing, Program, kitchen, programs
from proof import prove_all, prove_same
from table import show

# What the list promises of a run on a quiet machine: seconds, and bytes of the largest process.
LEAST_S, MOST_S, MOST_MEMORY = 1.5, 8.0, 3 << 30


def prepare(found: Kitchen, wanted: list[Program]) -> None:
    """Installs, makes the inputs, and runs each twice; says what each takes, and whom the list should not have."""
    rows = [program.row() for program in wanted]
    for kind, install in (("apt", found.install_debian), ("pip", found.install_pypi), ("npm", found.install_npm)):
        try:
            # At once, which is quicker; where that fails, each row says by itself what it lacks.
            install(sorted({one for row in rows for one in getattr(row, kind)}))
        except Missing as error:
            print(f"bench/wild: {error}", file=sys.stderr)
    for program in wanted:
        try:
            found.provide(program.row())
        except Missing as error:
            print(f"SKIPPED {program.name}: {error}", flush=True)
            continue
        runs = [once.run(program.words(found), program.environment(found), TARGET / "work") for _ in range(2)]
        wall, cpu = (min(run[figure] for run in runs) / 1e9 for figure in ("wall_ns", "cpu_ns"))
        memory = max(run["max_rss"] for run in runs)
        wrong = next((run["error"] for run in runs if "error" in run), "")
        # Others who use the CPUs lengthen what passes on the clock, and CPU time is more than that where two are used.
        if not wrong and not LEAST_S <= min(wall, cpu) <= MOST_S:
            wrong = f"it should take {LEAST_S} to {MOST_S:.0f} s"
        if not wrong and memory > MOST_MEMORY:
            wrong = "it takes too much memory"
        print(f"{program.name:20} {wall:6.2f} s, CPU {cpu:6.2f} s, {memory >> 20:5} MB  {wrong or 'good'}", flush=True)


def main() -> None:
    # A signal ends what is running before this does.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    what, *names = sys.argv[1:]
    quell, found, wanted = Path(os.environ["QUELL"]), kitchen(), programs(names)
    for program in wanted if what in ("prove", "pairs", "same") else []:
        if not program.is_prepared(found):
            print(f"SKIPPED {program.name}: not prepared: bench/wild/run prepare {program.name}", file=sys.stderr)
    if what == "prepare":
        prepare(found, wanted)
    elif what == "prove":
        prove_all(quell, found, wanted)
    elif what == "same":
        prove_same(quell, found, wanted)
    elif what == "pairs":
        measure_all(quell, found, wanted)
    else:
        sys.exit(show(wanted))


try:
    main()
except KeyboardInterrupt:
    sys.exit(130)
