"""Asks a table of DuckDB's: windows, groups and a join."""

import sys

import duckdb

database = duckdb.connect()
database.execute("create table t as select * from read_csv(?)", [sys.argv[1]])
for _ in range(3):
    database.execute("create or replace table w as select *, row_number() over (partition by name order by amount, id) place from t")
    print(database.execute("select city, count(*), max(place), sum(rate) > 0 from w group by city order by 2 desc, 1 limit 2").fetchall())
    print(database.execute("select count(*) from t a join t b on a.name = b.name and a.day = b.day where a.amount < b.amount").fetchall())
