"""Names of imported sessions that were free when the import looked."""

from __future__ import annotations

from eventlog import events as ev
from eventlog.errors import AlreadyExistsError, ConflictError
from eventlog.session.session import Session
from eventlog.session_store import begin_session
from eventlog.store import Store

__all__ = ["begin_free"]


def begin_free(store: Store, first: ev.SessionStarted | ev.SessionForked, id: str, time: int) -> Session:
    """Begin a session under a free name; `ConflictError` if another import has it now."""
    try:
        return begin_session(store, first, id=id, time=time)
    except AlreadyExistsError:
        raise ConflictError(id, 0, store.info(id).version) from None
