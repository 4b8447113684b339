"""Index of a session's records: their versions, and the rollbacks among them.

Derived data: for each stream of the session one row of every `WINDOW` versions, made by the first
reader of a window that is complete. A row is never changed, so several processes may store it, and
any row may be gone: its events are read again. What lies behind the last window is read each time.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress

import msgspec

from eventlog import events as ev
from eventlog.errors import EventlogError
from eventlog.history import checkpoint_store
from eventlog.history.lineage import History, StreamRange
from eventlog.history.ranges import Range, without
from eventlog.log.contract import Log
from eventlog.records.light import light_events

__all__ = ["RecordIndex"]

WINDOW = 1024
"""Versions of a row."""
_KIND = "records 1"


class _Row(msgspec.Struct, array_like=True):
    """Records and rollbacks of a window, as versions counted from its beginning."""

    records: list[int]
    rollbacks: list[tuple[int, int]]
    """(version, the version it went back to, which is counted from 0)."""


_DECODER = msgspec.msgpack.Decoder(_Row)
_encode = msgspec.msgpack.Encoder().encode


class RecordIndex:
    """The records of one session up to a version.  Its caller keeps threads apart."""

    def __init__(self, log: Log, streams: Sequence[StreamRange]) -> None:
        self.numbers: list[int] = []
        """Versions of all records, ascending, also of those that a rollback hides."""
        self.history = History()
        self.version = 0
        self._log = log
        self._streams = streams

    def advance(self, upto: int) -> None:
        """Take in the versions up to `upto`, all of which are committed."""
        for stream in self._streams:
            last = min(stream.last, upto)
            if self.version < last:
                self._advance(stream, last)

    def _advance(self, stream: StreamRange, last: int) -> None:
        """Take in versions of one stream, window by window."""
        stored: dict[int, bytes] = {}
        if last - self.version >= WINDOW:
            stored = checkpoint_store.rows(self._log, _KIND, stream.session)
        made: list[tuple[int, bytes]] = []
        while self.version < last:
            window = self.version // WINDOW * WINDOW
            end = window + WINDOW
            is_whole = self.version == max(window, stream.first - 1)
            row = self._stored(stored.get(end)) if is_whole else None
            if row is None:
                row = self._read(stream.session, window, min(end, last))
                if is_whole and end <= last:
                    made.append((end, _encode(row)))
            self._take(row, window, min(end, last))
        if made and not self._log.read_only:
            with suppress(EventlogError):  # the next reader makes them again
                checkpoint_store.save_rows(self._log, _KIND, stream.session, made)

    @staticmethod
    def _stored(data: bytes | None) -> _Row | None:
        if data is None:
            return None
        try:
            return _DECODER.decode(data)
        except msgspec.MsgspecError:
            return None

    def _read(self, session: str, window: int, upto: int) -> _Row:
        """Read the records and rollbacks after the index's version from their events."""
        row = _Row([], [])
        for commit in self._log.read(session, self.version, upto):
            for version, entry in enumerate(light_events(commit), commit.first):
                event = entry.event
                if type(event) is ev.RecordKept and self.version < version <= upto:
                    row.records.append(version - window)
                elif type(event) is ev.RolledBack and self.version < version <= upto:
                    row.rollbacks.append((version - window, event.to))
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
