"""Results that stand before their calls in a file, held until the call comes.

Some tools write the line of a quick result before the line of its call.  The result's record is
stored at once, as every record is; its events come with the call.  Held results are bounded in
number and in size.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

from eventlog.importers.common.importer import Report

__all__ = ["EarlyResults"]

MOST = 1024
"""Results held at most."""
LARGEST = 16 * 1024 * 1024
"""Characters held at most; the newest result is held, however large it is."""

R = TypeVar("R")


class _Held(NamedTuple, Generic[R]):
    line: int | None
    result: R
    size: int


class EarlyResults(Generic[R]):
    """Results by call id; those whose calls never come are reported, the oldest first."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._held: dict[str, _Held[R]] = {}
        self._size = 0

    def hold(self, call: str, line: int | None, result: R, size: int) -> bool:
        """Hold a result until its call comes; False if another result of the call is held.

        `line` is where to report it if the call never comes, None if there is nothing to report.
        """
        if call in self._held:
            return False
        self._held[call] = _Held(line, result, size)
        self._size += size
        while len(self._held) > MOST or (self._size > LARGEST and len(self._held) > 1):
            self._drop(next(iter(self._held)))
        return True

    def pop(self, call: str) -> R | None:
        """Remove and return the result of a call that has come, None if none is held."""
        held = self._held.pop(call, None)
        if held is None:
            return None
        self._size -= held.size
        return held.result

    def close(self) -> None:
        """Report the results that are held at the end of the file."""
        while self._held:
            self._drop(next(iter(self._held)))

    def _drop(self, call: str) -> None:
        held = self._held.pop(call)
        self._size -= held.size
        if held.line is not None:
            self._report.skip(held.line, "a result for a call that the file does not have")
