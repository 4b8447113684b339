"""Index of a session's records: their versions, and the rollbacks among them.

Derived data: for each stream of the session a row of every window (`history/derived.py`). A row is
never changed, so several processes may store it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import msgspec

from eventlog import events as ev
from eventlog.codec.decoded import events_of_kinds
from eventlog.history import checkpoint_store
from eventlog.history.derived import WINDOW, store, windows
from eventlog.history.effective_history import History, StreamRange
from eventlog.history.ranges import Range, without
from eventlog.log.contract import Log

_KIND = "records 1"


class _Row(msgspec.Struct, array_like=True):
    """Records and rollbacks of a window, as versions counted from its beginning."""

    records: list[int]
    rollbacks: list[tuple[int, int]]
    """(version, the version it went back to, which is counted from 0)."""

    @classmethod
    def of(cls, window: int, events: Iterable[tuple[int, ev.Event]]) -> _Row:
        """Return the row of some events of a window with their versions."""
        row = cls([], [])
        for version, event in events:
            if isinstance(event, ev.RecordKept):
                row.records.append(version - window)
            elif isinstance(event, ev.RolledBack):
                row.rollbacks.append((version - window, event.to))
        return row


class RecordIndex:
    """The records of one session up to a version.  Its caller keeps threads apart."""

    def __init__(self, log: Log, streams: Sequence[StreamRange]) -> None:
        self.numbers: list[int] = []
        """Versions of all records, ascending, also of those that a rollback hides."""
        self.history: History = History()
        self.version: int = 0
        self._log = log
        self._streams = streams
        self._rollbacks: list[tuple[int, int]] = []
        """Those of the newest window, as in its row."""

    def advance(self, upto: int) -> None:
        """Take in the versions up to `upto`, all of which are committed."""
        for stream in self._streams:
            last = min(stream.last, upto)
            if self.version < last:
                read = partial(self._read, stream.session)
                rows = windows(self._log, _KIND, stream, after=self.version, last=last, read=read, of=_Row)
                for window, version, row in rows:
                    self._take(stream, row, window, version)

    def note(self, first: int, events: Sequence[ev.Event]) -> None:
        """Take in an append of the caller's from its first version, if all before it is known."""
        last = first + len(events) - 1
        while first - 1 <= self.version < last:
            window = self.version // WINDOW * WINDOW
            upto = min(window + WINDOW, last)
            own = enumerate(events[self.version - first + 1 : upto - first + 1], self.version + 1)
            self._take(self._streams[-1], _Row.of(window, own), window, upto)

    def _read(self, session: str, after: int, upto: int) -> _Row:
        """Read the records and rollbacks of versions `after + 1 .. upto` from their events."""
        found = (
            (version, event)
            for commit in self._log.read(session, after, upto)
            for version, event in events_of_kinds(commit, (ev.RecordKept, ev.RolledBack))
            if after < version <= upto
        )
        return _Row.of(after // WINDOW * WINDOW, found)

    def _take(self, stream: StreamRange, row: _Row, window: int, upto: int) -> None:
        """Take in what a row has up to version `upto`; store a row that came in pieces."""
        begin, before = max(window, stream.first - 1), self.version
        self.numbers += [window + place for place in row.records if window + place <= upto]
        for place, to in row.rollbacks:
            if window + place <= upto:
                self.history.roll_back(window + place, to)
        self._rollbacks = [*(self._rollbacks if before > begin else ()), *row.rollbacks]
        self.version = upto
        if before > begin and upto == window + WINDOW:
            records = [number - window for number in self.numbers[bisect_right(self.numbers, begin) :]]
            made = [(upto, msgspec.msgpack.encode(_Row(records, self._rollbacks)))]
            rows = checkpoint_store.stored_rows(_KIND, stream.session, made)
            store(self._log.of(stream.session), rows)

    # -- questions ---------------------------------------------------------------------------

    def newest_first(self, at: int, forgotten: Sequence[Range], *, hidden: bool = False) -> Iterator[list[int]]:
        """Yield the records that are effective right after a version, newest range first.

        With `hidden` those that rollbacks hide, too.
        """
        for one in [(1, at)] if hidden else self.history.newest_first(at):
            for first, last in reversed(without([one], forgotten)):
                yield self.numbers[bisect_left(self.numbers, first) : bisect_right(self.numbers, last)]
