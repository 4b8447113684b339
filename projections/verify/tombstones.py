"""Whether the head of an erased session says what its events say: that it is erased, why, whose it was, what it cost.

A head is under no hash, and one that says "erased" hides a session from every list.  Until a vacuum all events are there; behind one
those that forks inherited are, if any.  What is encrypted with a key that is gone leaves only what is in clear.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from eventlog import events as ev
from eventlog.codec.decoded import spans_of
from eventlog.codec.deltas import DeltaRun
from eventlog.codec.payload import is_sealed, sealed_payload
from eventlog.history.catalog import CatalogEntry, entry_of, evolve_entry
from eventlog.log.merkle_check import Mismatch

if TYPE_CHECKING:
    from eventlog.log.contract import Head
    from eventlog.store import Store

__all__ = ["tombstone_fault"]


def tombstone_fault(store: Store, head: Head) -> Mismatch | None:
    """Where the head of a session that is erased, by its head, differs from its events as far as they are left, or None."""
    shown = entry_of(head)
    entry: CatalogEntry | None = None
    messages = 0
    read = counted = True
    tombstone: ev.SessionErased | None = None
    for commit in store.log.read(head.session, 0, head.version):
        tombstone = None
        if is_sealed(commit.payload):
            sealed = sealed_payload(commit.payload)
            entry = entry if sealed.entry is None else entry_of(replace(head, entry=sealed.entry))
            messages += sealed.messages
            read = False
        elif commit.emptied and not commit.payload:  # nobody inherited it; the tombstone is one of these
            tombstone = ev.SessionErased(shown.reason)
            counted = False
        else:
            for span in spans_of(commit):
                if not isinstance(span.item, DeltaRun):
                    entry = evolve_entry(entry or CatalogEntry(), span.item)
                    messages += isinstance(span.item, (ev.UserMessageAdded, ev.AssistantMessageStarted))
                    tombstone = span.item if isinstance(span.item, ev.SessionErased) else None
    if head.gone:
        tombstone = ev.SessionErased(shown.reason)
    if tombstone is None:
        return Mismatch("its head says that it is erased, and no event does", head.version)
    plain = store.log.engine is store.log
    if read and counted and entry is not None:
        same = shown == entry or (not plain and shown == evolve_entry(_kin(entry), tombstone))  # erased without the key
    else:  # what it cost is known to nobody any more
        same = shown == evolve_entry(shown, tombstone) and (entry is None or _kin(shown) == _kin(entry))
    if not same or (counted and entry is not None and messages != head.messages):
        return Mismatch("the tombstone in its head is not what its events say", head.version)
    return None


def _kin(entry: CatalogEntry) -> CatalogEntry:
    """What is in clear of a catalog entry that is encrypted."""
    return CatalogEntry(parent=entry.parent, fork_of=entry.fork_of, forked_at=entry.forked_at)
