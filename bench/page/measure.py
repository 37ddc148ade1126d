"""Writes one page and opens it three times; prints a line, and fails where a bound does not hold."""

import os
import pathlib
import resource
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/page"))

from browser import Browser  # noqa: E402

many, trace, page = sys.argv[1:]
began = time.monotonic()
subprocess.run([os.environ.get("QUELL", ROOT / "target/release/quell"), "report", trace, "--html", page], check=True)
wall = time.monotonic() - began
used = resource.getrusage(resource.RUSAGE_CHILDREN)
size = os.path.getsize(page)
drawn = []
for _ in range(3):
    with Browser(1280, 900) as b:
        b.open(page)
        drawn.append(int(b.js("return document.documentElement.dataset.drawnMs")))
middle = statistics.median(drawn)
print(
    f"{int(many):>11,} shootdowns: written in {wall:.1f} s ({used.ru_utime + used.ru_stime:.1f} s of CPU), "
    f"{used.ru_maxrss / 1024:.0f} MB; page {size / 1e6:.2f} MB, drawn after {middle} ms ({drawn})"
)
sys.exit(0 if size < 5e6 and middle < 2000 else 1)
