#!/usr/bin/env python3
"""What scripts/soak runs: it says how it is called, and what it is for."""

from __future__ import annotations

import argparse
import atexit
import contextlib
import csv
import itertools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import soak_checks as checks
import soak_storms

EXAMPLES = os.path.abspath("target/release/examples")
MS, SECOND, DAY = 10**6, 10**9, 86_400 * 10**9
# What the agent has in all at most, kB: docs/agent.md promises 30 MB.
AGENT_KB = 30 << 10
# More rows of a trace take too long to look through.
ROWS = 300_000
LAB = ["dontneed", "munmap", "mprotect", "untouched"]


def cpus() -> int:
    return os.sysconf("SC_NPROCESSORS_ONLN")


class Ran:
    """What a quell said, and for how long it ran."""

    def __init__(self, code: int, out: str, err: str, wall_ns: int):
        self.code, self.out, self.err, self.wall_ns = code, out, err, wall_ns

    def objects(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines() if line.startswith("{")]


class Agent:
    """One agent, scraped again and again while all else goes on."""

    def __init__(self, soak: Soak):
        self.soak, self.mark = soak, f"QUELL_SOAK={soak.seed}-agent-{next(soak.numbers)}"
        self.last: dict[str, float] = {}
        self.looked, self.resident = 0.0, 0
        self.log = os.path.join(soak.room, "agent.log")
        with open(self.log, "wb") as log:
            command = [soak.quell, "--color", "never", "agent", "--listen", "127.0.0.1:0", "--interval", "1"]
            env = os.environ | dict([self.mark.split("=", 1)])
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env)
        if not checks.until(lambda: self.at() != "" or self.process.poll() is not None) or not self.at():
            soak.found("agent", f"it does not begin: {self.said()}")

    def said(self) -> str:
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return f.read().strip()

    def at(self) -> str:
        found = re.search(r"http://([\d.:]+)/", self.said())
        return found[1] if found else ""

    def look(self) -> None:
        self.soak.tags |= checks.tags_of(self.process.pid)
        if self.process.poll() is not None:
            self.soak.found("agent", f"it has ended with {self.process.returncode}: {self.said()[-300:]}")
            return
        try:
            with urllib.request.urlopen(f"http://{self.at()}/metrics", timeout=checks.PATIENCE) as answer:
                text = answer.read().decode()
        except OSError as err:
            # the first look is still to come
            if self.last or getattr(err, "code", 0) != 503:
                self.soak.found("agent", f"a scrape is not answered: {err}")
            return
        now, at = {}, time.monotonic()
        for line in text.splitlines():
            if not line.startswith(("#", "quell_cgroup")):
                name, value = line.rsplit(" ", 1)
                now[name] = float(value)
        for name, value in now.items():
            counter = re.split(r"[{ ]", name)[0].endswith(("_total", "_count", "_sum", "_bucket"))
            if counter and value < self.last.get(name, 0):
                self.soak.found("agent", f"{name} fell from {self.last[name]} to {value}")
            if value < 0:
                self.soak.found("agent", f"{name} is {value}")
        waited = [sum(v for n, v in all_.items() if n.startswith("quell_wait_seconds_total")) for all_ in (self.last, now)]
        # what is told now may have been counted a look before; and sums are estimates where much is shot
        if self.last and waited[1] - waited[0] > 1.25 * self.soak.most_cpus * (at - self.looked + 2):
            self.soak.found("agent", f"{waited[1] - waited[0]:.2f} s waited in {at - self.looked:.2f} s")
        self.last, self.looked = now, at
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as f:
            self.resident = next(int(line.split()[1]) for line in f if line.startswith("VmRSS:"))
        if self.resident > AGENT_KB:
            self.soak.found("agent", f"it has {self.resident} kB of memory, more than {AGENT_KB} kB")

    def end(self, with_: int) -> None:
        if self.process.poll() is None:
            self.process.send_signal(with_)
            try:
                code = self.process.wait(checks.PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                code = self.process.wait()
                self.soak.found("agent", f"it does not end by signal {with_}")
            if code != (0 if with_ == signal.SIGTERM else -with_):
                self.soak.found("agent", f"it ends with {code} by signal {with_}: {self.said()[-300:]}")
        self.soak.nothing_left("agent", self.mark)


class Soak:
    def __init__(self, args: argparse.Namespace):
        self.quell, self.seed, self.args = args.quell, args.seed, args
        self.chance = random.Random(args.seed)
        self.numbers = itertools.count()
        self.made: Counter[str] = Counter()
        self.skipped: dict[str, str] = {}
        self.broken = 0
        self.tags: set[str] = set()
        self.most_cpus = cpus()
        self.step, self.folder, self.mark, self.noted = "", "", "", False
        self.storms: soak_storms.Storms | None = None
        self.used: dict[int, int] = {}
        self.room = os.path.abspath(f"target/soak/{args.seed}")
        shutil.rmtree(self.room, ignore_errors=True)
        os.makedirs(os.path.join(self.room, "built"))
        self.built = soak_storms.build(os.path.join(self.room, "built"))
        self.steps: dict[str, Callable[[], None]] = {
            "stat": self.stat, "intervals": self.intervals, "record": self.record, "top": self.top, "prove": self.prove,
            "lab": self.lab, "killed": self.killed, "disk": self.disk, "memory": self.memory, "clock": self.clock,
        }  # fmt: skip
        if args.hotplug:
            self.steps["cpu"] = self.cpu
        self.steps = {name: step for name, step in self.steps.items() if name in (args.only or self.steps)}

    # --- what is told

    def found(self, what: str, why: str) -> None:
        self.broken += 1
        self.noted = True
        beside = ", ".join(self.storms.names) if self.storms else ""
        print(f"BROKEN  --seed {self.seed}, step {self.step}, {what}{f' beside {beside}' if beside else ''}: {why}", flush=True)

    def skip(self, what: str, why: str) -> None:
        if what not in self.skipped:
            self.skipped[what] = why
            print(f"SKIPPED soak: {what}: {why}", flush=True)

    # --- how quell is run

    def env(self, more: dict[str, str] | None = None) -> dict[str, str]:
        tmp = os.path.join(self.folder, "tmp")
        os.makedirs(tmp, exist_ok=True)
        own = {"TMPDIR": tmp, "QUELL_LAB_LOCK": os.path.join(self.folder, "lab.lock"), "NO_COLOR": "1"}
        return os.environ | own | dict([self.mark.split("=", 1)]) | (more or {})

    def start(self, words: list[str], more: dict[str, str] | None = None, before: Callable[[], None] | None = None) -> subprocess.Popen[bytes]:
        with open(os.path.join(self.folder, "out"), "wb") as out, open(os.path.join(self.folder, "err"), "wb") as err:
            null = subprocess.DEVNULL
            return subprocess.Popen(words, stdin=null, stdout=out, stderr=err, env=self.env(more), start_new_session=True, preexec_fn=before)

    def wait(self, one: subprocess.Popen[bytes], began: int, meanwhile: Callable[[], None] = lambda: None) -> Ran:
        """To its end. Learns on the way what tells quell's programs in the kernel."""
        end = time.monotonic() + 3 * checks.PATIENCE
        while one.poll() is None:
            self.tags |= checks.tags_of(one.pid)
            meanwhile()
            if time.monotonic() > end:
                self.found(self.step, "it does not end")
                os.killpg(one.pid, signal.SIGKILL)
                one.wait()
            time.sleep(0.05)
        wall = time.monotonic_ns() - began
        said = []
        for name in ("out", "err"):
            with open(os.path.join(self.folder, name), encoding="utf-8", errors="replace") as f:
                said.append(f.read())
        if "panicked" in said[1]:
            self.found(self.step, f"panic: {said[1].strip()[-300:]}")
        return Ran(one.returncode, said[0], said[1], wall)

    def run(self, words: list[str], more: dict[str, str] | None = None, meanwhile: Callable[[], None] = lambda: None) -> Ran:
        began = time.monotonic_ns()
        return self.wait(self.start([self.quell, *words], more), began, meanwhile)

    def well(self, what: str, ran: Ran, codes: tuple[int, ...] = (0,)) -> bool:
        if ran.code not in codes:
            self.found(what, f"exit status {ran.code}: {ran.err.strip()[-300:]}")
        return ran.code in codes

    def tally(self, what: str, told: dict[str, Any], wall_ns: int, everything: bool = True, part: bool = False) -> None:
        # a process of a storm that is over now has had all of its CPU time
        ledger = self.storms.ledger if self.storms else ""
        used = soak_storms.used(ledger) if os.path.exists(ledger) else {}
        for why in itertools.islice(checks.tally(told, wall_ns, self.most_cpus, everything, used, part), 5):
            self.found(what, why)

    def several(self, what: str, ran: Ran) -> None:
        """Intervals."""
        for told in ran.objects():
            self.tally(what, told, ran.wall_ns, part=True)

    def trace(self, what: str, path: str, wall_ns: int, everything: bool = True) -> None:
        """What a trace says, and its rows."""
        ran = self.run(["report", path, "--json"])
        if not self.well(f"{what}: report", ran):
            return
        told = ran.objects()[0]
        self.tally(f"{what}: report", told, wall_ns, everything)
        with open(os.path.join(path, "meta.json"), encoding="utf-8") as f:
            meta = json.load(f)
        if told["victims"] > ROWS or not meta["ended"]:
            return
        file = os.path.join(self.folder, "rows.csv")
        if self.well(f"{what}: rows", self.run(["report", path, "--export", "csv", "-o", file])):
            with open(file, encoding="utf-8", errors="replace", newline="") as f:
                begin, end = meta["start_monotonic_ns"], meta["ended"]["monotonic_ns"]
                for why in itertools.islice(checks.rows(csv.DictReader(f), begin, end), 5):
                    self.found(f"{what}: rows", why)
            os.remove(file)

    def nothing_left(self, what: str, mark: str, killed: bool = False) -> None:
        left: dict[int, str] = {}

        def none() -> bool:
            left.clear()
            left.update(checks.marked(mark))
            return not left

        if not checks.until(none):
            self.found(what, f"processes are left: {left}")
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        programs = checks.orphans(self.tags)
        if programs:
            self.found(what, f"BPF programs are left that no process holds: {', '.join(programs)}")
        tmp = os.path.join(self.folder, "tmp")
        if self.folder and os.path.isdir(tmp) and os.listdir(tmp) and not killed:
            self.found(what, f"temporary files are left: {', '.join(sorted(os.listdir(tmp)))}")
            shutil.rmtree(tmp)

    # --- the steps

    def length(self) -> str:
        return f"{self.chance.uniform(0.3, 5):.2f}"

    def brief(self) -> list[str]:
        """A command that shoots and ends."""
        return self.chance.choice([
            [self.built["worst"], "20000"], [f"{EXAMPLES}/culprit", "200"], [f"{EXAMPLES}/causes", "munmap", "100"],
            [self.built["shooters"], "processes", "100", "200"], ["sh", "-c", "seq 100000 | sort | head -n 1"],
        ])  # fmt: skip

    def target(self) -> tuple[list[str], bool]:
        """What is watched, and whether that is everything."""
        return self.chance.choice([(["-a", "-d", self.length()], True), (["-a", "--", *self.brief()], True), (["--", *self.brief()], False)])

    def stat(self) -> None:
        target, everything = self.target()
        out = os.path.join(self.folder, "stat.json")
        ran = self.run(["stat", "--json", "-o", out, *self.chance.choice([[], ["--time-all"]]), *target])
        if self.well("stat", ran):
            with open(out, encoding="utf-8") as f:
                self.tally("stat", json.load(f), ran.wall_ns, everything)

    def intervals(self) -> None:
        ran = self.run(["stat", "-a", "--json", "-I", f"{self.chance.uniform(0.1, 1):.2f}", "-d", self.length()])
        if self.well("stat -I", ran):
            self.several("stat -I", ran)
            for why in checks.sums(checks.together(ran.objects()), self.most_cpus, True):
                self.found("stat -I, all together", why)
            if sum(told["duration_ns"] for told in ran.objects()) > ran.wall_ns + MS:
                self.found("stat -I", "the intervals are longer than all of it")

    def record(self) -> None:
        target, everything = self.target()
        path = os.path.join(self.folder, "t.quell")
        stacks = self.chance.choice(["all", "none", "10"])
        ran = self.run(["record", "-o", path, "--stacks", stacks, *target])
        if self.well("record", ran):
            self.trace("record", path, ran.wall_ns, everything)

    def top(self) -> None:
        ran = self.run(["top", "-a", "--json", "--batch", str(self.chance.randint(1, 8)), "--interval", f"{self.chance.uniform(0.1, 1):.2f}"])
        if self.well("top", ran):
            self.several("top", ran)

    def prove(self) -> None:
        ran = self.run(["prove", "--json", "-n", "1", "-o", os.path.join(self.folder, "proof.json"), "--", *self.brief()])
        if self.well("prove", ran, (0, 1)) and os.path.exists(os.path.join(self.folder, "proof.json")):
            with open(os.path.join(self.folder, "proof.json"), encoding="utf-8") as f:
                proof = json.load(f)
            for name, metric in proof.get("metrics", {}).items():
                for value in (*metric["before"], *metric["after"]):
                    if value is not None and value < 0:
                        self.found("prove", f"{name} is {value}")
            walls = [ns for key in ("before", "after") for ns in proof.get("metrics", {}).get("wall_ns", {}).get(key, [])]
            if sum(filter(None, walls)) > ran.wall_ns + MS:
                self.found("prove", f"runs of {walls} ns in {ran.wall_ns} ns")

    def lab(self) -> None:
        ran = self.run(["lab", "run", self.chance.choice(LAB), "--json", "--budget", "2", "--block", "50"])
        if self.well("lab", ran, (0, 1)) and ran.objects():
            told = ran.objects()[0]
            for arm, figures in told["arms"].items():
                for why in checks.negative(figures):
                    self.found("lab", f"{arm}: {why}")
                if figures.get("stall_ppm") is not None and figures["stall_ppm"] > 1e6:
                    self.found("lab", f"{arm}: more than all time is a stall: {figures['stall_ppm']} ppm")

    def killed(self) -> None:
        """Whatever it is, a signal ends it at any moment, and it leaves nothing."""
        path = os.path.join(self.folder, "t.quell")
        long = ["sh", "-c", f"while :; do {self.built['shooters']} processes 50 200; done"]
        verb, words = self.chance.choice([
            ("stat", ["stat", "-a", "--json"]), ("stat", ["stat", "--", *long]), ("record", ["record", "-a", "-o", path]),
            ("record", ["record", "-o", path, "--", *long]), ("top", ["top", "-a", "--json", "--batch", "1000"]),
            ("prove", ["prove", "-n", "1", "--", *long]), ("lab", ["lab", "run", self.chance.choice(LAB), "--budget", "600"]),
            ("agent", ["agent", "--listen", "off", "--influx", "-"]),
        ])  # fmt: skip
        with_ = self.chance.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
        name = f"{verb}, {signal.Signals(with_).name}"
        began = time.monotonic_ns()
        one = self.start([self.quell, *words])
        until = time.monotonic() + self.chance.choice([0.05, 0.3, 1, 3]) * self.chance.random()
        while time.monotonic() < until:
            self.tags |= checks.tags_of(one.pid)
            time.sleep(0.01)
        if one.poll() is None:
            one.send_signal(with_)
        ran = self.wait(one, began)
        if with_ == signal.SIGKILL and verb in ("stat", "record"):
            # what was only watched goes on without it
            with contextlib.suppress(ProcessLookupError):
                os.killpg(one.pid, signal.SIGKILL)
        self.nothing_left(name, self.mark, killed=True)
        if os.path.exists(os.path.join(path, "meta.json")):
            self.trace(name, path, ran.wall_ns, everything="-a" in words and with_ != signal.SIGKILL)
        tmp = os.path.join(self.folder, "tmp")
        if os.listdir(tmp):
            if with_ != signal.SIGKILL:
                self.found(name, f"temporary files are left: {', '.join(sorted(os.listdir(tmp)))}")
            # nobody can tidy up who is killed: the next one does
            self.run(["prove", "-n", "1", "--", "true"])

    def disk(self) -> None:
        """A disk that fills up ends the recording with a word, and not the command."""
        size = self.chance.choice(["256k", "1m", "4m"])
        disk, done = os.path.join(self.folder, "disk"), os.path.join(self.folder, "done")
        report = os.path.join(self.folder, "report.json")
        os.makedirs(disk)
        command = f"{self.built['worst']} {self.chance.choice([50000, 200000])}; echo done >{done}"
        script = f'mount -t tmpfs -o size={size} soak {disk} || exit 99; "$0" record -o {disk}/t.quell -- sh -c "{command}"; code=$?\n'
        script += f'[ ! -e {disk}/t.quell/meta.json ] || "$0" report {disk}/t.quell --json >{report} || exit 98; exit $code'
        began = time.monotonic_ns()
        ran = self.wait(self.start(["unshare", "-m", "sh", "-c", script, self.quell]), began)
        if ran.code == 99:
            self.skip("disk", f"no disk can be mounted: {ran.err.strip()}")
            return
        if not os.path.exists(done):
            self.found("record on a full disk", f"its command was ended, exit status {ran.code}: {ran.err.strip()[-300:]}")
        if ran.code == 98:
            self.found("record on a full disk", f"what was written can't be read: {ran.err.strip()[-300:]}")
        if os.path.exists(report) and os.path.getsize(report):
            with open(report, encoding="utf-8") as f:
                self.tally("record on a full disk", json.load(f), ran.wall_ns, False)

    def memory(self) -> None:
        """Where it has too little memory it says so; it is not killed in the middle."""
        mounts = [("/sys/fs/cgroup/unified", "memory.max"), ("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")]
        group = ""
        for mount, limit in mounts:
            group = os.path.join(mount, f"quell-soak-{os.getpid()}-{next(self.numbers)}")
            with contextlib.suppress(OSError):
                os.mkdir(group)
                if os.path.exists(os.path.join(group, limit)):
                    break
                os.rmdir(group)
            group = ""
        if not group:
            self.skip("memory", "there is no cgroup with a limit of memory that can be made")
            return
        megabytes = self.chance.choice([32, 64, 96, 128, 256, 512])
        try:
            with open(os.path.join(group, limit), "w", encoding="ascii") as f:
                f.write(str(megabytes << 20))

            def inside() -> None:
                with open(os.path.join(group, "cgroup.procs"), "w", encoding="ascii") as f:
                    f.write("0")

            path = os.path.join(self.folder, "t.quell")
            verb, words = self.chance.choice([
                ("stat", ["stat", "-a", "--json", "-d", self.length()]),
                ("record", ["record", "-a", "-o", path, "-d", self.length()]),
            ])  # fmt: skip
            began = time.monotonic_ns()
            ran = self.wait(self.start([self.quell, *words], before=inside), began)
            what = f"{verb} in {megabytes} MB"
            if ran.code < 0:
                self.found(what, f"it was killed by signal {-ran.code}: {ran.err.strip()[-300:]}")
            elif ran.code != 0 and (len(ran.err.strip().splitlines()) != 1 or "memory" not in ran.err):
                self.found(what, f"exit status {ran.code}, and not a line that says what memory it takes: {ran.err.strip()[-300:]}")
            elif ran.code == 0 and verb == "stat":
                self.tally(what, ran.objects()[0], ran.wall_ns)
            elif ran.code == 0:
                self.trace(what, path, ran.wall_ns)
        finally:
            def gone() -> bool:
                with contextlib.suppress(OSError):
                    os.rmdir(group)
                return not os.path.exists(group)

            if not checks.until(gone):
                self.found("memory", f"the cgroup {group} can't be removed")

    def clock(self) -> None:
        """The clock of the day jumps, by a day or so, in the middle."""
        jump = self.chance.choice([-1, 1]) * self.chance.randint(1, DAY)
        file = os.path.join(self.folder, "clocks")

        def wrong(by: int) -> None:
            # in place, as it is mapped
            with open(file, "r+b" if os.path.exists(file) else "wb") as f:
                f.write(by.to_bytes(8, "little", signed=True) + bytes(8))

        wrong(0)
        length = float(self.length())
        due = time.monotonic() + length / 2
        jumped = [False]

        def meanwhile() -> None:
            if not jumped[0] and time.monotonic() > due:
                jumped[0] = True
                if self.args.clock:
                    CLOCK.jump(jump)
                else:
                    wrong(jump)

        faked = {} if self.args.clock else {"LD_PRELOAD": self.built["clock"], "CLOCKS": file}
        path = os.path.join(self.folder, "t.quell")
        verb, words = self.chance.choice([("stat", ["stat", "-a", "--json"]), ("record", ["record", "-a", "-o", path])])
        try:
            ran = self.run([*words, "-d", f"{length:.2f}"], faked, meanwhile)
        finally:
            CLOCK.back()
        what = f"{verb} while the clock jumps by {jump / SECOND:.0f} s"
        if self.well(what, ran):
            if verb == "stat":
                self.tally(what, ran.objects()[0], ran.wall_ns)
            else:
                self.trace(what, path, ran.wall_ns)

    def cpu(self) -> None:
        """A CPU goes and comes back: there was less CPU time, and more than none of it."""
        if not HOTPLUG.file:
            self.skip("cpu", "no CPU can be taken away here")
            return
        path = os.path.join(self.folder, "t.quell")
        verb, words = self.chance.choice([("stat", ["stat", "-a", "--json"]), ("record", ["record", "-a", "-o", path])])
        began, gone = time.monotonic(), [False, False]

        def meanwhile() -> None:
            for number, (at, online) in enumerate(((1.5, False), (4.5, True))):
                if not gone[number] and time.monotonic() > began + at:
                    gone[number] = True
                    HOTPLUG.set(online)

        try:
            ran = self.run([*words, "-d", "6"], None, meanwhile)
        finally:
            HOTPLUG.set(True)
        what = f"{verb} while a CPU is away"
        if self.well(what, ran) and verb == "record":
            self.trace(what, path, ran.wall_ns)
            ran = self.run(["report", path, "--json"])
        if ran.code == 0:
            told = ran.objects()[0]
            if verb == "stat":
                self.tally(what, told, ran.wall_ns)
            least, most = (told["duration_ns"] * n for n in (self.most_cpus - 1, self.most_cpus))
            if not least < told["online_ns"] < most:
                self.found(what, f"{told['online_ns']} ns of CPU time, which is not between {least} and {most}")

    # --- all of it

    def go(self, hours: float) -> None:
        end = time.monotonic() + hours * 3600
        agent = Agent(self)
        said = time.monotonic()
        try:
            while time.monotonic() < end:
                name = self.chance.choice(sorted(self.steps))
                number = next(self.numbers)
                self.step, self.noted = f"{number} ({name})", False
                self.folder = os.path.join(self.room, f"{number}-{name}")
                os.makedirs(self.folder)
                self.mark = f"QUELL_SOAK={self.seed}-{number}"
                storm = f"QUELL_SOAK={self.seed}-{number}-storm"
                self.storms = soak_storms.Storms(self.chance, self.built, EXAMPLES, self.folder, storm)
                try:
                    self.steps[name]()
                finally:
                    self.storms.end()
                self.nothing_left(name, self.mark)
                self.nothing_left(name, storm)
                self.made[name] += 1
                agent.look()
                if self.chance.random() < 0.05:
                    agent.end(self.chance.choice([signal.SIGKILL, signal.SIGTERM]))
                    agent = Agent(self)
                    self.made["agent"] += 1
                self.storms = None
                if not self.noted:
                    shutil.rmtree(self.folder)
                if time.monotonic() > said + 60:
                    said = time.monotonic()
                    left = max(0.0, end - said) / 60
                    print(f"soak: {sum(self.made.values())} steps, {self.broken} broken, agent {agent.resident} kB, {left:.0f} min left", flush=True)
        finally:
            agent.end(signal.SIGTERM)


class Clock:
    """The machine's clock, which is put back whatever happens."""

    def __init__(self) -> None:
        self.by = 0

    def jump(self, by: int) -> None:
        time.clock_settime_ns(time.CLOCK_REALTIME, time.clock_gettime_ns(time.CLOCK_REALTIME) + by)
        self.by += by

    def back(self) -> None:
        if self.by:
            self.jump(-self.by)


class Hotplug:
    """The last CPU that can be taken away."""

    def __init__(self) -> None:
        files = [f"/sys/devices/system/cpu/cpu{n}/online" for n in range(os.cpu_count() or 1)]
        can = [file for file in files if os.access(file, os.W_OK)]
        self.file = can[-1] if can else ""

    def set(self, online: bool) -> None:
        if self.file:
            with open(self.file, "r+", encoding="ascii") as f:
                if f.read().strip() != str(int(online)):
                    f.seek(0)
                    f.write(str(int(online)))


CLOCK, HOTPLUG = Clock(), Hotplug()


def ended(*_: Any) -> NoReturn:
    raise SystemExit("soak: ended")


def lines(soak: Soak) -> Iterator[str]:
    for name, count in sorted(soak.made.items()):
        yield f"soak: {count:5} times {name}"
    for name, why in soak.skipped.items():
        yield f"SKIPPED soak: {name}: {why}"
    yield f"soak: {soak.broken} broken, seed {soak.seed}" + (f"; what was said is in {os.path.relpath(soak.room)}" if soak.broken else "")


def main() -> None:
    parser = argparse.ArgumentParser(prog="soak")
    parser.add_argument("quell")
    parser.add_argument("hours", type=float)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**6)
    parser.add_argument("--only", action="append")
    parser.add_argument("--hotplug", action="store_true")
    parser.add_argument("--clock", action="store_true")
    args = parser.parse_args()
    # whoever ends this ends what it started
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, ended)
    atexit.register(CLOCK.back)
    if args.hotplug:
        atexit.register(HOTPLUG.set, True)
    soak = Soak(args)
    if not soak.steps:
        parser.error("--only names no step that is to be made")
    print(f"soak: for {args.hours} h, --seed {args.seed}; {checks.prove()} impossible figures are found to be so", flush=True)
    try:
        soak.go(args.hours)
    finally:
        print("\n".join(lines(soak)), flush=True)
    sys.exit(1 if soak.broken else 0)


if __name__ == "__main__":
    main()
