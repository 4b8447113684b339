"""Deltas that are accepted and not decided on yet: a session's flat list, and its bounds.

Accepting a delta is one `extend` of the list, a single C call, so it needs no lock
(`session/text_stream.py` writes it out). The session's writer takes the deltas out again, under its
lock.
"""

from __future__ import annotations

from enum import IntEnum, auto
from threading import Lock

from eventlog.codec.deltas import DeltaRun, Key
from eventlog.errors import ClosedError, ForkedProcessError

MAX_BUFFERED = 3 * 65_536
"""Slots, three for each delta, from which on a producer commits them itself."""
_NANOSECONDS = 1_000_000
"""Buffered times, in nanoseconds, for each millisecond of an event's."""


class BufferStatus(IntEnum):
    """How a buffer treats a delta."""

    OPEN = auto()
    HELD = auto()
    """A delta waits until an error has met a caller, or there is room."""
    CLOSED = auto()
    """Deltas are refused; those that came before are still taken out."""
    DRAINED = auto()
    """The last delta was taken out: a delta that comes in now stays, for `refuse`."""
    FORKED = auto()
    """This is a child process, in which nothing that was accepted may be written."""


class DeltaBuffer:
    """The buffer: `flat` is `[key, text, ns, …]`."""

    __slots__ = ("_guard", "_weight", "awake", "capacity", "flat", "limit", "status")

    def __init__(self) -> None:
        self.flat: list[object] = []
        self.capacity: int = MAX_BUFFERED
        self.limit: int = self.capacity
        """Slots from which on a delta has to wait: `capacity` while the buffer is open, else 0."""
        self.status: BufferStatus = BufferStatus.OPEN
        self.awake: bool = False
        """Whether a flush is certain to come that takes out everything that is here now.

        Cleared before deltas are taken out, and looked at after one went in, so that none is left
        behind.
        """
        self._weight = 0
        """Characters of the long deltas."""
        self._guard = Lock()
        """Held to close the buffer and to announce a flush: none comes for later deltas."""

    def __len__(self) -> int:
        """Return how many slots are filled."""
        return len(self.flat)

    def weigh(self, characters: int) -> int:
        """Count a long delta; return the characters of all long ones, which bound the list too."""
        self._weight += characters
        return self._weight

    def drain(self) -> DeltaRun | None:
        """Take out all deltas, as a run."""
        count = len(self.flat)
        if not count or self.status >= BufferStatus.DRAINED:
            return None
        run = DeltaRun.from_flat(self.flat[:count], unit=_NANOSECONDS)
        self._weight = 0
        del self.flat[:count]
        return run

    def peek(self, after: int) -> DeltaRun | None:
        """Return the deltas behind the first `after`; all of them stay."""
        flat = self.flat[3 * after :]
        return DeltaRun.from_flat(flat, unit=_NANOSECONDS) if flat else None

    def drop(self) -> tuple[int, int]:
        """Delete all deltas; returns how many there were, and their characters."""
        count = 0 if self.status >= BufferStatus.DRAINED else len(self.flat)
        texts = self.flat[1:count:3]
        del self.flat[:count]
        return count // 3, sum(len(str(text)) for text in texts)

    def open(self) -> None:
        """Let deltas in again, unless the buffer is closed."""
        if self.status <= BufferStatus.HELD:
            self.status, self.limit = BufferStatus.OPEN, self.capacity

    def hold(self) -> None:
        """Let no delta in that has not waited."""
        self._set(BufferStatus.HELD)

    def ask(self) -> bool:
        """Announce a flush; False if the buffer is closed, and only its last flush comes."""
        with self._guard:
            self.awake = self.status < BufferStatus.CLOSED
            return self.awake

    def close(self) -> None:
        """Let no more deltas in; for one that a thread is just putting in, see `refuse`."""
        with self._guard:
            self._set(BufferStatus.CLOSED)
            self.awake = False

    def end(self) -> None:
        """Note that the last delta was taken out."""
        self._set(BufferStatus.DRAINED)

    def fork_off(self) -> None:
        """Give up what the parent accepted: this is a child process."""
        self._guard = Lock()  # another thread of the parent may have held the old one
        self._set(BufferStatus.FORKED)
        self.awake = False

    def refuse(self, key: Key, text: str) -> None:
        """Delete a delta that came when the buffer was closed, and raise that."""
        flat = self.flat
        for place in range(len(flat) - 3, -1, -3):
            if flat[place] == key and flat[place + 1] is text:
                del flat[place : place + 3]
                self.require_open()

    def require_open(self) -> None:
        """Raise why the buffer is closed, if it is."""
        if self.status is BufferStatus.FORKED:
            raise ForkedProcessError("the store was opened before os.fork()")
        if self.status >= BufferStatus.CLOSED:
            raise ClosedError("the store is closed")

    def _set(self, status: BufferStatus) -> None:
        """Go on to a later status, in which no delta is let in at once."""
        self.status, self.limit = max(self.status, status), 0
