"""Entries by version, newest effective first: the open messages, the user messages.

The newest entries are a plain list. Older ones are compressed, because hardly any rollback looks at
them; those from before a checkpoint are read when one does (`later`).
"""

from __future__ import annotations

import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator

import msgspec

from eventlog.history.lineage import History

__all__ = ["Entry", "Older", "VersionLog"]

RECENT = 512
"""Entries from which on the older half is packed."""

Entry = tuple[int, tuple[str, ...]]
"""A version, and the ids that were named then."""
_DECODER = msgspec.msgpack.Decoder(list[Entry])


Older = list[tuple[int, bytes]]
"""Packed entries, each with the version of their first."""


class VersionLog:
    """Entries in the order of their versions.  Changed by its owner alone."""

    __slots__ = ("_load", "_stored", "begins", "older", "recent")

    def __init__(self, recent: list[Entry] | None = None) -> None:
        self.recent: list[Entry] = [] if recent is None else recent
        self.older: Older = []
        self._stored = 0
        """Number of packed pieces that are stored."""
        self.begins = 0
        """Version of the oldest packed entry, 0 if there is none."""
        self._load: Callable[[], None] | None = None
        """Reads the stored pieces, and calls `attach` with them; None once they are read."""

    def later(self, load: Callable[[], None], begins: int) -> None:
        """Declare stored pieces from version `begins` on, which `load` reads when needed."""
        self._load, self.begins = load, begins

    def attach(self, older: Older) -> None:
        """Put the stored pieces `older` before what is here."""
        self._load = None
        self.older[:0] = older
        self._stored += len(older)

    def packed(self) -> Older:
        """All packed pieces."""
        if self._load is not None:
            self._load()
        return self.older

    def added(self) -> Older:
        """The packed pieces that are not stored yet."""
        return self.older[self._stored :]

    def mark_stored(self) -> None:
        """Note that all packed pieces are stored."""
        self._stored = len(self.older)

    def oldest(self) -> int:
        """Version of the oldest entry in memory, 0 if there is none or none is packed."""
        if not self.begins:
            return 0
        return self.older[0][0] if self.older else self.recent[0][0] if self.recent else 0

    def newest(self, history: History) -> tuple[str, ...]:
        """The ids of the newest effective entry, none if there is no entry."""
        return next(self.newest_first(history), (0, ()))[1]

    def newest_first(self, history: History) -> Iterator[Entry]:
        """The effective entries, newest first."""
        if not self.recent:
            return
        start = self.begins or self.recent[0][0]
        for first, last in history.newest_first():
            if last < start:
                return
            yield from self._between(first, last)

    def pack(self, committed: int) -> None:
        """Pack the older ones when there are many.

        Those after version `committed` stay, because they may be taken back, and one before them,
        so that some always stay.
        """
        packable = bisect_right(self.recent, committed, key=_version) - 1
        while len(self.recent) >= RECENT and packable > 0:
            half = min(RECENT // 2, packable)
            try:
                packed = _pack(self.recent[:half])
            except UnicodeEncodeError:
                return  # an id with lone surrogates: the list goes on as it is
            self.begins = self.begins or self.recent[0][0]
            self.older.append((self.recent[0][0], packed))
            del self.recent[:half]
            packable -= half

    def whole(self) -> list[Entry]:
        """All entries."""
        older = [entry for _, packed in self.packed() for entry in _DECODER.decode(zlib.decompress(packed))]
        return older + self.recent

    def before(self, version: int) -> Older:
        """All entries of earlier versions, packed."""
        entries = [entry for entry in self.whole() if entry[0] < version]
        pieces = [entries[start : start + RECENT // 2] for start in range(0, len(entries), RECENT // 2)]
        return [(piece[0][0], _pack(piece)) for piece in pieces]

    def _between(self, first: int, last: int) -> Iterator[Entry]:
        """Entries of versions `first..last`, newest first, found by bisection."""
        yield from _slice(self.recent, first, last)
        if self.begins and first < self.recent[0][0]:
            older = self.packed()
            for place in range(bisect_right(older, last, key=_version) - 1, -1, -1):
                yield from _slice(_DECODER.decode(zlib.decompress(older[place][1])), first, last)
                if older[place][0] <= first:
                    return


def _pack(entries: list[Entry]) -> bytes:
    return zlib.compress(msgspec.msgpack.encode(entries), 1)


def _slice(entries: list[Entry], first: int, last: int) -> Iterator[Entry]:
    low = bisect_left(entries, first, key=_version)
    for at in range(bisect_right(entries, last, key=_version) - 1, low - 1, -1):
        yield entries[at]


def _version(entry: tuple[int, object]) -> int:
    return entry[0]
