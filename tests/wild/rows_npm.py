"""Stub."""
from row import Row
ROWS: list[Row] = []
