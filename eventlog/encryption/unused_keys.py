"""Keys that no session needs any more: those of families of which every session is erased."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from eventlog.codec.payload import DESTROYED, EncryptedValue, is_clear
from eventlog.encryption.envelope import entry_of, is_tombstone
from eventlog.errors import EventlogError

if TYPE_CHECKING:
    from eventlog.encryption.key_ring import KeyRing
    from eventlog.log.commit import Head
    from eventlog.log.contract import Log


def destroy_unused_keys(engine: Log, ring: KeyRing) -> None:
    """Destroy the keys of all families of which every session is erased.

    The tombstones of the erased sessions must be committed before the call: a fork that begins
    meanwhile then finds its parent's tombstone (`begin_session`). The engine notes each
    destroyed key among its derived values, and the key provider is not asked again. If a note is
    lost, the provider is asked once more, which does no harm.
    """
    if ring.empty:
        return
    entries = [entry_of(head) for head in encrypted_heads(engine)]
    alive = {encrypted.key for encrypted in entries if not is_tombstone_entry(encrypted)}
    noted = {key.removeprefix(DESTROYED) for key in engine.derived_keys(DESTROYED)}
    notes: list[tuple[bytes, bytes]] = []
    failure: EventlogError | None = None
    for id in {encrypted.key for encrypted in entries} - alive:
        if id in noted and ring.key_file is None:
            ring.evict(id)  # another handle had it destroyed
            continue
        try:
            ring.destroy(id)
            notes.append((DESTROYED + id, b"\1"))
        except EventlogError as error:  # other keys can still be destroyed
            failure = failure or error
    if notes:
        with suppress(EventlogError):
            engine.put_derived(notes)
    if failure is not None:
        raise failure


def encrypted_heads(engine: Log) -> Iterator[Head]:
    """Yield the stored heads without those of the streams that are never encrypted."""
    return (head for head in engine.heads() if not is_clear(head.session, head.entry))


def is_tombstone_entry(entry: EncryptedValue) -> bool:
    """Return whether a catalog entry is that of an erased session."""
    return not entry.data and is_tombstone(entry.clear)
