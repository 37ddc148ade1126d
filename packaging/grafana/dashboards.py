#!/usr/bin/env python3
"""Writes the dashboards beside itself. `--check` writes nothing, and fails where a file is not what it would write."""

from __future__ import annotations

import json
import os
import sys

import host
import lab

HERE = os.path.dirname(os.path.abspath(__file__))


def texts() -> dict[str, str]:
    made = [host.made("prometheus"), host.made("influxdb"), lab.made()]
    return {f"{one['uid']}.json": json.dumps(one, indent=2, ensure_ascii=False) + "\n" for one in made}


def main() -> None:
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit("usage: dashboards.py [--check]")
    for name, text in texts().items():
        path = os.path.join(HERE, name)
        if not check:
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
            continue
        try:
            with open(path, encoding="utf-8") as f:
                there = f.read()
        except FileNotFoundError:
            there = ""
        if there != text:
            sys.exit(f"dashboards: {name} is not what dashboards.py writes; run packaging/grafana/dashboards.py")


if __name__ == "__main__":
    main()
