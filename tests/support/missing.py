"""Tools that a test needs: without one it is skipped, and in CI (`CI=true`) it fails."""

from __future__ import annotations

import os
import shutil
from typing import NoReturn

import pytest


def missing(reason: str) -> NoReturn:
    """Skip the calling test or module; fail it in CI, which installs all that tests need."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI must have what its tests need: {reason}")
    pytest.skip(reason, allow_module_level=True)


def tool(*names: str) -> str:
    """Return the path of the first of these programs that is installed."""
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        missing(f"{names[0]} is not installed")
    return found
