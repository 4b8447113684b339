"""Index of a session's records: their versions, and the rollbacks among them.

Derived data: for each stream of the session a row of every window (`history/derived.py`). A row is
never changed, so several processes may store it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import partial

import msgspec

from eventlog import events as ev
from eventlog.codec.decoded import events_of_kinds
from eventlog.history.derived import WINDOW, windows
from eventlog.history.effective_history import History, StreamRange
from eventlog.history.ranges import Range, without
from eventlog.log.contract import Log

__all__ = ["RecordIndex"]

_KIND = "records 1"


class _Row(msgspec.Struct, array_like=True):
    """Records and rollbacks of a window, as versions counted from its beginning."""

    records: list[int]
    rollbacks: list[tuple[int, int]]
    """(version, the version it went back to, which is counted from 0)."""


class RecordIndex:
    """The records of one session up to a version.  Its caller keeps threads apart."""

    def __init__(self, log: Log, streams: Sequence[StreamRange]) -> None:
        self.numbers: list[int] = []
        """Versions of all records, ascending, also of those that a rollback hides."""
        self.history: History = History()
        self.version: int = 0
        self._log = log
        self._streams = streams

    def advance(self, upto: int) -> None:
        """Take in the versions up to `upto`, all of which are committed."""
        for stream in self._streams:
            last = min(stream.last, upto)
            if self.version < last:
                read = partial(self._read, stream.session)
                rows = windows(self._log, _KIND, stream, after=self.version, last=last, read=read, of=_Row)
                for window, version, row in rows:
                    self._take(row, window, version)

    def _read(self, session: str, after: int, upto: int) -> _Row:
        """Read the records and rollbacks of versions `after + 1 .. upto` from their events."""
        row, window = _Row([], []), after // WINDOW * WINDOW
        for commit in self._log.read(session, after, upto):
            for version, event in events_of_kinds(commit, (ev.RecordKept, ev.RolledBack)):
                if after < version <= upto and isinstance(event, ev.RolledBack):
                    row.rollbacks.append((version - window, event.to))
                elif after < version <= upto:
                    row.records.append(version - window)
        return row

    def _take(self, row: _Row, window: int, upto: int) -> None:
        """Take in what a row has up to version `upto`."""
        self.numbers += [window + place for place in row.records if window + place <= upto]
        for place, to in row.rollbacks:
            if window + place <= upto:
                self.history.roll_back(window + place, to)
        self.version = upto

    # -- questions ---------------------------------------------------------------------------

    def newest_first(self, at: int, forgotten: Sequence[Range], *, hidden: bool = False) -> Iterator[list[int]]:
        """Yield the records that are effective right after a version, newest range first.

        With `hidden` those that rollbacks hide, too.
        """
        for one in [(1, at)] if hidden else self.history.newest_first(at):
            for first, last in reversed(without([one], forgotten)):
                yield self.numbers[bisect_left(self.numbers, first) : bisect_right(self.numbers, last)]
