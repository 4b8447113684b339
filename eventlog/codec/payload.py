"""The marks of what is no plain conversation: ciphertext, and other programs' streams.

Not the cryptography (`encryption/`), and no library of it. Both marks rest on one fact: MessagePack
begins no value with 0xC1.

*Sealed* is a payload, catalog entry, body or derived value that is encrypted: the two bytes 0xC1
0xC2, and a MessagePack array.

    payload   [format, key, base, messages, catalog entry, names, data]
    others    [format, key, clear, data]

format     1
key        the 16 bytes that name the family's key, so that a reader needs no look-up
base       the version a session begins after, in its first append only; else nil
messages   how many messages the append adds
catalog entry       the encrypted catalog entry that came with it, or nil
names      the 32-byte names of the stored bodies that the payload refers to
clear      of a catalog entry: the catalog entry of what is not secret (parent, fork; all of an erased session), or nothing; else nothing
data       nonce (12 bytes), ciphertext, tag (16 bytes); nothing if there is no more than what is clear

So a backup, a repair and a vacuum need no key: what a session's head was at any version, and which
bodies go along, stands here.

*Foreign* is a stream that another program keeps in the log, such as `eventlog.recorder`. Its
catalog entries and all its payloads begin with `FOREIGN`, 0xC1 twice; where it is encrypted, it has
both marks, this one first. What this engine writes for conversations has 0xC1 at most once, before
a MessagePack value (`batch.pack`). So a head and a commit each say by themselves whether they are a
conversation's, whatever the session is called.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from eventlog.errors import DamagedError, TooNewError
from eventlog.log.contract import Commit, Head

__all__ = [
    "DESTROYED",
    "FOREIGN",
    "FORMAT",
    "REMAINS",
    "EncryptedPayload",
    "EncryptedValue",
    "decode_encrypted_payload",
    "decode_encrypted_value",
    "encode_encrypted",
    "is_encrypted",
    "is_foreign",
]

FOREIGN = b"\xc1\xc1"
REMAINS = FOREIGN + b"remains"
"""How the one stream begins that this engine writes of its own, which is never encrypted
(`integrity/scrub_ledger.py`).
"""


def is_foreign(thing: Head | Commit) -> bool:
    """Whether a head or a commit belongs to something else than a conversation."""
    return (thing.entry if isinstance(thing, Head) else thing.payload).startswith(FOREIGN)


ENCRYPTED = b"\xc1\xc2"
FORMAT = 1
KEY_ID_BYTES = 16
DESTROYED = b"destroyed key\0"
"""How the derived value is called, before the 16 bytes of the name, that notes of a key that it was
destroyed: only in the clear log.
"""
_FOREIGN_ENCRYPTED = FOREIGN + ENCRYPTED
_MARKS = (ENCRYPTED, _FOREIGN_ENCRYPTED)


class EncryptedPayload(msgspec.Struct, frozen=True, array_like=True):
    """The payload of an append; fields as above."""

    format: int
    key: bytes
    base: int | None
    messages: int
    entry: bytes | None
    names: tuple[bytes, ...]
    data: bytes


class EncryptedValue(msgspec.Struct, frozen=True, array_like=True):
    """A catalog entry, a body or a derived value; fields as above."""

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
    """Whether these are the bytes of something encrypted."""
    return data.startswith(_MARKS)


def encode_encrypted(encrypted: EncryptedPayload | EncryptedValue, *, foreign: bool = False) -> bytes:
    """The bytes of something encrypted; `foreign` if it belongs to no conversation."""
    return (_MARKS[foreign]) + _encode(encrypted)


def decode_encrypted_payload(data: bytes) -> EncryptedPayload:
    """What an encrypted payload says; `DamagedError` or `TooNewError` if that cannot be read."""
    return _read(data, _payloads)


def decode_encrypted_value(data: bytes) -> EncryptedValue:
    """What an encrypted catalog entry, body or derived value says; errors as above."""
    return _read(data, _values)


def _read(data: bytes, decoder: msgspec.msgpack.Decoder[V]) -> V:
    if data.startswith(ENCRYPTED):
        found = data[len(ENCRYPTED) :]
    elif data.startswith(_FOREIGN_ENCRYPTED):
        found = data[len(_FOREIGN_ENCRYPTED) :]
    else:
        raise DamagedError("something that is not encrypted, where all is")
    try:
        encrypted = decoder.decode(found)
    except (msgspec.MsgspecError, ValueError) as error:
        raise _refused(found) from error
    if encrypted.format != FORMAT or len(encrypted.key) != KEY_ID_BYTES:
        raise _refused(found)
    return encrypted


def _refused(found: bytes) -> DamagedError | TooNewError:
    try:
        format = msgspec.msgpack.decode(_first.decode(found)[0], type=int)
    except (msgspec.MsgspecError, ValueError, IndexError):
        format = FORMAT
    if format > FORMAT:
        return TooNewError(f"encrypted in format {format}; this program knows up to {FORMAT}")
    return DamagedError("something encrypted that cannot be read")
