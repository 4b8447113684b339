"""What was so from which version on, as far back as a rollback can reach: the open messages, the last user message.

For `state.py` only.  The newest entries are a plain list; older ones lie packed, because hardly any rollback looks at them.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

import msgspec

from eventlog.lineage import History

__all__ = ["Entry", "Timeline"]

RECENT = 512
"""Entries from which on the older half is packed."""

Entry = tuple[int, tuple[str, ...]]
"""A version, and the ids that were named then."""
_DECODER = msgspec.msgpack.Decoder(list[Entry])


class Timeline(msgspec.Struct, array_like=True):
    """Entries in the order of their versions.  Changed by its owner alone."""

    recent: list[Entry] = msgspec.field(default_factory=list[Entry])
    older: list[tuple[int, bytes]] = msgspec.field(default_factory=list[tuple[int, bytes]])
    """Packed entries, each with the version of their first."""

    def newest(self, history: History) -> tuple[str, ...]:
        """The ids of the newest entry that counts, none if there is no entry."""
        recent = self.recent
        if recent and recent[-1][0] >= history.starts[-1]:
            return recent[-1][1]
        return next(self.newest_first(history), (0, ()))[1]

    def newest_first(self, history: History) -> Iterator[Entry]:
        """The entries that count, newest first."""
        if not self.recent:
            return
        start = self.older[0][0] if self.older else self.recent[0][0]
        for first, last in history.newest_first():
            if last < start:
                return
            yield from self._between(first, last)

    def pack(self, settled: int) -> None:
        """Pack the older half when there are many.

        Those after version `settled` stay, because they may be taken back, and one before them, so that some always stay.
        """
        if len(self.recent) < RECENT:
            return
        half = min(RECENT // 2, bisect_right(self.recent, settled, key=_version) - 1)
        if half > 0:
            try:
                packed = zlib.compress(msgspec.msgpack.encode(self.recent[:half]), 1)
            except UnicodeEncodeError:
                return  # an id with lone surrogates: the list goes on as it is
            self.older.append((self.recent[0][0], packed))
            del self.recent[:half]

    def whole(self) -> Timeline:
        """The same with nothing packed."""
        older = [entry for _, packed in self.older for entry in _DECODER.decode(zlib.decompress(packed))]
        return Timeline(older + self.recent)

    def _between(self, first: int, last: int) -> Iterator[Entry]:
        """The entries of versions `first..last`, newest first; found by halving: what is hidden may be long."""
        yield from _slice(self.recent, first, last)
        if first < self.recent[0][0]:
            for place in range(bisect_right(self.older, last, key=_version) - 1, -1, -1):
                yield from _slice(_DECODER.decode(zlib.decompress(self.older[place][1])), first, last)
                if self.older[place][0] <= first:
                    return


def _slice(entries: list[Entry], first: int, last: int) -> Iterator[Entry]:
    low = bisect_left(entries, first, key=_version)
    for at in range(bisect_right(entries, last, key=_version) - 1, low - 1, -1):
        yield entries[at]


def _version(entry: tuple[int, object]) -> int:
    return entry[0]
