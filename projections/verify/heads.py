"""Check heads of encrypted and of erased sessions against the appends, without a key.

A head is under no hash. With another key's id in it, a session would seem to have lost its key; one
that says "erased" hides the session from every list. But appends are in the hash tree. Each
encrypted one has the id of its key and the encrypted catalog entry at that time. Those of an erased
session are all there until a vacuum, then only those that forks inherit. If its key is gone, only
the part of the catalog entry that is not encrypted can be compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from eventlog import events as ev
from eventlog.codec.decoded import decode_commit
from eventlog.codec.deltas import DeltaRun
from eventlog.codec.payload import decode_encrypted_payload, decode_encrypted_value, is_encrypted, is_foreign
from eventlog.history.catalog import CatalogEntry, entry_of, evolve_entry
from eventlog.log.merkle_check import Mismatch

if TYPE_CHECKING:
    from eventlog.log.commit import Head
    from eventlog.log.contract import Log
    from eventlog.store import Store


def encryption_fault(stored: Log, session: str) -> Mismatch | None:
    """Return where a session's head differs from its appends, or None.

    `stored` is the log with the ciphertext. None also for a session that is not encrypted, and for
    one whose appends are gone.
    """
    head = stored.head(session)
    if head is None or not is_encrypted(head.entry):
        return None
    key = decode_encrypted_value(head.entry).key
    named: dict[bytes, int] = {}
    entry, version, messages, others = b"", 0, 0, 0
    for commit in stored.read(session, 0, head.version):
        if not is_encrypted(commit.payload):  # a tombstone, or scrubbed, or a fault that `verify` finds
            others += 1
        else:
            encrypted = decode_encrypted_payload(commit.payload)
            named.setdefault(encrypted.key, commit.first)
            messages += encrypted.messages
            if encrypted.entry is not None:
                entry, version = encrypted.entry, commit.first
    if named and key not in named:
        return Mismatch("its head was changed: it names another key than its appends", version)
    for other, first in named.items():
        if other != key:
            return Mismatch("the append was changed: it names another key than the session", first)
    if not named or (not is_foreign(head) and entry_of(head).erased):
        return None
    if entry != head.entry:
        return Mismatch("its head was changed: its catalog entry is not the one of this append", version)
    if messages != head.messages and not others and not is_foreign(head):
        return Mismatch("its head was changed: its count of messages is not that of its appends", version)
    return None


def tombstone_fault(store: Store, head: Head) -> Mismatch | None:
    """Return where the head of an erased session differs from its remaining events, or None."""
    shown = entry_of(head)
    entry: CatalogEntry | None = None
    messages = 0
    read = counted = begins = True
    tombstone: ev.SessionErased | None = None
    for commit in store.log.read(head.session, 0, head.version):
        tombstone = None
        if is_encrypted(commit.payload):
            encrypted = decode_encrypted_payload(commit.payload)
            entry = entry if encrypted.entry is None else entry_of(replace(head, entry=encrypted.entry))
            messages += encrypted.messages
            read = False
        elif commit.emptied and not commit.payload:  # no fork inherits it; the event of the erasure may be one
            tombstone = ev.SessionErased(shown.reason)
            counted, begins = False, begins and entry is not None
        else:
            decoded = decode_commit(commit)
            messages += 0 if decoded is None else decoded.messages
            for span in () if decoded is None else decoded.spans():
                if not isinstance(span.item, DeltaRun):
                    entry = evolve_entry(entry or CatalogEntry(), span.item)
                    tombstone = span.item if isinstance(span.item, ev.SessionErased) else None
    if head.gone:
        tombstone = ev.SessionErased(shown.reason)
    entry = entry if begins else None  # a server empties the first commit as well
    if tombstone is None:
        return Mismatch("its head says that it is erased, and no event does", head.version)
    is_encrypted_log = store.log.engine is not store.log
    if read and counted and entry is not None:
        same = shown == entry or (
            is_encrypted_log and shown == evolve_entry(_clear_fields(entry), tombstone)
        )  # erased without the key
    else:  # its cost can no longer be known
        same = shown == evolve_entry(shown, tombstone) and (
            entry is None or _clear_fields(shown) == _clear_fields(entry)
        )
    if not same or (counted and entry is not None and messages != head.messages):
        return Mismatch("the tombstone in its head is not what its events say", head.version)
    return None


def _clear_fields(entry: CatalogEntry) -> CatalogEntry:
    """Return the fields of a catalog entry that are never encrypted."""
    return CatalogEntry(parent=entry.parent, fork_of=entry.fork_of, forked_at=entry.forked_at, shelf=entry.shelf)
