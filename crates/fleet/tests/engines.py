"""Asks every question of a made-up tree on each engine, by quell and by hand, and compares with the planted answers.

    engines.py QUELL TREE OUT ENGINE...

Runs in the Python that has the engines. OUT is an empty folder.
"""

import json
import os
import shutil
import subprocess
import sys

SQL = "crates/fleet/sql"


def die(text):
    sys.exit(f"test-fleet: {text}")


def typed(rows):
    """Rows with the type of each value: 1 and 1.0 are not the same here."""
    return [{column: (type(value).__name__, value) for column, value in row.items()} for row in rows]


def same(name, got, expected):
    """Why two answers differ, or nothing."""
    if len(got) != len(expected):
        return f"{name}: {len(got)} rows, and {len(expected)} are planted"
    for at, (a, b) in enumerate(zip(typed(got), typed(expected))):
        if a != b:
            return f"{name}, row {at}:\n  got     {a}\n  planted {b}"
    return None


def quell(program, *args, fails=None):
    done = subprocess.run([program, "fleet", *args], capture_output=True, text=True)
    if done.returncode != (fails or 0):
        die(f"quell fleet {' '.join(args)}: exit status {done.returncode}: {done.stderr}")
    return done


def by_quell(program, tree, engine, questions):
    done = quell(program, *questions, tree, "--json", "--engine", engine, "--python", sys.executable)
    if done.stderr:
        die(f"{engine} says: {done.stderr}")
    said = json.loads(done.stdout)
    if said["schema"] != "quell/fleet/1" or said["engine"] != engine:
        die(f"another schema or engine: {done.stdout[:200]}")
    return {answer["question"]: answer["rows"] for answer in said["answers"]}


def statements(path):
    with open(path) as file:
        return [part for part in file.read().split(";\n") if part.strip()]


def by_hand(out, engine, questions):
    """What anybody can do with the prepared folder: the views as they are defined there, the SQL files as they are."""
    texts = {}
    for name in questions:
        with open(f"{SQL}/{name}.sql") as file:
            texts[name] = file.read()
        with open(f"{out}/{name}.sql") as file:
            if file.read() != texts[name]:
                die(f"{out}/{name}.sql is not {SQL}/{name}.sql")
    rows = {}
    if engine == "duckdb":
        import duckdb

        db = duckdb.connect()
        for statement in statements(f"{out}/views-duckdb.sql"):
            db.execute(statement)
        for name, text in texts.items():
            result = db.execute(text)
            columns = [column[0] for column in result.description]
            rows[name] = [dict(zip(columns, row)) for row in result.fetchall()]
    else:
        from pyspark.sql import SparkSession

        spark = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false").getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        for statement in statements(f"{out}/views-spark.sql"):
            spark.sql(statement)
        for name, text in texts.items():
            frame = spark.sql(text)
            rows[name] = [dict(zip(frame.columns, row)) for row in frame.collect()]
        spark.stop()
    return rows


def compare(who, rows, planted):
    for name, expected in planted.items():
        why = same(f"{who}: {name}", rows.get(name, []), expected)
        if why:
            die(why)
    print(f"test-fleet: {who}: {len(planted)} answers are the planted ones", file=sys.stderr)


def rows_of(prepared, table):
    with open(os.path.join(prepared, f"{table}.jsonl")) as file:
        return [json.loads(line) for line in file]


def wins(prepared):
    """What `wins` answers, of the rows that it is of: summed here, without SQL."""
    host = {row["trace"]: row["host"] for row in rows_of(prepared, "traces")}
    sums, programs = {}, {}
    for row in rows_of(prepared, "wins"):
        key = row["remedy"], row["asker"]
        cost = sums.setdefault(key, {}).setdefault(host[row["trace"]], [0, 0])
        cost[0] += row["cpu_ns"]
        cost[1] += row["blocked_ns"]
        programs.setdefault(key, set()).add(row["program"])
    out = []
    for key, hosts in sums.items():
        most = min(hosts, key=lambda name: (-hosts[name][0], -hosts[name][1], name))
        out.append({"remedy": key[0], "asker": key[1], "cpu_ns": sum(c for c, _ in hosts.values()),
                    "blocked_ns": sum(b for _, b in hosts.values()), "binaries": len(programs[key]), "hosts": len(hosts),
                    "host": most, "host_cpu_ns": hosts[most][0]})
    if not out:
        die("no remedy could win anything: the comparison can't fail")
    return sorted(out, key=lambda row: (-row["cpu_ns"], -row["blocked_ns"], row["remedy"], row["asker"]))


def one_is_missing(program, tree, out, planted):
    """Without one of the traces no answer may be the planted one, and one that was cut short is passed over."""
    shutil.copytree(tree, out, symlinks=True)
    host = sorted(name for name in os.listdir(out) if name.startswith("edge-"))[-1]
    trace = os.path.join(out, host, sorted(os.listdir(os.path.join(out, host)))[-1])
    meta = os.path.join(trace, "meta.json")
    with open(meta) as file:
        said = json.load(file)
    said["ended"] = None
    with open(meta, "w") as file:
        json.dump(said, file)
    done = quell(program, *planted, out, "--json", "--python", sys.executable)
    if "passed over 1 of" not in done.stderr or "1 cut short" not in done.stderr:
        die(f"a trace that was cut short is not told: {done.stderr}")
    for answer in json.loads(done.stdout)["answers"]:
        if same("", answer["rows"], planted[answer["question"]]) is None:
            die(f"{answer['question']} does not see that a trace is missing: the comparison can't fail")
    print("test-fleet: without one trace every answer is another one", file=sys.stderr)


def main():
    program, tree, out, *engines = sys.argv[1:]
    with open(os.path.join(tree, "planted.json")) as file:
        planted = json.load(file)
    listed = quell(program, "--list").stdout
    for name in planted:
        if name not in listed:
            die(f"{name} is not listed")
    prepared = os.path.join(out, "prepared")
    quell(program, tree, "--prepare", prepared)
    planted["wins"] = wins(prepared)
    for engine in engines:
        compare(f"{engine} by quell", by_quell(program, tree, engine, list(planted)), planted)
        compare(f"{engine} by hand", by_hand(prepared, engine, planted), planted)
    one_is_missing(program, tree, os.path.join(out, "less"), planted)


main()
