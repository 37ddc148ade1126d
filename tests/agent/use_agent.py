"""Runs quell agent as packaging/ has it, and a Prometheus that scrapes it as packaging/ has that: what the unit restricts
(tests/agent/unit_sandbox.py), every key of agent.toml, a token, TLS, the rules and the alerts. As root.

    use_agent.py QUELL CULPRIT AGENT.TOML OUT     AGENT.TOML with every key on: check_packaging.py config
"""

import http.server
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from pathlib import Path

from servers_start import ports

NOBODY = 65534
SHOTS = 300
# those of which there is nothing on a machine without isolated CPUs
NOT_HERE = {"instance:quell_isolated_cpu_victims:increase5m"}
PATIENCE = 300
# By these a recording steps back (crates/event/src/trace/background.rs). Of real time it is asked for what there is not, which
# the kernel tells with EINVAL whoever asks, and the unit's filter, that comes before, with EPERM.
STEPS_BACK = """
import os
os.setpriority(os.PRIO_PROCESS, 0, 19)
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
try:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(0))
except PermissionError:
    pass
except OSError:
    raise SystemExit("use_agent: the unit lets the agent ask for real time")
"""


class Sink(http.server.BaseHTTPRequestHandler):
    """Takes pushes, and notes which token each had."""

    taken = {}

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.taken.setdefault(self.path, []).append((self.headers["Authorization"], len(body)))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def await_(what, holds):
    until = time.monotonic() + PATIENCE
    while True:
        last = holds()
        if last is True:
            return
        if time.monotonic() > until:
            sys.exit(f"use_agent: after {PATIENCE} s still not: {what}: {last}")
        time.sleep(0.5)


def certificate(out):
    """One that signs, and one that it signed for this machine's address."""
    run = lambda *words: subprocess.run(["openssl", *words], check=True, capture_output=True)
    ec = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    run("req", "-x509", *ec, "-days", "2", "-subj", "/CN=quell test", "-keyout", f"{out}/ca.key", "-out", f"{out}/quell-ca.crt")
    run("req", *ec, "-subj", "/CN=localhost", "-keyout", f"{out}/tls.key", "-out", f"{out}/tls.csr")
    Path(out, "san").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    run("x509", "-req", "-in", f"{out}/tls.csr", "-CA", f"{out}/quell-ca.crt", "-CAkey", f"{out}/ca.key", "-CAcreateserial",
        "-days", "2", "-extfile", f"{out}/san", "-out", f"{out}/tls.crt")


def agent_toml(path, state, port, sink):
    """The example's keys, with this machine's values."""
    text = Path(path).read_text()
    text = text.replace("/run/credentials/quell-agent.service", str(state)).replace("/var/lib/quell/traces", f"{state}/traces")
    for key, value in {"listen": f'"127.0.0.1:{port}"', "interval": "1", "seconds": "2", "rate": "20", "reserve_mb": "1"}.items():
        text, n = re.subn(rf"^{key} = .*$", f"{key} = {value}", text, flags=re.M)
        assert n == 1, key
    text = re.sub(r'"http://influx[^/]*', f'"http://localhost:{sink}', text)
    text = re.sub(r'"https://otel[^/]*', f'"http://localhost:{sink}', text)
    Path(state, "agent.toml").write_text(text)


def prometheus_yml(out, port):
    """The example, faster."""
    text = Path("packaging/prometheus/prometheus.yml").read_text().replace("30s", "1s")
    text, n = re.subn(r"host-1\.example:9469", f"127.0.0.1:{port}", text)
    assert n == 1, "the target"
    text = re.sub(r".*host-2\.example.*\n", "", text)
    Path(out, "prometheus.yml").write_text(text)
    for name in ("quell-rules.yml", "quell-alerts.yml"):
        shutil.copy(Path("packaging/prometheus", name), out / name)


def steps_back(sandbox):
    if subprocess.run([*sandbox, "-c", STEPS_BACK]).returncode != 0:
        sys.exit("use_agent: what the unit allows of priorities is not what a recording takes: see above")


def sealers(agent, seen):
    """Notes the policies of the threads that seal a recording's files, as long as the agent runs."""
    fields = lambda path: path.read_text().rpartition(")")[2].split()
    while agent.poll() is None:
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if fields(process / "stat")[4 - 3] == str(agent.pid):
                    threads = [one for one in (process / "task").iterdir() if (one / "comm").read_text() == "quell-seal\n"]
                    seen.update(fields(one / "stat")[41 - 3] for one in threads)
            except OSError:
                # it has ended
                pass
        time.sleep(0.1)


def main():
    quell, culprit, toml, out = sys.argv[1:]
    # whoever ends this ends what it started
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("use_agent: ended"))
    out = Path(out).resolve()
    shutil.rmtree(out, ignore_errors=True)
    state = out / "state"
    state.mkdir(parents=True)
    # the unit hides /home and /root, where this may be
    shutil.copy(quell, state / "quell")
    certificate(out)
    for name in ("tls.crt", "tls.key"):
        shutil.copy(out / name, state / name)
    shutil.copy(out / "tls.crt", state / "ca.crt")
    for name in ("token", "influx-token", "otlp-token"):
        (state / name).write_text(f"secret-of-{name}\n")
    shutil.copy(state / "token", out / "quell-token")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Sink)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    port, at = ports(2)
    agent_toml(toml, state, port, server.server_port)
    prometheus_yml(out, port)
    for path in [state, *state.iterdir()]:
        os.chown(path, NOBODY, NOBODY)
        path.chmod(0o500 if path.name == "quell" else 0o700 if path == state else 0o400)
    subprocess.run(["promtool", "check", "config", out / "prometheus.yml"], check=True, stdout=sys.stderr)
    sandbox = [sys.executable, "tests/agent/unit_sandbox.py", "packaging/quell-agent.service", state]
    steps_back(sandbox)
    sandbox.append("--")
    words = [state / "quell", "agent", "-c", state / "agent.toml"]
    subprocess.run([*sandbox, *words, "--check"], check=True)
    started = []
    try:
        agent = subprocess.Popen([*sandbox, *words])
        started.append(agent)
        policies = set()
        threading.Thread(target=sealers, args=(agent, policies), daemon=True).start()
        with open(out / "prometheus.log", "w", encoding="utf-8") as log:
            started.append(subprocess.Popen(
                ["prometheus", f"--config.file={out}/prometheus.yml", f"--storage.tsdb.path={out}/tsdb",
                 f"--web.listen-address=127.0.0.1:{at}", "--log.level=warn"], stdout=log, stderr=log))
        look(agent, culprit, at)
        if str(os.SCHED_IDLE) not in policies:
            sys.exit(f"use_agent: the recording did not step back: its policies were {policies or 'not seen'}")
        agent.send_signal(signal.SIGTERM)
        status = agent.wait(PATIENCE)
        if status != 0:
            sys.exit(f"use_agent: the agent ended with {status}")
    finally:
        for process in started:
            if process.poll() is None:
                process.terminate()
        for process in started:
            process.wait(PATIENCE)


def look(agent, culprit, at):
    def api(path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{at}/api/v1/{path}", timeout=PATIENCE) as answer:
                return json.load(answer)["data"]
        except OSError as err:
            return {"result": [], "groups": [], "err": str(err)}

    def ask(expr):
        return {json.dumps(r["metric"], sort_keys=True): float(r["value"][1])
                for r in api("query?query=" + urllib.parse.quote(expr))["result"]}

    def alive():
        if agent.poll() is not None:
            sys.exit(f"use_agent: the agent ended by itself with {agent.returncode}")

    def up():
        alive()
        return list(ask('up{job="quell"}').values()) == [1.0] or ask("up")

    await_("Prometheus scrapes the agent, with its token and by TLS", up)
    caused = 'sum(quell_shootdowns_total{cause=~"munmap|mprotect|madvise.*"})'
    await_("it has counted something", lambda: bool(ask("quell_agent_looks_total")) or "nothing")
    before = sum(ask(caused).values())
    subprocess.run([culprit, str(SHOTS)], check=True, stdout=subprocess.DEVNULL)

    def counted():
        alive()
        grown = sum(ask(caused).values()) - before
        return grown >= 3 * SHOTS or f"{grown:.0f} more of {3 * SHOTS} shootdowns"

    await_("all shootdowns are in Prometheus", counted)
    await_("the time of memory management is told", lambda: sum(ask("quell_memory_cpu_seconds_total").values()) > 0 or "none of it")

    def rules():
        alive()
        told = [rule for group in api("rules")["groups"] for rule in group["rules"]]
        if not told:
            return "no rules"
        bad = [f"{r['name']}: {r.get('lastError')}" for r in told if r["health"] != "ok"]
        # so short a time is no five minutes, so there may be no rate of what did not change; but no number is no answer
        for rule in told:
            if rule["type"] == "recording" and rule["name"] not in NOT_HERE:
                values = ask(rule["name"]).values()
                if not values or all(math.isnan(v) for v in values):
                    bad.append(f"{rule['name']} is {list(values) or 'not there'}")
        return bad or True

    await_("every rule has a value", rules)
    await_("a trace is kept", lambda: ask('quell_agent_traces_total{rule="storm", result="kept"} > 0') != {} or ask("quell_agent_traces_total"))
    pushes = {"/write?db=quell": "Token secret-of-influx-token", "/v1/metrics": "Bearer secret-of-otlp-token"}
    await_("pushes come with their tokens", lambda: all((token in {t for t, n in Sink.taken.get(path, []) if n})
                                                      for path, token in pushes.items()) or Sink.taken)
    times = ask("instance:quell_wait_distribution_seconds:p50_5m"), ask("instance:quell_wait_distribution_seconds:p99_5m")
    p50, p99 = (next(iter(time.values())) * 1e6 for time in times)
    memory = next(iter(ask("quell_agent_resident_bytes").values())) / 1e6
    print(f"use_agent: under the unit's restrictions, by TLS and token: {sum(ask(caused).values()) - before:.0f} shootdowns of "
          f"{3 * SHOTS} caused, waits p50 {p50:.0f} us, p99 {p99:.0f} us, a trace, both pushes; {memory:.0f} MB", file=sys.stderr)


if __name__ == "__main__":
    main()
