"""Values after `kill -9` between any two calls of the disk."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.tally import SLOW, tally
from tests.support.python_process import ROOT

KILLS = {"before": 12, "half": 8, "moment": 4, "encrypted moment": 4}


@pytest.mark.promise(1, 3)
@pytest.mark.parametrize("mode", KILLS)
def test_no_acknowledged_value_is_lost(tmp_path: Path, mode: str) -> None:
    """After a kill every acknowledged command counts, and the last one whole or not at all."""
    kills = KILLS[mode] * (20 if SLOW else 1)
    program = [sys.executable, "-m", "tests.support.values_killer", str(tmp_path / "store"), mode, "7", str(kills)]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3_000:]
    tally(f"kill -9 of a writer of values: {mode}", int(done.stdout))
