"""A worker for the tests of the benchmarks' worker processes: adds numbers."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

__all__ = ["adds"]


@contextmanager
def adds(start: str) -> Generator[Callable[[int], int]]:
    """Answer each number with the sum so far; a negative one is an error."""
    total = int(start)

    def answer(more: int) -> int:
        nonlocal total
        if more < 0:
            raise ValueError(f"{more} is less than nothing")
        total += more
        return total

    yield answer
