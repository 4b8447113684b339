"""Canonical bytes of structs, also of those whose texts have lone surrogates.

Equal values have equal bytes. These bytes may change with a projection's version; those of the log
(`eventlog/codec/batch.py`) never do.
"""

from __future__ import annotations

import json
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_ENCODER = msgspec.msgpack.Encoder()
_PLAIN, _ESCAPED = b"\0", b"\1"


def pack(value: object) -> bytes:
    """Encode a value as MessagePack, or as ASCII JSON if a text has a lone surrogate.

    The first byte says which of both.
    """
    try:
        return _PLAIN + _ENCODER.encode(value)
    except UnicodeEncodeError:
        return _ESCAPED + json.dumps(msgspec.to_builtins(value), separators=(",", ":")).encode("ascii")


def unpack(data: bytes, kind: type[T]) -> T:
    """Decode a value of this type; raises `ValueError` for other bytes."""
    try:
        if data[:1] == _PLAIN:
            return msgspec.msgpack.decode(memoryview(data)[1:], type=kind)
        if data[:1] == _ESCAPED:
            plain: Any = json.loads(data[1:])
            return msgspec.convert(plain, kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError("the bytes do not decode as this type") from error
    raise ValueError("the bytes begin with an unknown mark")
