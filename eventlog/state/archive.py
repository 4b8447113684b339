"""Archive of the facts of older messages: compressed, and found by id.

A part takes about 40 bytes instead of 500, and is found in microseconds. `fact_store.py` decides
which messages are archived, and when.

* What was archived since the newest checkpoint is in memory; the rest lies in stored rows
  (`stored_facts.py`), which are read one by one when an id is asked for.
* A *chunk* is a number of messages with their parts (`chunk.py`). Chunks are never changed: facts
  that were restored and changed are archived again in a newer chunk, and the newest chunk with an
  id counts.
* The *index* has one number for each id of a message or part in each chunk: the id's hash, then the
  chunk's number. The numbers are sorted, in buckets of at most `BUCKET`, so that an entry costs 8
  bytes and a look-up reads one bucket. A collision costs only time, because the look-up decodes the
  chunk to make sure.
* The greatest ids of a message and of a part are known: one comparison shows that an id which grows
  with time is new.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from eventlog.state.chunk import Row, copy_row, hash_of, pack_rows, unpack_rows
from eventlog.state.run import new_modulus
from eventlog.state.stored_facts import Growth, LostRowsError, Source, StoredArchive, StoredFacts, StoredRows, grown

__all__ = ["FactArchive"]

BUCKET = 128
CHUNK_BITS = 24
CHUNK = 32
"""Messages of a chunk."""
_CHUNK_MASK = (1 << CHUNK_BITS) - 1


class FactArchive:
    """The archived facts of one session.  Not safe across threads: its owner has a lock."""

    __slots__ = (
        "_bounds",
        "_buckets",
        "_cached",
        "_chunks",
        "_grown",
        "_modulus",
        "greatest_message",
        "greatest_part",
        "stored",
    )

    def __init__(self, stored: StoredFacts | None = None, modulus: int = 0) -> None:
        self.stored = stored
        """The rows stored before, None if there are none."""
        self._modulus = modulus or new_modulus()
        """That of the session's own stored archive, if it has one."""
        self.greatest_message = ""
        """No message has a greater id."""
        self.greatest_part = ""
        self._grown: StoredArchive | None = None
        """The archive that `growth` returned last."""
        self._clear()

    def __bool__(self) -> bool:
        return bool(self._chunks) or self.stored is not None

    def __iter__(self) -> Iterator[Row]:
        """The newest facts of every message, oldest chunk first."""
        newest = dict(self._stored_rows())
        for chunk in self._chunks:
            newest.update(unpack_rows(chunk))
        return iter(newest.items())

    def add(self, rows: Sequence[Row], size: int) -> None:
        """Archive some messages, as chunks of `size` messages each."""
        chunks = [rows[start : start + size] for start in range(0, len(rows), size)]
        self._add([pack_rows(chunk) for chunk in chunks], chunks)

    def find(self, key: str) -> Row | None:
        """Find the message of this id, or with a part of this id, as it was archived last."""
        hashed = hash_of(key, self._modulus)
        for number in self._candidates(hashed) if self._chunks else ():
            row = next((one for one in self._rows(number) if one[0] == key or key in one[1].parts), None)
            if row is not None:
                return copy_row(row)  # the caller may change it
        if self.stored is None:
            return None
        try:
            return self.stored.find(key, hashed, self._modulus)
        except LostRowsError:
            self._rebuild(self.stored)
            return self.find(key)

    def growth(self, session: str) -> Growth:
        """Return what a checkpoint of a session stores, so that all of the archive is stored."""
        try:
            rows = (row for chunk in self._chunks for row in unpack_rows(chunk))
            growth = grown(self.stored, session, rows, self._modulus)
        except LostRowsError:
            assert self.stored is not None
            self._rebuild(self.stored)
            return self.growth(session)
        self._grown = growth.archive
        return growth

    def mark_stored(self, rows: StoredRows, source: Source) -> None:
        """Note that what `growth` returned last is stored as the archive of a session."""
        if self._grown is None:  # a reader has archived it anew since: the next checkpoint stores it
            return
        if self.stored is None:
            self.stored = StoredFacts(rows, [])
        self.stored.grow(rows, source, self._grown)
        self._clear()

    def _clear(self) -> None:
        """Begin without chunks."""
        self._chunks: list[bytes] = []
        self._buckets: list[array[int]] = [array("Q")]
        self._bounds: list[int] = [0]
        """The least number that belongs in each bucket."""
        self._cached: tuple[int, list[Row]] = (-1, [])
        """The chunk decoded last: a reader of one old part often reads its neighbours."""

    def _stored_rows(self) -> Iterator[Row]:
        if self.stored is None:
            return iter(())
        try:
            return iter(self.stored)
        except LostRowsError:
            self._rebuild(self.stored)
            return iter(())

    def _rebuild(self, stored: StoredFacts) -> None:
        """Archive anew what was stored and is lost, from a replay."""
        newer, self.stored, self._grown = self._chunks, None, None
        self._clear()
        self.add(stored.rows.replayed_messages(stored.upto), CHUNK)
        self._add(newer, map(unpack_rows, newer))

    def _add(self, chunks: Sequence[bytes], contents: Iterable[Sequence[Row]]) -> None:
        first, modulus = len(self._chunks), self._modulus
        if first + len(chunks) > _CHUNK_MASK + 1:
            raise OverflowError("more chunks of facts than an index can hold")
        self._chunks += chunks
        messages, parts, entries = [self.greatest_message], [self.greatest_part], list[int]()
        for number, rows in enumerate(contents, first):
            names = [name for name, _ in rows]
            born = [part for _, facts in rows for part in facts.parts]
            messages.append(max(names))
            parts.append(max(born, default=""))
            entries += [hash_of(key, modulus) << CHUNK_BITS | number for key in chain(names, born)]
        self.greatest_message, self.greatest_part = max(messages), max(parts)
        self._index(entries)

    def _index(self, entries: list[int]) -> None:
        bounds, buckets = self._bounds, self._buckets
        if len(entries) > len(buckets) * (BUCKET // 8):  # then one sort is quicker than a search for each
            index, step = array("Q", sorted(chain(entries, *buckets))), BUCKET // 2
            self._buckets = [index[start : start + step] for start in range(0, len(index) or 1, step)]
            self._bounds = [0, *[bucket[0] for bucket in self._buckets[1:]]]
            return
        for entry in entries:
            place = bisect_right(bounds, entry) - 1
            bucket = buckets[place]
            insort(bucket, entry)
            if len(bucket) > BUCKET:
                half = len(bucket) // 2
                buckets.insert(place + 1, bucket[half:])
                bounds.insert(place + 1, bucket[half])
                del bucket[half:]

    def _candidates(self, wanted: int) -> Iterator[int]:
        """The chunks with an id of this hash, newest first."""
        last = wanted << CHUNK_BITS | _CHUNK_MASK
        for place in range(bisect_right(self._bounds, last) - 1, -1, -1):
            bucket = self._buckets[place]
            for at in range(bisect_right(bucket, last) - 1, -1, -1):
                entry = bucket[at]
                if entry >> CHUNK_BITS != wanted:
                    return
                yield entry & _CHUNK_MASK

    def _rows(self, number: int) -> list[Row]:
        if self._cached[0] != number:
            self._cached = number, unpack_rows(self._chunks[number])
        return self._cached[1]
