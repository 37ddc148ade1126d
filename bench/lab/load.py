"""A parallel compile, as load: make -j with as many jobs as CPUs, over C files made for it, again and again."""

import os
import pathlib
import select
import signal
import subprocess
import sys
import tempfile

# Of one file: about a second of a compiler's time.
FUNCTIONS = 60
PROGRAM = """
int f{n}_{i}(int *a, int n) {{
    int sum = {i}, k;
    for (k = 0; k < n; k++)
        switch ((a[k] ^ {i}) % 7) {{
        case 0: sum += a[k] * {n}; break;
        case 1: sum ^= a[(k * 31 + {i}) % n]; break;
        case 2: a[k] = sum % (k + 1); break;
        default: sum -= a[n - 1 - k] / (1 + (a[k] & 15));
        }}
    return sum;
}}
"""
# What is compiled is counted, to show that there was a load.
MAKEFILE = """
all: $(patsubst %.c,%.o,$(wildcard *.c))
%.o: %.c
\t@$(CC) -O2 -c $< -o $@ && echo $< >>compiled
"""


def keep_up(jobs: int) -> None:
    """Compiles until stdin ends, which it does however the script ends, also by kill -9; then nothing is left."""
    # Ctrl-C goes to every process of the terminal: the end of stdin is what this waits for
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with tempfile.TemporaryDirectory(prefix="quell-load-", ignore_cleanup_errors=True) as name:
        folder = pathlib.Path(name)
        for number in range(4 * jobs):
            text = "".join(PROGRAM.format(n=number, i=i) for i in range(FUNCTIONS))
            (folder / f"{number}.c").write_text(text)
        (folder / "Makefile").write_text(MAKEFILE)
        # a session of its own, so that make and its compilers can be ended by one number
        compiles = subprocess.Popen(
            ["sh", "-c", f"while :; do rm -f *.o; make -s -j{jobs} || exit; done"],
            cwd=folder, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            print(name, flush=True)
            # looked at now and then: should the compiles end, so does this
            while compiles.poll() is None and not select.select([sys.stdin], [], [], 0.2)[0]:
                pass
        finally:
            try:
                os.killpg(compiles.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            compiles.wait()


class Compile:
    """Compiles while it is entered, at the priority of everything else."""

    def __init__(self) -> None:
        self.jobs = os.cpu_count() or 1
        self.folder: pathlib.Path | None = None
        self.keeper: subprocess.Popen | None = None

    def __enter__(self) -> "Compile":
        # in a session of its own: what ends the script's group leaves it the time to clean up
        self.keeper = subprocess.Popen(
            [sys.executable, __file__, str(self.jobs)], start_new_session=True, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.folder = pathlib.Path(self.keeper.stdout.readline().strip())
        return self

    def __exit__(self, *_: object) -> None:
        if self.keeper:
            self.keeper.stdin.close()
            self.keeper.wait()

    def is_running(self) -> bool:
        return self.keeper is not None and self.keeper.poll() is None

    def compiled(self) -> int:
        """Files so far."""
        try:
            return len((self.folder / "compiled").read_text().splitlines())
        except (OSError, TypeError):
            return 0


if __name__ == "__main__":
    keep_up(int(sys.argv[1]))
