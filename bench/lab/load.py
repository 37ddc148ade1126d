"""A parallel compile, as load: make -j with as many jobs as CPUs, over C files made for it, again and again."""

import ctypes
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

# Of one file: about a second of a compiler's time.
FUNCTIONS = 60
PR_SET_PDEATHSIG = 1
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


def ends_with_its_parent() -> None:
    """In the child: should the script be killed, so is this (prctl(2))."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Compile:
    """Compiles while it is entered, at the priority of everything else."""

    def __init__(self) -> None:
        self.jobs = os.cpu_count() or 1
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="quell-load-"))
        self.process: subprocess.Popen | None = None
        for number in range(4 * self.jobs):
            text = "".join(PROGRAM.format(n=number, i=i) for i in range(FUNCTIONS))
            (self.folder / f"{number}.c").write_text(text)
        (self.folder / "Makefile").write_text(MAKEFILE)

    def __enter__(self) -> "Compile":
        # a session of its own, so that all of it can be ended by one number
        self.process = subprocess.Popen(
            ["sh", "-c", f"while :; do rm -f *.o; make -s -j{self.jobs} || exit; done"],
            cwd=self.folder, start_new_session=True, preexec_fn=ends_with_its_parent,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return self

    def __exit__(self, *_: object) -> None:
        if self.process:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def compiled(self) -> int:
        """Files so far."""
        try:
            return len((self.folder / "compiled").read_text().splitlines())
        except OSError:
            return 0
