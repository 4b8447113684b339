"""An installed copy has every module and data file of the tree."""

from __future__ import annotations

import os
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.skipif(os.environ.get("CI") != "true", reason="an installed copy is made by .ci/run")
def test_everything_is_in_the_wheel() -> None:
    """All modules and data files are installed: schemas, vocabularies, pages, licences."""
    installed = {str(path) for path in metadata.files("everdelta") or ()}
    there = {
        path.relative_to(ROOT).as_posix()
        for package in ("eventlog", "projections")
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert there - installed == set()
    for name in (
        "eventlog/py.typed",
        "projections/py.typed",
        "projections/schemas/view.json",
        "projections/demo/LICENSE",
    ):
        assert name in installed
    assert any(name.endswith("licenses/LICENSE") for name in installed)
