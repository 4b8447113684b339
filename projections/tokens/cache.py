"""A cache of token counts: in memory, and among the log's derived values.

Any count may be missing and is then counted again.  Counts belong to an encoding's name and a
body's hash, never to a session, so forks and copies share them.
"""

from __future__ import annotations

import threading
import zlib
from collections import OrderedDict
from typing import TYPE_CHECKING

from eventlog import os_fork

if TYPE_CHECKING:
    from collections.abc import Callable

    from eventlog.log.contract import BodyStore
    from projections.tokens.counter import Counter

CAPACITY = 32_768
"""Counts in memory, those that were used last; a count takes about 250 bytes."""
PENDING = 32_768
"""Counts that wait for a `flush`; further ones are kept in memory only."""


class CountCache:
    """Keeps counts in memory, and in a log if one is given.  Safe to use from several threads.

    `put` only remembers: counting is part of reading, and reading never writes. `flush` writes what
    was remembered, in one batch; a log opened for reading only is never written. A stored value is
    a count and a CRC-32 over key and count (4 bytes each, big-endian); one that does not check is
    no count.
    """

    def __init__(self, log: BodyStore | None = None) -> None:
        self._log = log
        self._counts: OrderedDict[tuple[str, bytes], int] = OrderedDict()
        self._pending: dict[bytes, bytes] = {}
        self._lock = threading.Lock()
        os_fork.register(self)

    def fork_off(self) -> None:
        """This is a child process."""
        self._lock = threading.Lock()

    def counted(self, counter: Counter, digest: bytes, load: Callable[[], str]) -> int:
        """Return the tokens of the body with this hash.

        `load` gives its text, which is needed only if no count is kept, and may raise.
        """
        count = self.get(counter.name, digest)
        if count is None:
            count = counter.count(load())
            self.put(counter.name, digest, count)
        return count

    def get(self, encoding: str, digest: bytes) -> int | None:
        """Return the kept count, or None; it now counts as used last."""
        with self._lock:
            count = self._counts.get((encoding, digest))
            if count is not None:
                self._counts.move_to_end((encoding, digest))
                return count
        if self._log is None:
            return None
        key = _key(encoding, self._log.name(digest))
        stored = self._pending.get(key) or self._log.get_derived(key)
        count = None if stored is None else _read(key, stored)
        if count is not None:
            with self._lock:
                self._remember(encoding, digest, count)
        return count

    def put(self, encoding: str, digest: bytes, count: int) -> None:
        """Keep a count, also for the next `flush`."""
        log = self._log
        with self._lock:
            self._remember(encoding, digest, count)
            if log is not None and len(self._pending) < PENDING and not log.read_only:
                key = _key(encoding, log.name(digest))
                self._pending[key] = _stored(key, count)

    def flush(self) -> int:
        """Write the pending counts and return their number; they stay pending if the log raises."""
        with self._lock:
            items = list(self._pending.items())
            if items and self._log is not None:
                self._log.put_derived(items)
                self._pending.clear()
        return len(items)

    def _remember(self, encoding: str, digest: bytes, count: int) -> None:
        self._counts[encoding, digest] = count
        self._counts.move_to_end((encoding, digest))
        if len(self._counts) > CAPACITY:
            self._counts.popitem(last=False)


def _key(encoding: str, name: bytes) -> bytes:
    """Return the key of a count.  The `1` is the version of the counting rule (windows)."""
    return b"tokens/1/%b/%b" % (encoding.encode(), name)


def _stored(key: bytes, count: int) -> bytes:
    data = count.to_bytes(4, "big")
    return data + zlib.crc32(key + data).to_bytes(4, "big")


def _read(key: bytes, stored: bytes) -> int | None:
    count = int.from_bytes(stored[:4], "big")
    return count if stored == _stored(key, count) else None
