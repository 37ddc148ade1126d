"""Runs a row without the library and with it, in turn, and judges what differs."""

from __future__ import annotations

import hashlib
import json
import os
import pwd
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from install import Kitchen
from row import Row

# The library's settings that are tried, beside none.
SETTINGS = {"64M": "cache=64M", "1G": "cache=1G,zero=64M"}
CPU_LIMIT, MEMORY_LIMIT = 1.05, 1.3
# So many times the rounds are run: what is above a limit is measured anew three times before it is said to be above. Shared CPUs
# are noisy: of a thousand figures some are above by chance, also in each of three rounds, and the median of nine is right within 7 %.
EFFORTS = (1, 3, 9, 27)
WARDEN = Path(__file__).with_name("warden.py")
RESAMPLES = 2000
# What a run with the library did otherwise, the program may do without it too, now and then: it is run so often without, or
# for so long, until it has done the same once.
ALONE_RUNS, ALONE_SECONDS = 300, 600


class Unusable(Exception):
    """The row says nothing about the library, as it fails without it, too."""


def interval(values: list[float]) -> tuple[float, float]:
    """95 % of the medians of these, drawn anew; between so few that is nearly from the least to the greatest."""
    draw = random.Random(1)
    medians = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(RESAMPLES))
    return medians[RESAMPLES // 40], medians[-RESAMPLES // 40]


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def status_words(status: int | None, timed_out: bool) -> str:
    if timed_out:
        return "took too long"
    if status is not None and status < 0:
        return f"died by {signal.Signals(-status).name}"
    if status is not None and 128 < status < 160:
        return f"exit status {status}, a program of it died by {signal.Signals(status - 128).name}"
    return f"exit status {status}"


class Bench:
    """Runs rows in a folder that every user may enter, with a copy of the library there that every user may read."""

    def __init__(self, kitchen: Kitchen, library: Path, folder: Path):
        self.kitchen = kitchen
        self.folder = folder
        self.library = folder / "libquell.so"
        shutil.copyfile(library, self.library)
        os.chmod(self.library, 0o755)
        self.digest = hashlib.sha256(self.library.read_bytes()).hexdigest()

    @contextmanager
    def empty_folder(self, row: Row) -> Iterator[tuple[Path, tuple[int, int] | None]]:
        """Where the row runs, by the same name each time, and the user that it runs as if that is another."""
        work = self.folder / row.name
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        user = None
        if row.user and os.getuid() == 0:
            entry = pwd.getpwnam(row.user)
            user = (entry.pw_uid, entry.pw_gid)
            os.chown(work, *user)
        try:
            yield work, user
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def run_once(self, row: Row, setting: str | None, watch: bool = False) -> dict[str, Any]:
        """What the warden says of one run, and what the row printed."""
        with self.empty_folder(row) as (work, user):
            # Not in the row's own folder, which it may list.
            out, err = self.folder / "out", self.folder / "err"
            request, answer = self.folder / "request", self.folder / "answer"
            for stale in self.folder.glob("err*"):
                stale.unlink()
            port = free_port()
            plain = self.kitchen.environment(row, work) | {"PORT": str(port)}
            loaded = plain | ({"LD_PRELOAD": str(self.library), "QUELL_SHIM": SETTINGS[setting]} if setting else {})
            told = {
                "command": row.command,
                "server": row.server,
                "ready": row.ready,
                "stop": row.stop,
                "one_cpu": row.one_cpu,
                "port": port,
                "env": loaded,
                "client_env": plain,
                "work": str(work),
                "user": user,
                "timeout": row.timeout,
                "library": str(self.library) if watch else "",
                "out": str(out),
                "err": str(err),
            }
            request.write_text(json.dumps(told), encoding="utf-8")
            answer.unlink(missing_ok=True)
            # The warden ends by itself, with all that it has started: it has the time limit. In a session of its own, so that
            # Ctrl-C comes to it by way of here, as what it has to end has sessions of its own, too.
            command = [sys.executable, "-S", "-E", "-s", str(WARDEN), str(request), str(answer)]
            warden = subprocess.Popen(command, start_new_session=True)
            try:
                status = warden.wait()
            except BaseException:
                warden.terminate()
                warden.wait()
                raise
            if status:
                raise RuntimeError(f"the warden of {row.name} failed ({status}); what it says is above")
            errors = b"".join(path.read_bytes() for path in sorted(self.folder.glob("err*")))
            return json.loads(answer.read_text(encoding="utf-8")) | {"out": out.read_bytes(), "err": errors}

    def check_usable(self, row: Row) -> dict[str, Any]:
        """Run it without the library, which warms the caches too; it has to work, and to print something."""
        run = self.run_once(row, None)
        if run["status"] != 0 or run["timed_out"]:
            said = run["err"].decode(errors="replace").strip().splitlines() or ["it says nothing"]
            # Node.js says its version last.
            last = next((line for line in reversed(said) if "rror" in line), said[-1])
            raise Unusable(f"fails without the library: {status_words(run['status'], run['timed_out'])}: {last[:200]}")
        if not run["out"].strip():
            raise Unusable("prints nothing, so nothing can be compared")
        return run

    def compare(self, row: Row, wanted: dict[str, Any], run: dict[str, Any], setting: str | None) -> str | None:
        """How a run differs from the one without the library; what it said is kept then."""
        ours = [line for line in run["err"].decode(errors="replace").splitlines() if line.startswith("libquell")]
        if run["status"] != wanted["status"] or run["timed_out"]:
            what = status_words(run["status"], run["timed_out"])
        elif run["out"] != wanted["out"]:
            what = "other output: " + first_difference(wanted["out"], run["out"])
        elif ours:
            what = "the library says: " + ours[0]
        else:
            return None
        if not setting:
            return what
        kept = self.kitchen.target / "differs" / row.name
        kept.mkdir(parents=True, exist_ok=True)
        for name, content in (("without.out", wanted["out"]), ("with.out", run["out"]), ("with.err", run["err"])):
            (kept / name).write_bytes(content)
        return what

    def happens_alone(self, row: Row, wanted: dict[str, Any], what: str) -> int:
        """After how many runs without the library the same came of one; 0 if it never did."""
        began = time.monotonic()
        for count in range(1, ALONE_RUNS + 1):
            if self.compare(row, wanted, self.run_once(row, None), None) == what:
                return count
            if time.monotonic() - began > ALONE_SECONDS:
                break
        return 0

    def run_alike(self, row: Row, wanted: dict[str, Any], setting: str | None, alone: dict[str, int], runs: Counter) -> tuple[dict[str, Any], str | None]:
        """A run, and how it differs from the one without the library; once more where that is nothing of the library's. Notes in
        `alone` after how many runs without the library the same came of one, 0 for never."""
        while True:
            runs[setting] += 1
            run = self.run_once(row, setting)
            what = self.compare(row, wanted, run, setting)
            if not what:
                return run, None
            if what not in alone:
                alone[what] = self.happens_alone(row, wanted, what) if setting else runs[None]
            runs[setting, what] += 1
            # With the library it may come as often as without, and by chance some times more.
            if not alone[what] or runs[setting, what] > 2 + 3 * runs[setting] / alone[what]:
                return run, what

    def measure(self, row: Row, rounds: int, wanted: dict[str, Any], alone: dict[str, int], runs: Counter) -> dict[str, Any]:
        """So many rounds, each of every setting in random order; ends after a round in which something differed."""
        taken: dict[str, list[dict[str, float]]] = {"none": [], **{name: [] for name in SETTINGS}}
        differs: dict[str, str] = {}
        for _ in range(rounds):
            for name in random.sample(list(taken), len(taken)):
                setting = None if name == "none" else name
                run, what = self.run_alike(row, wanted, setting, alone, runs)
                if what and not setting:
                    raise Unusable(f"is not the same twice without the library: {what}")
                if what:
                    differs.setdefault(name, what)
                taken[name].append({key: run[key] for key in ("cpu", "wall", "memory")})
            if differs:
                break
        return {"taken": taken, "differs": differs}

    def judge(self, row: Row, rounds: int) -> dict[str, Any]:
        """The row's result, as the table shows it."""
        wanted = self.check_usable(row)
        watched = self.run_once(row, "64M", watch=True)
        alone: dict[str, int] = {}
        runs: Counter = Counter()
        for effort in EFFORTS:
            measured = self.measure(row, rounds * effort, wanted, alone, runs)
            said = summary(measured["taken"])
            above = [name for name, limit in limits() if said[name][0] > limit]
            if measured["differs"] or row.refused or not above:
                break
        verdict = "differs" if measured["differs"] else "refused" if row.refused else "above" if above else "same"
        return {
            "verdict": verdict,
            "rounds": len(measured["taken"]["none"]),
            "above": above,
            "summary": said,
            "loaded": watched["with"],
            "not_loaded": watched["without"],
            "alone": alone,
            **measured,
        }


def first_difference(wanted: bytes, got: bytes) -> str:
    lines = wanted.decode(errors="replace").splitlines(), got.decode(errors="replace").splitlines()
    for one, other in zip(*lines):
        if one != other:
            return f"{other[:80]!r} instead of {one[:80]!r}"
    return f"{len(lines[1])} lines instead of {len(lines[0])}"


def summary(taken: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    """The medians without the library, and for each setting the median of the ratios within a round, with its interval."""
    plain = taken["none"]
    said: dict[str, Any] = {key: statistics.median(run[key] for run in plain) for key in ("cpu", "wall", "memory")}
    for name in SETTINGS:
        for key in ("cpu", "memory"):
            # A tick of the clock is the least that a run can have taken.
            ratios = [run[key] / max(base[key], 1e-3) for base, run in zip(plain, taken[name])]
            said[f"{key} {name}"] = [statistics.median(ratios), *interval(ratios)]
    return said


def limits() -> list[tuple[str, float]]:
    """The figures of a summary that are judged, and above what they are too high."""
    return [(f"{key} {name}", limit) for key, limit in (("cpu", CPU_LIMIT), ("memory", MEMORY_LIMIT)) for name in SETTINGS]
