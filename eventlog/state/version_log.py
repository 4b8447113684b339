"""Entries by version, newest effective first: open messages, user messages, file states.

The newest entries are a plain list. Older ones are packed, because hardly any rollback looks at
them. A checkpoint stores packs as rows of their own; they are read one by one when a rollback needs
one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby, islice
from typing import NamedTuple, TypeAlias

import msgspec

from eventlog.compression import pack, unpack
from eventlog.history.lineage import History
from eventlog.state.stored_facts import LostRowsError, StoredRows

__all__ = ["Entry", "Pack", "StoredLog", "VersionLog"]

RECENT = 512
"""Entries from which on the older half is packed."""
COUNT_BITS = 16

Entry: TypeAlias = tuple[int, tuple[str, ...]]
"""A version, and the ids that were named then."""
_DECODER = msgspec.msgpack.Decoder(list[Entry])


class Pack(NamedTuple):
    """Packed entries: events do not change, so first version and count say which they are."""

    first: int
    """The version of the first entry."""
    entries: int
    session: str
    """The session they are stored with, "" for none."""
    data: bytes = b""
    """The entries, while they are not stored."""

    @property
    def row(self) -> int:
        """The number of the stored row."""
        return self.first << COUNT_BITS | self.entries


class StoredLog(msgspec.Struct, array_like=True):
    """A log in a checkpoint."""

    recent: list[Entry]
    packs: list[tuple[str, list[tuple[int, int]]]]
    """Session, and the first version and count of packs stored with it."""


class VersionLog:
    """Entries in the order of their versions.  Changed by its owner alone."""

    __slots__ = ("_kind", "_name", "_rows", "older", "recent")

    def __init__(self, name: str, stored: StoredLog | None = None, rows: StoredRows | None = None) -> None:
        self._name = name
        """The attribute of `State` that this log is."""
        self._kind = f"{name} 1"
        """Kind of the stored rows; the number is that of their format."""
        self._rows = rows
        self.recent: list[Entry] = [] if stored is None else stored.recent
        self.older: list[Pack] = []
        if stored is not None:
            self.older = [Pack(*place, session) for session, places in stored.packs for place in places]

    def newest(self, history: History) -> tuple[str, ...]:
        """Return the ids of the newest effective entry, () if there is none."""
        return next(self.newest_first(history), (0, ()))[1]

    def newest_first(self, history: History) -> Iterator[Entry]:
        """Yield the effective entries, newest first."""
        if not self.recent:
            return
        start = self.older[0].first if self.older else self.recent[0][0]
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
            self.older.append(Pack(self.recent[0][0], half, "", data))
            del self.recent[:half]
            packable -= half

    def whole(self) -> list[Entry]:
        """Return all entries."""
        older = [entry for place in range(len(self.older)) for entry in self._entries(place)]
        return older + self.recent

    def cut(self, version: int) -> None:
        """Drop the entries after a version; `LostRowsError` if a pack cannot be read."""
        del self.recent[bisect_right(self.recent, version, key=_version) :]
        while self.older and not self.recent:
            newest = self.older.pop()
            if newest.first <= version:
                self.recent = [entry for entry in self._unpack(newest) if entry[0] <= version]

    def stored(self, session: str) -> tuple[StoredLog, list[tuple[str, int, bytes]]]:
        """Return the log in a checkpoint, and the rows to store beside it: kind, number, data."""
        packs = [pack._replace(session=pack.session or session) for pack in self.older]
        grouped = [
            (name, [(pack.first, pack.entries) for pack in some])
            for name, some in groupby(packs, key=lambda pack: pack.session)
        ]
        rows = [(self._kind, pack.row, pack.data) for pack in self.older if pack.data]
        return StoredLog(self.recent, grouped), rows

    def mark_stored(self, rows: StoredRows, session: str) -> None:
        """Note that all packs are stored."""
        self._rows = rows
        self.older = [Pack(pack.first, pack.entries, pack.session or session) for pack in self.older]

    def _between(self, first: int, last: int) -> Iterator[Entry]:
        """Yield entries of versions `first..last`, newest first, found by bisection."""
        yield from _slice(self.recent, first, last)
        if self.older and first < self.recent[0][0]:
            for place in range(bisect_right(self.older, last, key=_version) - 1, -1, -1):
                yield from _slice(self._entries(place), first, last)
                if self.older[place].first <= first:
                    return

    def _entries(self, place: int) -> Sequence[Entry]:
        try:
            return self._unpack(self.older[place])
        except LostRowsError:
            self._rebuild()
            return self._unpack(self.older[place])

    def _unpack(self, packed: Pack) -> list[Entry]:
        data: bytes | None = packed.data
        if not data:
            data = None if self._rows is None else self._rows.get(packed.session, self._kind, packed.row)
            if data is None:
                raise LostRowsError
        return _decode(data)

    def _rebuild(self) -> None:
        """Make the stored packs anew from a replay, because one is lost."""
        assert self._rows is not None
        entries, older = iter(self._rows.replayed_log(self._name, self.recent[0][0])), list[Pack]()
        for packed in self.older:  # those that are not stored come last
            data = packed.data or _encode(list(islice(entries, packed.entries)))
            older.append(Pack(packed.first, packed.entries, "", data))
        self.older = older


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


def _version(entry: Entry | Pack) -> int:
    return entry[0]
