"""A Polars job as people write them: group-bys and joins over a few million rows, six queries.

All data is made here, from a fixed seed, so every run does the same work and nothing is read
from a network. The last line is the seconds that the six queries took.
"""

import sys
import time

import polars as pl

ROWS = int(sys.argv[1]) if len(sys.argv) > 1 else 6_000_000


def orders(rows: int) -> pl.DataFrame:
    """Rows of made-up orders: a customer, a product, a day, an amount and a price."""
    base = pl.DataFrame({"i": pl.int_range(0, rows, dtype=pl.UInt64, eager=True)})
    number = pl.col("i").hash(seed=7)
    return base.select(
        customer=(number % 400_000).cast(pl.Int32),
        product=((number // 1_000_003) % 5_000).cast(pl.Int32),
        day=((number // 7_919) % 365).cast(pl.Int16),
        amount=((number // 31) % 50).cast(pl.Int32) + 1,
        price=((number // 613) % 100_000).cast(pl.Float64) / 100,
    )


def six_queries(frame: pl.DataFrame) -> int:
    """Three joins and three group-bys, each result kept, as in a notebook; returns rows made."""
    lazy = frame.lazy()
    money = (pl.col("amount") * pl.col("price")).alias("money")
    customers = lazy.group_by("customer").agg(pl.len().alias("orders"), money.sum()).collect()
    products = lazy.group_by("product", "day").agg(money.mean(), pl.col("amount").max()).collect()
    regulars = lazy.join(customers.lazy(), on="customer").filter(pl.col("orders") > 8).collect()
    gaps = (
        regulars.lazy()
        .join(products.lazy(), on=["product", "day"])
        .select((pl.col("price") - pl.col("money_right")).alias("gap"), "customer")
        .group_by("customer")
        .agg(pl.col("gap").std())
        .collect()
    )
    best = lazy.sort("price", descending=True).group_by("product").agg(pl.col("customer").first()).collect()
    report = regulars.lazy().join(gaps.lazy(), on="customer").join(best.lazy(), on="product").collect()
    return sum(map(len, (customers, products, regulars, gaps, best, report)))


def main() -> None:
    frame = orders(ROWS)
    start = time.perf_counter()
    made = six_queries(frame)
    seconds = time.perf_counter() - start
    print(f"polars {pl.__version__}: {ROWS} rows in, {made} rows out, {seconds:.2f} s")


if __name__ == "__main__":
    main()
