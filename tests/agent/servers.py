#!/usr/bin/env python3
"""Checks what real servers make of the agent's figures: Prometheus, InfluxDB, VictoriaMetrics, and a receiver of OTLP.

    servers.py QUELL CULPRIT FOLDER     the example causes is beside CULPRIT

A program makes a known number of shootdowns; each server is asked how many there were, by its own query, and has to have the
same figures as all others. Then every query of the dashboards is run, and what can go wrong does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any

import dashboards_check
import servers_checks as checks
import servers_dashboards as dashboards
import servers_faults as faults
import servers_prove as prove
from dashboards_check import Wrong
from servers_ask import Influx, Otlp, Prom
from servers_receive import Receiver
from servers_start import PATIENCE, Agent, answers, certificate, end_all, fail, get, influxd, ports, prometheus, scrapes, until, victoria

QUELL, CULPRIT, FOLDER = sys.argv[1:]
COUNT, RUNS = 500, 3
MADE = 3 * COUNT * RUNS
TOKEN = "let-me-in"
CGROUP = f"quell-servers-{os.getpid()}"
began = time.monotonic()


def told(what: str) -> None:
    print(f"servers     {time.monotonic() - began:5.1f} s  {what}", flush=True)


def secret(name: str, text: str) -> str:
    path = os.path.join(FOLDER, name)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text + "\n")
    return path


class Cgroup:
    """A cgroup for the known program, so that it can be told from whatever else runs here; none where there is no v2."""

    def __init__(self) -> None:
        with open("/proc/mounts", encoding="utf-8") as f:
            mounts = [line.split()[1] for line in f if line.split()[2] == "cgroup2"]
        self.path = os.path.join(mounts[0], CGROUP) if mounts else ""
        try:
            os.mkdir(self.path)
            # until its name is looked up it is told by its number
            self.names = f"/{CGROUP}|.*/{CGROUP}|id {os.stat(self.path).st_ino}"
        except OSError:
            self.path = ""

    def culprit(self) -> None:
        def inside() -> None:
            if self.path:
                with open(os.path.join(self.path, "cgroup.procs"), "w", encoding="ascii") as f:
                    f.write(str(os.getpid()))

        # The peer runs as an ordinary thread for as long as it takes, or as real-time for less than a second.
        subprocess.run([CULPRIT, str(COUNT)], check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE, preexec_fn=inside)

    def end(self) -> None:
        if self.path:
            os.rmdir(self.path)


class Setup:
    """All servers, and two agents: `agent-a` is scraped plainly with a token, `agent-b` by TLS; both push."""

    def __init__(self) -> None:
        token, wrong = secret("token", TOKEN), secret("wrong-token", "let-me-out")
        cert, key = certificate(FOLDER)
        (a, b, prom, vm, influx, rpc, otlp) = ports(7)
        self.urls = {name: f"http://127.0.0.1:{port}" for name, port in (("prometheus", prom), ("victoria", vm), ("influxdb", influx))}
        self.receiver = Receiver(otlp, TOKEN)
        jobs = {"a": (a, ""), "b": (b, cert), "refused": (a, ""), "plain": (b, "")}
        server = influxd(FOLDER, influx, rpc)
        answers(server, "influxd", self.urls["influxdb"] + "/ping")
        self.influx = Influx(self.urls["influxdb"], "agent-a", "quell")
        self.influx.ask("CREATE DATABASE quell")
        scraper = prometheus(FOLDER, prom, scrapes(token, wrong, jobs))
        store = victoria(FOLDER, vm, scrapes(token, wrong, {"a": (a, "")}))
        answers(scraper, "prometheus", self.urls["prometheus"] + "/-/ready")
        answers(store, "victoria-metrics", self.urls["victoria"] + "/health")
        push = f"[otlp]\nto = 'http://127.0.0.1:{otlp}/v1/metrics'\ntoken_file = '{token}'\n[influx]\nto = '%s/write?db=quell'\n"
        more = f"token_file = '{token}'\n"
        tls = f"{more}tls_cert = '{cert}'\ntls_key = '{key}'\n"
        self.a = Agent(FOLDER, QUELL, "agent-a", a, more + push % self.urls["influxdb"], TOKEN)
        self.b = Agent(FOLDER, QUELL, "agent-b", b, tls + push % self.urls["victoria"], TOKEN, cert, moved=has_time_namespaces())
        # by the agent whose figures they have
        self.servers: dict[str, list[Any]] = {
            "agent-a": [
                Prom("prometheus", self.urls["prometheus"], 'job="a"'),
                Prom("victoria-metrics", self.urls["victoria"], 'job="a"'),
                self.influx,
                Otlp(self.receiver, "agent-a"),
            ],
            "agent-b": [
                Prom("prometheus by TLS", self.urls["prometheus"], 'job="b"'),
                Prom("victoria-metrics by lines", self.urls["victoria"], 'host="agent-b"', influx=True),
                Otlp(self.receiver, "agent-b"),
            ],
        }

    def look(self) -> dict[str, int]:
        """A look of each agent's that all its servers have: the next but one, or the first after it that none has missed. A
        server asks every half second and gives up after 0.4 s, so on a busy machine a look can pass between two answers."""
        looks = {}
        for agent in (self.a, self.b):
            look = agent.counted("quell_agent_looks_total") + 2
            while not self.have(agent.name, look):
                look += 1
            looks[agent.name] = look
        return looks

    def have(self, agent: str, look: int) -> bool:
        """Whether every server has that look. It is known when each has a later one: VictoriaMetrics shows what came within
        the last second or two series by series, as each is written."""
        for server in self.servers[agent]:
            until(f"{server.name} has a look after {look} of {agent}", lambda: any(server.when(look + n) for n in range(3, 9)))
        return all(server.when(look) for server in self.servers[agent])

    def at(self, looks: dict[str, int]) -> dict[str, dict[str, str]]:
        """Where each server has a look that all have."""
        return {agent: {s.name: s.when(looks[agent]) for s in servers} for agent, servers in self.servers.items()}


def has_time_namespaces() -> bool:
    command = ["unshare", "-T", "--monotonic", "86400", "--boottime", "86400", "--fork", "true"]
    if subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0:
        return True
    print("SKIPPED servers: clocks that were moved: skipped: this system has no time namespaces (unshare -T)")
    return False


def known(setup: Setup, cgroup: Cgroup) -> None:
    """The known program, in each server."""
    begin = setup.look()
    for _ in range(RUNS):
        cgroup.culprit()
    end = setup.look()
    first, last = setup.at(begin), setup.at(end)
    proved = 0
    for agent, servers in setup.servers.items():
        was = {s.name: s.figures(first[agent][s.name]) for s in servers}
        is_ = {s.name: s.figures(last[agent][s.name]) for s in servers}
        series = checks.same(was) + checks.same(is_)
        growth = {s.name: s.grown(first[agent][s.name], last[agent][s.name]) for s in servers}
        grown = checks.grown(growth, MADE)
        told(f"{agent}: {series} series are the same in {', '.join(is_)}; made {MADE}, all say {grown} with what others did")
        one, other = next(iter(was.values())), next(iter(is_.values()))
        counts = checks.distributions(other)
        many = ", ".join(f"{n} {name.split('_')[1]}s" for name, n in counts.items())
        told(f"{agent}: {many}; sums are those by cause")
        proved += prove.figures(is_)
        if cgroup.path:
            own, empty = checks.program(one, other, cgroup.names, MADE, RUNS)
            told(f"{agent}: of the program's own cgroup {own} shootdowns; {empty} flushes of all found nobody to interrupt")
            proved += prove.program(one, other, cgroup.names, MADE, RUNS, growth)
    if not cgroup.path:
        print("SKIPPED servers: no more than the program made: skipped: there is no cgroup v2 to tell it from others by")
    told(f"each check fails when it should: {proved} changes to the figures were found")


def types(setup: Setup) -> None:
    """What each server knows of types and units, and who is refused."""
    for agent in (setup.a, setup.b):
        status, page = agent.asked()
        assert status == 200
        requests = Otlp(setup.receiver, agent.name).told()
        metrics = checks.otlp(requests, page, agent.name)
        proved = prove.otlp(requests, page, agent.name)
        told(f"otlp: {len(requests)} requests of {agent.name}, {metrics} metrics of the right kind and unit; {proved} wrong ones were found")
    if setup.receiver.wrong:
        fail(f"otlp: {setup.receiver.wrong[0]}")
    kinds, _ = checks.declared(setup.a.asked()[1])
    server = setup.servers["agent-a"][0]
    metadata = {name: entries[0] for name, entries in server.api("metadata").items() if name.startswith("quell_")}
    seen = {name: entry["type"] for name, entry in metadata.items()}
    if {name.removesuffix("_total"): kind for name, kind in seen.items()} != kinds:
        fail(f"prometheus: types {seen}, on the page {kinds}")
    if not all(entry["help"] for entry in metadata.values()):
        fail("prometheus: a metric without help")
    wanted = {"a": ("up", ""), "b": ("up", ""), "refused": ("down", "401"), "plain": ("down", "")}
    targets: dict[str, tuple[str, str]] = {}

    def as_wanted() -> bool:
        targets.update({t["labels"]["job"]: (t["health"], t["lastError"]) for t in server.api("targets", state="active")["activeTargets"]})
        return all(targets[job][0] == health and error in targets[job][1] for job, (health, error) in wanted.items())

    # one answer may come late on a busy machine, and is "down" until the next
    until(f"prometheus has its targets as {wanted}", as_wanted)
    told(f"prometheus: types of {len(seen)} metrics; without the token or TLS it is refused: {targets['refused'][1]}; {targets['plain'][1][-60:]}")
    if setup.a.asked(token="")[0] != 401:
        fail("who has no token is answered")


def shown(setup: Setup, since: float) -> None:
    """The dashboards' queries."""
    prom = dashboards.load("quell-prometheus")
    for server in (setup.servers["agent-a"][0], setup.servers["agent-a"][1]):
        for host in (".*", f"127.0.0.1:{setup.a.port}"):
            ran, full = dashboards.prometheus(server, prom, host, since)
        told(f"quell-prometheus.json on {server.name}: {ran} queries run, {full} with data")
    influx = dashboards.load("quell-influxdb")
    for host in (".*", "(agent-a|agent-b)"):
        ran, full = dashboards.influxdb(setup.influx, influx, {"host": host}, since)
    told(f"quell-influxdb.json on influxdb: {ran} queries run, {full} with data")
    for query in ("sum by (quell_shootdowns_total", "quell_shootdowns_totals", "rate(quell_shootdowns_total)"):
        for server in (setup.servers["agent-a"][0], setup.servers["agent-a"][1]):
            # VictoriaMetrics' language has a rate of nothing, which is no error there
            if server.name == "prometheus" or not query.startswith("rate"):
                checks.fails(query, dashboards.prometheus, server, broken(prom, query), ".*", since)
    below_zero = 'SELECT non_negative_derivative("count", 1s) * -1 FROM "quell_agent_looks"'
    for query in ("SELECT FROM", 'SELECT "count" FROM "nothing"', 'SELECT "count" FROM "quell_agent_series"', below_zero):
        checks.fails(query, dashboards.influxdb, setup.influx, broken(influx, query), {"host": ".*"}, since)
    told("each check fails when it should: wrong queries were found on each server")


def broken(dashboard: dict[str, Any], query: str) -> dict[str, Any]:
    """With another query in its first panel."""
    target = dashboard["panels"][1]["targets"][0]
    key = "expr" if "expr" in target else "query"
    return checks.changed(dashboard, "panels", 1, "targets", 0, key, to=query)


def lab(setup: Setup) -> None:
    """The lab's dashboard, with what a real lab sends; else with what is made up."""
    setup.influx.ask("CREATE DATABASE lab")
    server = Influx(setup.influx.url, "", "lab")
    path = os.path.join(FOLDER, "lab.lines")
    since = time.time() - 60
    command = [QUELL, "lab", "run", "seed-free", "--set", "bytes=64M", "--rounds", "2", "--influx", path]
    try:
        ended = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=60)
        # 1: too short to say more, which is no matter here
        why = "" if ended.returncode in (0, 1) else ended.stderr.strip()
    except subprocess.TimeoutExpired:
        why = "it takes longer than a minute"
    if why:
        print(f"SKIPPED servers: real lines of the lab, made-up ones are shown instead: skipped: {why.splitlines()[-1]}")
        lines = dashboards.made_up(time.time())
    else:
        with open(path, "rb") as f:
            lines = f.read()
    dashboards.write(server, lines)
    ran, full = dashboards.influxdb(server, dashboards.load("quell-lab-influxdb"), {"experiment": "seed-free"}, since)
    whose = "made up" if why else "of quell lab run seed-free"
    told(f"quell-lab-influxdb.json on influxdb: {ran} queries run, {full} with data; {len(lines.splitlines())} lines {whose}")


def main() -> None:
    cgroup = Cgroup()
    try:
        setup = Setup()
        for agent in (setup.a, setup.b):
            agent.wait(3)
        told("all servers and agents run")
        since = time.time()
        known(setup, cgroup)
        types(setup)
        shown(setup, since)
        lab(setup)
        for line in faults.away(FOLDER, QUELL, os.path.join(os.path.dirname(CULPRIT), "causes"), ports(5)):
            told(line)
        told(f"each check fails when it should: {prove.rest()} wrong series were found")
        prom, influx, otlp = setup.servers["agent-a"][0], setup.influx, setup.servers["agent-a"][3]
        for line in faults.killed(setup.a, prom, influx, otlp, cgroup.culprit):
            told(line)
        ran, _ = dashboards.influxdb(influx, dashboards.load("quell-influxdb"), {"host": ".*"}, since)
        told(f"quell-influxdb.json after that: {ran} queries, no rate below zero")
    except Wrong as wrong:
        fail(str(wrong))
    finally:
        end_all()
        cgroup.end()


if __name__ == "__main__":
    main()
