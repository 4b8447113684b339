"""Immutable sorted tables from originators to their events, the parts of `index.py`.

A *run* is (originator version, stream version, count): `count` events whose versions are
consecutive in both.  A table holds the runs of some originators in a range of the stream that
begins after `base`:

    count of keys n          4 bytes, big-endian like all numbers here
    n keys                   16 bytes each, ascending (`batch.key_of`)
    n + 1 indexes            4 bytes each: where the runs of a key begin, and at last their number
    runs                     16 bytes each: originator version (signed, 8), stream version - base
                             (4), count (4); those of a key by originator version

Lookups read the table in place, without decoding it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from struct import Struct
from typing import TypeAlias, overload

from eventlog.recorder.batch import KEY_BYTES

Run: TypeAlias = tuple[int, int, int]

NO_RUNS: Sequence[Run] = ()
_COUNT = Struct(">I")
_PLACES = Struct(">II")
_RUN = Struct(">qII")


class IndexTable:
    """An encoded table, and lookups in it."""

    __slots__ = ("_base", "_keys", "_places", "_raw", "_runs", "count")

    def __init__(self, raw: bytes, base: int) -> None:
        self._raw = raw
        self._base = base
        self.count: int = _COUNT.unpack_from(raw)[0]
        self._keys = _COUNT.size
        self._places = self._keys + KEY_BYTES * self.count
        self._runs = self._places + _COUNT.size * (self.count + 1)

    def key(self, number: int) -> bytes:
        """Return the key at an index."""
        start = self._keys + KEY_BYTES * number
        return self._raw[start : start + KEY_BYTES]

    def runs_at(self, number: int) -> Sequence[Run]:
        """Return the runs of the key at an index."""
        first, last = _PLACES.unpack_from(self._raw, self._places + _COUNT.size * number)
        return _RunSequence(self._raw, self._base, self._runs + _RUN.size * first, last - first)

    def runs(self, key: bytes) -> Sequence[Run]:
        """Return the runs of a key, none if it is not here."""
        number = bisect_left(range(self.count), key, key=self.key)
        return self.runs_at(number) if number < self.count and self.key(number) == key else NO_RUNS


class _RunSequence(Sequence[Run]):
    """Runs that are decoded on access."""

    __slots__ = ("_base", "_count", "_raw", "_start")

    def __init__(self, raw: bytes, base: int, start: int, count: int) -> None:
        self._raw = raw
        self._base = base
        self._start = start
        self._count = count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Run: ...
    @overload
    def __getitem__(self, index: slice) -> list[Run]: ...
    def __getitem__(self, index: int | slice) -> Run | list[Run]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(self._count))]
        if not 0 <= index < self._count:
            raise IndexError(index)
        version, place, count = _RUN.unpack_from(self._raw, self._start + _RUN.size * index)
        return version, self._base + place, count


def encode(runs: Mapping[bytes, Sequence[Run]], base: int) -> bytes:
    """Encode a table."""
    keys = sorted(runs)
    places = [0]
    for key in keys:
        places.append(places[-1] + len(runs[key]))
    packed = [_RUN.pack(version, place - base, count) for key in keys for version, place, count in runs[key]]
    return b"".join(
        [_COUNT.pack(len(keys)), *keys, Struct(f">{len(places)}I").pack(*places), *packed],
    )


def insert(runs: list[Run], version: int, place: int, count: int) -> None:
    """Add a run to those of one originator, in order; a run that continues the last joins it."""
    if runs:
        last_version, last_place, last_count = runs[-1]
        if version == last_version + last_count and place == last_place + last_count:
            runs[-1] = (last_version, last_place, last_count + count)
            return
        if version < last_version:
            runs.insert(bisect_left(runs, (version, place, count)), (version, place, count))
            return
    runs.append((version, place, count))


def has(runs: Sequence[Run], version: int) -> bool:
    """Whether an originator version is in these runs."""
    number = bisect_right(runs, version, key=_version) - 1
    if number < 0:
        return False
    first, _, count = runs[number]
    return version < first + count


def between(runs: Sequence[Run], gt: int | None, lte: int | None, *, desc: bool) -> Iterator[Run]:
    """Yield the runs cut to originator versions greater than `gt` and at most `lte`.

    They come by version, descending if asked.
    """
    start = 0 if gt is None else max(bisect_right(runs, gt, key=_version) - 1, 0)
    stop = len(runs) if lte is None else bisect_right(runs, lte, key=_version)
    for number in range(stop - 1, start - 1, -1) if desc else range(start, stop):
        version, place, count = runs[number]
        first = version if gt is None else max(version, gt + 1)
        last = version + count - 1 if lte is None else min(version + count - 1, lte)
        if first <= last:
            yield first, place + first - version, last - first + 1


def _version(run: Run) -> int:
    return run[0]
