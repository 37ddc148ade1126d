"""The workloads of bench/luf/run and bench/luf/vanilla, and how what they counted is told in pairs."""

import random
import re
import shutil
import statistics
import subprocess
from pathlib import Path

import lab
from llama import Llama

FILE_MIB = 320
ZONES = "echo 300 > /proc/sys/vm/watermark_scale_factor"
# kcompactd moves pages on its own, and shoots for each batch, which is no reclaim: quell told 44 to 79 of some 200 of seq with LUF
STILL = "echo 0 > /proc/sys/vm/compaction_proactiveness"
DEMOTE = "echo 1 > /sys/kernel/mm/numa/demotion_enabled"


class Scan:
    """bench/luf/scan.c reads a mapped file, and checks every word."""

    programs = ["scan"]

    def __init__(self, mode, reads, memory, settings):
        self.mode, self.reads, self.memory = mode, reads, memory
        self.settings = ["mount -o ro /dev/vda /mnt", *settings]

    def disk(self):
        """With the file: its content is a function of the place."""
        scan = lab.build("scan")
        make = lambda folder: subprocess.run([scan, "make", f"{folder}/data", str(FILE_MIB)], check=True)
        return lab.disk("scan", FILE_MIB * 5 // 4, fill=make)

    def line(self, luf, seed, shorter, threads):
        return f"/scan {self.mode} /mnt/data {luf} {threads} {self.reads // shorter} {seed}"


class Build:
    """The host's C compiler compiles programs, four at once, each by a shell, the compiler and the assembler."""

    programs = ["around"]
    memory = ["--mem", "80M"]
    settings = ["mount -o ro /dev/vda /mnt", "mount -t tmpfs tmpfs /mnt/tmp", "mkdir /mnt/tmp/o", ZONES]
    # As much as one program has: the copies are there to be enough work.
    copies = 4

    def disk(self):
        return lab.disk("build", 160, fill=self.fill)

    def fill(self, folder):
        said = lambda *command: subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        root = Path(folder)
        programs = {"cc1": said("gcc", "-print-prog-name=cc1").strip(), "as": shutil.which("as"), "busybox": shutil.which("busybox")}
        for name, path in programs.items():
            copied(root, path, f"/bin/{name}")
            for library in re.findall(r"(/\S+) \(0x", subprocess.run(["ldd", path], stdout=subprocess.PIPE, text=True).stdout):
                copied(root, library, library)
        for name in ("sh", "xargs", "md5sum", "cat", "ls", "basename", "rm"):
            (root / "bin" / name).symlink_to("busybox")
        for name in ("tmp", "src"):
            (root / name).mkdir()
        for source in sorted([*lab.HERE.glob("*.c"), *lab.HERE.glob("stress/*.c")]):
            text = said("gcc", "-E", "-P", "-D_GNU_SOURCE", str(source))
            for copy in range(self.copies):
                (root / "src" / f"{source.stem}-{copy}.i").write_text(text)
        (root / "one").write_text("o=/tmp/o/$(basename $1 .i)\ncc1 -quiet -fpreprocessed -O1 $1 -o $o.s && as $o.s -o $o.o && rm $o.s\n")
        # what comes out is the same each time
        (root / "all").write_text("ls /src/*.i | xargs -n 1 -P 4 sh /one || exit 1\nsum=$(cat /tmp/o/*.o | md5sum)\nrm /tmp/o/*\n"
                                  "[ -e /tmp/first ] || echo \"$sum\" > /tmp/first\n[ \"$(cat /tmp/first)\" = \"$sum\" ]\n")

    def line(self, luf, seed, shorter, threads):
        return f"/around {luf} 1 chroot /mnt /bin/sh /all"


def copied(root, source, target):
    target = root / target.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)


SMALL = ["--mem", "192M"]
TIERS = ["--tiers", "128M,192M"]
LOADS = {
    "seq": Scan("seq", 2 * FILE_MIB * 256 * 16, SMALL, [ZONES, STILL]),
    "hot": Scan("hot", FILE_MIB * 256 * 8, SMALL, [ZONES, STILL]),
    "lookup": Scan("lookup", FILE_MIB * 256, SMALL, [ZONES, STILL]),
    "tiers": Scan("seq", 2 * FILE_MIB * 256 * 16, TIERS, [DEMOTE]),
    "llama": Llama(TIERS, [DEMOTE]),
    "build": Build(),
}
SUMS = {
    "TLB interrupts": ["tlb_interrupts"],
    "remote flushes": ["nr_tlb_remote_flush"],
    "reclaimed": ["pgsteal_kswapd", "pgsteal_direct"],
    "demoted": ["pgdemote_kswapd", "pgdemote_direct"],
    "major faults": ["pgmajfault"],
    "seconds": ["seconds"],
}
# Of fewer pairs the least and the most are no 93 % interval, and nothing is a wider one.
FEWEST = 5
LUF = ["luf_deferred", "luf_held", "luf_flush", "luf_merged"]


def summed(run, keys):
    return sum(run.get(key, 0) for key in keys)


def interval(values, outside=0.05):
    """Of the median, by bootstrap: a share of it lies outside."""
    draw = random.Random(1)
    medians = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(4000))
    cut = int(4000 * outside / 2)
    return medians[cut], medians[-cut - 1]


def pairs_table(pairs, heads, beside=None):
    """Rows of what was counted, as (one, other) of each pair: medians, and the change within pairs. Beside it by title
    what others found: (head, {title: text})."""
    head, others = beside or ("", {})
    out = [f"  {'':16}{heads[0]:>12}{heads[1]:>12}   change   {'95 % interval':22}{head}".rstrip()]
    for title, keys in SUMS.items():
        one, other = ([summed(run, keys) for run in side] for side in zip(*pairs))
        if not any(one + other):
            continue
        form = "{:,.1f}" if title == "seconds" else "{:,.0f}"
        row = f"  {title:16}{form.format(statistics.median(one)):>12}{form.format(statistics.median(other)):>12}"
        change = ""
        if all(one):
            changes = [b / a - 1 for a, b in zip(one, other)]
            low, high = interval(changes)
            between = f"{100 * low:+.1f} to {100 * high:+.1f} %" if len(changes) >= FEWEST else "too few pairs"
            change = f"{100 * statistics.median(changes):+8.1f} %   {between:22}"
        out.append(f"{row}{change:35}{others.get(title, '')}".rstrip())
    return out
