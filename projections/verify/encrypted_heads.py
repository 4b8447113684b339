"""Check the head of an encrypted session against its appends, without the key.

A head is under no hash: with another key's id in it, a session would seem to have lost its key. But
each append has the id of its key and the encrypted catalog entry at that time, and appends are in
the hash tree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from eventlog.codec.payload import decode_encrypted_payload, decode_encrypted_value, is_encrypted, is_foreign
from eventlog.history.catalog import entry_of
from eventlog.log.merkle_check import Mismatch

if TYPE_CHECKING:
    from eventlog.log.contract import Log


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
