"""What the programs of bench/luf share: numbers on the command line, programs for the guest, disks, the guest, and how to end."""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WORK = ROOT / "target/luf"


def fail(text):
    print(f"bench/luf: {text}", file=sys.stderr)
    sys.exit(2)


def end(main):
    """Ends with what main() returns. 1 is for what was found, so whatever keeps it from looking is 2, in a line."""
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
    except subprocess.CalledProcessError as err:
        fail(f"'{' '.join(map(str, err.cmd))[:200]}' ended with {err.returncode}")
    except OSError as err:
        fail(f"{err.filename or 'a file'}: {err.strerror}")


def number(least):
    """For argparse: a whole number, not smaller than this."""

    def read(text):
        if not text.lstrip("-").isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"'{text}': write a number from {least} on")
        return int(text)

    return read


def chosen(text, known, what):
    """The names in a list with commas, all of them known."""
    names = [name for name in text.split(",") if name]
    if unknown := set(names) - set(known):
        fail(f"no such {what}: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    return names


def build(name):
    """A static program for the guest: of NAME.c, or of all in the folder NAME."""
    sources = sorted((HERE / name).glob("*.c")) or [HERE / f"{name}.c"]
    out = WORK / "programs" / name
    out.parent.mkdir(parents=True, exist_ok=True)
    if not shutil.which("cc"):
        fail("there is no compiler: scripts/setup.sh build")
    subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-D_GNU_SOURCE", "-static", "-pthread", "-o", out, *sources], check=True)
    return out


def disk(name, mib, kind="ext4", fill=None):
    """A disk with a file system, made once; fill(folder) makes what is on it."""
    image = WORK / f"{name}-{mib}.{kind}"
    if image.exists():
        return image
    image.parent.mkdir(parents=True, exist_ok=True)
    new = image.with_suffix(".new")
    with new.open("wb") as file:
        file.truncate(mib << 20)
    with tempfile.TemporaryDirectory(dir=WORK) as folder:
        if fill:
            fill(folder)
        make = {"ext4": ["mkfs.ext4", "-q", "-F", "-d", folder, new], "xfs": ["mkfs.xfs", "-q", "-f", new], "swap": ["mkswap", "-q", new]}
        subprocess.run(make[kind], check=True, stdout=subprocess.DEVNULL)
    new.rename(image)
    return image


def guest(image, lines, *, memory, drives=(), files=(), timeout, said, append=""):
    """Runs lines of shell in a guest. Each line of its output goes to said. Returns its status: see bench/vm/run."""
    # the guest must not outlive us, however we end
    command = ["setpriv", "--pdeathsig", "TERM", ROOT / "bench/vm/run", "run", "--image", image, "--timeout", str(timeout)]
    command += ["--append", f"panic_on_oops=1 {append}", *memory]
    for drive in drives:
        command += ["--drive", drive]
    for source, target in files:
        command += ["--file", f"{source}:{target}"]
    told = subprocess.Popen([*command, "--", "sh", "-c", "\n".join(lines)], stdout=subprocess.PIPE, text=True, errors="replace")
    try:
        for line in told.stdout:
            said(line.rstrip("\r\n"))
    finally:
        told.terminate()
        told.wait()
    return told.returncode
