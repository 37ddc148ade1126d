"""Runs a command under what a systemd unit restricts, where there is no systemd: its user, capabilities, system calls,
address families, and what it may write to.

    unit_sandbox.py UNIT STATE-DIR -- COMMAND...     as root
    unit_sandbox.py UNIT STATE-DIR -c PYTHON         runs that instead: an interpreter may be where the unit hides it

Everything is read from the unit, so that a test and the unit can't differ. What has no counterpart here (IPAddressDeny=,
MemoryMax=, ProtectProc= and the like) is left out. Mounts are made in a namespace of its own, and end with it.
"""

import ctypes
import os
import re
import struct
import subprocess
import sys

NOBODY = 65534
CLONE_NEW = 0x7E020080  # all namespaces of clone(2)
ALLOW, ERRNO, KILL = 0x7FFF0000, 0x00050000, 0x80000000
EPERM, ENOSYS, EAFNOSUPPORT = 1, 38, 97
LOAD, JEQ, JSET, RET, AND = 0x20, 0x15, 0x45, 0x06, 0x54
X86_64, X32 = 0xC000003E, 0x40000000
FAMILIES = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10, "AF_NETLINK": 16, "AF_PACKET": 17}
PROT_WRITE, PROT_EXEC = 2, 4
# O_ flags and the like are not looked at; MS_ flags are those of <sys/mount.h>
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18

libc = ctypes.CDLL(None, use_errno=True)


def check(done, what):
    if done != 0:
        sys.exit(f"unit_sandbox: {what}: {os.strerror(ctypes.get_errno())}")


def read(unit):
    """All assignments of the unit: lists of words."""
    settings = {}
    for line in open(unit, encoding="utf-8"):
        match = re.match(r"([A-Za-z]+)=(.*)$", line.strip())
        if match:
            words = match[2].split()
            # of a line that begins with ~ all words are taken away
            if words and words[0].startswith("~"):
                words = ["~" + word.removeprefix("~") for word in words]
            settings.setdefault(match[1], []).extend(words)
    return settings


def numbers():
    """System calls by name."""
    for path in ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm/unistd_64.h"):
        if os.path.exists(path):
            return {n: int(i) for n, i in re.findall(r"#define __NR_(\w+) (\d+)", open(path, encoding="utf-8").read())}
    sys.exit("unit_sandbox: there is no asm/unistd_64.h (Debian's package linux-libc-dev)")


def expand(names):
    """What groups such as @system-service stand for, by the systemd of this machine."""
    calls, todo, seen = set(), list(names), set()
    while todo:
        name = todo.pop()
        if not name.startswith("@"):
            calls.add(name)
        elif name not in seen:
            seen.add(name)
            told = subprocess.run(["systemd-analyze", "syscall-filter", name], check=True, capture_output=True, text=True)
            words = [line.strip() for line in told.stdout.splitlines() if line.startswith("    ")]
            todo.extend(word for word in words if not word.startswith("#"))
    return calls


def filters(settings):
    """A program of seccomp: what is not named is refused."""
    known = numbers()
    program = []

    def op(code, jump_true, jump_false, value):
        program.append(struct.pack("HBBI", code, jump_true, jump_false, value))

    def refuse(call, argument, code, value, error):
        """Refuses a call whose argument (its low half) jumps; the number is loaded again after that."""
        op(JEQ, 0, 4, known[call])
        op(LOAD, 0, 0, 16 + 8 * argument)
        op(code, 0, 1, value)
        op(RET, 0, 0, ERRNO | error)
        op(LOAD, 0, 0, 0)

    def only(call, argument, values, error):
        """Refuses a call whose argument is none of these."""
        op(JEQ, 0, len(values) + 3, known[call])
        op(LOAD, 0, 0, 16 + 8 * argument)
        for n, value in enumerate(values):
            op(JEQ, len(values) - n, 0, value)
        op(RET, 0, 0, ERRNO | error)
        op(LOAD, 0, 0, 0)

    op(LOAD, 0, 0, 4)
    op(JEQ, 1, 0, X86_64)
    op(RET, 0, 0, KILL)
    op(LOAD, 0, 0, 0)
    op(JSET, 0, 1, X32)
    op(RET, 0, 0, KILL)
    if "yes" in settings.get("RestrictNamespaces", []):
        refuse("unshare", 0, JSET, CLONE_NEW, EPERM)
        refuse("clone", 0, JSET, CLONE_NEW, EPERM)
        # its flags are in memory: systemd too says that there is no such call
        op(JEQ, 0, 1, known["clone3"])
        op(RET, 0, 0, ERRNO | ENOSYS)
    if "yes" in settings.get("MemoryDenyWriteExecute", []):
        op(JEQ, 0, 5, known["mmap"])
        op(LOAD, 0, 0, 16 + 8 * 2)
        op(AND, 0, 0, PROT_WRITE | PROT_EXEC)
        op(JEQ, 0, 1, PROT_WRITE | PROT_EXEC)
        op(RET, 0, 0, ERRNO | EPERM)
        op(LOAD, 0, 0, 0)
        for call in ("mprotect", "pkey_mprotect"):
            refuse(call, 2, JSET, PROT_EXEC, EPERM)
    families = [FAMILIES[f] for f in settings.get("RestrictAddressFamilies", [])]
    if families:
        only("socket", 0, families, EAFNOSUPPORT)
    if "yes" in settings.get("RestrictRealtime", []):
        only("sched_setscheduler", 1, [os.SCHED_OTHER, os.SCHED_BATCH, os.SCHED_IDLE], EPERM)
    # the later word counts
    allowed = set()
    for word in settings["SystemCallFilter"]:
        allowed = allowed - expand([word[1:]]) if word.startswith("~") else allowed | expand([word])
    for call in sorted(allowed):
        # a name of another architecture's, or newer than the headers
        if call in known:
            op(JEQ, 0, 1, known[call])
            op(RET, 0, 0, ALLOW)
    op(RET, 0, 0, ERRNO | EPERM)
    return program


def install(program):
    class Program(ctypes.Structure):
        _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_char_p)]

    PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
    whole = Program(len(program), b"".join(program))
    check(libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(whole), 0, 0), "seccomp")


def mounts(settings, state):
    """What ProtectSystem=strict, ProtectHome=, ProtectKernelTunables= and the like do, for all mounts that are there."""
    CLONE_NEWNS = 0x20000
    check(libc.unshare(CLONE_NEWNS), "a mount namespace")
    check(libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None), "mounts of its own")
    state = state.encode()
    check(libc.mount(state, state, None, MS_BIND, None), "the state directory")
    if settings.get("ProtectHome") == ["yes"]:
        for home in (b"/home", b"/root"):
            check(libc.mount(b"tmpfs", home, b"tmpfs", 0, b"size=4k,mode=0"), "an empty home")
    everything = [line.split()[4].encode() for line in open("/proc/self/mountinfo", encoding="utf-8")]
    if settings.get("ProtectSystem") == ["strict"]:
        for point in everything:
            # /dev and /proc stay, as they do there, but for /proc/sys
            if point != state and not point.startswith((b"/dev", b"/proc")):
                # one that lies below another's, which hides it, can't be found
                libc.mount(None, point, None, MS_REMOUNT | MS_BIND | MS_RDONLY, None)
    if settings.get("ProtectKernelTunables") == ["yes"]:
        check(libc.mount(b"/proc/sys", b"/proc/sys", None, MS_BIND | MS_REC, None), "/proc/sys")
        check(libc.mount(None, b"/proc/sys", None, MS_REMOUNT | MS_BIND | MS_RDONLY, None), "/proc/sys read-only")


CAPS = {"CAP_DAC_READ_SEARCH": 2, "CAP_SYS_PTRACE": 19, "CAP_SYSLOG": 34, "CAP_PERFMON": 38, "CAP_BPF": 39}


def user(settings):
    """Nobody, with the capabilities that the unit gives."""
    PR_SET_KEEPCAPS, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT, RAISE = 8, 24, 38, 47, 2
    bound = {CAPS[c] for c in settings["CapabilityBoundingSet"]}
    ambient = {CAPS[c] for c in settings["AmbientCapabilities"]}
    for cap in range(int(open("/proc/sys/kernel/cap_last_cap", encoding="utf-8").read()) + 1):
        if cap not in bound:
            check(libc.prctl(PR_CAPBSET_DROP, cap, 0, 0, 0), "drop a capability")
    check(libc.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0), "keep capabilities")
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    mask = sum(1 << cap for cap in ambient)
    low, high = mask & 0xFFFFFFFF, mask >> 32
    header = ctypes.create_string_buffer(struct.pack("II", 0x20080522, 0))
    check(libc.capset(header, ctypes.create_string_buffer(struct.pack("6I", low, low, low, high, high, high))), "capset")
    for cap in ambient:
        check(libc.prctl(PR_CAP_AMBIENT, RAISE, cap, 0, 0), "an ambient capability")
    check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")


def main():
    unit, state, dashes, *command = sys.argv[1:]
    assert dashes in ("--", "-c") and command, __doc__
    settings = read(unit)
    program = filters(settings)
    mounts(settings, os.path.abspath(state))
    user(settings)
    install(program)
    if dashes == "-c":
        exec(command[0], {})
    else:
        os.execv(command[0], command)


if __name__ == "__main__":
    main()
