"""Derived values on their way to LMDB: in memory until the next fold writes them.

One transaction each would cost a flush, and they are disposable: a value that is lost with the
process is computed again. Values move from `recent` to `leaving` to LMDB, and are looked up in that
order, so none is missed on its way.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from eventlog.log.contract import is_outgrown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from eventlog.log.embedded.tail import Tail

_LIMIT = 1 << 20
"""Bytes after which they are written without waiting for a fold."""


class DerivedBuffer:
    """Unfolded derived values of one partition; None stands for a deletion."""

    def __init__(self, tail: Tail) -> None:
        self._tail = tail
        self._guard = Lock()
        self._recent: dict[bytes, bytes | None] = {}
        self._leaving: dict[bytes, bytes | None] = {}
        self._size = 0

    @property
    def full(self) -> bool:
        """Whether the values should be written soon."""
        return self._size > _LIMIT

    def get(self, key: bytes) -> bytes | None:
        """Return a value, or None."""
        with self._guard:
            for values in (self._recent, self._leaving):
                if key in values:
                    return values[key]
        return self._tail.segments.derived(key)

    def keys(self, prefix: bytes) -> list[bytes]:
        """Return the keys that begin with `prefix`, in order."""
        with self._guard:
            newer = {**self._leaving, **self._recent}
        keys = set(self._tail.segments.derived_keys(prefix))
        for key, value in newer.items():
            if key.startswith(prefix):
                (keys.discard if value is None else keys.add)(key)
        return sorted(keys)

    def scan(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        """Return the values whose key begins with `prefix`, in key order."""
        with self._guard:
            newer = {**self._leaving, **self._recent}
        values: dict[bytes, bytes | None] = {**self._tail.segments.scan_derived(prefix)}
        values.update((key, value) for key, value in newer.items() if key.startswith(prefix))
        return sorted((key, value) for key, value in values.items() if value is not None)

    def put(self, items: Mapping[bytes, bytes | None]) -> None:
        """Store values, all at once."""
        with self._guard:
            for key, value in items.items():
                stored = self._recent[key] if key in self._recent else self._leaving.get(key)
                if not is_outgrown(key, value, stored):
                    self._recent[key] = value
            self._size += sum(len(key) + len(value or b"") for key, value in items.items())

    def drain(self) -> Mapping[bytes, bytes | None]:
        """Return the values to write now; `drained` or `put_back` must be called next."""
        with self._guard:
            self._leaving, self._recent = self._recent, {}
            self._size = 0
            return self._leaving

    def drained(self) -> None:
        """Drop the values that `drain` returned: they are in LMDB."""
        with self._guard:
            self._leaving = {}

    def forget(self) -> None:
        """Drop all values: they may be of what a rewriting took away."""
        with self._guard:
            self._recent, self._leaving = {}, {}
            self._size = 0

    def put_back(self) -> None:
        """Restore the values that `drain` returned: they could not be written."""
        with self._guard:
            self._recent = {**self._leaving, **self._recent}
            self._leaving = {}
