"""Reads, sorts, groups and writes a table by Arrow."""

import io
import sys

import pyarrow
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet

for _ in range(3):
    table = pyarrow.csv.read_csv(sys.argv[1])
    table = table.sort_by([("name", "ascending"), ("amount", "descending")])
    means = table.group_by("city").aggregate([("amount", "mean"), ("rate", "max")])
    joined = table.join(means, "city")
    chosen = joined.filter(pyarrow.compute.greater(joined["amount"], joined["amount_mean"]))
    out = io.BytesIO()
    pyarrow.parquet.write_table(chosen, out, compression="zstd")
    print(chosen.num_rows)
