"""Caches of token counts: in memory, and among the log's derived values.

Any count may be missing and is then counted again.  Counts belong to an encoding's name and a
body's hash, never to a session, so forks and copies share them.
"""

from __future__ import annotations

import threading
import zlib
from collections import OrderedDict
from typing import TYPE_CHECKING, Protocol

from eventlog import os_fork

if TYPE_CHECKING:
    from collections.abc import Callable

    from eventlog.log.contract import BodyStore
    from projections.tokens.counter import Counter

__all__ = ["BodyCounter", "CountCache", "LogCountCache", "MemoryCountCache"]


class CountCache(Protocol):
    """Where counts are kept.  Safe to use from several threads."""

    def get(self, encoding: str, digest: bytes) -> int | None:
        """Return the kept count of the body with this hash, or None."""
        ...

    def put(self, encoding: str, digest: bytes, count: int) -> None:
        """Keep a count."""
        ...


class MemoryCountCache:
    """Keeps the `capacity` counts that were used last; a count takes about 250 bytes."""

    def __init__(self, capacity: int = 32_768) -> None:
        self._capacity = capacity
        self._counts: OrderedDict[tuple[str, bytes], int] = OrderedDict()
        self._lock = threading.Lock()
        os_fork.register(self)

    def fork_off(self) -> None:
        """This is a child process."""
        self._lock = threading.Lock()

    def get(self, encoding: str, digest: bytes) -> int | None:
        """Return the kept count, or None; it now counts as used last."""
        key = (encoding, digest)
        with self._lock:
            count = self._counts.get(key)
            if count is not None:
                self._counts.move_to_end(key)
            return count

    def put(self, encoding: str, digest: bytes, count: int) -> None:
        """Keep a count, dropping the one used longest ago when full."""
        key = (encoding, digest)
        with self._lock:
            self._counts[key] = count
            self._counts.move_to_end(key)
            if len(self._counts) > self._capacity:
                self._counts.popitem(last=False)


class LogCountCache:
    """Keeps counts in the log, with a memory cache in front.

    `put` only remembers: counting is part of reading, and reading never writes. `flush` writes what
    was remembered, in one batch. At most `pending` counts wait; further ones are kept in memory
    only, and a log opened for reading only is never written. A stored value is a count and a CRC-32
    over key and count (4 bytes each, big-endian); one that does not check is no count.
    """

    def __init__(self, log: BodyStore, *, pending: int = 32_768, capacity: int = 32_768) -> None:
        self._log = log
        self._limit = pending
        self._memory = MemoryCountCache(capacity)
        self._pending: dict[bytes, bytes] = {}
        self._lock = threading.Lock()
        os_fork.register(self)

    def fork_off(self) -> None:
        """This is a child process."""
        self._lock = threading.Lock()

    def get(self, encoding: str, digest: bytes) -> int | None:
        """Return the kept count, or None."""
        count = self._memory.get(encoding, digest)
        if count is None:
            key = _key(encoding, self._log.name(digest))
            stored = self._pending.get(key) or self._log.get_derived(key)
            count = None if stored is None else _read(key, stored)
            if count is not None:
                self._memory.put(encoding, digest, count)
        return count

    def put(self, encoding: str, digest: bytes, count: int) -> None:
        """Remember a count for the next `flush`."""
        self._memory.put(encoding, digest, count)
        with self._lock:
            if len(self._pending) < self._limit and not self._log.read_only:
                key = _key(encoding, self._log.name(digest))
                self._pending[key] = _stored(key, count)

    def flush(self) -> int:
        """Write the pending counts and return their number; they stay pending if the log raises."""
        with self._lock:
            items = list(self._pending.items())
            if items:
                self._log.put_derived(items)
                self._pending.clear()
        return len(items)


class BodyCounter:
    """Counts a body by its hash, and loads its text only when the count is not cached."""

    def __init__(self, counter: Counter, cache: CountCache) -> None:
        self.counter = counter
        self._cache = cache

    def count(self, digest: bytes, load: Callable[[], str]) -> int:
        """Return the tokens of the body with this hash; `load` gives its text and may raise."""
        count = self._cache.get(self.counter.name, digest)
        if count is None:
            count = self.counter.count(load())
            self._cache.put(self.counter.name, digest, count)
        return count


def _key(encoding: str, name: bytes) -> bytes:
    """Return the key of a count.  The `1` is the version of the counting rule (windows)."""
    return b"tokens/1/%b/%b" % (encoding.encode(), name)


def _stored(key: bytes, count: int) -> bytes:
    data = count.to_bytes(4, "big")
    return data + zlib.crc32(key + data).to_bytes(4, "big")


def _read(key: bytes, stored: bytes) -> int | None:
    count = int.from_bytes(stored[:4], "big")
    return count if stored == _stored(key, count) else None
