#!/usr/bin/env python3
"""Packs a tree that scripts/dist has filled as a Python wheel, so that `pip install` of one file brings quell.

    packaging/wheel.py ROOT VERSION FOLDER     prints the path of the wheel

ROOT has usr/bin/quell and what goes beside it. pip puts the program into the environment's bin, and the rest where its lib and
share are, so quell finds libquell.so as it does below /usr. The wheel says that it runs wherever its program runs: a program that
needs no library is for glibc's systems and musl's alike; one that needs some is for machines like this one only.

By the standard library alone: a wheel is a zip archive with three files about it (packaging.python.org, "Binary distribution
format"), and tools that build wheels would want a Python package to build.
"""

import base64
import hashlib
import os
import struct
import sys
import time
import zipfile
from pathlib import Path

# A static program needs the kernel's interface only. pip takes the oldest systems that it knows these tags for, and quell's own
# bound, Linux 5.15, is younger than all of them.
STATIC_TAGS = ("manylinux_2_17_x86_64", "manylinux2014_x86_64", "musllinux_1_1_x86_64")
LOCAL_TAG = "linux_x86_64"
SUMMARY = "Tells what virtual memory costs a program in time, who causes it and what to change, and proves the gain"
DESCRIPTION = """\
quell tells where a program's time goes in memory management: page faults, zeroing, waits for a lock that another thread holds,
reclaim, and TLB shootdowns. It tries by runs which settings win some of it back, and proves what they win.

    sudo $(command -v quell) prove -- YOUR-PROGRAM

For x86-64, Linux 6.5 or later with BTF, or 5.15 or later with ftrace too. The program is static: it needs no library of the
machine, and no Python.
"""


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    root, version, folder = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    program = root / "usr/bin/quell"
    tags = tags_of(program)
    wheel = folder / f"quell-{version}-py3-none-{'.'.join(tags)}.whl"
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        fill(Archive(archive), root, version, tags)
    print(wheel)


def tags_of(program):
    """The platforms that a program runs on, by what it asks of them."""
    needs = needs_of(program.read_bytes(), program)
    return STATIC_TAGS if not needs else (LOCAL_TAG,)


def needs_of(data, program):
    """What an ELF program asks the machine for: its loader, and libraries (as their number, for the names don't matter here)."""
    if data[:6] != b"\x7fELF\x02\x01" or struct.unpack_from("<H", data, 18) != (62,):
        sys.exit(f"wheel: {program} is no program for x86-64")
    headers, size, count = struct.unpack_from("<Q", data, 32)[0], *struct.unpack_from("<HH", data, 54)
    needs = []
    for at in range(headers, headers + size * count, size):
        kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", data, at)
        if kind == 3:
            needs.append("a loader")
        elif kind == 2:
            entries = (struct.unpack_from("<qQ", data, place) for place in range(offset, offset + length, 16))
            needs += ["a library" for tag, _ in entries if tag == 1]
    return needs


class Archive:
    """A zip archive that is the same for the same content, and knows what it holds as RECORD wants it."""

    def __init__(self, archive):
        self.archive = archive
        # zip has no time before 1980
        self.time = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())), 315532800))[:6]
        self.record = []

    def add(self, name, data, mode=0o644):
        entry = zipfile.ZipInfo(name, self.time)
        entry.external_attr = (0o100000 | mode) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        self.archive.writestr(entry, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={digest},{len(data)}")


def fill(archive, root, version, tags):
    data, about = f"quell-{version}.data", f"quell-{version}.dist-info"
    usr = root / "usr"
    for file in sorted(path for path in usr.rglob("*") if path.is_file()):
        inside = file.relative_to(usr)
        if inside.parts[0] == "bin":
            archive.add(f"{data}/scripts/{file.name}", file.read_bytes(), 0o755)
        elif inside.parts[:2] != ("share", "doc"):
            archive.add(f"{data}/data/{inside}", file.read_bytes())
    texts = sorted((Path(__file__).resolve().parents[1] / "LICENSES").glob("*.txt"))
    for text in texts:
        archive.add(f"{about}/licenses/{text.name}", text.read_bytes())
    licences = "".join(f"License-File: {text.name}\n" for text in texts)
    metadata = (
        f"Metadata-Version: 2.4\nName: quell\nVersion: {version}\nSummary: {SUMMARY}\n"
        f"License-Expression: (MIT OR Apache-2.0) AND GPL-2.0-only\n{licences}"
        f"Classifier: Environment :: Console\nClassifier: Operating System :: POSIX :: Linux\n"
        f"Classifier: Topic :: System :: Monitoring\nRequires-Python: >=3.7\n"
        f"Description-Content-Type: text/plain\n\n{DESCRIPTION}"
    )
    archive.add(f"{about}/METADATA", metadata.encode())
    lines = "".join(f"Tag: py3-none-{tag}\n" for tag in tags)
    archive.add(f"{about}/WHEEL", f"Wheel-Version: 1.0\nGenerator: quell ({version})\nRoot-Is-Purelib: false\n{lines}".encode())
    record = "\n".join([*archive.record, f"{about}/RECORD,,"]) + "\n"
    archive.add(f"{about}/RECORD", record.encode())


if __name__ == "__main__":
    main()
