"""Everything that can be run, in order.  A case that is not here does not exist."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks import groups, listing, sessions, streaming, turns
from benchmarks.figures import Case, Sizes

__all__ = ["CASES", "LONG", "SHORT", "chosen"]

CASES: tuple[Case, ...] = (*streaming.CASES, *turns.CASES, *groups.CASES, *sessions.CASES, *listing.CASES)

SHORT = Sizes(rounds=7, deltas=100_000, turns=500, history=5_000, callers=64, appends=40, flushes=200, generated=400)
"""Under three minutes in all."""
LONG = Sizes(
    rounds=25, deltas=200_000, turns=2_000, history=50_000, callers=64, appends=100, flushes=2_000, generated=4_000
)


def chosen(names: Sequence[str]) -> list[Case]:
    """The cases that `names` ask for by case, by figure, or by the beginning of one before a dot; all if none is named.

    `KeyError` for a name that means nothing.
    """
    wanted: list[Case] = []
    for name in names:
        found = [case for case in CASES if any(_means(name, known) for known in _names(case))]
        if not found:
            raise KeyError(name)
        wanted += [case for case in found if case not in wanted]
    return sorted(wanted, key=CASES.index) if names else list(CASES)


def _names(case: Case) -> list[str]:
    return [case.id, *(figure.id for figure in case.figures)]


def _means(name: str, known: str) -> bool:
    return known == name or known.startswith(f"{name}.")
