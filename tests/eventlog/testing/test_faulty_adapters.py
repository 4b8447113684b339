"""The contract finds the faults that authors of adapters make."""

from __future__ import annotations

from pathlib import Path

import pytest

from eventlog.testing import Place
from tests.eventlog.testing.faulty_adapters import FAULTS


@pytest.mark.parametrize("engine", ["memory", "embedded"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: str, engine: str, tmp_path: Path) -> None:
    """Each of six faults fails the test of the contract that is about it, with its words."""
    contract, test, words = FAULTS[fault]
    place = Place(engine, str(tmp_path / "store"))
    given = {"kind": "NaN"} if fault == "NaN" else {}
    try:
        with pytest.raises(AssertionError, match=words):
            getattr(contract, test)(place=place, **given)
    finally:
        place.close()
