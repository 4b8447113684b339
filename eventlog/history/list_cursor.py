"""The cursor of a list: an opaque text that says where the next page begins.

It is base64 of MessagePack: [store and edition, digest of the list, time, position]. It is not
secret and not signed: a caller who changes it gets another page of the same list, or `CursorError`.
"""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import blake2b
from typing import TYPE_CHECKING, Annotated

import msgspec

from eventlog.errors import CursorError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eventlog.log.contract import Log, Place

__all__ = ["cursor_at", "place_in"]

_AGAIN = "list from the beginning, without a cursor"


class _Cursor(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The fields of a cursor."""

    store: bytes
    lists: bytes
    time: Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
    position: Annotated[int, msgspec.Meta(ge=0)]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Cursor).decode


def cursor_at(log: Log, lists: Sequence[bytes], place: Place) -> str:
    """Return the cursor behind a place in these lists of a log."""
    return urlsafe_b64encode(_encode(_Cursor(log.identity, _digest(lists), *place))).decode().rstrip("=")


def place_in(cursor: str, log: Log, lists: Sequence[bytes]) -> Place:
    """Return the place that a cursor names; `CursorError` if it is not one of these lists."""
    try:
        said = _decode(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (msgspec.MsgspecError, binascii.Error, ValueError):
        raise CursorError(f"the text is no cursor of a list: {_AGAIN}") from None
    if said.store != log.identity:
        raise CursorError(f"the cursor is of another store, or of this one before it was rewritten: {_AGAIN}")
    if said.lists != _digest(lists):
        raise CursorError(f"the cursor is of a list with other filters: pass the same ones, or {_AGAIN}")
    if said.position > log.last_position():
        raise CursorError(f"the cursor is ahead of the store, which was restored to an earlier state: {_AGAIN}")
    return said.time, said.position


def _digest(lists: Sequence[bytes]) -> bytes:
    return blake2b(_encode(lists), digest_size=8).digest()
