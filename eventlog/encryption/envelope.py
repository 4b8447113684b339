"""Encrypted form of appends and heads.

It says what is encrypted, what stays in clear, and what the ciphertext is bound to. All functions
are pure. `log.py` chooses the key, `codec/payload.py` has the bytes, and `family.py` the
cryptography.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from eventlog import events as ev
from eventlog.codec.batch import decode, decode_value, encode_value
from eventlog.codec.deltas import DeltaRun
from eventlog.codec.payload import (
    FOREIGN,
    FORMAT,
    EncryptedPayload,
    EncryptedValue,
    decode_encrypted_payload,
    decode_encrypted_value,
    encode_encrypted,
    is_clear,
    is_encrypted,
)
from eventlog.codec.redaction import contents
from eventlog.compression import compressed_body
from eventlog.errors import DamagedError, DataError
from eventlog.history.catalog import CatalogEntry
from eventlog.log.commit import Append, Commit, Head
from eventlog.log.digests import digests_in
from eventlog.values import Body

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from eventlog.encryption.family import Family
    from eventlog.encryption.key_ring import KeyRing

_encode = msgspec.msgpack.Encoder().encode


def entry_of(head: Head) -> EncryptedValue:
    """Decode a head's catalog entry as it is stored; errors name the session."""
    try:
        return decode_encrypted_value(head.entry)
    except DataError as error:
        raise type(error)(error.message, session=head.session) from None


# -- in ------------------------------------------------------------------------------------------


def encrypt_append(
    append: Append,
    family: Family,
    scope_name: Callable[[str], str],
) -> Append:
    """Encrypt an append under a family's key; `scope_name` is for what stays in clear."""
    session, payload, entry = append.session, append.payload, append.entry
    if entry is not None:
        clear = _clear_part(entry, scope_name)
        data = family.encrypt(session, entry, b"card\0" + clear)
        entry = encode_encrypted(EncryptedValue(FORMAT, family.id, clear, data), foreign=entry.startswith(FOREIGN))
    elif append.creates_at is not None:
        entry = encode_encrypted(EncryptedValue(FORMAT, family.id, b"", b""))
    given = {digest: family.name(digest) for digest, _ in append.bodies}
    names = {given.get(digest) or family.name(digest) for digest in _bodies_in(payload, given)}
    encrypted = EncryptedPayload(
        FORMAT, family.id, append.creates_at, append.messages, entry, tuple(sorted(names)), b""
    )  # fmt: skip
    bodies = [
        (
            given[digest],
            EncryptedValue(FORMAT, family.id, b"", family.encrypt_body(given[digest], compressed_body(packed))),
        )
        for digest, packed in append.bodies
    ]
    return replace(
        append,
        payload=_with_data(encrypted, family, append, payload),
        entry=entry,
        bodies=tuple((name, encode_encrypted(body)) for name, body in bodies),
        digest=family.request(session, append.digest),
    )


def is_tombstone_append(append: Append) -> bool:
    """Whether an append erases its session; such an append is stored in clear."""
    return append.entry is not None and is_tombstone(append.entry) and _is_erasure(append.payload)


def encrypt_tombstone(append: Append, key: bytes) -> Append:
    """Return an erasing append as it is stored: in clear, with the key's name in the head."""
    return replace(append, entry=encode_encrypted(EncryptedValue(FORMAT, key, append.entry or b"", b"")))


def retitled(session: str, entry: bytes | None, title: str, ring: KeyRing) -> bytes | None:
    """Return a stored catalog entry with this title; the same bytes if it has it, or is none."""
    encrypted = None if entry is None else decode_encrypted_value(entry)
    family = None if encrypted is None or not encrypted.data else ring.find(encrypted.key)
    if encrypted is None or family is None:
        return entry
    bound = b"card\0" + encrypted.clear
    said = read_entry(family.decrypt(session, encrypted.data, bound))
    if said is None or said.title == title:
        return entry
    data = family.encrypt(session, encode_value(replace(said, title=title)), bound)
    return encode_encrypted(replace(encrypted, data=data))


def reencrypt(stored: Commit, changed: Commit, old: EncryptedPayload, ring: KeyRing) -> Commit:
    """Encrypt a changed commit under its old key, bound to its old place.

    `old` has its fields beside the events.
    """
    family = ring.find(old.key)
    assert family is not None  # without the key its content could not be changed
    names = tuple(sorted(map(family.name, _bodies_in(changed.payload, ()))))
    return replace(changed, payload=_with_data(replace(old, names=names), family, stored, changed.payload), stored=b"")


def _with_data(encrypted: EncryptedPayload, family: Family, place: Append | Commit, payload: bytes) -> bytes:
    """Encrypt a payload whose other fields are complete."""
    data = family.encrypt(place.session, payload, _associated_data(place, encrypted))
    return encode_encrypted(replace(encrypted, data=data), foreign=payload.startswith(FOREIGN))


# -- out -----------------------------------------------------------------------------------------


def decrypt_commit(commit: Commit, ring: KeyRing) -> Commit:
    """Decrypt a commit; a commit whose key is gone stays as it is stored.

    `DamagedError` if its ciphertext was changed, or was encrypted for another place.
    """
    payload = commit.payload
    try:
        if not is_encrypted(payload):
            if (commit.emptied and not payload) or is_clear(commit.session, payload) or _is_erasure(payload):
                return commit
            raise DamagedError("an append that is not encrypted, where all are")
        encrypted = decode_encrypted_payload(payload)
    except DataError as error:
        raise _of(commit, error) from None
    family = ring.find(encrypted.key)  # outside the try: an error of the keys is not an error of the session
    if family is None:
        return commit
    try:
        plain = family.decrypt(commit.session, encrypted.data, _associated_data(commit, encrypted))
    except DataError as error:
        raise _of(commit, error) from None
    return Commit(
        commit.session, commit.first, commit.count, commit.position, commit.epoch, commit.time, plain, commit.request,
        commit.salt, commit.leaf, payload,
    )  # fmt: skip


def _of(commit: Commit, error: DataError) -> DataError:
    """Return the error with the place of a commit."""
    return type(error)(error.message, session=commit.session, version=commit.first, position=commit.position)


def decrypt_head(head: Head, ring: KeyRing) -> Head:
    """Decrypt a head's catalog entry; an entry whose key is gone stays as it is stored.

    Errors as for a commit.
    """
    if is_clear(head.session, head.entry):
        return head
    encrypted = entry_of(head)
    if not encrypted.data:
        if encrypted.clear and not is_tombstone(encrypted.clear):
            raise DamagedError("a catalog entry that is not encrypted, where all are", session=head.session)
        return replace(head, entry=encrypted.clear)
    family = ring.find(encrypted.key)
    if family is None:
        return head
    try:
        return replace(head, entry=family.decrypt(head.session, encrypted.data, b"card\0" + encrypted.clear))
    except DataError as error:
        raise type(error)(error.message, session=head.session) from None


# -- what is in them -------------------------------------------------------------------------------


def _associated_data(place: Append | Commit, encrypted: EncryptedPayload) -> bytes:
    """Data that a payload is bound to, besides its session, which has a key of its own."""
    return b"payload\0" + _encode(
        (
            place.count, place.time, place.epoch, place.request,
            encrypted.base, encrypted.messages, encrypted.entry, encrypted.names,
        )
    )  # fmt: skip


def _bodies_in(payload: bytes, given: Collection[bytes]) -> set[bytes]:
    """Return the digests of the bodies that a payload refers to.

    For a payload of another program: all 32-byte strings that may be some.
    """
    found = digests_in(payload)
    if all(digest in given for digest in found):
        return found
    try:
        batch = decode(payload)
    except DataError:
        return found
    events = (entry.event for entry in batch.entries if not isinstance(entry, DeltaRun))
    return {content.digest for event in events for content in contents(event) if isinstance(content, Body)}


def _clear_part(entry: bytes, scope_name: Callable[[str], str]) -> bytes:
    """Return the part of a catalog entry that stays in clear, for lists and copies.

    It says whose sub-session or fork the session is, whether it is archived or a shelf, and the
    name of its scope.
    """
    said = read_entry(entry)
    if said is None:
        return b""
    return encode_value(
        CatalogEntry(
            scope=scope_name(said.scope),
            parent=said.parent,
            archived=said.archived,
            fork_of=said.fork_of,
            forked_at=said.forked_at,
            shelf=said.shelf,
        )
    )


def is_tombstone(entry: bytes) -> bool:
    """Whether a catalog entry is that of an erased session."""
    said = read_entry(entry)
    return said is not None and said.erased


def read_entry(entry: bytes | None) -> CatalogEntry | None:
    """Decode a catalog entry before encryption; None if a conversation has none here.

    Also None for another program's entry, and for one that cannot be read.
    """
    if not entry or entry.startswith(FOREIGN):
        return None
    try:
        return decode_value(entry, CatalogEntry)
    except DamagedError:
        return None


def _is_erasure(payload: bytes) -> bool:
    """Whether a payload is that of a tombstone, and of nothing else."""
    try:
        entries = decode(payload).entries
    except DataError:
        return False
    return len(entries) == 1 and not isinstance(entries[0], DeltaRun) and isinstance(entries[0].event, ev.SessionErased)
