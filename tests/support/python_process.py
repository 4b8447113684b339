"""Run a few lines of Python as a program that imports from the checkout."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

__all__ = ["printed"]

ROOT = Path(__file__).resolve().parents[2]


def printed(program: str, *arguments: object, seconds: float = 60) -> str:
    """Output of a program, which has to succeed in time."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=seconds, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
