"""Appends and heads as they are stored encrypted, and back: what is sealed, what is in clear, and what is bound to what.  Pure.

Whose key it is, is decided in `log.py`; the bytes are `codec/payload.py`, the cryptography `family.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from eventlog import events as ev
from eventlog.codec.batch import decode, pack, unpack
from eventlog.codec.bodies import digests_in
from eventlog.codec.deltas import DeltaRun
from eventlog.codec.payload import (
    FOREIGN,
    FORMAT,
    SealedPayload,
    SealedValue,
    is_sealed,
    mark,
    sealed_payload,
    sealed_value,
)
from eventlog.codec.redaction import contents
from eventlog.compression import compressed_body
from eventlog.errors import DamagedError, DataError
from eventlog.history.catalog import CatalogEntry
from eventlog.integrity.scrub_ledger import is_record
from eventlog.log.contract import Append, Commit, Head
from eventlog.values import Body

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from eventlog.encryption.family import Family
    from eventlog.encryption.key_ring import KeyRing

__all__ = [
    "buried",
    "entry_of",
    "is_burial",
    "is_tombstone",
    "opened_commit",
    "opened_head",
    "resealed",
    "said_on",
    "sealed_append",
]

_encode = msgspec.msgpack.Encoder().encode


def entry_of(head: Head) -> SealedValue:
    """A head's catalog entry as it is stored; errors name the session."""
    try:
        return sealed_value(head.entry)
    except DataError as error:
        raise type(error)(error.message, session=head.session) from None


# -- in ------------------------------------------------------------------------------------------


def sealed_append(append: Append, family: Family, check: Callable[[Sequence[Commit]], None] | None) -> Append:
    """The append as it is stored under a family's key."""
    session, payload, entry = append.session, append.payload, append.entry
    if entry is not None:
        clear = _clear(entry)
        data = family.seal(session, entry, b"card\0" + clear)
        entry = mark(SealedValue(FORMAT, family.id, clear, data), foreign=entry.startswith(FOREIGN))
    elif append.creates_at is not None:
        entry = mark(SealedValue(FORMAT, family.id, b"", b""))
    given = {digest: family.name(digest) for digest, _ in append.bodies}
    names = {given.get(digest) or family.name(digest) for digest in _bodies_in(payload, given)}
    sealed = SealedPayload(
        FORMAT, family.id, append.creates_at, append.messages, entry, tuple(sorted(names)), b""
    )  # fmt: skip
    bodies = [
        (given[digest], SealedValue(FORMAT, family.id, b"", family.seal_body(given[digest], compressed_body(packed))))
        for digest, packed in append.bodies
    ]
    return replace(
        append,
        payload=_filled(sealed, family, append, payload),
        entry=entry,
        bodies=tuple((name, mark(body)) for name, body in bodies),
        digest=family.request(session, append.digest),
        check=check,
    )


def is_burial(append: Append) -> bool:
    """Whether an append erases its session: it is kept in clear, to be read when the key is gone."""
    return append.entry is not None and is_tombstone(append.entry) and _says_erased(append.payload)


def buried(append: Append, key: bytes, check: Callable[[Sequence[Commit]], None] | None) -> Append:
    """Such an append as it is stored; the name of the family's key stays in the head."""
    return replace(append, entry=mark(SealedValue(FORMAT, key, append.entry or b"", b"")), check=check)


def resealed(stored: Commit, changed: Commit, ring: KeyRing) -> Commit:
    """A commit whose content was changed, as it is stored: under the same key, and bound to the same."""
    old = sealed_payload(stored.payload)
    family = ring.find(old.key)
    assert family is not None  # or nobody could have changed it
    names = tuple(sorted(map(family.name, _bodies_in(changed.payload, ()))))
    return replace(changed, payload=_filled(replace(old, names=names), family, stored, changed.payload), stored=b"")


def _filled(sealed: SealedPayload, family: Family, place: Append | Commit, payload: bytes) -> bytes:
    """The bytes of a sealed payload, which is all there but for its data."""
    data = family.seal(place.session, payload, _bound(place, sealed))
    return mark(replace(sealed, data=data), foreign=payload.startswith(FOREIGN))


# -- out -----------------------------------------------------------------------------------------


def opened_commit(commit: Commit, ring: KeyRing) -> Commit:
    """A commit as it was appended; as it is stored if its key is gone.  `DamagedError` if it is not what was sealed for here."""
    payload = commit.payload
    try:
        if not is_sealed(payload):
            if (commit.emptied and not payload) or is_record(commit.session, payload) or _says_erased(payload):
                return commit
            raise DamagedError("an append that is not encrypted, where all are")
        sealed = sealed_payload(payload)
    except DataError as error:
        raise _of(commit, error) from None
    family = ring.find(sealed.key)  # what is wrong with the keys is not wrong with the session
    if family is None:
        return commit
    try:
        plain = family.open(commit.session, sealed.data, _bound(commit, sealed))
    except DataError as error:
        raise _of(commit, error) from None
    return Commit(
        commit.session, commit.first, commit.count, commit.position, commit.epoch, commit.time, plain, commit.request,
        commit.salt, commit.leaf, payload,
    )  # fmt: skip


def _of(commit: Commit, error: DataError) -> DataError:
    """The error as that of a commit."""
    return type(error)(error.message, session=commit.session, version=commit.first, position=commit.position)


def opened_head(head: Head, ring: KeyRing) -> Head:
    """A head with its catalog entry as it was given; as it is stored if its key is gone.  Errors as for a commit."""
    if is_record(head.session, head.entry):
        return head
    sealed = entry_of(head)
    if not sealed.data:
        if sealed.clear and not is_tombstone(sealed.clear):
            raise DamagedError("a catalog entry that is not encrypted, where all are", session=head.session)
        return replace(head, entry=sealed.clear)
    family = ring.find(sealed.key)
    if family is None:
        return head
    try:
        return replace(head, entry=family.open(head.session, sealed.data, b"card\0" + sealed.clear))
    except DataError as error:
        raise type(error)(error.message, session=head.session) from None


# -- what is in them -------------------------------------------------------------------------------


def _bound(place: Append | Commit, sealed: SealedPayload) -> bytes:
    """What a payload is bound to beside its session, which its key is made for."""
    return b"payload\0" + _encode(
        (
            place.count, place.time, place.epoch, place.request,
            sealed.base, sealed.messages, sealed.entry, sealed.names,
        )
    )  # fmt: skip


def _bodies_in(payload: bytes, given: Collection[bytes]) -> set[bytes]:
    """The digests of the bodies that a payload refers to; of what is no conversation all that may be some."""
    found = digests_in(payload)
    if all(digest in given for digest in found):
        return found
    try:
        batch = decode(payload)
    except DataError:
        return found
    events = (entry.event for entry in batch.entries if not isinstance(entry, DeltaRun))
    return {content.digest for event in events for content in contents(event) if isinstance(content, Body)}


def _clear(entry: bytes) -> bytes:
    """What a catalog entry says that is no secret: whose sub-session and whose fork the session is."""
    said = said_on(entry)
    return (
        b"" if said is None else pack(CatalogEntry(parent=said.parent, fork_of=said.fork_of, forked_at=said.forked_at))
    )


def is_tombstone(entry: bytes) -> bool:
    """Whether a catalog entry is that of an erased session."""
    said = said_on(entry)
    return said is not None and said.erased


def said_on(entry: bytes | None) -> CatalogEntry | None:
    """What a catalog entry that was given says; None if there is none, it is not a conversation's, or it cannot be read."""
    if not entry or entry.startswith(FOREIGN):
        return None
    try:
        return unpack(entry, CatalogEntry)
    except DamagedError:
        return None


def _says_erased(payload: bytes) -> bool:
    """Whether a payload is that of a tombstone, and of nothing else."""
    try:
        entries = decode(payload).entries
    except DataError:
        return False
    return len(entries) == 1 and not isinstance(entries[0], DeltaRun) and isinstance(entries[0].event, ev.SessionErased)
