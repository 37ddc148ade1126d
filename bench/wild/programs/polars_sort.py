"""Reads a table by Polars, sorts it, joins it with itself and groups it."""

import sys

import polars

table = polars.read_csv(sys.argv[1])
for _ in range(3):
    by_name = table.sort("name", "amount").with_columns(polars.col("amount").cum_sum().over("city").alias("sum"))
    cities = table.group_by("city").agg(polars.col("amount").mean().alias("mean"), polars.col("rate").max())
    joined = by_name.join(cities, on="city").filter(polars.col("amount") > polars.col("mean"))
    print(joined.height, joined.group_by("day").agg(polars.col("sum").max()).height)
