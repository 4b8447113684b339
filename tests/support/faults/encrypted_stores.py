"""Kinds of stores that faults are tried on: encrypted, large, and what their keys open."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from eventlog import open_log
from eventlog.codec.payload import decode_encrypted_value, is_clear
from eventlog.encryption.envelope import is_tombstone
from eventlog.encryption.key_file import KeyFile
from eventlog.encryption.key_ring import KeyRing
from eventlog.encryption.log import EncryptedLog
from eventlog.testing.file_search import holds
from tests.faults.tally import SLOW

KINDS = ("plain", "encrypted")
"""The kinds of stores that faults are tried on."""
_LARGE = ("200 MB", "encrypted 200 MB")
SIZED = (*KINDS, *_LARGE) if SLOW else KINDS
"""The kinds of stores, with large ones in the long form."""
SAID = {
    "plain": "",
    "encrypted": " of an encrypted store",
    "200 MB": " of a store of 200 MB",
    "encrypted 200 MB": " of an encrypted store of 200 MB",
}
KEPT = "kept"
_KEYS = "s.keys"


def said_of(kind: str) -> str:
    """The suffix of a fault's name in the table for this kind of store."""
    return SAID[kind]


def has_keys(kind: str) -> bool:
    """Whether stores of this kind are encrypted."""
    return kind.startswith("encrypted")


def is_large(kind: str) -> bool:
    """Whether stores of this kind weigh 200 MB."""
    return kind in _LARGE


def keys_for(store: Path, kind: str) -> Path | None:
    """The key file for a store of this kind, beside it."""
    return store.with_name(f"{store.name}.keys") if has_keys(kind) else None


def keys_of(place: Path) -> Path | None:
    """The key file of a place; None if its stores are not encrypted."""
    return place / _KEYS if (place / KEPT).exists() else None


def keep_keys(place: Path) -> None:
    """Make the place encrypted from here on, and copy its current keys."""
    (place / KEPT).touch(mode=0o600)
    if (place / _KEYS).exists():
        shutil.copy(place / _KEYS, place / KEPT)


def is_said(store: Path, keys: Path, text: str) -> bool:
    """Whether these keys decrypt the text anywhere in a store."""
    log = open_log.open_log(store, read_only=True)
    assert isinstance(log, EncryptedLog)
    opened = EncryptedLog(log.engine, KeyRing(KeyFile(keys)), None)
    try:
        return any(holds(data, text.encode()) for data in _opened(opened))
    finally:
        opened.close()


def _opened(log: EncryptedLog) -> Iterator[bytes]:
    yield from (commit.payload for commit in log.commits_after(0, 1_000_000))
    yield from (head.entry for head in log.heads())
    yield from (value for _, value in log.scan_derived(b""))
    ring = log._ring
    for name in log.bodies():
        encrypted = decode_encrypted_value(log.engine.body(name) or b"")
        family = ring.find(encrypted.key)
        if family is not None:
            yield family.decrypt_body(name, encrypted.data)


def forgotten(store: Path, place: Path) -> int:
    """Fail unless exactly the dead families' keys are gone from every file; count them."""
    log = open_log.open_log(store, read_only=True)
    cards = [
        decode_encrypted_value(head.entry) for head in log.engine.heads() if not is_clear(head.session, head.entry)
    ]
    log.close()
    living = {entry.key for entry in cards if entry.data or not is_tombstone(entry.clear)}
    dead = {entry.key for entry in cards} - living
    keys, before = KeyFile(place / _KEYS), KeyFile(place / KEPT)
    for id in living:
        assert keys.find(id.hex()) is not None, "the key of a living family is gone"
    files = [path.read_bytes() for path in place.iterdir() if path.is_file() and path.name != KEPT]
    for id in dead:
        assert keys.find(id.hex()) is None, "the key of an erased family is there"
        secret = before.find(id.hex())
        assert secret is not None, "the key was never kept"
        assert not any(secret.hex().encode() in data for data in files), "a file has the key of an erased family"
    return len(dead)
