"""Tables of what was measured: the rows are CSV, and what a page says of them in short is what they say."""

import csv
import statistics
import unittest

from house import ROOT

ROWS = ROOT / "docs/data/remedies-measured.csv"
PAGE = ROOT / "docs/remedies-measured.md"


def family(row):
    """What rows are summed up by: an allocator whatever its version, or the program's own calls."""
    if row["workload"] == "raw":
        return "a program's own mmap and munmap"
    name = row["allocator"].split()[0]
    return f"{name}, decay 0" if row["allocator"].endswith("decay 0") else name


def summary(rows):
    """The lines of the table in the page: of rows with a plan, the later run where both have the row."""
    latest = {(row["allocator"], row["workload"]): row for row in rows}
    groups = {}
    for row in latest.values():
        if row["stopped_percent"]:
            groups.setdefault(family(row), []).append(row)
    lines = []
    for name, group in sorted(groups.items()):
        stopped = sorted(float(row["stopped_percent"]) for row in group)
        memory = statistics.median(float(row["memory_ratio"]) for row in group)
        time = statistics.median(float(row["time_ratio"]) for row in group)
        holds = sum(row["verdict"] == "holds" for row in group)
        lines.append(
            f"| {name} | {len(group)} | {statistics.median(stopped):.1f} % ({stopped[0]:.1f} to {stopped[-1]:.1f}) "
            f"| {memory:.2f} | {time:.2f} | {holds} |"
        )
    return lines


class Measured(unittest.TestCase):
    def test_summary_is_what_the_rows_say(self):
        """Check that the short table of the page is what its CSV gives."""
        with ROWS.open(newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertGreater(len(rows), 100)
        page = PAGE.read_text().splitlines()
        lines = summary(rows)
        missing = [line for line in lines if line not in page]
        self.assertEqual(missing, [], "the page should have these lines:\n" + "\n".join(lines))

    def test_summary_takes_the_later_row(self):
        """Check that a row which was measured again counts once, and that one without a plan does not count."""
        base = {"workload": "big", "memory_ratio": "1", "time_ratio": "1", "verdict": "holds"}
        rows = [
            {**base, "allocator": "a 1", "stopped_percent": "10"},
            {**base, "allocator": "a 2", "stopped_percent": ""},
            {**base, "allocator": "a 1", "stopped_percent": "30", "memory_ratio": "2"},
        ]
        self.assertEqual(summary(rows), ["| a | 1 | 30.0 % (30.0 to 30.0) | 2.00 | 1.00 | 1 |"])


if __name__ == "__main__":
    unittest.main()
