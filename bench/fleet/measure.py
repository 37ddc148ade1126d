"""Times every question of quell fleet on each engine, in turns, and prints a table in Markdown.

    measure.py QUELL TREE RUNS ENGINE...
"""

import json
import os
import statistics
import subprocess
import sys
import threading
import time

KINDS = ["cold", "warm"]


def children():
    """The parent of each process."""
    parents = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as file:
                parents[int(pid)] = int(file.read().rsplit(")", 1)[1].split()[1])
        except OSError:
            pass
    return parents


def resident(root):
    """What a process and all that it started have resident, bytes."""
    parents = children()
    sum_kb = 0
    for pid in parents:
        at = pid
        while at in parents and at != root:
            at = parents[at]
        if at == root:
            try:
                with open(f"/proc/{pid}/status") as file:
                    sum_kb += sum(int(line.split()[1]) for line in file if line.startswith("VmRSS:"))
            except OSError:
                pass
    return sum_kb * 1000 * 1.024


def forget(tree):
    """Takes the tree's files out of the page cache, and nobody else's."""
    for folder, _, names in os.walk(tree):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def ask(quell, tree, engine, question):
    """Seconds of all, seconds of the engine for the question, and bytes at the most."""
    command = [quell, "fleet", question, tree, "--json", "--engine", engine, "--python", sys.executable]
    begun = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        most = [0]
        over = threading.Event()

        def watch():
            while not over.wait(0.3):
                most[0] = max(most[0], resident(running.pid))

        thread = threading.Thread(target=watch)
        thread.start()
        said = running.stdout.read()
        status = running.wait()
        over.set()
        thread.join()
    took = time.monotonic() - begun
    if status != 0:
        sys.exit(f"bench/fleet: {' '.join(command)} failed")
    answer = json.loads(said)["answers"][0]
    return took, answer["took_ns"] / 1e9, most[0], answer["rows"]


def main():
    quell, tree, runs, *engines = sys.argv[1:]
    with open(os.path.join(tree, "planted.json")) as file:
        planted = json.load(file)
    rows = sum(cause["victims"] for cause in planted["causes"])
    shootdowns = sum(cause["shootdowns"] for cause in planted["causes"])
    figures = {}
    for run in range(int(runs)):
        for question in planted:
            for engine in engines:
                for kind in KINDS:
                    if kind == "cold":
                        forget(tree)
                    took, by_engine, most, answer = ask(quell, tree, engine, question)
                    if answer != planted[question]:
                        sys.exit(f"bench/fleet: {engine} answers {question} wrongly")
                    figures.setdefault((question, engine, kind), []).append((took, by_engine, most))
                    print(f"run {run + 1}: {question} {engine} {kind}: {took:.1f} s", file=sys.stderr)
    print(f"{len(planted['hosts'])} hosts, {shootdowns:,} shootdowns, {rows:,} rows; medians of {runs} runs, all of quell fleet;")
    print("in brackets the question alone, without the start of the engine and the reading of the tables\n")
    heads = [f"{engine}, {kind}" for engine in engines for kind in KINDS] + [f"{engine}, memory" for engine in engines]
    print("| question | " + " | ".join(heads) + " |")
    print("| --- |" + " --- |" * len(heads))
    for question in planted:
        cells = []
        for engine in engines:
            for kind in KINDS:
                all_of, of_engine = (statistics.median(f[n] for f in figures[question, engine, kind]) for n in (0, 1))
                cells.append(f"{all_of:.1f} s ({of_engine:.1f})")
        for engine in engines:
            most = max(f[2] for kind in KINDS for f in figures[question, engine, kind])
            cells.append(f"{most / 1e6:,.0f} MB")
        print(f"| `{question}` | " + " | ".join(cells) + " |")


main()
