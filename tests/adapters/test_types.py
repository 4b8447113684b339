"""Types that other checkers see, with the frameworks: nearly every public symbol has one."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support.python_process import ROOT


@pytest.mark.parametrize("package", ["eventlog", "projections"])
def test_public_types_are_known(package: str) -> None:
    """At least 99 of 100 public symbols of a package have a type that needs no inference."""
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--ignoreexternal", "--outputjson"]
    done = subprocess.run([*command, "--verifytypes", package], cwd=ROOT, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)["typeCompleteness"]
    unclear = [symbol["name"] for symbol in found["symbols"] if symbol["isExported"] and not symbol["isTypeKnown"]]
    assert found["completenessScore"] >= 0.99, unclear
