"""Change of a session's stored appends: decrypted, changed, and encrypted again.

Beside its events an append has the catalog entry of its time. A title that a change takes out of
an event leaves the entry of that append, and those of later ones up to the next title. An append
of which only the entry changes counts as emptied, too: the hash of its leaf covers the entry.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec.structs import replace

from eventlog.codec.decoded import spans_of
from eventlog.codec.deltas import DeltaRun
from eventlog.codec.payload import decode_encrypted_payload
from eventlog.encryption.envelope import decrypt_commit, reencrypt, retitled
from eventlog.history.catalog import CatalogEntry, evolve_entry
from eventlog.log.merkle import SALT_BYTES, leaf_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from eventlog.encryption.key_ring import KeyRing
    from eventlog.log.commit import Commit


class StoredChange:
    """Change of the stored appends of a session, called with each in order of versions."""

    def __init__(self, change: Callable[[Commit], Commit], ring: KeyRing) -> None:
        self._change = change
        self._ring = ring
        self._shown = CatalogEntry()
        """The catalog entry that the changed events make."""

    def __call__(self, stored: Commit) -> Commit:
        """Return the changed append; itself if its events and the title in its entry stay."""
        opened = decrypt_commit(stored, self._ring)
        if opened is stored:
            return stored  # in clear, or unreadable without the key, so nothing can be removed
        changed = self._change(opened)
        for span in spans_of(changed):
            if not isinstance(span.item, DeltaRun):
                self._shown = evolve_entry(self._shown, span.item)
        old = decode_encrypted_payload(stored.payload)
        entry = retitled(stored.session, old.entry, self._shown.title, self._ring)
        if changed is opened or (stored.emptied and changed.payload == opened.payload):
            if entry == old.entry:
                return stored  # another nonce would make it look changed
            changed = replace(opened, salt=os.urandom(SALT_BYTES), leaf=leaf_of(opened))
        return reencrypt(stored, changed, replace(old, entry=entry), self._ring)
