"""The executors of a store: at most one per session, collected when unused."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from threading import RLock
from typing import Any

from msgspec.structs import replace

from eventlog import events as ev
from eventlog import ids
from eventlog.append.own_appends import uncommitted
from eventlog.append.transaction import transact
from eventlog.append.writer import SessionWriter
from eventlog.codec.decoded import Span
from eventlog.errors import AlreadyExistsError, CallError
from eventlog.history.ancestry import head_of
from eventlog.history.catalog import SHELF, is_shelf_id
from eventlog.history.effective_history import END, StreamRange
from eventlog.integrity.fork_anchor import prefix_head
from eventlog.log.contract import Log
from eventlog.session.executor import Executor
from eventlog.session.host import Host
from eventlog.state.committed import CommittedState
from eventlog.state.state import State
from eventlog.validation import require


def check_session_id(id: str) -> None:
    """Raise `CallError` or `LimitError` unless a session may begin under this id."""
    require(str, id, "an id is a str")
    ids.check_id("session", id)
    if is_shelf_id(id):
        raise CallError(f"an id that begins with {SHELF}: or {SHELF}~ is that of a shelf, not of a session")
    ids.size_of("a session id", id)


def check_scope(scope: str) -> None:
    """Raise `CallError` unless a session may have this scope."""
    require(str, scope, "a scope is a str")
    ids.size_of("a scope", scope)


class SessionRegistry:
    """The executors of one store, by the id of their session.  Safe across threads.

    Handles, replies and streams of a session share its executor. The registry refers to the store
    only weakly, so that an unused store can be collected.
    """

    def __init__(self, store: object, host: Host) -> None:
        self.lock: RLock = RLock()
        self.host = host
        self.log: Log = host.log
        self.handles: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()
        """The handles that `handle_of` has made of the executors."""
        self._store = weakref.ref(store)
        self._executors: weakref.WeakValueDictionary[str, Executor] = weakref.WeakValueDictionary()

    def get(self, id: str) -> Executor:
        """Return the executor of a session, or of the stream of a shelf.

        `NotFoundError` if there is no such session, `ErasedError` if it was erased. The log is read
        each time, because another process may have erased the session.
        """
        require(str, id, "an id is a str")
        head_of(self.log, id)
        return self._executor(id, None)

    def _executor(self, id: str, writer: SessionWriter | None) -> Executor:
        """Return the executor of a session; `writer` is the one that has just begun the session."""
        with self.lock:
            executor = self._executors.get(id)
            if executor is None:
                executor = self._executors[id] = Executor(self.host, id, writer or self._writer(id), self._store())
            return executor

    def begin(
        self,
        first: ev.SessionStarted | ev.SessionForked | ev.ShelfStarted,
        id: str | None,
        time: int | None,
        then: Sequence[ev.Event] = (),
        *,
        bodies: Mapping[bytes, bytes] | None = None,
    ) -> Executor:
        """Begin a session or a shelf with its first event, and those that go in with it.

        The first event of a fork records the parent's head.
        """
        host = self.host
        if id is not None:
            require(str, id, "an id is a str")
        session = ids.check_id("session", id or host.new_id("ses_"))
        if not isinstance(first, ev.ShelfStarted):
            check_session_id(session)
        if isinstance(first, ev.SessionStarted):
            check_scope(first.scope)
        streams: list[StreamRange] = []
        state = State()
        if isinstance(first, ev.SessionForked):
            streams, state = self.get(first.parent).reader.inherited(first.at)
            first = replace(first, parent_head=prefix_head(host.log, streams, first.at))
        writer = self._writer(session)
        base = state.version
        writer.committed.begin([*streams, StreamRange(session, base + 1, END)], state)
        try:
            now = host.clock() if time is None else time
            transact(writer, [(now, event) for event in (first, *then)], bodies, creates_at=base)
        except AlreadyExistsError:
            head_of(host.log, session)  # `ErasedError` for an erased session, whose id is not used again
            raise
        return self._executor(session, writer)  # another thread may have asked for it already

    def evict(self, session: str) -> None:
        """Drop the executor of an erased session, and what is kept of it."""
        with self.lock:
            self._executors.pop(session, None)
        self.host.kept.forget(session)

    def runs(self, session: str) -> bool:
        """Whether a task has the session's lease, also if the log does not know of it yet."""
        executor = self._executors.get(session)
        return executor is not None and executor.holds_lease

    def writers(self) -> list[SessionWriter]:
        """The writers of all executors, and those whose executor is collected before a flush."""
        writers = (executor.writer for executor in list(self._executors.values()))
        return list(dict.fromkeys((*writers, *self.host.flusher.writers())))

    def is_ahead(self, session: str) -> bool:
        """Whether something of a session is accepted here, and not committed."""
        executor = self._executors.get(session)
        return executor is not None and executor.writer.is_ahead

    def accepted(self, session: str, version: int) -> list[Span] | None:
        """Return what is accepted of a session behind a committed version, and not committed.

        None while its writer knows of another version, or an append is on its way: ask again.
        """
        executor = self._executors.get(session)
        if executor is None or not executor.writer.is_ahead:
            return []
        writer = executor.writer
        with writer.lock:
            if writer.queue.sent is not None or writer.committed.certain != version:
                return None
            return uncommitted(writer, version)

    def fork_off(self) -> None:
        """Close in a forked child process: the store and its executors belong to the parent.

        Locks are replaced, as another thread of the parent may have held them.
        """
        self.host.fork_off()
        self.lock = RLock()
        for executor in list(self._executors.values()):
            executor.leases.fork_off()
        for writer in self.writers():
            writer.fork_off()

    def _writer(self, session: str) -> SessionWriter:
        host = self.host
        committed = CommittedState(host.log, session, host.checkpoint_events)
        return SessionWriter(committed, host.flusher.wake, host.counted)
