"""Structs to canonical bytes and back, also when their text is not Unicode (lone surrogates).

Equal values have equal bytes.  Not the bytes of the log (`eventlog/codec/batch.py`), which are frozen; these may change with a
projection's version.
"""

from __future__ import annotations

import json
from typing import Any, TypeVar

import msgspec

__all__ = ["pack", "unpack"]

T = TypeVar("T")

_ENCODER = msgspec.msgpack.Encoder()
_PLAIN, _ESCAPED = b"\0", b"\1"


def pack(value: object) -> bytes:
    """MessagePack, or JSON in ASCII when a text has a lone surrogate, behind one byte that says which."""
    try:
        return _PLAIN + _ENCODER.encode(value)
    except UnicodeEncodeError:
        return _ESCAPED + json.dumps(msgspec.to_builtins(value), separators=(",", ":")).encode("ascii")


def unpack(data: bytes, kind: type[T]) -> T:
    """The value again; ValueError if the bytes are not one of this kind."""
    try:
        if data[:1] == _PLAIN:
            return msgspec.msgpack.decode(memoryview(data)[1:], type=kind)
        if data[:1] == _ESCAPED:
            plain: Any = json.loads(data[1:])
            return msgspec.convert(plain, kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError("the bytes are of another shape") from error
    raise ValueError("the bytes begin with an unknown mark")
