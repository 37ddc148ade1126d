"""What can't be: figures that no machine makes, and what a quell that has ended leaves behind. For scripts/soak."""

from __future__ import annotations

import bisect
import contextlib
import ctypes
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

# The longest wait, in seconds, for something that has to happen, on however busy a machine.
PATIENCE = 600.0
MS, SECOND = 10**6, 10**9
# The CPU of a victim that was not seen, in a trace.
UNSEEN = "65535"

BPF_PROG_GET_NEXT_ID, BPF_PROG_GET_FD_BY_ID = 11, 13
NR_BPF = 321
libc = ctypes.CDLL(None, use_errno=True)


def until(is_so: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE
    while not is_so():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


def negative(value: Any, path: str = "") -> Iterator[str]:
    """Every number below zero in a JSON object."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from negative(one, f"{path}.{key}")
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from negative(one, f"{path}[{number}]")
    elif isinstance(value, (int, float)) and value < 0:
        yield f"{path.lstrip('.')} is {value}"


def tally(t: dict[str, Any], wall_ns: int, cpus: int, everything: bool, used: dict[int, int], part: bool = False) -> Iterator[str]:
    """
    Of an object of `quell stat --json` or `quell report --json`. `wall_ns`: how long quell ran, as seen from outside. `used`: CPU
    time that processes have had which are over, by their number. `part`: an
    interval, of which victims are read a while after their culprits, and what is shot in between is told in the next one.
    """
    yield from negative(t)
    duration = t["duration_ns"]
    if duration > wall_ns + MS:
        yield f"it counted for {duration} ns and ran for {wall_ns} ns"
    online = t.get("online_ns", duration * cpus)
    if online > duration * max(cpus, t["cpus"]) + MS:
        yield f"{online} ns of CPU time in {duration} ns with {cpus} CPUs"
    # of some shootdowns times are estimates; and what is waited for is nobody's own while a host takes the CPU away
    bound = online * (1.25 if t["untimed"] else 1.0) + 10 * MS
    for key in ("wait_ns", "delay_ns", "stall_ns"):
        q = t[key]
        if not q["p50"] <= q["p99"] <= q["p999"] <= q["max"] * 1.05 + 1000:
            yield f"{key}: percentiles fall: {q}"
        # one that ends in an interval may have begun in the one before
        if q["max"] > (wall_ns if part else duration) + MS:
            yield f"{key}: one of {q['max']} ns in {duration} ns"
    for key in ("wait_ns", "stall_ns"):
        if t[key]["sum"] > bound:
            yield f"{key}: {t[key]['sum']} ns in all, of {online} ns of CPU time"
    if t["wait_ns"]["sum"] + t["stall_ns"]["sum"] > 2 * bound or t["wait_ns"]["sum"] > bound:
        yield "more than all CPU time is lost"
    if t["victims"] < t["shootdowns"]:
        yield f"{t['shootdowns']} shootdowns of {t['victims']} victims"
    for rows in ("causes", "culprits"):
        for key in ("shootdowns", "victims"):
            total = sum(row[key] for row in t[rows])
            if total != t[key]:
                yield f"{rows} have {total} {key}, in all it is {t[key]}"
    if not part:
        yield from sums(t, cpus, everything)
    if t["full"] > t["shootdowns"] or t["untimed"] > t["shootdowns"]:
        yield f"{t['full']} full and {t['untimed']} untimed of {t['shootdowns']} shootdowns"
    for row in t["culprits"]:
        # who waits spins, and a process can't have spun for longer than it ran
        if row["pid"] in used and row["wait_ns"] > used[row["pid"]] + 20 * MS:
            yield f"{row['comm']} ({row['pid']}) waited {row['wait_ns']} ns, and ran for {used[row['pid']]} ns in all"
    if t["self_ns"] > wall_ns * cpus + 10 * MS:
        yield f"quell used {t['self_ns']} ns of CPU time in {wall_ns} ns"


def sums(t: dict[str, Any], cpus: int, everything: bool) -> Iterator[str]:
    """Of the same, or of all intervals together: what is counted in two ways."""
    hits = sum(row["hits"] for row in t["victims_by"])
    if hits > t["victims"] + cpus:
        yield f"victims by name have {hits} hits, in all it is {t['victims']}"
    if hits + t["unseen"] + t["lost"] + cpus < t["victims"]:
        yield f"victims by name have {hits} hits, {t['unseen']} were not seen, in all it is {t['victims']}"
    if everything and t.get("kernel_interrupts") is not None and t["duration_ns"] > 500 * MS:
        counted, kernel = t["interrupts"], t["kernel_interrupts"]
        # the two are not read at the same moment
        if abs(counted - kernel) > 200 + t["lost"] + kernel // 50:
            yield f"{counted} interrupts counted, TLB: grew by {kernel}, lost {t['lost']}"


def together(intervals: list[dict[str, Any]]) -> dict[str, Any]:
    """What `sums` looks at, of all of them."""
    added = ("victims", "unseen", "lost", "interrupts", "kernel_interrupts", "duration_ns")
    all_ = {key: sum(one[key] for one in intervals) for key in added}
    return all_ | {"victims_by": [row for one in intervals for row in one["victims_by"]]}


def rows(lines: Iterator[dict[str, str]], begin: int, end: int) -> Iterator[str]:
    """
    Of the rows of a trace: none is beyond its ends, and as whoever waits spins on his CPU, nobody else shoots from there meanwhile,
    nor is anybody else hit there.
    """
    waits: dict[str, list[tuple[int, int, str, str]]] = {}
    hits: list[tuple[str, int, str, str]] = []
    told: set[tuple[str, int]] = set()
    for row in lines:
        t, wait = int(row["t_ns"]), int(row["wait_ns"])
        who = f"{row['comm']} ({row['pid']}, {row['cause']}) on CPU {row['cpu']}"
        if not begin - MS <= t <= t + wait <= end + MS:
            yield f"{who} waited {wait} ns from {t} on, in a recording from {begin} to {end}"
        if int(row["delay_ns"]) + int(row["stall_ns"]) > wait + 2000 and wait:
            yield f"{who}: a victim is done after {int(row['delay_ns']) + int(row['stall_ns'])} ns of a wait of {wait} ns"
        if row["victim_index"] == "0":
            waits.setdefault(row["cpu"], []).append((t, wait, row["tid"], who))
        if row["victim_cpu"] != UNSEEN:
            hits.append((row["victim_cpu"], t + int(row["delay_ns"]), row["victim_tid"], f"{row['victim_comm']} ({row['victim_pid']})"))
    for each in waits.values():
        each.sort()
        for (t, wait, _, who), (after, _, _, whose) in zip(each, each[1:]):
            if t + wait > after + 2000:
                yield f"{who} waited {wait} ns, in which, {after - t} ns later, {whose} shot from there too"
    for cpu, at, tid, victim in hits:
        each = waits.get(cpu, [])
        number = bisect.bisect_right(each, at, key=lambda one: one[0]) - 1
        if number >= 0:
            t, wait, waits_there, who = each[number]
            if t + 2000 < at < t + wait - 2000 and tid != waits_there and (cpu, t) not in told:
                told.add((cpu, t))
                yield f"{who} waited {wait} ns, in which, {at - t} ns later, {victim} was hit there"


def prove() -> int:
    """Each check finds what it is for, and nothing where all is well."""
    q = {"sum": 900, "p50": 100, "p99": 400, "p999": 400, "max": 400}
    row = {"pid": 7, "comm": "a", "shootdowns": 2, "victims": 3, "wait_ns": 900}
    well = {
        "duration_ns": SECOND, "online_ns": 2 * SECOND, "cpus": 2, "untimed": 0, "wait_ns": q, "delay_ns": q, "stall_ns": q, "victims": 30,
        "shootdowns": 20, "causes": [row | {"shootdowns": 20, "victims": 30}], "culprits": [row | {"shootdowns": 20, "victims": 30}],
        "victims_by": [{"hits": 30}], "unseen": 0, "lost": 0, "full": 1, "self_ns": 5, "interrupts": 30, "kernel_interrupts": 40,
    }  # fmt: skip
    wrong: list[dict[str, Any]] = [
        {"full": -1}, {"duration_ns": 3 * SECOND}, {"online_ns": 5 * SECOND}, {"wait_ns": q | {"p99": 90}}, {"delay_ns": q | {"max": 2 * SECOND}},
        {"wait_ns": q | {"sum": 3 * SECOND}}, {"stall_ns": q | {"sum": 3 * SECOND}}, {"victims": 10}, {"causes": [row]}, {"culprits": [row]},
        {"victims_by": [{"hits": 40}]}, {"victims_by": [{"hits": 20}]}, {"full": 21}, {"untimed": 21}, {"self_ns": 5 * SECOND},
        {"kernel_interrupts": 400}, {"culprits": [well["culprits"][0] | {"wait_ns": SECOND}]},
    ]  # fmt: skip
    assert (found := list(tally(well, 2 * SECOND, 2, True, {7: 1000}))) == [], found
    for change in wrong:
        assert list(tally(well | change, 2 * SECOND, 2, True, {7: 1000})), change
    shot = {"t_ns": "20000", "wait_ns": "9000", "cause": "munmap", "pid": "7", "tid": "7", "comm": "a", "cpu": "0", "victim_index": "0"}
    shot |= {"victim_cpu": "1", "victim_tid": "8", "victim_pid": "8", "victim_comm": "b", "delay_ns": "8000", "stall_ns": "500"}
    later = shot | {"t_ns": "40000", "cpu": "1", "victim_cpu": "0", "victim_tid": "7"}
    assert (found := list(rows(iter([shot, later]), 0, SECOND))) == [], found
    bad = [{"t_ns": str(2 * SECOND)}, {"wait_ns": str(2 * SECOND)}, {"stall_ns": "50000"}, {"wait_ns": "90000", "victim_tid": "8"}]
    for change in bad:
        assert list(rows(iter([shot | change, later | {"victim_tid": "9"}]), 0, SECOND)), change
    assert list(rows(iter([shot | {"wait_ns": "30000"}, later | {"cpu": "0", "victim_cpu": "1"}]), 0, SECOND))
    return len(wrong) + len(bad) + 1


# --- what is left


def fdinfo(pid: str) -> Iterator[dict[str, str]]:
    """What BPF programs and links a process has open."""
    with contextlib.suppress(OSError):
        for fd in os.listdir(f"/proc/{pid}/fdinfo"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/fdinfo/{fd}", encoding="utf-8") as f:
                text = f.read()
                if "prog_id:" in text:
                    yield dict(re.findall(r"^(\w+):\s*(\S+)$", text, re.M))


def pids() -> list[str]:
    return [name for name in os.listdir("/proc") if name.isdigit()]


def tags_of(pid: int) -> set[str]:
    """What tells the programs that this quell has attached from all others in the kernel."""
    return {info["prog_tag"] for info in fdinfo(str(pid)) if "link_type" in info and "prog_tag" in info}


def _bpf(command: int, number: int) -> tuple[int, int]:
    attr = (ctypes.c_uint32 * 32)(number)
    return libc.syscall(NR_BPF, command, ctypes.byref(attr), ctypes.sizeof(attr)), attr[1]


def _programs() -> dict[str, str]:
    """The tag of each BPF program in the kernel, by its number."""
    found, number = {}, 0
    while True:
        ret, number = _bpf(BPF_PROG_GET_NEXT_ID, number)
        if ret != 0:
            return found
        fd, _ = _bpf(BPF_PROG_GET_FD_BY_ID, number)
        if fd >= 0:
            with open(f"/proc/self/fdinfo/{fd}", encoding="utf-8") as f:
                info = dict(re.findall(r"^(\w+):\s*(\S+)$", f.read(), re.M))
            os.close(fd)
            found[str(number)] = info.get("prog_tag", "")


def orphans(tags: set[str]) -> list[str]:
    """Programs of quell's, by whoever runs it, that no process holds any more."""
    left: list[str] = []

    def none() -> bool:
        mine = {number for number, tag in _programs().items() if tag in tags}
        held = {info["prog_id"] for pid in pids() for info in fdinfo(pid)} if mine else set()
        left[:] = sorted(mine - held)
        return not left

    # the kernel frees them a while after they were closed
    until(none)
    return left


def marked(mark: str) -> dict[int, str]:
    """Processes that have this in their environment, and what they are called; those that have ended don't count."""
    found = {}
    for pid in pids():
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/environ", "rb") as f:
                if mark.encode() not in f.read().split(b"\0"):
                    continue
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
                text = f.read()
            if text.rpartition(")")[2].split()[0] not in "ZX":
                found[int(pid)] = text[text.index("(") + 1 : text.rindex(")")]
    return found


if __name__ == "__main__":
    sys.exit("use scripts/soak")
