"""What goes wrong: servers that are down, refuse, or never answer; scrapes ten times a second; an agent that is killed."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable

import servers_checks as checks
from servers_ask import KNOWN, Influx, Otlp, Prom
from servers_receive import Silent, refusing
from servers_start import PATIENCE, Agent, end, fail, until

EVERY, SECONDS = 0.1, 20


def scraped(agent: Agent) -> tuple[int, list[int], float]:
    """Scrapes it for a while, more often than anybody would: how often, its memory meanwhile, the slowest answer."""
    resident, slowest, count = [], 0.0, 0
    due = time.monotonic()
    stop = due + SECONDS
    while due < stop:
        began = time.monotonic()
        status, text = agent.asked()
        slowest = max(slowest, time.monotonic() - began)
        if status != 200 or not text.endswith("# EOF\n"):
            fail(f"{agent.name}: scrape {count} is answered {status}")
        resident.append(agent.resident())
        count += 1
        due += EVERY
        time.sleep(max(0.0, due - time.monotonic()))
    return count, resident, slowest


def names_known(agent: Agent, causes: str) -> None:
    """
    It has loaded the kernel's names, once for all: some 8 MB, with the first shootdown that no system call explains. That
    is not to come by chance while its memory is compared.
    """
    def has_one() -> bool:
        subprocess.run([causes, "cow", "40"], check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE)
        return agent.counted('quell_shootdowns_total{cause="cow"}') > 0

    until(f"{agent.name} is told of a page that was copied", has_one)


def accounted(agent: Agent, to: str, taken: bool) -> str:
    """All pushes to a server are accounted for."""
    text = agent.asked()[1].splitlines()
    told = dict(line.rsplit(" ", 1) for line in text if not line.startswith("#"))
    of = [int(told[f'quell_agent_pushes_total{{to="{to}",result="{result}"}}']) for result in ("taken", "failed", "dropped")]
    checks.pushes(int(told["quell_agent_looks_total"]), *of, taken)
    return f"{of[0]} taken, {of[1]} failed, {of[2]} dropped"


def away(folder: str, quell: str, causes: str, ports: list[int]) -> list[str]:
    """Three servers that are no use, while the agents that push to them are scraped ten times a second."""
    listen, second, slow, wrong, down = ports
    silent, five = Silent(slow), refusing(wrong)
    to = f"[influx]\nto = 'http://127.0.0.1:{slow}/write?db=a'\n[otlp]\nto = 'http://127.0.0.1:{wrong}/v1/metrics'\n"
    agent = Agent(folder, quell, "agent-slow", listen, to)
    other = Agent(folder, quell, "agent-down", second, f"[influx]\nto = 'http://127.0.0.1:{down}/write?db=a'\n")
    for one in (agent, other):
        one.wait(2)
    names_known(agent, causes)
    count, resident, slowest = scraped(agent)
    # waited for, the server that never answers would leave it one look a push: none would be dropped for the next one's sake
    waits = 'quell_agent_pushes_total{to="influx",result="dropped"}'
    until(f"{agent.name} counts on beside a push that nobody answers", lambda: agent.counted(waits) >= 5)
    scrapes = agent.counted("quell_agent_scrapes_total")
    if scrapes < count:
        fail(f"{agent.name}: {count} scrapes, and it tells of {scrapes}")
    was, is_ = checks.memory(resident)
    if not silent.held:
        fail("nobody came to the server that never answers")
    said = [
        f"{count} scrapes, all answered, the slowest in {slowest * 1e3:.0f} ms; VmRSS {was >> 10} kB, then {is_ >> 10} kB",
        f"never answers: {accounted(agent, 'influx', False)}",
        f"answers 500: {accounted(agent, 'otlp', False)}",
        f"is down: {accounted(other, 'influx', False)}",
    ]
    with open(f"{folder}/{agent.name}.log", encoding="utf-8") as f:
        told = [line for line in f if "push to" in line]
    # each server once, however often it fails
    if len(told) != 2 or not any("500" in line for line in told):
        fail(f"{agent.name} says {told}")
    for one in (agent, other):
        took = end(one.process)
        if one.process.returncode != 0:
            fail(f"{one.name} ended with {one.process.returncode}")
        said.append(f"{one.name} ends when it is asked to, after {took:.1f} s")
    five.shutdown()
    return said


def increased(server: Prom, begin: float, now: float) -> tuple[float, float, float]:
    """What increase() says of the known causes, what the samples say, and the last less the first."""
    which = f'quell_shootdowns_total{{cause=~"{KNOWN}",{server.which}}}'
    span = f"{int(now - begin)}s"
    said = float(server.query(f"sum(increase({which}[{span}]))", time=f"{now:.3f}")[0]["value"][1])
    true = naive = 0.0
    for series in server.query(f"{which}[{span}]", time=f"{now:.3f}"):
        values = [float(v) for _, v in series["values"]]
        true += sum(b - a if b >= a else b for a, b in zip(values, values[1:]))
        naive += values[-1] - values[0]
    return said, true, naive


def begins(otlp: Otlp) -> set[int]:
    """Since when the agent's own counters count."""
    metrics = (item for one in otlp.told() for item in one["metrics"].items())
    return {t[0] for name, metric in metrics if checks.counts_since(name) == "agent" for t in metric["times"]}


def killed(agent: Agent, server: Prom, influx: Influx, otlp: Otlp, culprit: Callable[[], None]) -> list[str]:
    """Killed without a chance to say goodbye, and started again: counters begin anew, and nobody takes that for growth."""
    begin = time.time() - 8
    first = begins(otlp)
    end(agent.process, signal.SIGKILL)
    if agent.process.returncode != -signal.SIGKILL:
        fail(f"{agent.name} was not killed: {agent.process.returncode}")
    agent.start()
    agent.wait(2)
    culprit()
    look = agent.counted("quell_agent_looks_total") + 2
    until("the agent has counted", lambda: agent.counted("quell_agent_looks_total") >= look)
    looks = f"resets(quell_agent_looks_total{{{server.which}}}[3m])"
    until("prometheus sees one reset", lambda: server.query(looks)[0]["value"][1] == "1")
    found: list[tuple[float, float, float]] = []

    def no_growth() -> bool:
        found.append(increased(server, begin, time.time()))
        said, true, naive = found[-1]
        # It extends what it saw to the ends of the range, by a sample or two; the longer the range, the less. Growth that
        # was none would stay.
        return naive < 0 and 0.8 * true <= said <= 1.3 * true

    until("prometheus: a counter falls, and increase() says what the samples do", no_growth)
    said, true, naive = found[-1]
    later = begins(otlp) - first
    if len(later) != 1 or min(later) <= max(first):
        fail(f"otlp: counters begin at {sorted(first)}, then at {sorted(later)}")
    # a query of the dashboard's must not show it as growth: servers_dashboards looks for rates below zero, here for huge ones
    rate = 'SELECT non_negative_difference("count") FROM "quell_tlb_interrupts" WHERE "host" = \'%s\' AND time > now() - 30s'
    steps = [row[1] for series in influx.ask(rate % agent.name) for row in series["values"]]
    if not steps or max(steps) > 10**8:
        fail(f"influxdb: the kernel's own count jumps: {steps}")
    return [f"killed and started again: increase() {said:.0f}, by its samples {true:.0f} (last less first: {naive:.0f})"]
