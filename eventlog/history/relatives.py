"""Forks and sub-sessions of a session, read from their lists: they cost what they are.

A list is read at once, not in pages, so that a session whose activity moves it to the front is not
passed over.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from eventlog.history.ancestry import ancestors
from eventlog.history.catalog import entry_of
from eventlog.history.session_lists import UNNAMED, forks_list, subsessions_list

if TYPE_CHECKING:
    from eventlog.log.commit import Head
    from eventlog.log.contract import Log

_ALL = (1 << 31) - 1
"""A limit that no list reaches."""


def forks_of(log: Log, session: str) -> list[Head]:
    """Return the heads of the forks of a session, erased ones included, in the order of ids."""
    return [head for head in _listed(log, forks_list(session)) if entry_of(head).fork_of == session]


def subsessions_of(log: Log, session: str) -> list[Head]:
    """Return the heads of the sub-sessions of a session, in the order of ids."""
    return [head for head in _listed(log, subsessions_list(session)) if entry_of(head).parent == session]


def heirs_of(log: Log, session: str) -> list[str]:
    """Return the sessions that continue a part of a session's own stream, in the order of ids."""
    found: list[str] = []
    waiting, seen = [session], {session}
    while waiting:
        for head in forks_of(log, waiting.pop()):
            if head.session in seen:
                continue
            seen.add(head.session)
            waiting.append(head.session)
            if not entry_of(head).erased and any(one.session == session for one in ancestors(log, head.session)):
                found.append(head.session)
    return sorted(found)


def recorders_of(log: Log, owner: str, session: str) -> list[str]:
    """Return the sessions to record a removal in: the owner; if it is erased, all its heirs.

    `session` is the one that the removal was asked of.
    """
    head = log.head(owner)
    if head is not None and not entry_of(head).erased:
        return [owner]
    return [session, *(heir for heir in heirs_of(log, owner) if heir != session)]


def _listed(log: Log, name: bytes) -> list[Head]:
    """Return the heads in a list, and those of which it is not known in which they are."""
    return sorted(log.newest([name, UNNAMED], limit=_ALL), key=attrgetter("session"))
