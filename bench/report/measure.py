"""Times the reports of traces in turns; prints a table and the limits, and fails where one does not hold."""

import os
import statistics
import subprocess
import sys
import time

QUELL = os.environ["QUELL"]
ROUNDS = 3
FORMS = {"--json": ["--json"], "text": []}
# Of ten million shootdowns on two CPUs, in seconds and bytes.
MOST_WALL, MOST_MEMORY = 20.0, 500e6
# The largest trace may take so many times as much for each shootdown as the smallest: what is told apart in it
# fits a CPU's cache less well.
MOST_GROWTH = 1.5


def measure(args):
    """Wall and user seconds and bytes of one run. A child of its own, so that its peak is its own."""
    began = time.monotonic()
    process = subprocess.Popen([QUELL, "report", *args], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"bench/report: 'quell report {' '.join(args)}' failed with status {process.returncode}")
    return time.monotonic() - began, used.ru_utime, used.ru_maxrss * 1024


folder, *sizes = sys.argv[1:]
sizes = [int(n) for n in sizes]
seen = {(form, n): [] for form in FORMS for n in sizes}
for _ in range(ROUNDS):
    for (form, n), runs in seen.items():
        runs.append(measure([f"{folder}/{n}", *FORMS[form]]))

print(f"reading a trace, median of {ROUNDS} runs in turns, {os.cpu_count()} CPUs")
print(f"  {'shootdowns':>11}  {'form':<6}  {'wall':>7}  {'user':>7}  {'memory':>7}  {'user a million':>14}  {'wall of each run'}")
middle = {}
for (form, n), runs in seen.items():
    wall, user, memory = (statistics.median(values) for values in zip(*runs))
    middle[form, n] = wall, user, memory
    each = ", ".join(f"{run[0]:.2f}" for run in runs)
    print(f"  {n:>11,}  {form:<6}  {wall:>5.2f} s  {user:>5.2f} s  {memory / 1e6:>4.0f} MB  {user / n * 1e6:>12.2f} s  {each}")

least, most = min(sizes), max(sizes)
failed = False
for form in FORMS:
    wall, user, memory = middle[form, most]
    growth = (user / most) / (middle[form, least][1] / least)
    for what, value, limit, unit in [
        ("wall for ten million", wall * 1e7 / most, MOST_WALL, " s"),
        ("memory", memory / 1e6, MOST_MEMORY / 1e6, " MB"),
        (f"user a shootdown, {most:,} to {least:,}", growth, MOST_GROWTH, " times"),
    ]:
        holds = value < limit
        failed |= not holds
        print(f"  {'holds' if holds else 'FAILS'}  {form:<6}  {what}: {value:.4g}{unit}, limit {limit:g}{unit}")
sys.exit(1 if failed else 0)
