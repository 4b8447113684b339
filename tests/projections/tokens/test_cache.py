"""Cached counts: bodies are counted once, reads never write, damaged counts are ignored."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from eventlog.log.memory import MemoryLog
from projections.tokens.cache import CountCache
from projections.tokens.counter import CharsCounter

if TYPE_CHECKING:
    from collections.abc import Sequence


class Derived(MemoryLog):
    """A log whose derived values are in a dictionary, recording each batch written."""

    def __init__(self, *, read_only: bool = False) -> None:
        super().__init__()
        self.is_read_only = read_only
        self.values: dict[bytes, bytes] = {}
        self.batches: list[int] = []
        self.fails = False

    @property
    def read_only(self) -> bool:
        """Whether nothing can be written."""
        return self.is_read_only

    def get_derived(self, key: bytes) -> bytes | None:
        """Return a value."""
        return self.values.get(key)

    def put_derived(self, items: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Write values, or fail as a full disk does."""
        if self.fails:
            raise OSError(28, "no space")
        assert not self.read_only
        assert all(len(key) <= 200 for key, _ in items)
        self.batches.append(len(items))
        self.values.update((key, value) for key, value in items if value is not None)


class Texts:
    """Bodies by hash, recording each read."""

    def __init__(self) -> None:
        self.read: list[str] = []

    def load(self, text: str) -> str:
        """Read a body."""
        self.read.append(text)
        return text


def digest(text: str) -> bytes:
    """The hash a body is stored under."""
    return hashlib.sha256(text.encode()).digest()


@pytest.mark.parametrize(("text", "tokens"), [("a" * 40, 10), ("", 0)])
def test_a_body_is_counted_once_across_restarts(text: str, tokens: int) -> None:
    """A flushed count is found by a new cache over the same log, and the body is not read."""
    log, texts = MemoryLog(), Texts()
    for flushed in (1, 0):
        cache = CountCache(log)
        assert [cache.counted(CharsCounter(), digest(text), lambda: texts.load(text)) for _ in range(3)] == [tokens] * 3
        assert cache.flush() == flushed
    assert texts.read == [text]
    assert len(log.scan_derived(b"tokens/")) == 1


def test_counts_of_other_encodings_and_bodies_are_apart() -> None:
    """A count is found under its own encoding and hash only."""
    for cache in (CountCache(), CountCache(Derived())):
        cache.put("o200k_base", digest("x"), 7)
        assert cache.get("o200k_base", digest("x")) == 7
        assert cache.get("cl100k_base", digest("x")) is None
        assert cache.get("o200k_base", digest("y")) is None


@pytest.mark.parametrize(("read_only", "batches"), [(False, [1000]), (True, [])])
def test_reading_never_writes(read_only: bool, batches: list[int]) -> None:
    """Counting writes nothing; `flush` writes one batch at most, and none to a read-only log."""
    log = Derived(read_only=read_only)
    cache = CountCache(log)
    for number in range(1000):
        cache.put("o200k_base", digest(str(number)), number)
        assert cache.get("o200k_base", digest(str(number))) == number
    assert log.batches == []
    assert (cache.flush(), cache.flush()) == (sum(batches), 0)
    assert log.batches == batches


def test_a_failed_flush_keeps_its_counts() -> None:
    """If the log cannot write, the caller gets the error and the next flush the counts."""
    log = Derived()
    cache = CountCache(log)
    cache.put("o200k_base", digest("x"), 7)
    log.fails = True
    with pytest.raises(OSError, match="no space"):
        cache.flush()
    log.fails = False
    assert cache.flush() == 1
    assert CountCache(log).get("o200k_base", digest("x")) == 7


def test_a_damaged_count_is_counted_again() -> None:
    """A stored count with a flipped bit, cut short, or under another key is a miss."""
    log = Derived()
    cache = CountCache(log)
    cache.put("o200k_base", digest("x"), 7)
    cache.flush()
    ((key, good),) = log.values.items()
    for bit in range(len(good) * 8):
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        log.values[key] = bytes(bad)
        assert CountCache(log).get("o200k_base", digest("x")) is None
    log.values[key] = good[:5]
    assert CountCache(log).get("o200k_base", digest("x")) is None
    log.values[key.replace(digest("x"), digest("y"))] = good
    assert CountCache(log).get("o200k_base", digest("y")) is None


@pytest.mark.parametrize(("bound", "flushed"), [("PENDING", 2), ("CAPACITY", 3)])
def test_waiting_counts_are_bounded_and_found_when_memory_forgot_them(
    monkeypatch: pytest.MonkeyPatch, bound: str, flushed: int
) -> None:
    """Counts beyond the bound are returned, not written; those that wait outlive memory."""
    monkeypatch.setattr(f"projections.tokens.cache.{bound}", 2)
    counts = CountCache(Derived())
    for number in range(3):
        counts.put("o200k_base", digest(str(number)), number)
    assert [counts.get("o200k_base", digest(str(number))) for number in range(3)] == [0, 1, 2]
    assert counts.flush() == flushed


def test_memory_drops_what_was_used_longest_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full memory cache evicts the least recently used count."""
    monkeypatch.setattr("projections.tokens.cache.CAPACITY", 2)
    cache = CountCache()
    cache.put("o200k_base", b"a", 1)
    cache.put("o200k_base", b"b", 2)
    assert cache.get("o200k_base", b"a") == 1
    cache.put("o200k_base", b"c", 3)
    assert [cache.get("o200k_base", name) for name in (b"a", b"b", b"c")] == [1, None, 3]


def test_an_unreadable_body_is_not_counted_as_empty() -> None:
    """A body that cannot be read raises its error and stores no count."""

    def unreadable() -> str:
        raise OSError(5, "input/output error")

    cache = CountCache()
    with pytest.raises(OSError, match="input/output"):
        cache.counted(CharsCounter(), digest("x"), unreadable)
    assert cache.get("chars/4", digest("x")) is None
