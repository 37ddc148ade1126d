"""Starts what the agent is tested with, on loopback and in a folder of its own, and ends it by its pid, whatever happens."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any, NoReturn

PR_SET_PDEATHSIG = 1
# What has to come is waited for so long: it bounds what never comes, and says nothing of how quick a machine is.
PATIENCE = 300.0
started: list[subprocess.Popen[bytes]] = []
libc = ctypes.CDLL(None)


def fail(what: str) -> NoReturn:
    sys.exit(f"test-servers: FAILED: {what}")


def until(what: str, found: Callable[[], Any]) -> Any:
    """What it finds in the end."""
    end = time.monotonic() + PATIENCE
    while True:
        is_ = found()
        if is_:
            return is_
        if time.monotonic() > end:
            fail(f"not within {PATIENCE:.0f} s: {what}")
        time.sleep(0.1)


def _with_parent() -> None:
    """Should this test be killed, so is what it has started."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def start(folder: str, name: str, command: list[str]) -> subprocess.Popen[bytes]:
    with open(os.path.join(folder, f"{name}.log"), "ab") as log:
        # the kernel's note of the parent is of the thread: all is started by the main one
        one = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=_with_parent)
    started.append(one)
    return one


def end(one: subprocess.Popen[bytes], with_: int = signal.SIGTERM) -> float:
    """How long it took, s."""
    began = time.monotonic()
    if one.poll() is None:
        # unshare passes no signal on
        os.kill(child(one) or one.pid, with_)
        try:
            one.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            one.kill()
            one.wait()
    if one in started:
        started.remove(one)
    return time.monotonic() - began


def child(one: subprocess.Popen[bytes]) -> int:
    """What unshare has started; 0 for all others."""
    if one.args[0] != "unshare":  # type: ignore[index]
        return 0
    with open(f"/proc/{one.pid}/task/{one.pid}/children", encoding="ascii") as f:
        return int((f.read().split() or ["0"])[0])


def end_all() -> None:
    for one in list(started):
        end(one)


def ports(count: int) -> list[int]:
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    found = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return found


def get(
    url: str, body: bytes | None = None, headers: dict[str, str] | None = None, timeout: float = PATIENCE, trusts: str = ""
) -> tuple[int, bytes]:
    """The status and what was said; 0: nobody answered. `trusts`: the certificate that the server has to have."""
    context = ssl.create_default_context(cafile=trusts) if trusts else None
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers or {}), timeout=timeout, context=context) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as err:
        return err.code, err.read()
    except OSError:
        return 0, b""


def answers(one: subprocess.Popen[bytes], name: str, url: str) -> None:
    def there() -> bool:
        if one.poll() is not None:
            fail(f"{name} ended with {one.returncode}: see its log")
        return get(url)[0] in (200, 204)

    until(f"{name} answers at {url}", there)


def certificate(folder: str) -> tuple[str, str]:
    """A certificate of 127.0.0.1's, its own authority, and its key."""
    cert, key = os.path.join(folder, "tls.crt"), os.path.join(folder, "tls.key")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=quell", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=PATIENCE)
    return cert, key


def influxd(folder: str, port: int, rpc: int) -> subprocess.Popen[bytes]:
    config = os.path.join(folder, "influxdb.conf")
    with open(config, "w", encoding="utf-8") as f:
        f.write(
            f'reporting-disabled = true\nbind-address = "127.0.0.1:{rpc}"\n[meta]\ndir = "{folder}/influx/meta"\n'
            f'[data]\ndir = "{folder}/influx/data"\nwal-dir = "{folder}/influx/wal"\nquery-log-enabled = false\n'
            f'[http]\nbind-address = "127.0.0.1:{port}"\nlog-enabled = false\n[monitor]\nstore-enabled = false\n'
        )
    return start(folder, "influxd", ["influxd", "-config", config])


def scrapes(token: str, wrong: str, jobs: dict[str, tuple[int, str]]) -> str:
    """A configuration of Prometheus' form: jobs with their port and certificate (empty: plain). `refused` has a wrong token."""
    text = "global:\n  scrape_interval: 500ms\n  scrape_timeout: 400ms\nscrape_configs:\n"
    for job, (port, cert) in jobs.items():
        text += f"- job_name: {job}\n  authorization:\n    credentials_file: {wrong if job == 'refused' else token}\n"
        if cert:
            text += f"  scheme: https\n  tls_config:\n    ca_file: {cert}\n"
        text += f"  static_configs:\n  - targets: ['127.0.0.1:{port}']\n"
    return text


def prometheus(folder: str, port: int, config: str) -> subprocess.Popen[bytes]:
    path = os.path.join(folder, "prometheus.yml")
    with open(path, "w", encoding="utf-8") as f:
        f.write(config)
    data = f"--storage.tsdb.path={folder}/prometheus"
    listen = f"--web.listen-address=127.0.0.1:{port}"
    return start(folder, "prometheus", ["prometheus", f"--config.file={path}", data, listen, "--log.level=warn"])


def victoria(folder: str, port: int, config: str) -> subprocess.Popen[bytes]:
    path = os.path.join(folder, "victoria.yml")
    with open(path, "w", encoding="utf-8") as f:
        f.write(config)
    command = ["victoria-metrics", f"-storageDataPath={folder}/victoria", f"-httpListenAddr=127.0.0.1:{port}"]
    command += [f"-promscrape.config={path}", "-search.latencyOffset=0s", "-loggerLevel=WARN", "-memory.allowedPercent=10"]
    return start(folder, "victoria", command)


class Agent:
    """An agent, by its configuration. `moved`: by its own clocks the machine has been up for a day longer."""

    def __init__(self, folder: str, quell: str, name: str, port: int, config: str, token: str = "", cert: str = "", moved: bool = False):
        self.folder, self.quell, self.name, self.port, self.token, self.cert, self.moved = folder, quell, name, port, token, cert, moved
        self.path = os.path.join(folder, f"{name}.toml")
        with open(self.path, "w", encoding="utf-8") as f:
            f.write(f'listen = "127.0.0.1:{port}"\ninterval = 1\nhost = "{name}"\n{config}')
        self.start()

    def start(self) -> None:
        command = [self.quell, "--color", "never", "agent", "-c", self.path]
        if self.moved:
            day = ["--monotonic", "86400", "--boottime", "86400"]
            command = ["unshare", "-T", *day, "--fork", "--kill-child=KILL", *command]
        self.process = start(self.folder, self.name, command)

    def asked(self, token: str | None = None) -> tuple[int, str]:
        """The status of /metrics, and the text."""
        token = self.token if token is None else token
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        url = f"http{'s' if self.cert else ''}://127.0.0.1:{self.port}/metrics"
        status, said = get(url, None, headers, trusts=self.cert)
        return status, said.decode()

    def wait(self, looks: int) -> None:
        """A probe takes a while to load."""
        until(f"{self.name} has counted {looks} times; see {self.name}.log", lambda: self.counted("quell_agent_looks_total") >= looks)

    def counted(self, series: str) -> int:
        """One series of its page; -1: not there."""
        if self.process.poll() is not None:
            fail(f"{self.name} ended with {self.process.returncode}: see {self.name}.log")
        found = [line.rsplit(" ", 1)[1] for line in self.asked()[1].splitlines() if line.rsplit(" ", 1)[0] == series]
        return int(found[0]) if found else -1

    def resident(self) -> int:
        """Bytes; of the agent itself, which has no other process around it."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as f:
            return next(int(line.split()[1]) << 10 for line in f if line.startswith("VmRSS:"))
