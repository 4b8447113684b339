"""Errors of the server, as this package raises them, and which of them pass.

Only the first line of the server's message is passed on: its details may have a session's content.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from eventlog.errors import BusyError, DamagedError, EventlogError, StorageError

if TYPE_CHECKING:
    from psycopg import Error

_PASSING = frozenset({"40001", "40P01", "53300", "57P03", "25006"})
"""Nothing was written, and the next try may succeed.

A serialization failure, a deadlock, too many connections, a server that starts, and one that is a
standby by now.
"""
_LOST = frozenset({"57P01", "57P02", "57P05", "40003"})
"""The server ended the connection, or does not know whether it completed the statement."""
_BUSY = frozenset({"55P03", "57014", "25P03", "25P04"})
"""A lock or a statement took too long."""
_NO_ROOM = "53"
_INTERNAL = "XX000"
"""An internal error, which says nothing of what was written before it."""
_DAMAGED = frozenset({"XX001", "XX002"})
_NO_CONNECTION = "08"
_NO_RIGHT = "42501"
_REFUSALS = (
    (r'database ".*" does not exist', "make it (`createdb`), or name another database"),
    (r'role ".*" (does not exist|is not permitted)', "make it (`CREATE ROLE … LOGIN`), or name another user"),
    (
        r"password|authentication|pg_hba\.conf",
        "give the password by PGPASSFILE or a service, and see the server's pg_hba.conf",
    ),
    (r"permission denied", "have its owner grant what the role needs (eventlog/log/postgres/README.md, Roles)"),
    (r"(?i)ssl|certificate|tls", "see sslmode and sslrootcert of the address"),
    (r"service", "see the name in the address, PGSERVICEFILE and ~/.pg_service.conf"),
)
"""Words that refuse a connection for good, which have no state, and the remedy."""


def is_lost(error: Error) -> bool:
    """Return whether the connection is gone, so that the outcome of a write is unknown."""
    state = error.sqlstate
    return state is None or state in _LOST or state.startswith(_NO_CONNECTION)


def may_have_committed(error: Error) -> bool:
    """Return whether the outcome of a write that ended with this error is unknown."""
    return is_lost(error) or error.sqlstate == _INTERNAL


def is_passing(error: Error) -> bool:
    """Return whether nothing was written, and the same statement may succeed soon."""
    return error.sqlstate in _PASSING


def typed(error: Error) -> EventlogError:
    """Return the error that a caller gets."""
    said = error.diag.message_primary or str(error).partition("\n")[0] or type(error).__name__
    state = error.sqlstate
    remedy = next((do for words, do in _REFUSALS if state in (None, _NO_RIGHT) and re.search(words, str(error))), None)
    if remedy is not None:
        made: EventlogError = StorageError(f"the server refuses this: {said}; {remedy}")
    elif state is None or is_lost(error) or is_passing(error):
        made = BusyError(f"the server cannot be reached now: {said}")
    elif state in _BUSY:
        made = BusyError(f"the server took too long: {said}")
    elif state.startswith(_NO_ROOM):
        made = BusyError(f"the server has no room: {said}")
    elif state in _DAMAGED:
        made = DamagedError(f"the server found damage: {said}")
    else:
        made = StorageError(f"the server refuses this ({state}): {said}")
    made.__cause__ = error
    return made
