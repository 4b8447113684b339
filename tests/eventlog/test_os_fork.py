"""`os.fork()` beside busy threads: no child hangs at a lock that a thread has held."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.python_process import ROOT


@pytest.mark.parametrize("case", ["loading", "keyed", "counting", "remembering", "folding", "leaving", "viewing"])
def test_a_child_does_not_hang(tmp_path: Path, case: str) -> None:
    """A child forked beside busy threads works and ends without a deadlock."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.support.os_forker", case, str(tmp_path / "store")],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
