"""Deltas that are accepted and not decided on yet: a session's flat list, and its bounds.

Accepting a delta is one `extend` of the list, a single C call, so it needs no lock (`session/reply.py` writes it out).  Taking them out
again is the business of the session's writer, under its lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

from eventlog.codec.deltas import DeltaRun, Key
from eventlog.errors import ClosedError, ForkedProcessError

__all__ = ["MAX_BUFFERED", "DeltaBuffer"]

MAX_BUFFERED = 3 * 65_536
"""Slots, three for each delta, from which on a producer commits them itself."""
_NANOSECONDS = 1_000_000
"""Buffered times, in nanoseconds, for each millisecond of an event's."""


class DeltaBuffer:
    """`flat` is `[key, text, ns, …]`; what the others mean is said where they are set."""

    __slots__ = ("_closed", "_forked", "_guard", "_weight", "awake", "capacity", "flat", "limit", "sealed")

    def __init__(self) -> None:
        self.flat: list[object] = []
        self.capacity = MAX_BUFFERED
        self.limit = self.capacity
        """Slots from which on a delta has to wait: `capacity`, or 0 when what is there must be dealt with first."""
        self.awake = False
        """Whether a flush is certain to come that takes everything that is here now.

        Cleared before deltas are taken out, and looked at after one went in, so that none is left behind.
        """
        self._weight = 0
        """Characters of the long ones."""
        self._closed = self._forked = False
        self.sealed = False
        """Whether the last was taken out: what comes in now stays where it is, for `refuse`."""
        self._guard = Lock()
        """Held to close it, and to say that a flush comes: none comes for what gets in after that."""

    def __len__(self) -> int:
        """How many slots are filled."""
        return len(self.flat)

    def weigh(self, characters: int) -> int:
        """A long delta went in; returns the characters of all long ones, for the list is bounded in characters too."""
        self._weight += characters
        return self._weight

    def take(self) -> DeltaRun | None:
        """Take out what is there, as a run."""
        count = len(self.flat)
        if not count or self.sealed:
            return None
        run = DeltaRun.from_flat(self.flat[:count], unit=_NANOSECONDS)
        self._weight = 0
        del self.flat[:count]
        return run

    def put_back(self, runs: Sequence[DeltaRun]) -> None:
        """Put runs that could not be handed over in front of what came since."""
        deltas = (zip(run.key_column(), run.texts(), run.times(), strict=True) for run in runs)
        self.flat[:0] = [
            slot for columns in deltas for key, text, time in columns for slot in (key, text, time * _NANOSECONDS)
        ]

    def peek(self, after: int) -> DeltaRun | None:
        """The deltas behind the first `after`, which all stay."""
        flat = self.flat[3 * after :]
        return DeltaRun.from_flat(flat, unit=_NANOSECONDS) if flat else None

    def drop(self) -> bool:
        """Let go of what is there; whether there was anything."""
        if self.sealed:
            return False
        count = len(self.flat)
        del self.flat[:count]
        return count > 0

    def hold(self) -> None:
        """Let no delta in that has not waited."""
        self.limit = 0

    def admit(self) -> None:
        """Let deltas in again, unless it is closed."""
        self.limit = 0 if self._closed else self.capacity

    def ask(self) -> bool:
        """Say that a flush is to come; False if it is closed: no other comes than the one that ends it."""
        with self._guard:
            self.awake = not self._closed
            return self.awake

    def close(self) -> None:
        """Take no more.  What a thread was just putting in may still come: `refuse` is for that."""
        with self._guard:
            self._closed, self.awake = True, False
            self.limit = 0

    def seal(self) -> None:
        """The last was taken out: what comes in now stays where it is, for `refuse`."""
        self.sealed = True

    def refuse(self, key: Key, text: str) -> None:
        """Take a delta back out that came when it was closed, and raise that; nothing if it was taken out to be committed."""
        flat = self.flat
        for place in range(len(flat) - 3, -1, -3):
            if flat[place] == key and flat[place + 1] is text:
                del flat[place : place + 3]
                self.require_open()

    def fork_off(self) -> None:
        """This is a child process, in which nothing of what was accepted may be written."""
        self._guard = Lock()  # another thread of the parent may have held the old one
        self._forked = self.sealed = True
        self.close()

    def require_open(self) -> None:
        """Raise why it is closed, if it is."""
        if self._forked:
            raise ForkedProcessError("the store was opened before os.fork()")
        if self._closed:
            raise ClosedError("the store is closed")
