"""Archive of the facts of older messages: compressed, and found by id.

A part takes about 40 bytes instead of 500, and is found in microseconds. `fact_store.py` decides
which messages are archived, and when.

* A *chunk* is a number of messages with their parts, as compressed msgpack. Chunks are never
  changed: facts that were restored and changed are archived again in a newer chunk, and the newest
  chunk with an id counts.
* The *index* has one number for each id of a message or part in each chunk: a 40-bit hash, then the
  chunk's number. The numbers are sorted, in buckets of at most `BUCKET`, so that an entry costs 8
  bytes and a look-up reads one bucket. The hash is the id, read as a number, modulo a random number
  that is stored with the index. A collision costs only time, because the look-up decodes the chunk
  to make sure; a caller that chooses ids cannot provoke collisions.
* The greatest ids of a message and of a part are stored: one comparison shows that an id which
  grows with time is new.
* Chunks from before a checkpoint are stored apart from it, and read when an id is not in newer
  chunks (`later`). They lie in pieces. The first piece has all chunks of its time and their index,
  and opens without decoding (for a million parts, a copy of 30 MB); each later piece has the chunks
  added since the piece before (`added`).
"""

from __future__ import annotations

import os
import sys
from array import array
from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from threading import Lock
from typing import TYPE_CHECKING

import msgspec

from eventlog.state.facts import MessageFacts

if TYPE_CHECKING:
    import zstandard

__all__ = ["FactArchive", "StoredArchive"]

BUCKET = 128
CHUNK_BITS = 24
_CHUNK_MASK = (1 << CHUNK_BITS) - 1
_LEVEL = 1
"""Of zstandard: higher levels gain little."""
_squeezing = Lock()
# A child must not inherit the lock from a thread that it does not have.
os.register_at_fork(before=_squeezing.acquire, after_in_parent=_squeezing.release, after_in_child=_squeezing.release)

Row = tuple[str, MessageFacts]
_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(list[Row])


class StoredArchive(msgspec.Struct, array_like=True):
    """The stored form of an archive, or of the chunks added to it."""

    modulus: int
    chunks: list[bytes]
    index: bytes
    """The sorted numbers, 8 bytes each, least significant first; none in a later piece."""
    greatest_message: str
    greatest_part: str


class FactArchive:
    """The archived facts of one session.  Not safe across threads: its owner has a lock."""

    __slots__ = (
        "_bounds",
        "_buckets",
        "_cached",
        "_chunks",
        "_load",
        "_modulus",
        "_stored",
        "greatest_message",
        "greatest_part",
    )

    def __init__(self) -> None:
        self._modulus = int.from_bytes(os.urandom(5), "big") >> 1 | 1 << 39 | 1
        self._chunks: list[bytes] = []
        self._stored = 0
        """Number of chunks that lie in stored pieces."""
        self._buckets: list[array[int]] = [array("Q")]
        self._bounds: list[int] = [0]
        """The least number that belongs in each bucket."""
        self._cached: tuple[int, list[Row]] = (-1, [])
        """The chunk decoded last: a reader of one old part often reads its neighbours."""
        self.greatest_message = ""
        """No message has a greater id."""
        self.greatest_part = ""
        self._load: Callable[[], None] | None = None
        """Reads the stored pieces, and calls `attach` with them; None once they are read."""

    def __bool__(self) -> bool:
        return bool(self._chunks) or self._load is not None

    def __iter__(self) -> Iterator[Row]:
        """The newest facts of every message, oldest chunk first."""
        self._loaded()
        for number, chunk in enumerate(self._chunks):
            for name, facts in _unpack(chunk):
                if self._newest(name) == number:
                    yield name, facts

    def add(self, rows: Sequence[Row], size: int) -> None:
        """Archive some messages, as chunks of `size` messages each."""
        chunks = [rows[start : start + size] for start in range(0, len(rows), size)]
        self._add([_squeeze(_plain(chunk)) for chunk in chunks], chunks)
        self.greatest_message = max([self.greatest_message, *[name for name, _ in rows]])
        self.greatest_part = max([self.greatest_part, *chain.from_iterable([facts.parts for _, facts in rows])])

    def _add(self, chunks: Sequence[bytes], contents: Iterable[Sequence[Row]]) -> None:
        first, modulus = len(self._chunks), self._modulus
        if first + len(chunks) > _CHUNK_MASK + 1:
            raise OverflowError("more chunks of facts than an index can hold")
        self._chunks += chunks
        self._index(
            [
                int.from_bytes(key.encode("utf-8", "surrogatepass"), "little") % modulus << CHUNK_BITS | number
                for number, rows in enumerate(contents, first)
                for name, facts in rows
                for key in (name, *facts.parts)
            ]
        )

    def _index(self, entries: list[int]) -> None:
        bounds, buckets = self._bounds, self._buckets
        if len(entries) > len(buckets) * (BUCKET // 8):  # then one sort is quicker than a search for each
            self._open_index(array("Q", sorted(chain(entries, *buckets))))
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

    def find(self, key: str) -> Row | None:
        """Find the message of this id, or with a part of this id, as it was archived last."""
        for number in self._candidates(_hash(key, self._modulus)):
            row = next((one for one in self._rows(number) if one[0] == key or key in one[1].parts), None)
            if row is not None:
                return _rows(_plain([row]))[0]  # a copy: the caller may change it
        if self._load is not None:
            self._loaded()
            return self.find(key)
        return None

    def later(self, load: Callable[[], None], greatest_message: str, greatest_part: str) -> None:
        """Declare stored pieces that `load` reads when needed, and the greatest ids in them."""
        self._load, self.greatest_message, self.greatest_part = load, greatest_message, greatest_part

    @property
    def is_later(self) -> bool:
        """Whether there are stored pieces that are not read yet."""
        return self._load is not None

    def attach(self, stored: StoredArchive, *added: StoredArchive) -> None:
        """Put these stored pieces before the chunks that are here."""
        newer, self._load = self._chunks, None
        self._open(stored)
        chunks = [*chain.from_iterable([piece.chunks for piece in added])]
        self._stored += len(self._chunks) + len(chunks)
        self._add([*chunks, *newer], map(_unpack, [*chunks, *newer]))

    def _loaded(self) -> None:
        if self._load is not None:
            self._load()

    def stored(self) -> StoredArchive:
        """All chunks and their index, as the first stored piece."""
        self._loaded()
        index = b"".join(map(_little, self._buckets))
        return StoredArchive(self._modulus, self._chunks, index, self.greatest_message, self.greatest_part)

    def added(self) -> StoredArchive:
        """The chunks that no stored piece has, as the next piece."""
        return StoredArchive(
            self._modulus, self._chunks[self._stored :], b"", self.greatest_message, self.greatest_part
        )

    def mark_stored(self) -> None:
        """Note that all chunks lie in stored pieces."""
        self._stored = len(self._chunks)

    def _open(self, stored: StoredArchive) -> None:
        self._modulus = stored.modulus
        self._chunks = stored.chunks
        self._cached = (-1, [])
        self.greatest_message = max(self.greatest_message, stored.greatest_message)
        self.greatest_part = max(self.greatest_part, stored.greatest_part)
        index = array("Q", stored.index)
        if sys.byteorder == "big":
            index.byteswap()
        self._open_index(index)

    def _open_index(self, index: array[int]) -> None:
        step = BUCKET // 2
        self._buckets = [index[start : start + step] for start in range(0, len(index) or 1, step)]
        self._bounds = [0, *[bucket[0] for bucket in self._buckets[1:]]]

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

    def _newest(self, name: str) -> int:
        return next(
            number
            for number in self._candidates(_hash(name, self._modulus))
            if any(row[0] == name for row in self._rows(number))
        )

    def _rows(self, number: int) -> list[Row]:
        if self._cached[0] != number:
            self._cached = number, _unpack(self._chunks[number])
        return self._cached[1]


def _unpack(chunk: bytes) -> list[Row]:
    with _squeezing:
        data = _zstandard()[1].decompress(chunk)
    return _rows(data)


def _plain(rows: Sequence[Row]) -> bytes:
    """Encode rows as MessagePack, or as JSON where a call id has lone surrogates."""
    try:
        return _ENCODER.encode(rows)
    except UnicodeEncodeError:
        import json

        return b"[" + json.dumps(msgspec.to_builtins(rows)).encode()


def _rows(data: bytes) -> list[Row]:
    if data.startswith(b"[["):  # no MessagePack array of rows begins so
        import json

        return msgspec.convert(json.loads(data[1:]), list[Row])
    return _DECODER.decode(data)


def _squeeze(data: bytes) -> bytes:
    with _squeezing:
        packed = _zstandard()[0].compress(data)
    return bytes(memoryview(packed))  # a copy: the result of zstandard retains a buffer as long as `data`


@cache
def _zstandard() -> tuple[zstandard.ZstdCompressor, zstandard.ZstdDecompressor]:
    """One pair of coders, used under a lock: a pair for each thread would cost memory."""
    import zstandard  # 8 ms that a program without long sessions need not spend

    return zstandard.ZstdCompressor(level=_LEVEL), zstandard.ZstdDecompressor()


def _hash(key: str, modulus: int) -> int:
    return int.from_bytes(key.encode("utf-8", "surrogatepass"), "little") % modulus


def _little(bucket: array[int]) -> bytes:
    if sys.byteorder == "big":
        bucket = bucket[:]
        bucket.byteswap()
    return bucket.tobytes()
