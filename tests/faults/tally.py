"""Counting of what was tried, for the table in the README.

With `EVERDELTA_TALLY=FILE` every test adds a line to that file; `python -m tests.faults.table FILE`
makes the table of them.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

SLOW = os.environ.get("EVERDELTA_SLOW") == "1"
"""Whether to try for minutes instead of seconds."""


def tally(fault: str, tried: int, **found: int) -> None:
    """Record the number of faults tried of a kind; `found` are other numbers to report."""
    file = os.environ.get("EVERDELTA_TALLY")
    if file:
        with Path(file).open("a", encoding="utf-8") as stream:
            stream.write(json.dumps({"fault": fault, "tried": tried, **found}) + "\n")
