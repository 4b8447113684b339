"""Unparseable option values: the error shows their beginning."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from projections.cli.exits import UsageFault
from projections.cli.times import milliseconds, since

LONG = "x" * 100_000
CALLS: dict[str, Callable[[], object]] = {
    "--age": lambda: milliseconds("--age", LONG),
    "--since": lambda: since("--since", LONG),
}


@pytest.mark.parametrize("option", CALLS)
def test_a_long_value_is_cut(option: str) -> None:
    """A value of 100,000 characters gives a short line that names the option."""
    with pytest.raises(UsageFault, match=option) as refused:
        CALLS[option]()
    assert len(str(refused.value)) < 300
