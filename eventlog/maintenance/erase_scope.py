"""Erasure of a scope, such as a user or a tenant, and the places that no erasure reaches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from eventlog.errors import CallError
from eventlog.history.session_page import sessions_of
from eventlog.maintenance.erase import Choice, erase_all, related
from eventlog.open_log import server_log
from eventlog.validation import require

if TYPE_CHECKING:
    from eventlog.log.contract import Log
    from eventlog.session.session import Sessions


class ScopeErasure(msgspec.Struct, frozen=True):
    """Result of the erasure of a scope."""

    scope: str
    erased: tuple[str, ...]
    """Ids of the sessions that were erased, archived ones and what depends on them included."""
    kept: tuple[str, ...]
    """Forks, with the history that they inherited, and sub-sessions, of other scopes."""
    out_of_reach: tuple[str, ...]
    """Places that may still have the content, a line for each (`out_of_reach`)."""


def erase_scope(
    store: Sessions,
    scope: str,
    *,
    forks: Choice = "refuse",
    subsessions: Choice = "refuse",
    reason: str = "",
    wait: float = 0.0,
) -> ScopeErasure:
    """Erase the sessions of a scope, those begun meanwhile included.

    See `Store.erase_scope`. Each is erased by itself: after an error the same call goes on.
    """
    require(str, scope, "a scope is a str")
    if not scope:
        raise CallError("sessions without a scope are erased one by one: name a scope")
    erased: dict[str, None] = {}
    kept: set[str] = set()
    while going := [name for name in sessions_of(store.log, scope) if name not in erased]:
        if "keep" in (forks, subsessions):
            kept |= {other for name in going for of in related(store) for other in of(name)}
        erased |= dict.fromkeys(erase_all(store, going, forks=forks, subsessions=subsessions, reason=reason, wait=wait))
    return ScopeErasure(scope, tuple(erased), tuple(sorted(kept - erased.keys())), tuple(out_of_reach(store.log)))


def out_of_reach(log: Log) -> Iterator[str]:
    """Yield the places that may have the content of an erased session, by engine and keys."""
    if log.engine is not log:
        yield "copies of its key: with one, every copy of the content can be read"
    else:
        on_server = server_log(log) is not None
        yield (
            "large texts in the tables, until `eventlog vacuum`"
            if on_server
            else "the files of this store, for a minute; over 1 GB for twice the time of a copy"
        )
        yield "backups, until their next run, and copies or snapshots of the disk"
        if on_server:
            yield "dead rows, write-ahead log, archives, standbys and base backups of the server, and its logs"
    yield "equal texts in sessions of other scopes, and forks that were kept"
    yield "exports, logs of programs, and providers of models that were sent it"
