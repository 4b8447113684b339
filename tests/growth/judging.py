"""Judge whether an operation's cost at two sizes grows as its class allows."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from tests.growth.measuring import least
from tests.growth.operation import BUDGET, Cost, Grows, Operation, measured
from tests.growth.place import Place

T = TypeVar("T")

SLACK = 2.5
"""Allowed factor above the class: memory gets slower, collections longer, trees deeper."""
FLAT = 2.0
"""Allowed factor for operations of constant cost."""
NOISE = 100e-6
"""Seconds that a call may take longer on the larger store (colder memory), at any ratio."""
TRIES = 6
"""Measurements, each with more runs, before an operation counts as too steep."""


class Growth(NamedTuple):
    """An operation on two stores."""

    small: Cost
    large: Cost
    allowed: float
    """The ratio that the operation's class allows."""

    @property
    def ratio(self) -> float:
        """Its cost on the larger store over its cost on the smaller one."""
        return self.large.seconds / self.small.seconds

    @property
    def sound(self) -> bool:
        """Whether it grows no faster than its class says."""
        return self.ratio <= self.allowed or self.large.seconds - self.small.seconds <= NOISE


def compared(operation: Operation, small: Place, large: Place, factor: float, *, patience: int = 1) -> Growth:
    """Measure an operation on both stores; measure it again, with more runs, if too steep."""
    growth = _compared(operation, small, large, factor, budget=BUDGET * patience, fewest=patience)
    for attempt in range(2, TRIES + 1):
        if growth.sound:
            break
        more = patience * attempt * 2
        again = _compared(operation, small, large, factor, budget=BUDGET * more, fewest=2 * attempt)
        growth = Growth(min(growth.small, again.small), min(growth.large, again.large), again.allowed)
    return growth


def take_as_long(work: Callable[[T], object], small: T, large: T) -> tuple[bool, float, float]:
    """Return whether a work takes as long at both places, and the least seconds at each."""
    for place in (small, large):
        work(place)
    little = much = float("inf")
    for runs in range(1, TRIES + 1):
        little = min(little, least(lambda: work(small), 6 * runs))
        much = min(much, least(lambda: work(large), 6 * runs))
        if much <= FLAT * little + NOISE:
            return True, little, much
    return False, little, much


def _compared(operation: Operation, small: Place, large: Place, factor: float, *, budget: float, fewest: int) -> Growth:
    little = measured(operation, small, budget=budget, fewest=fewest)
    much = measured(operation, large, budget=budget, fewest=fewest)
    match operation.grows:
        case Grows.CONSTANT:
            allowed = FLAT
        case Grows.OUTPUT:
            allowed = max(FLAT, SLACK * much.output / max(little.output, 1))
        case Grows.HISTORY:
            allowed = SLACK * factor
    return Growth(little, much, allowed)
