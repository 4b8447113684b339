"""Blocks: pieces that are compressed together, laid into slots, and read one by one."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import zstandard

from eventlog.compression import pack, plain_body, unpack
from eventlog.errors import DamagedError
from eventlog.log.embedded.engine import open_log
from eventlog.log.embedded.memtable import MemtablePart
from eventlog.log.embedded.segments.blocks import BLOCK_BYTES
from eventlog.log.embedded.segments.fold import begin_store, write_copied
from eventlog.log.embedded.segments.layout import NUMBER, pack_value, unpack_value
from eventlog.log.embedded.segments.segments import Segments
from tests.support.embedded_log import put

TEXT = "what one body says, another one says almost the same, and so does body number "


@pytest.fixture
def segments(tmp_path: Path) -> Iterator[Segments]:
    """An empty folded part."""
    made = Segments(tmp_path, read_only=False, map_bytes=1 << 30)
    begin_store(made, 0)
    yield made
    made.close()


def put_bodies(segments: Segments, packed: dict[bytes, bytes]) -> None:
    """Fold bodies, and nothing else."""
    generation = MemtablePart()
    generation.bodies.update(packed)
    write_copied(segments, generation)


def bodies_of(texts: list[str]) -> dict[bytes, bytes]:
    """Packed bodies by their hash."""
    return {sha256(text.encode()).digest(): pack(text.encode()) for text in texts}


def stored(segments: Segments) -> int:
    """Bytes in the slots."""
    with segments.environment.reading() as txn:
        tree = segments.environment.trees["data"]
        return sum(len(txn.get(key, db=tree) or b"") for key in segments.keys("data"))


def flip(segments: Segments, at: int) -> None:
    """Change one byte in the first slot."""
    tree = segments.environment.trees["data"]

    def job(txn: Any) -> None:
        key = NUMBER.pack(1)
        value = bytearray(txn.get(key, db=tree))
        value[at] ^= 0xFF
        txn.put(key, bytes(value), db=tree)

    segments.environment.writing(job)


def test_pieces_of_every_size_come_back(segments: Segments) -> None:
    """Bodies of every size come back: in a shared block, in their own, and across slots."""
    chance = random.Random(1)
    packed = bodies_of([TEXT * (1 + number % 5) + str(number) for number in range(900)])
    for size in (0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 3 * BLOCK_BYTES):
        data = chance.randbytes(size)
        packed[sha256(data).digest()] = pack(data)
    packed[bytes(32)] = b"what no program of ours has packed"
    put_bodies(segments, packed)
    assert set(segments.keys("bodies")) == set(packed)
    for digest, known in packed.items():
        found = segments.body(digest)
        assert found is not None
        if digest == bytes(32):
            assert found == known
            continue
        data = found[1:] if not found[0] else zstandard.ZstdDecompressor().decompress(found[1:])
        assert sha256(data).digest() == digest


@pytest.mark.promise(14)
def test_what_pieces_have_in_common_is_kept_once(segments: Segments) -> None:
    """Promise 14: almost equal bodies take a fifth of their separate sizes."""
    packed = bodies_of([f"{number} {TEXT * 20} {number}" for number in range(200)])
    put_bodies(segments, packed)
    assert stored(segments) * 5 < sum(map(len, packed.values()))


def loose_cases() -> Iterator[tuple[str, bytes, bytes]]:
    """Cases of (name, hash, packed bytes) that do not surely belong together."""
    data = (TEXT * 30).encode()
    whole = pack(data)
    yield "of another hash", bytes(32), whole
    yield "damaged", sha256(data).digest(), whole[:-3] + b"xyz"
    yield "cut short", sha256(data).digest(), whole[:5]
    yield "too large", sha256(data * 200).digest(), pack(data * 200)
    yield "plain already", sha256(b"x").digest(), pack(b"x")
    yield "nothing", sha256(b"").digest(), b""
    without_size = zstandard.ZstdCompressor().compressobj()
    streamed = b"\x01" + without_size.compress(data) + without_size.flush()
    yield "of a size that is not said", sha256(data).digest(), streamed


@pytest.mark.parametrize("case", list(loose_cases()), ids=lambda case: case[0])
def test_what_cannot_be_unpacked_for_sure_is_kept_as_it_is(case: tuple[str, bytes, bytes]) -> None:
    """A body is repacked only if its packed form surely matches its hash; else stored as is."""
    _, digest, packed = case
    assert plain_body(digest, packed, BLOCK_BYTES) == packed


@pytest.mark.promise(12)
@pytest.mark.parametrize("at", [0, 5, 9, 13, 16, 17, 100])
def test_a_changed_byte_costs_its_block(segments: Segments, at: int) -> None:
    """Promise 12: a changed byte in a block is a named error for every body in the block."""
    packed = bodies_of([f"{number} {TEXT * 3}" for number in range(30)])
    put_bodies(segments, packed)
    flip(segments, at)
    for digest in packed:
        with pytest.raises(DamagedError, match=digest.hex()):
            segments.body(digest)


def test_checking_looks_at_the_disk(tmp_path: Path) -> None:
    """A check reads the disk and finds damage in a block that memory holds intact."""
    log = open_log(tmp_path / "s")
    put(log, os.urandom(500), "a")
    log.close()
    log = open_log(tmp_path / "s")
    assert [commit.first for commit in log.read("a")] == [1]
    flip(log._partition.tail.segments, 100)
    assert log.check() != []
    log.close()


@pytest.mark.parametrize("value", [b"", b"x", b"x" * 255, b"x" * 5000, os.urandom(5000)])
def test_squeezed_values_come_back(value: bytes) -> None:
    """Catalog entries and checkpoints are compressed where that pays, and come back exactly."""
    packed = pack_value(value)
    assert unpack_value(packed) == value
    assert len(packed) <= len(value) + 1


@pytest.mark.promise(12)
@pytest.mark.parametrize(
    "spoilt", [b"", b"\x07value", pack_value(b"value" * 1000)[:-2], pack_value(b"value" * 1000)[:3]]
)
def test_a_squeezed_value_that_is_none_is_damage(spoilt: bytes) -> None:
    """Promise 12: an invalid compressed value is `DamagedError` and nothing else."""
    with pytest.raises(DamagedError):
        unpack_value(spoilt)


def test_frame_that_states_more_than_any_value_has_is_refused() -> None:
    """A few bytes that say they are gigabytes are refused before the memory is taken."""
    frame = b"\x28\xb5\x2f\xfd\xe0" + (3 << 30).to_bytes(8, "little") + b"\1\0\0"
    with pytest.raises(ValueError, match="no value has"):
        unpack(b"\1" + frame)
