"""In which lists a session is, and what their names are.

A session is in the list over all and in that of its scope; each of these is kept in four parts, by
whether the session is archived and whether it is a sub-session, so that a page of either need not
pass over the others. Erased sessions, shelves and foreign streams are in none of these. A
sub-session is in its parent's list as well, a fork in that of the session it was forked from; an
erased fork stays in that one, because forks of its own may go on with the history.

Of an encrypted session only the clear part of its catalog entry is known here: its scope goes by a
keyed hash (`Log.scope_name`). One whose entry was written without that is in the list `UNNAMED`.

Change `_VERSION` of `log/embedded/segments/list_index.py` with what is a list.
"""

from __future__ import annotations

from itertools import product

from eventlog.codec.batch import decode_value
from eventlog.codec.payload import FOREIGN, decode_encrypted_value, is_encrypted
from eventlog.errors import DataError
from eventlog.history.catalog import CatalogEntry

_ARCHIVED, _SUBSESSION, _SCOPE = 1, 2, 4
UNNAMED = b"\x08"
"""List of encrypted sessions of which it is not known in which lists they are."""
_FORKS, _SUBSESSIONS = b"\x10", b"\x20"


def lists_of(entry: bytes) -> tuple[bytes, ...]:
    """Return the lists of a session with this catalog entry, as it is stored.

    One whose entry cannot be read is in none.
    """
    if entry.startswith(FOREIGN):
        return ()
    try:
        encrypted = is_encrypted(entry)
        data = decode_encrypted_value(entry).clear if encrypted else entry
        said = decode_value(data, CatalogEntry) if data else CatalogEntry()
    except DataError:
        return ()
    if said.shelf:
        return ()
    related = () if said.fork_of is None else (forks_list(said.fork_of),)
    if said.erased:
        return related
    if said.parent is not None:
        related = (*related, subsessions_list(said.parent))
    if encrypted and not said.scope:
        return UNNAMED, *related
    archived, subsession = said.archived, said.parent is not None
    return _name(None, archived, subsession), _name(said.scope, archived, subsession), *related


def lists_named(scope: str | None, archived: bool | None, subsessions: bool | None) -> list[bytes]:
    """Return the lists that together have the sessions of a scope's name; None is no filter."""
    either = (False, True)
    return [
        UNNAMED,
        *(
            _name(scope, is_archived, is_subsession)
            for is_archived, is_subsession in product(
                either if archived is None else (archived,), either if subsessions is None else (subsessions,)
            )
        ),
    ]


def forks_list(session: str) -> bytes:
    """Return the list of a session's forks, erased ones included."""
    return _FORKS + session.encode("utf-8", "surrogatepass")


def subsessions_list(session: str) -> bytes:
    """Return the list of a session's sub-sessions."""
    return _SUBSESSIONS + session.encode("utf-8", "surrogatepass")


def _name(scope: str | None, archived: bool, subsession: bool) -> bytes:
    flags = _ARCHIVED * archived | _SUBSESSION * subsession
    if scope is None:
        return bytes([flags])
    return bytes([flags | _SCOPE]) + scope.encode("utf-8", "surrogatepass")
