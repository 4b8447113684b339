"""A copy of an open store, as a killed process leaves it."""

from __future__ import annotations

import shutil
import time
from pathlib import Path


def copied_as_left(original: Path, copy: Path) -> None:
    """Copy the store; again if its fold worker changed a file meanwhile."""
    for _ in range(50):
        try:
            shutil.copytree(original, copy)
        except shutil.Error:
            shutil.rmtree(copy)
            time.sleep(0.02)
        else:
            return
    raise AssertionError("the store never came to rest")
