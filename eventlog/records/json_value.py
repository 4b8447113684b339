"""JSON values as records are: which are allowed, and their exact text.

The text of a value gives the same value: order of keys, whole numbers and floats, lone surrogates.
"""

from __future__ import annotations

import json
from hashlib import sha256
from math import isfinite
from typing import Any

import msgspec

from eventlog.errors import CallError
from eventlog.validation import MAX_DEPTH, a_kind

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def require_value(value: object) -> str:
    """Return the text of a JSON value; `CallError` for a value that is none.

    Objects are dicts with keys of type str, arrays are lists. Tuples, NaN and values of
    subclasses would come back as something else, so they are refused.
    """
    _require(value, 0)
    try:
        return dumped(value)
    except (ValueError, OverflowError):  # whole numbers of thousands of digits
        raise CallError("a record has a number of too many digits") from None


def _require(value: Any, depth: int) -> None:
    kind: Any = type(value)  # pyright: ignore[reportUnknownVariableType]  # of any value
    if kind is str or kind is int or kind is bool or value is None:
        return
    if depth > MAX_DEPTH:
        raise CallError(f"a record is nested more than {MAX_DEPTH} levels deep")
    if kind is dict:
        for key, item in value.items():
            if type(key) is not str:
                raise CallError(f"a key in a record is a str, not {a_kind(key)}")
            _require(item, depth + 1)
    elif kind is list:
        for item in value:
            _require(item, depth + 1)
    elif kind is not float:
        raise CallError(f"a record is a JSON value: dict, list, str, int, float, bool or None, not {a_kind(value)}")
    elif not isfinite(value):
        raise CallError("a record has a number that is not finite, which JSON does not know")


def dumped(value: Any) -> str:
    """Return the exact text of a JSON value."""
    try:
        return _encode(value).decode()
    except UnicodeEncodeError:  # lone surrogates stay as they are
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def parsed(text: str) -> Any:
    """Return the value of a text that `dumped` made; ValueError if it is no such text."""
    try:
        return _decode(text)
    except (msgspec.MsgspecError, UnicodeEncodeError):
        return json.loads(text)


def digest_of(text: str) -> bytes:
    """Return the digest of the text of a record."""
    return sha256(text.encode("utf-8", "surrogatepass")).digest()
