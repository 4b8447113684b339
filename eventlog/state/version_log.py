"""Entries by version, newest effective first: messages, counts, removals, file states.

The newest entries are a plain list. Older ones are packed, because hardly any rollback looks at
them. A checkpoint stores packs as rows of their own; they are read one by one when a rollback needs
one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, islice
from operator import itemgetter
from typing import TypeAlias

import msgspec

from eventlog.compression import pack, unpack
from eventlog.history.derived import decoded, found
from eventlog.history.effective_history import History
from eventlog.state.stored_facts import StoredRows

RECENT = 512
"""Entries from which on the older half is packed."""
COUNT_BITS = 16

Entry: TypeAlias = tuple[int, tuple[str, ...]]
"""A version, and the ids that were named then."""
_DECODER = msgspec.msgpack.Decoder(list[Entry])
_version = itemgetter(0)


Pack: TypeAlias = tuple[int, int]
"""Version of the first entry, and their number: together they say which entries."""


class StoredLog(msgspec.Struct, array_like=True):
    """A log in a checkpoint."""

    recent: list[Entry]
    packs: list[tuple[str, list[Pack]]]
    """A session, and the packs stored with it."""


class VersionLog:
    """Entries in the order of their versions.  Changed by its owner alone."""

    __slots__ = ("_data", "_kind", "_name", "_rows", "_sessions", "older", "recent")

    def __init__(self, name: str, stored: StoredLog | None = None, rows: StoredRows | None = None) -> None:
        self._name = name
        """The attribute of `State` that this log is."""
        self._kind = f"{name} 1"
        """Kind of the stored rows; the number is that of their format."""
        self._rows = rows
        self.recent: list[Entry] = [] if stored is None else stored.recent
        self.older: list[Pack] = []
        self._sessions: list[tuple[int, str]] = []
        """A session, and the place of the first of the packs that are stored with it."""
        self._data: dict[Pack, bytes] = {}
        """The packs that are not stored."""
        for session, packs in () if stored is None else stored.packs:
            self._sessions.append((len(self.older), session))
            self.older += packs

    def newest(self, history: History) -> tuple[str, ...]:
        """Return the ids of the newest effective entry, () if there is none."""
        recent = self.recent
        if recent and recent[-1][0] >= history.starts[-1]:  # as it mostly is
            return recent[-1][1]
        return next(self.newest_first(history), (0, ()))[1]

    def newest_first(self, history: History) -> Iterator[Entry]:
        """Yield the effective entries, newest first."""
        if not self.recent:
            return
        start = self.older[0][0] if self.older else self.recent[0][0]
        for first, last in history.newest_first():
            if last < start:
                return
            yield from self._between(first, last)

    def newest_entries(self) -> Iterator[Entry]:
        """Yield all entries, effective or not, newest first."""
        yield from reversed(self.recent)
        for place in range(len(self.older) - 1, -1, -1):
            yield from reversed(self._entries(place))

    def among(self, ranges: list[tuple[int, int]]) -> list[Entry]:
        """Return the entries of these ranges of versions, oldest first."""
        if not self.recent:
            return []
        return [entry for first, last in ranges for entry in reversed([*self._between(first, last)])]

    def pack(self, committed: int) -> None:
        """Pack the older ones when there are many.

        Those after version `committed` stay, because they may be taken back, and one before them,
        so that some always stay.
        """
        packable = bisect_right(self.recent, committed, key=_version) - 1
        while len(self.recent) >= RECENT and packable > 0:
            half = min(RECENT // 2, packable)
            try:
                data = _encode(self.recent[:half])
            except UnicodeEncodeError:
                return  # an id with lone surrogates: the list goes on as it is
            older = self.recent[0][0], half
            self._data[older] = data
            self.older.append(older)
            del self.recent[:half]
            packable -= half

    def whole(self) -> list[Entry]:
        """Return all entries."""
        older = [entry for place in range(len(self.older)) for entry in self._entries(place)]
        return older + self.recent

    def cut(self, version: int) -> None:
        """Drop the entries after a version; `LostRowError` if a pack cannot be read."""
        del self.recent[bisect_right(self.recent, version, key=_version) :]
        while self.older and not self.recent:
            newest = self.older[-1]
            if newest[0] <= version:
                self.recent = [entry for entry in self._unpack(len(self.older) - 1) if entry[0] <= version]
            self._data.pop(newest, None)
            self.older.pop()
        self._sessions = [at for at in self._sessions if at[0] < len(self.older)]

    def stored(self, session: str) -> tuple[StoredLog, list[tuple[str, int, bytes]]]:
        """Return the log in a checkpoint, and the rows to store beside it: kind, number, data."""
        sessions = self._sessions_with(session)
        ends = [*(start for start, _ in sessions[1:]), len(self.older)]
        packs = [(name, self.older[start:end]) for (start, name), end in zip(sessions, ends, strict=False)]
        rows = [(self._kind, _row_of(older), data) for older, data in self._data.items()]
        return StoredLog(self.recent, packs), rows

    def mark_stored(self, rows: StoredRows, session: str) -> None:
        """Note that all packs are stored."""
        self._rows, self._sessions, self._data = rows, self._sessions_with(session), {}

    def _sessions_with(self, session: str) -> list[tuple[int, str]]:
        """Return the sessions of all packs when those in memory are stored with one."""
        if not self._data or (self._sessions and self._sessions[-1][1] == session):
            return self._sessions
        return [*self._sessions, (len(self.older) - len(self._data), session)]

    def _between(self, first: int, last: int) -> Iterator[Entry]:
        """Yield entries of versions `first..last`, newest first, found by bisection."""
        yield from _slice(self.recent, first, last)
        if self.older and first < self.recent[0][0]:
            for place in range(bisect_right(self.older, last, key=_version) - 1, -1, -1):
                yield from _slice(self._entries(place), first, last)
                if self.older[place][0] <= first:
                    return

    def _entries(self, place: int) -> Sequence[Entry]:
        return found(self._unpack, self._rebuild, place)

    def _unpack(self, place: int) -> list[Entry]:
        older = self.older[place]
        data = self._data.get(older)
        if data is None and self._rows is not None:
            session = next((name for start, name in reversed(self._sessions) if start <= place), "")
            data = self._rows.get(session, self._kind, _row_of(older))
        return decoded(_decode, data)

    def _rebuild(self) -> None:
        """Make the stored packs anew from a replay, because one is lost."""
        assert self._rows is not None
        entries = iter(getattr(self._rows.replayed(self.recent[0][0]), self._name).whole())
        for older in self.older:  # those that are not stored come last
            if older not in self._data:
                self._data[older] = _encode(list(islice(entries, older[1])))
        self._sessions = []


def _row_of(older: Pack) -> int:
    """The number of the stored row of a pack."""
    first, entries = older
    return first << COUNT_BITS | entries


def _encode(entries: list[Entry]) -> bytes:
    versions = [0, *(version for version, _ in entries)]
    return pack(
        msgspec.msgpack.encode([(at - before, names) for before, (at, names) in zip(versions, entries, strict=False)])
    )


def _decode(data: bytes) -> list[Entry]:
    entries: list[Entry] = _DECODER.decode(unpack(data))
    versions = accumulate(since for since, _ in entries)
    return [(version, names) for version, (_, names) in zip(versions, entries, strict=True)]


def _slice(entries: Sequence[Entry], first: int, last: int) -> Iterator[Entry]:
    low = bisect_left(entries, first, key=_version)
    for at in range(bisect_right(entries, last, key=_version) - 1, low - 1, -1):
        yield entries[at]
