"""A run of deltas: many `PartDelta` events of one session as columns instead of objects.

Streaming leaves a run behind between two other events. Each delta of it is an event with its own
version and its own time, and comes back exactly; an object per delta is made only on request.

Columns: `keys` are the (part, field) pairs in order of first use; `which` gives each delta's key
(empty: all the first); `lengths` their lengths in characters, `gaps` the milliseconds to the delta
before (the first's is 0). Integer columns are unsigned, little-endian, of the smallest width of 1,
2 or 4 bytes; `gaps` may be 8 bytes wide and is then signed, for clocks that were set back.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate, chain, repeat
from operator import sub
from sys import byteorder
from zlib import adler32

import msgspec

from eventlog.events import PartDelta

Key = tuple[str, str]
"""(part id, field)"""

_DENSE = 8
"""Deltas per millisecond from which a search for the milliseconds is quicker."""
_NARROW = 256
"""Number of values of one byte."""
_SIGNED = 8
_FEW = 256
"""Most bytes whose sum is always below the modulus of Adler-32, 65,521."""
_WIDTHS = {1: "B", 2: "H", 4: "I", _SIGNED: "q"}


def pack_column(values: Sequence[int]) -> bytes:
    """Return integers as the narrowest column."""
    try:
        return bytes(values)
    except ValueError:
        pass
    if min(values) < 0 or max(values) > 0xFFFFFFFF:
        packed = array("q", values)
    else:
        packed = array("H" if max(values) <= 0xFFFF else "I", values)
    if byteorder == "big":  # pragma: no cover
        packed.byteswap()
    return packed.tobytes()


def unpack_column(column: bytes, count: int) -> Sequence[int]:
    """Return the integers of a column of `count` values."""
    if len(column) == count:
        return column
    width, remainder = divmod(len(column), count)
    if remainder or width not in _WIDTHS:
        raise ValueError(f"a column of {len(column)} bytes cannot hold {count} values")
    unpacked = array(_WIDTHS[width], column)
    if byteorder == "big":  # pragma: no cover
        unpacked.byteswap()
    return unpacked


def sum_column(column: Sequence[int]) -> int:
    """Return the sum of a column's integers.

    For bytes the lower half of an Adler-32 is that sum and 1, up to 256 of them: four times as
    quick as adding.
    """
    if type(column) is not bytes:
        return sum(column)
    if len(column) <= _FEW:
        return (adler32(column) & 0xFFFF) - 1
    return sum([(adler32(column[at : at + _FEW]) & 0xFFFF) - 1 for at in range(0, len(column), _FEW)])


def _gaps_of(times: list[int], unit: int) -> bytes:
    """Return the milliseconds from each time to the next, as a column.

    The times are in milliseconds times `unit`.
    """
    count = len(times)
    first, last = times[0] // unit, times[-1] // unit
    if 0 <= last - first < min(count // _DENSE, _NARROW) and sorted(times) == times:
        # Many deltas in each millisecond, as at full speed: search for the end of each millisecond.
        gaps = bytearray(count)
        place = 0
        while first < last:
            place = bisect_left(times, (first + 1) * unit, place)
            now = times[place] // unit
            gaps[place] = now - first
            first = now
        return bytes(gaps)
    if unit != 1:
        times = [time // unit for time in times]
    differences = list(map(sub, times[1:], times))
    differences.insert(0, 0)
    return pack_column(differences)


class DeltaRun(msgspec.Struct, frozen=True, array_like=True, tag=1, gc=False):
    """`count` consecutive deltas; `start` is the time of the first, after the batch's time."""

    start: int
    count: int
    keys: tuple[Key, ...]
    which: bytes
    lengths: bytes
    gaps: bytes
    text: str

    @classmethod
    def from_flat(cls, flat: Sequence[object], base: int = 0, unit: int = 1) -> DeltaRun:
        """Build a run from `[key, text, time, key, text, time, …]`, at least one delta.

        Times are in milliseconds times `unit`; `base` is the batch's time.
        """
        keys: list[Key] = flat[0::3]  # type: ignore[assignment]  # a flat list is what makes one append one C call
        texts: list[str] = flat[1::3]  # type: ignore[assignment]
        times: list[int] = flat[2::3]  # type: ignore[assignment]
        count = len(texts)
        if keys.count(keys[0]) == count:
            distinct: tuple[Key, ...] = (keys[0],)
            which = b""
        else:
            index = {key: number for number, key in enumerate(dict.fromkeys(keys))}
            distinct = tuple(index)
            which = pack_column([index[key] for key in keys])
        return cls(
            start=times[0] // unit - base,
            count=count,
            keys=distinct,
            which=which,
            lengths=pack_column(list(map(len, texts))),
            gaps=_gaps_of(times, unit),
            text="".join(texts),
        )

    @classmethod
    def from_deltas(cls, deltas: Sequence[tuple[int, PartDelta]], base: int = 0) -> DeltaRun:
        """Build a run from (time, delta) pairs."""
        return cls.from_flat(
            list(chain.from_iterable(((delta.part, delta.field), delta.text, time) for time, delta in deltas)), base
        )

    def times(self, base: int = 0) -> list[int]:
        """Return the deltas' times in UTC milliseconds, when `base` is the batch's time."""
        gaps = unpack_column(self.gaps, self.count)
        times = accumulate(gaps, initial=base + self.start)
        next(times)  # the first gap is that to itself
        return list(times)

    def last_time(self, base: int = 0) -> int:
        """Return the time of the last delta."""
        return base + self.start + sum_column(unpack_column(self.gaps, self.count))

    def texts(self) -> list[str]:
        """Return the deltas' texts."""
        text, end = self.text, 0
        return [text[end : (end := end + length)] for length in unpack_column(self.lengths, self.count)]

    def key_column(self) -> list[Key]:
        """Return each delta's key."""
        if not self.which:
            return [self.keys[0]] * self.count
        keys = self.keys
        return [keys[number] for number in unpack_column(self.which, self.count)]

    def deltas(self) -> list[PartDelta]:
        """Return the deltas as events, in order."""
        if not self.which:
            part, field = self.keys[0]
            return list(map(PartDelta, repeat(part), repeat(field), self.texts()))
        return [PartDelta(key[0], key[1], text) for key, text in zip(self.key_column(), self.texts(), strict=True)]

    def joined(self) -> dict[Key, str]:
        """Return the whole text that the run adds to each key."""
        if len(self.keys) == 1:
            return {self.keys[0]: self.text}
        pieces: dict[Key, list[str]] = {key: [] for key in self.keys}
        for key, text in zip(self.key_column(), self.texts(), strict=True):
            pieces[key].append(text)
        return {key: "".join(parts) for key, parts in pieces.items()}

    def cut(self, start: int, stop: int) -> DeltaRun:
        """Return the run of deltas `start:stop` alone, at least one."""
        if start <= 0 and stop >= self.count:
            return self
        times = self.times()
        flat = chain.from_iterable(
            zip(self.key_column()[start:stop], self.texts()[start:stop], times[start:stop], strict=True)
        )
        return DeltaRun.from_flat(list(flat))

    def without(self, keys: Collection[Key]) -> DeltaRun | None:
        """Return the run without the deltas of these keys; None if no delta is left."""
        columns = zip(self.key_column(), self.texts(), self.times(), strict=True)
        flat = [slot for column in columns if column[0] not in keys for slot in column]
        return DeltaRun.from_flat(flat) if flat else None

    def pieces(self, characters: int) -> list[DeltaRun]:
        """Cut the run into runs of at most so many characters each, or of one longer delta."""
        if len(self.text) <= characters:
            return [self]
        runs: list[DeltaRun] = []
        start = size = 0
        for index, text in enumerate(self.texts()):
            if index > start and size + len(text) > characters:
                runs.append(self.cut(start, index))
                start, size = index, 0
            size += len(text)
        return [*runs, self.cut(start, self.count)]

    def validate(self) -> None:
        """Raise ValueError unless the columns fit together.

        A stored run is validated once, when it is read.
        """
        if self.count < 1 or not self.keys:
            raise ValueError("an empty run of deltas")
        lengths = unpack_column(self.lengths, self.count)
        if sum_column(lengths) != len(self.text):
            raise ValueError("the lengths of a run of deltas do not add up to its text")
        if len(self.lengths) == _SIGNED * self.count and min(lengths) < 0:
            raise ValueError("a delta of a run has a negative length")
        if len(self.gaps) != self.count:
            unpack_column(self.gaps, self.count)
        if self.which and not 0 <= min(which := unpack_column(self.which, self.count)) <= max(which) < len(self.keys):
            raise ValueError("a delta of a run names a key that is not there")

    def __iter__(self) -> Iterator[PartDelta]:
        return iter(self.deltas())
