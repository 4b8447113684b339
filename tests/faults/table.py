r"""Counts for the table of faults in `tests/README.md`, as the tests tallied them.

    EVERDELTA_SLOW=1 EVERDELTA_TALLY=faults.jsonl python -m pytest --timeout 3600 \
        tests/faults tests/eventlog/log/embedded/test_flipped_bytes.py \
        tests/eventlog/integrity/test_integrity.py tests/eventlog/integrity/test_tampering.py
    python -m tests.faults.table faults.jsonl

Add `-k "200 MB"` for the tries on stores of 200 MB only. A fault is here only if its promise held
each time: a test that fails counts nothing. Rows of the README sum up faults of one kind of store.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path


def every_fault(lines: list[str]) -> str:
    """Markdown: each fault by itself, how many were tried, and what else was counted."""
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
    print(every_fault(Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()))
