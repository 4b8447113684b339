"""Threads of a checkpointer, found by name; no late write brings a deleted one back.

What comes of a checkpoint needs that one in the thread, the first one of a subgraph that of its
root graph. Only a run that stores its checkpoints at its end stores that one last: what comes
before it is refused if it was made before the thread was deleted, and removed once it is refused
itself. The id of a checkpoint says when it was made.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from threading import Lock

from langgraph.checkpoint.base.id import UUID
from langgraph.checkpoint.serde.base import SerializerProtocol

from eventlog.adapters.langgraph.thread import Thread
from eventlog.adapters.name_keys import key_of_id, session_of
from eventlog.adapters.settled import patience
from eventlog.errors import ErasedError, NotFoundError
from eventlog.history.name_streams import last_owner
from eventlog.session.session import Session
from eventlog.store import Store

FORMAT = "langgraph"
"""Format of the names of these sessions; their keys are LangGraph's thread ids."""
THREADS = 64
"""Threads of which is kept where their messages are."""
EPOCH = 0x01B21DD213814000
"""Beginning of the year 1970 as an id of a checkpoint has it, in steps of 100 ns."""
PATIENCE = 30.0
"""Seconds that what a task wrote waits for its checkpoint, which LangGraph may put later."""
SHORT = 1.0
"""Seconds that it waits once a put of the thread failed: no other may come."""


class Threads:
    """The threads in a store."""

    def __init__(self, store: Store, scope: str) -> None:
        self.store = store
        self._scope = scope
        self._threads: OrderedDict[tuple[str, int], Thread] = OrderedDict()
        self._putting: Counter[str] = Counter()
        self._failed: set[str] = set()
        self._lock = Lock()

    def find(self, id: str, serde: SerializerProtocol) -> Thread | None:
        """Return a thread, None if there is none."""
        session = session_of(self.store, (FORMAT, key_of_id(id)))
        return None if session is None else self._thread(session, serde)

    def all(self, serde: SerializerProtocol) -> Iterator[tuple[str, Thread]]:
        """Yield all threads with their ids."""
        for info in self.store.sessions(format=FORMAT):
            if info.name is not None and (thread := self.find(info.name[1], serde)) is not None:
                yield info.name[1], thread

    def begin(self, id: str, serde: SerializerProtocol) -> Thread:
        """Return a thread, which begins if there is none."""
        return self._thread(self.store.open_session((FORMAT, key_of_id(id)), scope=self._scope), serde)

    def missing(self, id: str, checkpoint: str) -> NotFoundError:
        """Return the error for a checkpoint that is not there.

        `ErasedError` if it was made before a thread of this id was deleted last.
        """
        last = last_owner(self.store.log, (FORMAT, key_of_id(id)))
        if last is not None and made_at(checkpoint) <= last[1]:
            return ErasedError(last[0])
        error = NotFoundError("checkpoint", checkpoint)
        error.add_note("put what it comes of first; `copy_from` copies threads of another checkpointer in order")
        return error

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
            self._failed.discard(id)
        try:
            yield
        except BaseException:
            self._failed.add(id)
            raise
        finally:
            with self._lock:
                self._putting[id] -= 1
                self._putting += Counter()  # without those at zero

    def patience(self, id: str) -> Iterator[float]:
        """Yield seconds to pause between two looks for a checkpoint that is on its way.

        For a command that a task waits for, once: the task yields and pauses itself. The pauses
        count and no clock, which goes on while the machine stands still; a put counts as none.
        """
        waited, pause = 0.0, 0.001
        while waited < (SHORT if id in self._failed else PATIENCE):
            yield pause
            if not patience(PATIENCE):  # the loop looks again
                return
            waited = 0.0 if id in self._putting else waited + pause
            pause = min(2 * pause, 0.05)


def made_at(checkpoint: str) -> int:
    """Return when a checkpoint was made, in UTC milliseconds; 0 if its id does not say."""
    try:
        id = UUID(checkpoint)
    except ValueError:
        return 0
    return (id.time - EPOCH) // 10_000 if id.version == 6 else 0
