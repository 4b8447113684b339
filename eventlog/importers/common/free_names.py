"""Names that an imported session may have in a store: its own, then `NAME~2`, `NAME~3` ….

The later ones are continuations of what diverged, or sessions that had the name by chance.
"""

from __future__ import annotations

from itertools import count

from eventlog import events as ev
from eventlog.errors import AlreadyExistsError, ConflictError, NotFoundError
from eventlog.history.catalog import SessionInfo
from eventlog.importers.common.importer import bounded_id
from eventlog.session.session import Session
from eventlog.session_store import begin_session
from eventlog.store import Store

__all__ = ["begin_free", "taken_and_free"]


def taken_and_free(store: Store, wanted: str) -> tuple[list[SessionInfo], str]:
    """Return the sessions that have the names of an imported one, and the first free name."""
    taken: list[SessionInfo] = []
    for number in count(1):
        name = wanted if number == 1 else bounded_id(f"{wanted}~{number}")
        try:
            taken.append(store.info(name))
        except NotFoundError:
            return taken, name
    raise AssertionError


def begin_free(store: Store, first: ev.SessionStarted | ev.SessionForked, id: str, time: int) -> Session:
    """Begin a session under a free name; `ConflictError` if another import has it now."""
    try:
        return begin_session(store, first, id=id, time=time)
    except AlreadyExistsError:
        raise ConflictError(id, 0, store.info(id).version) from None
