"""Unparseable option values: the error shows their beginning."""

from __future__ import annotations

import pytest

from projections.cli.exits import Exit
from tests.support.cli_runner import Cli


@pytest.mark.parametrize("call", ["expire --age", "expire --size", "sessions --since", "recall s p --lines"])
def test_a_long_value_is_cut(cli: Cli, call: str) -> None:
    """A value of 100,000 characters gives a short line that names the option."""
    answer = cli(*call.split(), "x" * 100_000)
    assert (answer.code, call.rsplit(maxsplit=1)[-1] in answer.err) == (Exit.USAGE, True)
    assert len(answer.err) < 300
