"""Runs one command as the guardian of everything that comes of it, and says what that took together.

    warden.py REQUEST ANSWER      two files of JSON

It is a program of its own, and a small one: Linux counts into a program's greatest memory what the process that becomes it
held before, so that whoever starts it must be smaller than it (what takes less than the warden's 8 MB looks as if it took
these). Whatever loses its parent becomes the warden's child
(PR_SET_CHILD_SUBREAPER), so nothing escapes being counted, nor being ended.
"""

import ctypes
import json
import os
import signal
import socket
import sys
import time

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
# How long a server may take to answer at first and to end at last, and what outlives its command (agents, zygotes) to go.
READY, STOP, LINGER = 60.0, 20.0, 2.0


def descendants():
    """The processes below this one, as /proc tells them."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as f:
                    parents[int(name)] = int(f.read().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
    found = {os.getpid()}
    while True:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        if not more:
            return found - {os.getpid()}
        found |= more


class Warden:
    def __init__(self, request):
        self.request = request
        self.end = time.monotonic() + request["timeout"]
        self.statuses = {}
        self.cpu = 0.0
        self.memory = 0
        # Programs that had the library, and those that had not, where this is asked for.
        self.with_it, self.without_it = set(), set()

    def start(self, text, env, out, err):
        pid = os.fork()
        if pid:
            return pid
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, [])
            os.setsid()
            os.chdir(self.request["work"])
            for descriptor, name in ((0, os.devnull), (1, out), (2, err)):
                flags = os.O_RDONLY if descriptor == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
                opened = os.open(name, flags, 0o644)
                os.dup2(opened, descriptor)
                os.close(opened)
            if self.request["user"]:
                os.setgroups([])
                os.setgid(self.request["user"][1])
                os.setuid(self.request["user"][0])
            os.execve("/bin/bash", ["bash", "-c", text], env)
        finally:
            os._exit(126)

    def note_library(self):
        """Look which programs have the library loaded at this moment."""
        for pid in descendants():
            try:
                with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as f:
                    if os.path.basename(__file__) in f.read():
                        continue
                name = os.path.basename(os.readlink(f"/proc/{pid}/exe"))
                with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as f:
                    maps = f.read()
            except OSError:
                continue
            # A process that is just ending has no maps left.
            if maps:
                (self.with_it if self.request["library"] in maps else self.without_it).add(name)

    def reap(self, end, done, uncounted=()):
        """Collect children until `done` says so, there are none, or it is `end`; whether there is something left."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid:
                self.statuses[pid] = os.waitstatus_to_exitcode(status)
                if pid not in uncounted:
                    self.cpu += usage.ru_utime + usage.ru_stime
                    self.memory = max(self.memory, usage.ru_maxrss)
                continue
            left = end - time.monotonic()
            if done() or left <= 0:
                return True
            if self.request["library"]:
                self.note_library()
                left = min(left, 0.02)
            told = signal.sigtimedwait([signal.SIGCHLD, signal.SIGTERM], left)
            if told and told.si_signo == signal.SIGTERM:
                self.end_all()
                sys.exit(1)

    def end_all(self):
        """End everything below this process, and nothing else."""
        while True:
            for pid in descendants():
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            if not self.reap(time.monotonic() + 0.2, lambda: False):
                return

    def run(self):
        """The command by itself."""
        pid = self.start(self.request["command"], self.request["env"], self.request["out"], self.request["err"])
        self.reap(self.end, lambda: pid in self.statuses)
        return pid

    def is_ready(self):
        ready = self.request["ready"]
        try:
            if ready == "tcp":
                socket.create_connection(("127.0.0.1", self.request["port"]), 1).close()
            else:
                with socket.socket(socket.AF_UNIX) as one:
                    one.connect(os.path.join(self.request["work"], ready))
            return True
        except OSError:
            return False

    def run_server(self):
        """The server, and the command as its client; the status is the client's where that failed, else the server's."""
        request = self.request
        server = self.start(request["server"], request["env"], request["err"] + ".server", request["err"])
        patience = min(self.end, time.monotonic() + READY)
        while not self.is_ready() and server not in self.statuses and time.monotonic() < patience:
            self.reap(time.monotonic() + 0.05, lambda: server in self.statuses)
        client = self.start(request["command"], request["client_env"], request["out"], request["err"] + ".client")
        self.reap(self.end, lambda: client in self.statuses, [client])
        if client in self.statuses and server not in self.statuses:
            stop = getattr(signal, "SIG" + request["stop"])
            os.kill(server, stop)
            self.reap(min(self.end, time.monotonic() + STOP), lambda: server in self.statuses)
            # Whether it ends by itself when asked to, or leaves that to the signal.
            if self.statuses.get(server) == -stop:
                self.statuses[server] = 0
        return client if self.statuses.get(client) != 0 else server

    def answer(self):
        if self.request["one_cpu"]:
            os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
        began = time.monotonic()
        pid = self.run_server() if self.request["server"] else self.run()
        wall = time.monotonic() - began
        if self.reap(time.monotonic() + LINGER, lambda: False):
            self.end_all()
        return {
            "status": self.statuses.get(pid),
            "timed_out": time.monotonic() > self.end,
            "wall": wall,
            "cpu": self.cpu,
            "memory": self.memory * 1024,
            "with": sorted(self.with_it),
            "without": sorted(self.without_it),
        }


def main():
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD, signal.SIGTERM])
    with open(sys.argv[1], encoding="utf-8") as f:
        request = json.load(f)
    answer = Warden(request).answer()
    with open(sys.argv[2], "w", encoding="utf-8") as f:
        json.dump(answer, f)


main()
