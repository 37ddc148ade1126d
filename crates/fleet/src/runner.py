# Runs the questions of quell fleet: reads a job as JSON from stdin, and prints a JSON object a line for each answer.
import sys

# a file beside the traces is none of Python's modules
sys.path = [p for p in sys.path if p]

import json
import os
import time

# What an engine prints, such as DuckDB's bar of progress after two seconds, is not on the lines of the answers.
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def tell(line):
    print(json.dumps(line, allow_nan=False), file=answers, flush=True)


def missing(module):
    tell({"missing": module})
    sys.exit(0)


def duckdb_asker(job):
    try:
        import duckdb
    except ImportError:
        missing("duckdb")
    db = duckdb.connect(config={"temp_directory": job["dir"] + "/spill"})
    for statement in job["views"]:
        db.execute(statement)

    def ask(sql, limit):
        result = db.execute(sql)
        columns = [column[0] for column in result.description]
        rows = result.fetchall() if limit is None else result.fetchmany(limit)
        return columns, rows

    return ask


def spark_asker(job):
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        missing("pyspark")
    spark = (
        SparkSession.builder.master("local[*]")
        .appName("quell fleet")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", job["memory"])
        .config("spark.sql.shuffle.partitions", str(max(4, 2 * (os.cpu_count() or 2))))
        .config("spark.local.dir", job["dir"] + "/spill")
        .config("spark.sql.warehouse.dir", job["dir"] + "/warehouse")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    for statement in job["views"]:
        spark.sql(statement)

    def ask(sql, limit):
        frame = spark.sql(sql)
        rows = frame.collect() if limit is None else frame.take(limit)
        return frame.columns, [tuple(row) for row in rows]

    return ask


def main():
    job = json.load(sys.stdin)
    ask = {"duckdb": duckdb_asker, "spark": spark_asker}[job["engine"]](job)
    for question in job["questions"]:
        begun = time.monotonic_ns()
        columns, rows = ask(question["sql"], job["limit"])
        took = time.monotonic_ns() - begun
        answer = {"question": question["name"], "took_ns": took, "columns": columns, "rows": rows}
        tell(answer)


main()
