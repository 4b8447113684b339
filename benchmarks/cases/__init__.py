"""All cases, in the order in which they run, and the sizes of a short and of a full run."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.cases import (
    callers,
    conversations,
    encryption,
    imports,
    loop,
    prune,
    reading,
    searching,
    starting,
    streaming,
    turn,
)
from benchmarks.figures import Case, Sizes

__all__ = ["CASES", "FULL", "SHORT", "chosen"]

CASES: tuple[Case, ...] = (
    turn.CASE,
    loop.CASE,
    reading.CASE,
    conversations.CASE,
    streaming.CASE,
    callers.CASE,
    imports.CASE,
    searching.CASE,
    starting.CASE,
    encryption.CASE,
    prune.CASE,
)

SHORT = Sizes(
    rounds=5,
    deltas=2_000,
    turns=200,
    counted=300,
    lengths=(100, 1_000, 5_000),
    peer_turns=15,
    callers=64,
    appends=20,
    generated=200,
    text=3_000_000,
    sessions=100,
)
"""A few minutes in all."""
FULL = SHORT._replace(
    rounds=25,
    turns=2_000,
    counted=4_000,
    lengths=(100, 1_000, 5_000, 20_000),
    peer_turns=30,
    appends=100,
    text=30_000_000,
)


def chosen(names: Sequence[str]) -> list[Case]:
    """Return the named cases; all if none is named.

    A name is that of a case, or of one of its figures. `KeyError` for any other name.
    """
    wanted: set[str] = set()
    for name in names:
        matching = {case.id for case in CASES if name in (case.id, *(figure.id for figure in case.figures))}
        if not matching:
            raise KeyError(name)
        wanted |= matching
    return [case for case in CASES if case.id in wanted or not names]
