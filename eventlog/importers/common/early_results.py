"""Results that stand before their calls in a file, held until the call comes.

Some tools write the line of a quick result before the line of its call.  The result's record is
stored at once, as every record is; its events come with the call.  Held results are bounded in
number and in size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from eventlog.importers.common.conversation_parts import CallResult
from eventlog.importers.common.importer import Report, Skipped
from eventlog.values import Body

__all__ = ["EarlyResult", "EarlyResults"]

MOST = 1024
"""Results held at most."""
LARGEST = 16 * 1024 * 1024
"""Characters held at most; the newest result is held, however large it is."""
_NO_CALL = "a result for a call that the file does not have"


class EarlyResult(NamedTuple):
    """Result that came before its call; a record without a line is not reported."""

    line: int | None
    result: CallResult
    bodies: dict[bytes, bytes]
    """The bodies of its attachments."""
    size: int


class EarlyResults:
    """Results by call id; those whose calls have not come are reported."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._held: dict[str, EarlyResult] = {}
        self._size = 0

    def hold(self, call: str, line: int | None, result: CallResult, bodies: Mapping[bytes, bytes]) -> bool:
        """Hold a result until its call comes; False if another result of the call is held.

        `line` is where to report it if the call never comes, None if there is nothing to report.
        """
        if call in self._held:
            return False
        urls = [file.url for file in result.attachments]
        own = {url.digest: bodies[url.digest] for url in urls if isinstance(url, Body)}
        size = len(result.output) + sum(url.size if isinstance(url, Body) else len(url) for url in urls)
        self._held[call] = EarlyResult(line, result, own, size)
        self._size += size
        while len(self._held) > MOST or (self._size > LARGEST and len(self._held) > 1):
            self._drop(next(iter(self._held)))
        return True

    def pop(self, call: str) -> EarlyResult | None:
        """Remove and return the result of a call that has come, None if none is held."""
        held = self._held.pop(call, None)
        self._size -= held.size if held is not None else 0
        return held

    def unsettled(self) -> Iterator[Skipped]:
        """Yield a report of each result that is held, the oldest first."""
        return (Skipped(int(held.line), _NO_CALL) for held in self._held.values() if held.line is not None)

    def _drop(self, call: str) -> None:
        held = self.pop(call)
        if held is not None and held.line is not None:
            self._report.skip(held.line, _NO_CALL)
