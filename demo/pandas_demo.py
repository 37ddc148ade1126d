"""A pandas job as people write them: columns made from columns, over millions of rows, for one day of trades after the other.

All data is made here, from a fixed seed, so that every run does the same work and nothing is read from a network. Each step makes
columns of some 40 MB and throws them away. The last line is a checksum and the seconds that the days took.
"""

import sys
import time

import numpy as np
import pandas as pd

ROWS = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000_000
DAYS = int(sys.argv[2]) if len(sys.argv) > 2 else 16


def trades(rows: int) -> pd.DataFrame:
    """Made-up trades: a price, an amount and a fee each."""
    number = np.random.default_rng(7)
    return pd.DataFrame(
        {
            "price": number.normal(100.0, 5.0, rows),
            "amount": number.integers(1, 500, rows),
            "fee": number.random(rows) / 100,
        }
    )


def score_of_day(day: pd.DataFrame) -> float:
    """How much was earned against the average, with the changes of the price, as one number."""
    gross = day["price"] * day["amount"]
    net = gross - gross * day["fee"]
    change = day["price"].diff().fillna(0.0).clip(-3.0, 3.0)
    score = (net - net.mean()) / net.std() + change
    smooth = (score + score.shift(1).fillna(0.0)) / 2
    return float(smooth.where(smooth > 0.0, 0.0).sum() + (smooth**2).sum())


def main() -> None:
    day = trades(ROWS)
    start = time.perf_counter()
    total = sum(score_of_day(day) for _ in range(DAYS))
    seconds = time.perf_counter() - start
    print(f"pandas {pd.__version__}: {DAYS} days of {ROWS} trades, {total:.3f}, {seconds:.2f} s")


if __name__ == "__main__":
    main()
