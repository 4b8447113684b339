"""Whether the head of an encrypted session is the one that its appends made: its key, its catalog entry, its count of messages.

What a head says is under no hash, and with another key's name in it a session seems to be one whose key is gone.  But every append
names the key it is sealed with, and has the sealed catalog entry that came with it, and these are in the hash tree.  So this needs no key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from eventlog.codec.payload import is_foreign, is_sealed, sealed_payload, sealed_value
from eventlog.history.catalog import entry_of
from eventlog.log.merkle_check import Mismatch

if TYPE_CHECKING:
    from eventlog.log.contract import Log

__all__ = ["seal_fault"]


def seal_fault(stored: Log, session: str) -> Mismatch | None:
    """Where a session's head differs from what its appends say, or None; `stored` is the log that has the ciphertext.

    None also for what is not encrypted, and for what is left of a session whose appends are gone.
    """
    head = stored.head(session)
    if head is None or not is_sealed(head.entry):
        return None
    key = sealed_value(head.entry).key
    named: dict[bytes, int] = {}
    entry, version, messages, others = b"", 0, 0, 0
    for commit in stored.read(session, 0, head.version):
        if not is_sealed(commit.payload):  # a tombstone, one that lost everything, or one that `verify` finds
            others += 1
        else:
            sealed = sealed_payload(commit.payload)
            named.setdefault(sealed.key, commit.first)
            messages += sealed.messages
            if sealed.entry is not None:
                entry, version = sealed.entry, commit.first
    if named and key not in named:
        return Mismatch(
            "its head was changed: the key that it names is not the one its appends are sealed with", version
        )
    for other, first in named.items():
        if other != key:
            return Mismatch("the append was changed: the key that it names is not the session's", first)
    if not named or (not is_foreign(head) and entry_of(head).erased):
        return None
    if entry != head.entry:
        return Mismatch(
            "its head was changed: its catalog entry is not the one that was sealed with this append", version
        )
    if messages != head.messages and not others and not is_foreign(head):
        return Mismatch("its head was changed: it counts other messages than its appends", version)
    return None
