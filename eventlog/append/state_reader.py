"""The facts of one session as its writer has read them, and how far they are committed."""

from __future__ import annotations

from threading import RLock

from eventlog.append.delta_buffer import DeltaBuffer
from eventlog.append.queue import CommandQueue
from eventlog.history.ancestry import head_of
from eventlog.history.effective_history import StreamRange
from eventlog.log.contract import HeadReader, Log
from eventlog.state.committed import CommittedState
from eventlog.state.state import State

__all__ = ["StateReader"]


class StateReader:
    """Reads the state of a session, with what is accepted.  Safe across threads."""

    def __init__(self, committed: CommittedState, queue: CommandQueue) -> None:
        self.log: Log = committed.log
        self.session: str = committed.session
        self.committed = committed
        self.queue = queue
        self.lock: RLock = queue.lock
        self.buffer: DeltaBuffer = queue.buffer
        self._guarded = queue.guarded

    def catch_up(self) -> None:
        """Bring the state up to what is committed, and ahead by what is accepted."""
        self._guarded(self.queue.catch_up)

    def follow(self) -> None:
        """Bring the state up to the head that a reader has read; see `Log.reading`."""
        with self.lock, self.log.reading() as heads:
            if self._is_behind(heads):
                self.catch_up()

    def followed(self) -> State | None:
        """Return the facts if this handle has read all of them; nothing more is read."""
        with self.lock, self.log.reading() as heads:
            return None if self._is_behind(heads) else self.committed.state

    def _is_behind(self, heads: HeadReader) -> bool:
        """Whether the state lacks an event, or is ahead by what is accepted."""
        committed, queue = self.committed, self.queue
        if not committed.loaded or queue.is_behind or queue.commands or queue.sent or self.buffer.flat:
            return True
        head = heads.head(self.session)
        return head is not None and head.version > committed.certain

    def known_state(self) -> State:
        """Return the facts as far as this handle has read them; others' newest may be missing."""
        if self.queue.is_behind or not self.committed.loaded:
            self.catch_up()
        return self.committed.state

    def ancestry(self) -> list[StreamRange]:
        """Return the streams of the session's history; nothing else is looked at."""
        with self.lock:
            return self.committed.ancestry()

    def newest(self) -> int:
        """Return the version up to which everything is committed now.

        Without a state only the head is read.
        """
        with self.lock:
            if not self.committed.loaded:
                with self.log.reading() as heads:
                    return head_of(heads, self.session).version
            self.follow()
            return self.committed.certain

    def checkpoint(self) -> None:
        """Store the state as of now, if all is committed and it was stored long enough ago."""
        with self.lock:
            if self.committed.loaded and not self.queue.sent and not self.queue.commands:
                self.committed.keep_if_due()
