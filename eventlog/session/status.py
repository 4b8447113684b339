"""Status of a session: whether a task runs it, and whether a loop has to go on with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eventlog.codec.payload import is_foreign
from eventlog.errors import KeyMissingError, NotFoundError
from eventlog.history.catalog import SessionInfo, entry_of, info_of
from eventlog.session.open_work_cache import Work
from eventlog.session.outcome import open_work
from eventlog.session.owner import is_live

if TYPE_CHECKING:
    from eventlog.log.commit import Head
    from eventlog.session.registry import SessionRegistry

__all__ = ["is_run", "is_unfinished", "work_of"]


def is_unfinished(registry: SessionRegistry, head: Head) -> bool:
    """Whether a loop that runs the session now has something to do."""
    return work_of(registry, head) == "open"


def work_of(registry: SessionRegistry, head: Head) -> Work:
    """Return what is left to do in the session with this head."""
    if is_foreign(head):
        return ""
    info = info_of(head)
    if info.erased or info.locked or not _is_native(head, info) or not (info.messages or info.fork_of):
        return ""
    if entry_of(head).answered == head.version:
        return ""
    known = registry.host.open_work.of(head, registry.log.partition_of(head.session))
    if known is not None:
        return known
    try:
        reader = registry.get(head.session).reader
        found = open_work(reader)
    except (NotFoundError, KeyMissingError):  # erased, or its key gone, meanwhile
        return ""
    if reader.version == head.version:
        registry.host.open_work.note(head, found)
    return found


def is_run(registry: SessionRegistry, head: Head) -> bool:
    """Return whether a task has the lease, also one that the log does not know of yet."""
    return is_live(head.session, head.lease, registry.host.clock()) or registry.runs(head.session)


def _is_native(head: Head, info: SessionInfo) -> bool:
    """Whether more was done here than to import the session, or to begin it as a fork."""
    if info.origin is not None:
        return head.lease.epoch > 0  # importers take no lease
    return info.fork_of is None or head.appends > 1
