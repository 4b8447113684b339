"""The handles of a store: at most one per session, collected when unused."""

from __future__ import annotations

import weakref

from eventlog.session.executor import Executor
from eventlog.session.session import Session, Sessions

__all__ = ["Handles"]


class Handles:
    """The handles of one store, by the id of their session.  Safe across threads."""

    def __init__(self) -> None:
        self._sessions: weakref.WeakValueDictionary[str, Session] = weakref.WeakValueDictionary()

    def of(self, store: Sessions, executor: Executor) -> Session:
        """Return the handle of the session that an executor runs."""
        with store.registry.lock:
            session = self._sessions.get(executor.id)
            if session is None or session.executor is not executor:  # another session of this id was erased
                session = self._sessions[executor.id] = Session(store, executor)
            return session
