"""Chunks: the facts of some messages and their parts, as compressed MessagePack.

A part takes about 20 bytes instead of 500.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from eventlog.compression import pack, unpack
from eventlog.state.facts import MessageFacts

__all__ = ["Row", "copy_row", "hash_of", "pack_rows", "unpack_rows"]

Row: TypeAlias = tuple[str, MessageFacts]
"""A message's id and facts."""
HASH_BITS = 32
_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(list[Row])


def pack_rows(rows: Sequence[Row]) -> bytes:
    """Return rows as one chunk."""
    return pack(_encode(rows))


def unpack_rows(chunk: bytes) -> list[Row]:
    """Return the rows of a chunk; `ValueError` if it is none."""
    return _decode(unpack(chunk))


def copy_row(row: Row) -> Row:
    """Return a copy, which the caller may change."""
    return _decode(_encode([row]))[0]


def hash_of(key: str, modulus: int) -> int:
    """Return the hash of an id: the id read as a number, modulo a random prime-like number.

    A caller that chooses ids cannot provoke collisions, because it does not know the modulus.
    """
    return int.from_bytes(key.encode("utf-8", "surrogatepass"), "little") % modulus


def _encode(rows: Sequence[Row]) -> bytes:
    """Encode rows as MessagePack, or as JSON where a call id has lone surrogates."""
    try:
        return _ENCODER.encode(rows)
    except UnicodeEncodeError:
        return b"[" + json.dumps(msgspec.to_builtins(rows)).encode()


def _decode(data: bytes) -> list[Row]:
    if data.startswith(b"[["):  # no MessagePack array of rows begins so
        return msgspec.convert(json.loads(data[1:]), list[Row])
    return _DECODER.decode(data)
