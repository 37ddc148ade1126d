"""Sends what the lab measures to a real InfluxDB (1.x), as it is measured, and compares what it gives back with the result file.

    influx.py QUELL FOLDER

FOLDER takes the server's data and the results. The server is started here, on ports that are free, and ended here. Prints a
line for each way; ends with 1 at the first thing that is not as it should be.
"""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

QUELL, FOLDER = sys.argv[1:3]
FOLDER = os.path.abspath(FOLDER)
CONFIG = """reporting-disabled = true
bind-address = "127.0.0.1:{rpc}"
[meta]
  dir = "{folder}/meta"
[data]
  dir = "{folder}/data"
  wal-dir = "{folder}/wal"
  query-log-enabled = false
[monitor]
  store-enabled = false
[http]
  bind-address = "127.0.0.1:{http}"
  log-enabled = false
[[udp]]
  enabled = true
  bind-address = "127.0.0.1:{udp}"
  database = "datagrams"
  batch-timeout = "100ms"
"""


def same(what, found, expected):
    if found != expected:
        sys.exit(f"{what}: found {str(found)[:300]}, expected {str(expected)[:300]}")


def free_ports():
    """One port for each use; held until all are known, so that they differ."""
    held = [socket.socket(socket.AF_INET, kind) for kind in (socket.SOCK_STREAM, socket.SOCK_STREAM, socket.SOCK_DGRAM)]
    for s in held:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in held]
    for s in held:
        s.close()
    return dict(zip(("rpc", "http", "udp"), ports))


class Server:
    def __init__(self):
        self.ports = free_ports()
        self.url = f"http://127.0.0.1:{self.ports['http']}"
        config = os.path.join(FOLDER, "influxdb.conf")
        with open(config, "w") as f:
            f.write(CONFIG.format(folder=FOLDER, **self.ports))
        with open(os.path.join(FOLDER, "influxd.log"), "w") as log:
            self.process = subprocess.Popen(["influxd", "-config", config], stdout=log, stderr=log)

    def wait(self):
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                urllib.request.urlopen(self.url + "/ping", timeout=5).close()
                return
            except OSError:
                if self.process.poll() is not None:
                    sys.exit(f"influxd ended with {self.process.returncode}: see {FOLDER}/influxd.log")
                time.sleep(0.1)
        sys.exit("influxd does not answer within a minute")

    def end(self):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def query(self, text, database):
        """Each series as its tags and a list of its rows, by column."""
        fields = urllib.parse.urlencode({"q": text, "db": database, "epoch": "ns"}).encode()
        with urllib.request.urlopen(self.url + "/query", fields, timeout=30) as answer:
            result = json.load(answer)["results"][0]
        if "error" in result:
            sys.exit(f"{text}: {result['error']}")
        series = result.get("series", [])
        return [(s.get("tags", {}), [dict(zip(s["columns"], row)) for row in s["values"]]) for s in series]

    def database(self, name):
        self.query(f"create database {name}", "")

    def write(self, database):
        return f"{self.url}/write?db={database}"


def lab(where, result, *args):
    """Runs the lab; its summaries and what it said."""
    path = os.path.join(FOLDER, result)
    command = [QUELL, "lab", "run", *args, "--influx", where, "-o", path]
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)
    # 1: too noisy to say more, which is no matter here
    if ended.returncode not in (0, 1):
        sys.exit(f"{' '.join(command)} ended with {ended.returncode}: {ended.stderr}")
    with open(path) as f:
        return [json.loads(line) for line in f], ended.stderr


def compare(server, database, results, measurement="quell_lab_block"):
    """Sums over the blocks that count are those of the result file, to the last ns and gap; how many points that took."""
    where = "valid = 1 and" if measurement == "quell_lab_block" else ""
    sums = server.query(
        f"select sum(ops) as ops, sum(ran_ns) as ran_ns, sum(away_ns) as away_ns, sum(shootdowns) as shootdowns, "
        f"sum(caused) as caused, sum(faults) as faults, count(ops) as blocks from {measurement} "
        f"where {where} class = 'all' and ops >= 0 group by experiment, arm",
        database,
    )
    gaps = server.query(
        f"select sum(gaps) as gaps, sum(gaps_ns) as ns from {measurement} where {where} class <> 'all' "
        "group by experiment, arm, class",
        database,
    )
    found = {(tags["experiment"], tags["arm"]): rows[0] for tags, rows in sums}
    by_class = {(tags["experiment"], tags["arm"], tags["class"]): rows[0] for tags, rows in gaps}
    points = 0
    for result in results:
        for arm, told in result["arms"].items():
            if told["blocks"] == 0:
                continue
            what = f"{result['experiment']} {arm}"
            row = found[result["experiment"], arm]
            keys = ["ops", "ran_ns", "away_ns"]
            if arm != "untraced":
                keys += ["shootdowns", "caused", "faults"]
                kinds = {key[2]: [r["gaps"], r["ns"]] for key, r in by_class.items() if key[:2] == (result["experiment"], arm)}
                same(f"{what}: gaps", kinds, told["gaps"])
            same(what, {k: row[k] for k in keys}, {k: told[k] for k in keys})
            if measurement == "quell_lab_block":
                same(f"{what}: blocks", row["blocks"], told["blocks"])
                points += row["blocks"]
    return points


def http(server):
    server.database("live")
    results, said = lab(server.write("live"), "http.jsonl", "untouched", "dontneed", "--rounds", "8")
    same("http: lost", "lost" in said, False)
    points = compare(server, "live", results)
    marks = [rows[0]["n"] for tags, rows in server.query("select count(n) as n from quell_lab_mark group by mark", "live")]
    # of the lab and of each experiment, begin and end
    same("http: marks", marks, [3, 3])
    print(f"influx      by HTTP: {points} blocks, as in the result file")
    return results


def once(server):
    server.database("once")
    results, _ = lab(server.write("once"), "once.jsonl", "seed-free", "--set", "bytes=64M", "--rounds", "2")
    compare(server, "once", results)
    marks = server.query("select n from quell_lab_mark where mark = 'operation' and arm = 'real'", "once")
    ends = server.query("select n from quell_lab_mark where mark = 'operation-end' and arm = 'real'", "once")
    gaps = server.query("select ns, caused from quell_lab_gap where arm = 'real' and caused = 1", "once")
    times = lambda series: sorted(row["time"] for _, rows in series for row in rows)
    free = list(zip(times(marks), times(ends)))
    same("once: marks", len(free), 2)
    # what the culprit caused lies between its marks; two clocks differ by less than a millisecond
    slack = 1_000_000
    beside = [t for t in times(gaps) if not any(b - slack <= t <= e + slack for b, e in free)]
    same("once: gaps beside the marks", beside, [])
    print(f"influx      seed-free: marks at each free, {len(times(gaps))} gaps of the culprit's between them")


def udp(server):
    results, _ = lab(f"udp://127.0.0.1:{server.ports['udp']}", "udp.jsonl", "untouched", "--rounds", "3")
    expected = sum(sum(arm["invalid"].values()) + arm["blocks"] for arm in results[0]["arms"].values())
    found, until = 0, time.monotonic() + 20
    while found < expected and time.monotonic() < until:
        time.sleep(0.2)
        rows = server.query("select count(ops) as n from quell_lab_block where class = 'all'", "datagrams")
        found = rows[0][1][0]["n"] if rows else 0
    same("udp: blocks", found, expected)
    print(f"influx      by UDP: {found} blocks")


def report(server, results):
    """The lines of a result file, which are whole experiments."""
    server.database("report")
    lines = subprocess.run(
        [QUELL, "lab", "report", os.path.join(FOLDER, "http.jsonl"), "--influx", "-"], check=True, stdout=subprocess.PIPE
    ).stdout
    urllib.request.urlopen(server.write("report"), lines, timeout=30).close()
    compare(server, "report", results, "quell_lab")
    print(f"influx      lab report --influx: {len(lines.splitlines())} points")


def refused(server):
    """A database that is not there is said before anything is measured."""
    command = [QUELL, "lab", "run", "untouched", "--influx", server.write("nowhere")]
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    same("no database", (ended.returncode, ended.stdout, ended.stderr.count("\n")), (2, "", 1))
    same("no database: said", "404" in ended.stderr, True)


def gone(server):
    """A server that goes away costs lines, and not the measurement."""
    server.database("gone")
    path = os.path.join(FOLDER, "gone.jsonl")
    command = [QUELL, "lab", "run", "untouched", "--rounds", "12", "--influx", server.write("gone"), "-o", path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        until = time.monotonic() + 60
        while not server.query("select count(ops) from quell_lab_block", "gone") and time.monotonic() < until:
            time.sleep(0.05)
        # not asked to end, which takes it a while
        server.process.kill()
        server.process.wait()
        _, said = running.communicate(timeout=120)
    same("gone: status", running.returncode in (0, 1), True)
    same("gone: said once", said.count("takes no lines"), 1)
    same("gone: counted", "were lost" in said, True)
    with open(path) as f:
        result = json.loads(f.readline())
    blocks = sum(result["arms"]["idle"]["invalid"].values()) + result["arms"]["idle"]["blocks"]
    print(f"influx      a server that goes away: {blocks} rounds were measured all the same")


server = Server()
try:
    server.wait()
    server.database("datagrams")
    results = http(server)
    once(server)
    udp(server)
    report(server, results)
    refused(server)
    gone(server)
finally:
    server.end()
