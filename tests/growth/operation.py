"""An operation, its cost class, and how much it costs on a store."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from enum import Enum
from typing import Any, NamedTuple, TypeVar

from tests.growth.measuring import spent, uncollected
from tests.growth.place import Place

T = TypeVar("T")
Run = Callable[[Place], object]
Within = Callable[[Place], AbstractContextManager[T]]

BUDGET = 0.1
"""Processor seconds after which no further run begins; time around the call counts."""
MOST_RUNS = 20
"""Calls per run of operations that leave something behind: few."""


class Grows(Enum):
    """By how much the cost of an operation may grow."""

    CONSTANT = "constant"
    OUTPUT = "O(output)"
    HISTORY = "O(history)"


class Cost(NamedTuple):
    """Cost of one call in seconds, and the size of its output."""

    seconds: float
    output: int


class Operation(NamedTuple):
    """A public name at work."""

    grows: Grows
    run: Callable[[Place, Any], object]
    within: Callable[[Place], AbstractContextManager[Any]]
    copied: bool
    """Whether each run needs its own store, because the call spoils it."""
    why: str
    """The reason why the operation may grow with the history."""


Table = dict[str, Operation]
"""Operations by public name; after a comma, the use of it that is meant."""


@contextmanager
def _nothing(place: Place) -> Generator[Place]:
    yield place


def _operation(
    grows: Grows, run: Callable[[Place, T], object], within: Within[T] | None, copied: bool, why: str = ""
) -> Operation:
    return Operation(grows, run, within or _nothing, copied, why)


def constant(
    run: Callable[[Place, Any], object], within: Within[Any] | None = None, *, copied: bool = False
) -> Operation:
    """An operation that costs the same however long the history is."""
    return _operation(Grows.CONSTANT, run, within, copied)


def output(run: Callable[[Place, Any], int], within: Within[Any] | None = None, *, copied: bool = False) -> Operation:
    """An operation whose cost follows its output: `run` returns the size."""
    return _operation(Grows.OUTPUT, run, within, copied)


def history(
    run: Callable[[Place, Any], object], why: str, within: Within[Any] | None = None, *, copied: bool = False
) -> Operation:
    """An operation that must read or write the whole history."""
    return _operation(Grows.HISTORY, run, within, copied, why)


def measured(operation: Operation, place: Place, *, budget: float = BUDGET, fewest: int = 1) -> Cost:
    """The least processor seconds that a call took on this store."""
    best, given, used, runs = float("inf"), 0, 0.0, 0
    while runs < fewest or (used < budget and runs < MOST_RUNS):
        started = spent()
        here = place.copy() if operation.copied else place
        try:
            with operation.within(here) as held, uncollected():
                begun = spent()
                found = operation.run(here, held)
                took = spent() - begun
        finally:
            if here is not place:
                here.remove()
        best, used, runs = min(best, took), used + spent() - started, runs + 1
        given = found if isinstance(found, int) else 0
    return Cost(best, given)
