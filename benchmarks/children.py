"""Measure in a process of its own: import times, memory.

A process that has imported or allocated before cannot measure them. A child is a snippet of Python
that prints one JSON value; it imports from where this process does, and uses compiled modules as an
installed package does.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import msgspec

_ROOT = str(Path(__file__).resolve().parents[1])


def child(code: str, *arguments: str) -> Any:
    """Run a snippet in a new process and return the JSON value it prints.

    The snippet finds `arguments` in `sys.argv[1:]`. `CalledProcessError` if it fails.
    """
    ran = subprocess.run(
        [sys.executable, "-c", code, *arguments], check=True, stdout=subprocess.PIPE, env=_environment(), timeout=3600
    )
    return msgspec.json.decode(ran.stdout)


def run_time(*command: str) -> float:
    """Return the seconds from starting Python with these arguments to its end."""
    start = perf_counter()
    subprocess.run([sys.executable, *command], check=True, capture_output=True, env=_environment(), timeout=600)
    return perf_counter() - start


def _environment() -> dict[str, str]:
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**variables, "PYTHONPATH": os.pathsep.join(filter(None, (_ROOT, os.environ.get("PYTHONPATH"))))}
