"""Marks of encrypted and foreign bytes in the log, and the layout of encrypted values.

This module does no cryptography; `encryption/` does. Both marks rest on one fact: no MessagePack
value begins with the byte 0xC1.

*Encrypted* values are payloads, catalog entries, bodies and derived values. They begin with the two
bytes 0xC1 0xC2; a MessagePack array follows:

    payload         [format, key, base, messages, entry, names, data]
    other values    [format, key, clear, data]

    format      1
    key         the 16 bytes that name the family's key, so that a reader needs no look-up
    base        the version after which a session begins, in its first append only; else nil
    messages    by how much the append changes the number of visible messages
    entry       the encrypted catalog entry that came with the append, or nil
    names       the 32-byte names of the stored bodies that the payload refers to
    clear       of a catalog entry: a catalog entry of its public fields only (parent, fork,
                archived, a keyed hash as scope; all fields of an erased session), or empty;
                of any other value: empty
    data        nonce (12 bytes), ciphertext, tag (16 bytes); empty if `clear` holds all there is

The clear fields have a session's head at any version and the bodies to copy. Backup, repair and
vacuum therefore need no key.

The catalog entry of an erased session is a *tombstone*: all its fields are clear, and its data is
empty.

*Foreign* streams belong to other programs that keep events in the log, such as `eventlog.recorder`.
Their catalog entries and payloads begin with `FOREIGN`, 0xC1 twice; an encrypted foreign value has
this mark first, then the mark of encryption. A conversation's bytes begin with at most one 0xC1,
and a MessagePack value follows it (`batch.encode_value`). A head or a commit therefore shows by
itself whether it is a conversation's; the name of the session does not matter.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from eventlog.errors import DamagedError, TooNewError
from eventlog.log.commit import Commit, Head

FOREIGN = b"\xc1\xc1"
LEDGER = "eventlog/remains"
REMAINS = FOREIGN + b"remains"
"""Name and first bytes of the scrub ledger, which `integrity/scrub_ledger.py` writes."""
NAMES = "eventlog/name:"
NAMED = FOREIGN + b"name"
"""First characters of the id of a name's stream, and first bytes of what is in it.

`history/name_streams.py` writes them.
"""
_OWN = ((LEDGER, REMAINS), (NAMES, NAMED))


def is_clear(session: str, data: bytes) -> bool:
    """Whether these bytes are of the engine's own streams, which are never encrypted."""
    return any(session.startswith(name) and data.startswith(mark) for name, mark in _OWN)


def is_foreign(thing: Head | Commit) -> bool:
    """Whether a head or a commit belongs to a foreign stream."""
    return (thing.entry if isinstance(thing, Head) else thing.payload).startswith(FOREIGN)


ENCRYPTED = b"\xc1\xc2"
FORMAT = 1
KEY_ID_BYTES = 16
DESTROYED = b"destroyed key\0"
"""First bytes of the name of a derived value that notes a destroyed key.

The key's name follows. The log stores these derived values in clear.
"""
_FOREIGN_ENCRYPTED = FOREIGN + ENCRYPTED
_MARKS = (ENCRYPTED, _FOREIGN_ENCRYPTED)


class EncryptedPayload(msgspec.Struct, frozen=True, array_like=True):
    """The encrypted payload of an append; the head of the module describes the fields."""

    format: int
    key: bytes
    base: int | None
    messages: int
    entry: bytes | None
    names: tuple[bytes, ...]
    data: bytes


class EncryptedValue(msgspec.Struct, frozen=True, array_like=True):
    """An encrypted catalog entry, body or derived value; the module's head has the fields."""

    format: int
    key: bytes
    clear: bytes
    data: bytes


V = TypeVar("V", EncryptedPayload, EncryptedValue)

_encode = msgspec.msgpack.Encoder().encode
_payloads = msgspec.msgpack.Decoder(EncryptedPayload)
_values = msgspec.msgpack.Decoder(EncryptedValue)
_first = msgspec.msgpack.Decoder(list[msgspec.Raw])


def is_encrypted(data: bytes) -> bool:
    """Whether the bytes are an encrypted value, of a conversation or foreign."""
    return data.startswith(_MARKS)


def encode_encrypted(encrypted: EncryptedPayload | EncryptedValue, *, foreign: bool = False) -> bytes:
    """Encode an encrypted value; `foreign` adds the mark of a foreign stream."""
    return (_MARKS[foreign]) + _encode(encrypted)


def decode_encrypted_payload(data: bytes) -> EncryptedPayload:
    """Decode an encrypted payload, without decrypting its data.

    `DamagedError` if the bytes have no known layout, `TooNewError` if a newer program wrote them.
    """
    return _read(data, _payloads)


def decode_encrypted_value(data: bytes) -> EncryptedValue:
    """Decode an encrypted catalog entry, body or derived value, without decrypting its data.

    `DamagedError` if the bytes have no known layout, `TooNewError` if a newer program wrote them.
    """
    return _read(data, _values)


def _read(data: bytes, decoder: msgspec.msgpack.Decoder[V]) -> V:
    if data.startswith(ENCRYPTED):
        found = data[len(ENCRYPTED) :]
    elif data.startswith(_FOREIGN_ENCRYPTED):
        found = data[len(_FOREIGN_ENCRYPTED) :]
    else:
        raise DamagedError("bytes that are not encrypted, in an encrypted store")
    try:
        encrypted = decoder.decode(found)
    except (msgspec.MsgspecError, ValueError) as error:
        raise refused(found, FORMAT, "encrypted", "encrypted bytes that cannot be decoded") from error
    if encrypted.format != FORMAT or len(encrypted.key) != KEY_ID_BYTES:
        raise refused(found, FORMAT, "encrypted", "encrypted bytes that cannot be decoded")
    return encrypted


def refused(
    data: bytes, newest: int, what: str, damaged: str, session: str | None = None
) -> DamagedError | TooNewError:
    """Return the error for an array that cannot be read, and begins with its format."""
    try:
        format = msgspec.msgpack.decode(_first.decode(data)[0], type=int)
    except (msgspec.MsgspecError, ValueError, IndexError):
        format = newest
    if format > newest:
        return TooNewError(f"{what} in format {format}; this program knows up to {newest}", session=session)
    return DamagedError(damaged, session=session)
