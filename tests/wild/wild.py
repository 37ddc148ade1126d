#!/usr/bin/env python3
"""A trial of the preload library on programs that nobody here wrote: each has to do the same with it as without.

    wild.py --library PATH [--rounds N] [--only NAME…] [--group NAME…] [--list] [--install] [--fresh]

A row (see row.py; the catalogue is the files rows_*.py) is run without the library and with each of two settings, N times in
turn. Exit status and output have to be the same, and CPU time and memory within 1.05 and 1.3 times. Each result is kept in
target/wild, by the library, the row and the rounds, and not measured again. Exit status 1 if anything differs or is above.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import rows_languages
import rows_npm
import rows_pypi
import rows_servers
import rows_tools
import table
from install import Kitchen, Missing
from measure import Bench, Unusable
from row import Row

TARGET = Path(__file__).resolve().parents[2] / "target/wild"
ROWS: list[Row] = [
    *rows_pypi.ROWS,
    *rows_npm.ROWS,
    *rows_languages.ROWS,
    *rows_tools.ROWS,
    *rows_servers.ROWS,
]


def told(what: str) -> None:
    print(f"test-wild: {what}", file=sys.stderr, flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/test-wild", description=__doc__.split("\n")[0])
    parser.add_argument("--library", type=Path, help="the preload library; scripts/test-wild builds it where none is named")
    parser.add_argument("--rounds", type=int, default=5, help="how often each setting is run (5)")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these rows only")
    parser.add_argument("--group", nargs="+", metavar="NAME", help="the rows of these groups only")
    parser.add_argument("--list", action="store_true", help="say which rows there are, and do nothing")
    parser.add_argument("--install", action="store_true", help="install what the rows need, and measure nothing")
    parser.add_argument("--fresh", action="store_true", help="measure again what has been measured")
    asked = parser.parse_args()
    if not asked.list and not asked.install and not (asked.library and asked.library.is_file()):
        parser.error(f"there is no library at {asked.library}; `scripts/preload` builds one and prints its path")
    if asked.rounds < 1:
        parser.error("--rounds must be 1 or more")
    return asked


def chosen(asked: argparse.Namespace) -> list[Row]:
    """The rows that were asked for; a name that is none is an error, not an empty run."""
    for names, known in ((asked.only, {row.name for row in ROWS}), (asked.group, {row.group for row in ROWS})):
        for name in names or []:
            if name not in known:
                sys.exit(f"test-wild: there is no row or group {name}; --list says what there is")
    twice = [name for name, count in Counter(row.name for row in ROWS).items() if count > 1]
    if twice:
        sys.exit(f"test-wild: two rows have one name: {', '.join(twice)}; rename one in tests/wild/rows_*.py")
    return [row for row in ROWS if row.name in (asked.only or [row.name]) and row.group in (asked.group or [row.group])]


def result_of(row: Row, bench: Bench, rounds: int, fresh: bool) -> dict[str, Any]:
    """As it was kept, or measured now and kept. What was skipped is tried again each time, and so not kept."""
    wording = json.dumps([bench.digest, asdict(row), rounds], sort_keys=True)
    kept = TARGET / f"{row.name}-{hashlib.sha256(wording.encode()).hexdigest()[:16]}.json"
    if kept.exists() and not fresh:
        return json.loads(kept.read_text(encoding="utf-8"))
    try:
        bench.kitchen.provide(row)
        result = bench.judge(row, rounds)
    except (Missing, Unusable) as reason:
        return {"verdict": "skipped", "reason": str(reason)}
    # Whole or not at all, should this be ended meanwhile.
    part = kept.with_suffix(".part")
    part.write_text(json.dumps(result, indent=1), encoding="utf-8")
    part.rename(kept)
    return result


def install_all(rows: list[Row]) -> int:
    kitchen = Kitchen(TARGET)
    missing = 0
    for row in rows:
        try:
            kitchen.provide(row)
        except Missing as reason:
            missing += 1
            told(f"SKIPPED {row.name}: {reason}")
    told(f"{len(rows) - missing} of {len(rows)} rows have what they need")
    return 1 if missing else 0


def main() -> int:
    asked = arguments()
    rows = chosen(asked)
    if asked.list:
        print("\n".join(f"{row.name:24}{row.group}" for row in rows))
        return 0
    TARGET.mkdir(parents=True, exist_ok=True)
    if asked.install:
        return install_all(rows)
    results = []
    # Ended from outside, it still ends what it has started, and takes its folder away.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("test-wild: ended; the next run goes on here"))
    with tempfile.TemporaryDirectory(prefix="quell-wild-") as folder:
        # Programs that run as other users have to get in.
        Path(folder).chmod(0o755)
        bench = Bench(Kitchen(TARGET), asked.library, Path(folder))
        for number, row in enumerate(rows, 1):
            began = time.monotonic()
            result = result_of(row, bench, asked.rounds, asked.fresh)
            results.append((row, result))
            said = table.note(row, result)
            told(f"{number}/{len(rows)} {row.name}: {result['verdict']}{': ' if said else ''}{said} ({time.monotonic() - began:.0f} s)")
            # After each row, so that what there is can be read at any time.
            table.write_csv(TARGET / "table.csv", results)
    print(table.text(results))
    for row, result in results:
        if result["verdict"] == "skipped":
            print(f"SKIPPED {row.name}: {result['reason']}")
    print(table.closing(results))
    return 1 if any(result["verdict"] in ("differs", "above") for _, result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
