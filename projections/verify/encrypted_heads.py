"""Whether the head of an encrypted session is the one that its appends made: its key, its catalog entry, its count of messages.

What a head says is under no hash, and with another key's name in it a session seems to be one whose key is gone.  But every append
names the key it is encrypted with, and has the encrypted catalog entry that came with it, and these are in the hash tree.  So this needs no key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from eventlog.codec.payload import decode_encrypted_payload, decode_encrypted_value, is_encrypted, is_foreign
from eventlog.history.catalog import entry_of
from eventlog.log.merkle_check import Fault

if TYPE_CHECKING:
    from eventlog.log.contract import Log

__all__ = ["encryption_fault"]


def encryption_fault(stored: Log, session: str) -> Fault | None:
    """Where a session's head differs from what its appends say, or None; `stored` is the log that has the ciphertext.

    None also for what is not encrypted, and for what is left of a session whose appends are gone.
    """
    head = stored.head(session)
    if head is None or not is_encrypted(head.entry):
        return None
    key = decode_encrypted_value(head.entry).key
    named: dict[bytes, int] = {}
    entry, version, messages, others = b"", 0, 0, 0
    for commit in stored.read(session, 0, head.version):
        if not is_encrypted(commit.payload):  # a tombstone, one that lost everything, or one that `verify` finds
            others += 1
        else:
            encrypted = decode_encrypted_payload(commit.payload)
            named.setdefault(encrypted.key, commit.first)
            messages += encrypted.messages
            if encrypted.entry is not None:
                entry, version = encrypted.entry, commit.first
    if named and key not in named:
        return Fault(
            "its head was changed: the key that it names is not the one its appends are encrypted with", version
        )
    for other, first in named.items():
        if other != key:
            return Fault("the append was changed: the key that it names is not the session's", first)
    if not named or (not is_foreign(head) and entry_of(head).erased):
        return None
    if entry != head.entry:
        return Fault(
            "its head was changed: its catalog entry is not the one that was encrypted with this append", version
        )
    if messages != head.messages and not others and not is_foreign(head):
        return Fault("its head was changed: it counts other messages than its appends", version)
    return None
