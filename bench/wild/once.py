"""One run of a command: how it ended, its time, its memory."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

# No program of the list runs a tenth of it on a quiet machine.
LIMIT_S = 90.0


def run(words: list[str], environment: dict[str, str], folder: Path, limit: float = LIMIT_S) -> dict[str, Any]:
    """Runs it in a process group of its own, which is ended as a whole when the time is over, and after it in any case.

    CPU time is wait4(2)'s: of the program and all that it waited for. `max_rss` is of the largest process, and never below what
    this one holds, which Linux counts into it. `error` holds the last words of a program that failed.
    """
    with tempfile.TemporaryFile() as errors:
        began = time.monotonic()
        process = subprocess.Popen(
            words, env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True
        )
        late = threading.Event()

        def end() -> None:
            late.set()
            end_group(process.pid)

        timer = threading.Timer(limit, end)
        timer.daemon = True
        timer.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
        finally:
            timer.cancel()
            end_group(process.pid)
        wall = time.monotonic() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        result: dict[str, Any] = {
            "status": process.returncode,
            "wall_ns": round(wall * 1e9),
            "cpu_ns": round((usage.ru_utime + usage.ru_stime) * 1e9),
            "max_rss": usage.ru_maxrss * 1024,
        }
        if late.is_set():
            result["error"] = f"it did not end in {limit:.0f} s"
        elif process.returncode:
            errors.seek(0)
            said = errors.read().decode(errors="replace").strip().splitlines()
            result["error"] = said[-1][:200] if said else "it says nothing"
        return result


def end_group(group: int) -> None:
    """Ends what is left of a command. The number is its own as long as anything of it lives, since it leads its session."""
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
