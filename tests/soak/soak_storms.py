"""Programs that shoot, beside which quell is used by scripts/soak; all that they start has their mark in its environment."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys

# Short processes: what a shell script does all day.
SHORT = ["head -c 100000 /dev/zero", "sh -c :", "seq 1000", "sh -c 'head -c 1000 /dev/zero | wc -c'", "true", "ls /"]


def build(folder: str) -> dict[str, str]:
    sources = {"worst": "bench/overhead/worst.c", "shooters": "crates/quell/tests/c/shooters.c"}
    built = {}
    for name, source in sources.items():
        built[name] = os.path.join(folder, name)
        subprocess.run(["cc", "-O2", "-fno-omit-frame-pointer", "-pthread", "-o", built[name], source], check=True)
    library = os.path.join(folder, "clock.so")
    subprocess.run(["cc", "-O2", "-fPIC", "-shared", "-pthread", "-o", library, "crates/quell/tests/c/clock.c"], check=True)
    return built | {"clock": library}


def short(ledger: str) -> None:
    """Short processes until it is ended, with the CPU time that each has had, of those that a shell starts too."""
    chance = random.Random(0)
    with open(ledger, "w", encoding="utf-8") as f, open(os.devnull, "wb") as null:
        while True:
            command = chance.choice(SHORT)
            one = subprocess.Popen(["sh", "-c", f"exec {command}"], stdout=null, stderr=null)
            _, _, usage = os.wait4(one.pid, 0)
            one.returncode = 0
            f.write(json.dumps([one.pid, int((usage.ru_utime + usage.ru_stime) * 1e9)]) + "\n")
            f.flush()


def used(ledger: str) -> dict[int, int]:
    found: dict[int, int] = {}
    with open(ledger, encoding="utf-8") as f:
        for line in f:
            if line.endswith("\n"):
                pid, ns = json.loads(line)
                # a number that was given twice
                found[pid] = found.get(pid, 0) + ns
    return found


class Storms:
    """Some at once, as chance has it."""

    NAMES = ["worst", "culprit", "causes", "shooters", "short", "short"]

    def __init__(self, chance: random.Random, built: dict[str, str], examples: str, folder: str, mark: str):
        self.ledger = os.path.join(folder, "ledger")
        self.names = sorted(set(chance.sample(self.NAMES, chance.choice([0, 1, 1, 1, 2, 2, 3]))))
        self.env = os.environ | dict([mark.split("=", 1)])
        commands = {
            "worst": [built["worst"], "1000000000"],
            "culprit": ["sh", "-c", f"while :; do {examples}/culprit 300; sleep 0.2; done"],
            "causes": ["sh", "-c", f"while :; do for c in cow munmap fork; do {examples}/causes $c 40; done; done"],
            "shooters": ["sh", "-c", f"while :; do {built['shooters']} processes 200 150; done"],
            "short": [sys.executable, os.path.abspath(__file__), self.ledger],
        }
        self.running = [self._start(commands[name]) for name in self.names]

    def _start(self, command: list[str]) -> subprocess.Popen[bytes]:
        null = subprocess.DEVNULL
        return subprocess.Popen(command, stdin=null, stdout=null, stderr=null, env=self.env, start_new_session=True)

    def end(self) -> dict[int, int]:
        """The CPU time of those that were counted, by number."""
        for one in self.running:
            # its session is its own: all that it has started and that is still there
            os.killpg(one.pid, signal.SIGKILL)
            one.wait()
        self.running = []
        return used(self.ledger) if os.path.exists(self.ledger) else {}


if __name__ == "__main__":
    short(sys.argv[1])
