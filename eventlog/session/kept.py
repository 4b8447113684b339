"""Readings of a store's sessions, kept so that the next costs only new events.

Bounded by a number of sessions and by bytes; the least recently used goes first. A redaction, an
erasure and forgotten records drop what rests on their session before their call returns.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Protocol, TypeVar, cast


class Reading(Protocol):
    """Reading of one session."""

    @property
    def size(self) -> int:
        """About how many bytes it has."""
        ...

    def rests_on(self, session: str) -> bool:
        """Whether it has anything of this session: its own, or what a fork inherited."""
        ...


R = TypeVar("R", bound=Reading)


class Kept:
    """Readings by session id; safe across threads, no I/O under the lock."""

    def __init__(self) -> None:
        self.most_sessions = 64
        """Sessions of which something is kept."""
        self.most_bytes = 64 << 20
        """Bytes of all that is kept."""
        self._lock = Lock()
        self._readings: dict[str, Reading] = {}
        """The least recently used first."""

    def __len__(self) -> int:
        return len(self._readings)

    def find(self, session: str) -> Reading | None:
        """Return what is kept of a session; None if nothing is."""
        return self._readings.get(session)

    def get(self, session: str, make: Callable[[], R]) -> R:
        """Return what is kept of a session, which `make` makes without any I/O if nothing is."""
        with self._lock:
            found = self._readings.pop(session, None)
            if found is None:
                found = make()
            self._readings[session] = found
            return cast("R", found)

    def trim(self) -> None:
        """Drop the least recently used until the rest is within the bounds."""
        with self._lock:
            readings = self._readings
            total = sum([reading.size for reading in readings.values()])
            while readings and (total > self.most_bytes or len(readings) > self.most_sessions):
                total -= readings.pop(next(iter(readings))).size

    def drop(self, session: str, reading: Reading) -> None:
        """Drop a reading that an error broke off."""
        with self._lock:
            if self._readings.get(session) is reading:
                del self._readings[session]

    def forget(self, session: str) -> None:
        """Drop everything that has anything of this session."""
        with self._lock:
            for name in [name for name, reading in self._readings.items() if reading.rests_on(session)]:
                del self._readings[name]

    def clear(self) -> None:
        """Drop everything: the store is closing, or this is a child process."""
        self._lock = Lock()  # another thread of the parent may have held the old one
        self._readings = {}
