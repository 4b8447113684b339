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

from eventlog.codec.bodies import body_text
from eventlog.compression import pack, plain_body
from eventlog.errors import DamagedError
from eventlog.log.commit import Append
from eventlog.log.embedded.engine import open_log
from eventlog.log.embedded.memtable import MemtablePart
from eventlog.log.embedded.segments.blocks import BLOCK_BYTES, BlockBuilder, Blocks
from eventlog.log.embedded.segments.fold import begin_store, write_copied
from eventlog.log.embedded.segments.layout import NUMBER, pack_value, unpack_value
from eventlog.log.embedded.segments.segments import Segments
from eventlog.values import Body
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


def counted_reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The offsets of the blocks that are read from here on."""
    reads: list[tuple[int, int]] = []
    read = Blocks._read

    def counted(self: Blocks, txn: Any, slot: int, offset: int) -> bytes:
        reads.append((slot, offset))
        return read(self, txn, slot, offset)

    monkeypatch.setattr(Blocks, "_read", counted)
    return reads


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


@pytest.mark.promise(14)
def test_bodies_of_a_few_kilobytes_share_statistics(segments: Segments) -> None:
    """Promise 14: tool outputs of a few KB take less space in a shared block than alone."""
    chance = random.Random(2)
    texts = [" ".join(chance.choices(TEXT.split(), k=1_000)) for _ in range(20)]
    apart = BlockBuilder()
    apart.limit = BLOCK_BYTES
    for text in texts:
        apart.add([text.encode()])
    apart.close()
    put_bodies(segments, bodies_of(texts))
    assert stored(segments) * 1.02 < sum(len(block.stored) for block in apart.blocks)


def test_a_body_is_given_back_as_what_its_hash_names(segments: Segments) -> None:
    """A body is compared with its hash when unpacked, however it was repacked on the way."""
    data = (TEXT * 30).encode()
    digest = sha256(data).digest()
    put_bodies(segments, {digest: pack(data)})
    found = segments.body(digest)
    assert found is not None
    assert body_text(Body(digest, len(data), len(data)), found) == data.decode()


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


def test_blocks_that_are_kept_are_few(segments: Segments, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sequential reads load each block once, and the block cache stays bounded."""
    chance = random.Random(2)
    texts = [chance.randbytes(3000).hex() for _ in range(800)]
    packed = bodies_of(texts)
    put_bodies(segments, packed)
    reads = counted_reads(monkeypatch)
    for digest in packed:
        assert segments.body(digest) is not None
    assert len(reads) == len(set(reads)) > 10
    assert sum(map(len, segments._blocks._kept.values())) <= 8 * BLOCK_BYTES


def test_following_reads_each_block_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Following interleaved sessions reads each block once and yields position order."""
    log = open_log(tmp_path / "s")
    for number in range(600):
        round_, session = divmod(number, 200)
        append = Append(
            session=f"session {session}", payload=os.urandom(2000), count=1, time=1, creates_at=None if round_ else 0
        )
        log.submit(append)
    log.close()
    log = open_log(tmp_path / "s", read_only=True)
    reads = counted_reads(monkeypatch)
    assert [commit.position for commit in log.commits_after(0)] == list(range(1, 601))
    assert len(reads) == len(set(reads)) > 10
    log.close()


def test_checking_looks_at_the_disk(tmp_path: Path) -> None:
    """A check reads the disk and finds damage in a block that memory holds intact."""
    log = open_log(tmp_path / "s")
    put(log, os.urandom(500), "a")
    log.close()
    log = open_log(tmp_path / "s")
    assert [commit.first for commit in log.read("a")] == [1]
    flip(log._partition._segments, 100)
    assert log.check() != []
    log.close()


def test_short_sessions_share_a_block(tmp_path: Path) -> None:
    """Many short sessions share blocks instead of having one each."""
    log = open_log(tmp_path / "s")
    for number in range(200):
        put(log, f"what is said in session {number} and in others".encode() * 3, f"session {number}")
    log.close()
    log = open_log(tmp_path / "s", read_only=True)
    segments = log._partition._segments
    assert [log.read(head.session).__next__().payload for head in log.heads()] != []
    assert len(segments._blocks._kept) == 1
    assert stored(segments) < 200 * (24 + 20 + 20)  # salt and leaf, id, and other columns
    log.close()


def test_a_block_closes_in_time() -> None:
    """A block of several bodies never exceeds the bytes read for one of them."""
    filler = BlockBuilder()
    spots = [filler.add([bytes(30_000), bytes(15_000)]) for _ in range(9)]
    filler.limit = BLOCK_BYTES
    spots += [filler.add([bytes(80_000), bytes(40_000)]) for _ in range(3)]
    spots.append(filler.add_packed(bytes(3 * BLOCK_BYTES)))
    spots.append(filler.add([bytes(2 * BLOCK_BYTES)]))
    spots.append(filler.add([b"x"]))
    filler.close()
    filler.close()
    assert [spot.block for spot in spots] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 7, 8]
    assert all(block.plain <= BLOCK_BYTES for block in filler.blocks[:6])


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
