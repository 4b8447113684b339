"""The handles of a store: at most one per session, collected when unused."""

from __future__ import annotations

from eventlog.session.executor import Executor
from eventlog.session.session import Session, Sessions

__all__ = ["handle_of"]


def handle_of(store: Sessions, executor: Executor) -> Session:
    """Return the handle of the session that an executor runs."""
    registry = store.registry
    with registry.lock:
        session: Session | None = registry.handles.get(executor.id)
        if session is None or session.executor is not executor:  # an erased session had the id
            session = registry.handles[executor.id] = Session(store, executor)
        return session
