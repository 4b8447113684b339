"""Threads of a checkpointer, found by name; no late write brings a deleted one back.

A run writes to the session in which it has read or put its checkpoints. If that was erased
meanwhile, its writes are refused, also if the thread id is in use again.
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock

from langgraph.checkpoint.serde.base import SerializerProtocol

from eventlog.adapters.langgraph.thread import Thread
from eventlog.errors import ErasedError, NotFoundError
from eventlog.session.session import Session
from eventlog.store import Store

__all__ = ["FORMAT", "Threads"]

FORMAT = "langgraph"
"""Format of the names of these sessions; their keys are LangGraph's thread ids."""
THREADS = 64
"""Threads of which is kept where their messages are."""
HOMES = 8192
"""Checkpoints of which is kept in which session they are."""
PATIENCE = 1.0
"""Seconds that what a task wrote waits for its checkpoint, which LangGraph may put later."""


class Threads:
    """The threads in a store."""

    def __init__(self, store: Store, scope: str) -> None:
        self.store = store
        self._scope = scope
        self._threads: OrderedDict[tuple[str, int], Thread] = OrderedDict()
        self._homes: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._putting: Counter[str] = Counter()
        self._lock = Lock()

    def find(self, id: str, serde: SerializerProtocol) -> Thread | None:
        """Return a thread, None if there is none."""
        try:
            return self._thread(self.store.open_session((FORMAT, id), create=False), serde)
        except NotFoundError:
            return None

    def all(self, serde: SerializerProtocol) -> Iterator[tuple[str, Thread]]:
        """Yield all threads with their ids."""
        for info in self.store.sessions(format=FORMAT):
            if info.name is not None and (thread := self.find(info.name[1], serde)) is not None:
                yield info.name[1], thread

    def found(self, id: str, checkpoint: str, thread: Thread) -> None:
        """Note in which session a checkpoint is."""
        with self._lock:
            self._homes[id, checkpoint] = thread.session.id
            self._homes.move_to_end((id, checkpoint))
            if len(self._homes) > HOMES:
                self._homes.popitem(last=False)

    def to_write(self, id: str, origins: Sequence[str], serde: SerializerProtocol) -> Thread | None:
        """Return the thread that a run writes to, None if there is none.

        `origins` are checkpoints that the run comes from. `ErasedError` if they were in a session
        that is no longer the thread's.
        """
        thread = self.find(id, serde)
        with self._lock:
            homes = {self._homes[id, one] for one in origins if (id, one) in self._homes}
        for home in homes:
            if thread is None or home != thread.session.id:
                raise ErasedError(home)
        return thread

    def begin(self, id: str, serde: SerializerProtocol) -> Thread:
        """Return a thread, which begins if there is none."""
        return self._thread(self.store.open_session((FORMAT, id), scope=self._scope), serde)

    def _thread(self, session: Session, serde: SerializerProtocol) -> Thread:
        with self._lock:
            key = (session.id, id(serde))
            thread = self._threads.get(key)
            if thread is None or thread.session is not session:
                thread = self._threads[key] = Thread(session, serde)
                if len(self._threads) > THREADS:
                    self._threads.popitem(last=False)
            self._threads.move_to_end(key)
            return thread

    # -- checkpoints that are on their way -------------------------------------------------------

    @contextmanager
    def putting(self, id: str) -> Generator[None]:
        """Let what tasks wrote wait for the checkpoints that are put meanwhile."""
        with self._lock:
            self._putting[id] += 1
        try:
            yield
        finally:
            with self._lock:
                self._putting[id] -= 1
                self._putting += Counter()  # without those at zero

    def patience(self, id: str) -> Iterator[float]:
        """Yield seconds to pause between two looks for a checkpoint that is on its way."""
        until = time.monotonic() + PATIENCE
        pause = 0.001
        while time.monotonic() < until:
            yield pause
            pause = min(2 * pause, 0.05)
            if id in self._putting:
                until = time.monotonic() + PATIENCE
