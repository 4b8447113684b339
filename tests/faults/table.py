"""The table of faults for the README, from what the tests counted (`tally.py`).

    EVERDELTA_SLOW=1 EVERDELTA_TALLY=faults.jsonl python -m pytest --timeout 3600 tests/faults
    python -m tests.faults.table faults.jsonl

A row is here only if all that is promised for it held each time: a test that fails counts nothing.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

__all__ = ["table"]


def table(lines: list[str]) -> str:
    """Markdown: fault, how many were tried, and what else was counted."""
    tried: Counter[str] = Counter()
    found: dict[str, Counter[str]] = {}
    for line in lines:
        row: dict[str, int] = json.loads(line)
        fault = str(row.pop("fault"))
        tried[fault] += row.pop("tried")
        found.setdefault(fault, Counter()).update(row)
    rows = ["| fault | tried | of these, or met on the way |", "|---|---:|---|"]
    for fault, count in tried.items():
        told = ", ".join(f"{name} {number:,}" for name, number in found[fault].items() if number)
        rows.append(f"| {fault} | {count:,} | {told} |")
    return "\n".join(rows)


if __name__ == "__main__":
    print(table(Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()))
