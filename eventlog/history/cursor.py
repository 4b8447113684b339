"""Cursors: opaque texts that say where a reader of a store goes on.

A cursor is base64 of MessagePack: an array that begins with the number of its kind.

    [1, store, [[position, tag] of each partition]]   behind an event, in the stream of all events
    [2, store, list, time, number]                    behind a session, in a list of sessions
    [3, store, search, place]                         behind a hit, in what a search finds

`store` names the store. A vacuum or a scrub keeps positions, so a cursor outlives them. `tag` is
from the hash of the commit that has the position: a store that was restored to an earlier state and
written to since has another history there. A subscription leaves the positions of partitions that
it does not read as they were.

A cursor is not secret and not signed: a caller who changes it reads from elsewhere, or gets
`CursorError`.
"""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import blake2b
from typing import TYPE_CHECKING, Annotated, TypeAlias, TypeVar

import msgspec

from eventlog.errors import CallError, CursorError
from eventlog.errors.base import brief

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eventlog.log.commit import Commit
    from eventlog.log.contract import Log, Place

Reached: TypeAlias = tuple[int, bytes]
"""A position in a partition up to which everything is read, and the tag of its commit."""

_TAG = 4
_STORE = 8
_LIST_AGAIN = "list from the beginning, without a cursor"
_SEARCH_AGAIN = "search from the beginning, without a cursor"
_AGAIN = "subscribe from the beginning, without a cursor, or from `store.cursor()`, the end"

_Position = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


class _Stream(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=1):
    """The fields of a cursor of events."""

    store: bytes
    reached: tuple[tuple[_Position, bytes], ...]


class _List(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=2):
    """The fields of a cursor of a list."""

    store: bytes
    lists: bytes
    time: Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
    number: _Position


class _Hits(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=3):
    """The fields of a cursor of hits."""

    store: bytes
    search: bytes
    place: _Position


C = TypeVar("C", _Stream, _List, _Hits)
_WHAT: dict[type[_Stream | _List | _Hits], str] = {_Stream: "events", _List: "a list of sessions", _Hits: "a search"}
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Stream | _List | _Hits).decode


class StreamMark:
    """Where a subscription stands at a commit; from it follows the cursor behind each event.

    All marks are equal: two readers that got one event got the same.
    """

    __slots__ = ("_partition", "_reached", "_store", "_tag")

    def __init__(self, store: bytes, reached: tuple[Reached, ...], partition: int, tag: bytes) -> None:
        self._store = store
        self._reached = reached
        self._partition = partition
        self._tag = tag

    def __eq__(self, other: object) -> bool:
        return other is None or isinstance(other, StreamMark)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "<StreamMark>"

    def cursor(self, position: int) -> str:
        """Return the cursor behind the event at a position of this commit."""
        at = self._partition
        return _written(
            _Stream(self._store[:_STORE], (*self._reached[:at], (position, self._tag), *self._reached[at + 1 :]))
        )


def tag_of(commit: Commit) -> bytes:
    """Return the tag of positions in a commit."""
    return commit.leaf[:_TAG]


def cursor_at(log: Log, positions: Sequence[int]) -> str:
    """Return the cursor behind a position of each partition."""
    reached = tuple(zip(positions, tags_at(log, positions), strict=True))
    return _written(_Stream(log.identity[:_STORE], reached))


def reached_by(cursor: str, log: Log) -> list[Reached]:
    """Return where a cursor of events stands in each partition of a log.

    `CursorError` if it is none of this store, or is ahead of it.
    """
    said = _said(cursor, log, _Stream, _AGAIN)
    last = log.last_positions()
    if len(said.reached) != len(last):
        raise CursorError(f"the cursor is of another store: {_AGAIN}")
    tags = tags_at(log, [position for position, _ in said.reached])
    for partition, (position, tag) in enumerate(said.reached):
        if position > last[partition] or tags[partition] not in (tag, b""):  # b"": its session was erased
            raise CursorError(f"the cursor is ahead of the store, which was restored to an earlier state: {_AGAIN}")
    return list(said.reached)


def tags_at(log: Log, positions: Sequence[int]) -> list[bytes]:
    """Return the tag of each partition's position; b"" where no commit has it."""
    return [b"" if commit is None else tag_of(commit) for commit in log.commits_at(positions)]


def list_cursor(log: Log, lists: Sequence[bytes], place: Place) -> str:
    """Return the cursor behind a place in these lists of a log."""
    return _written(_List(log.identity[:_STORE], _digest(lists), *place))


def place_in(cursor: str, log: Log, lists: Sequence[bytes]) -> Place:
    """Return the place that a cursor names; `CursorError` if it is not one of these lists."""
    said = _said(cursor, log, _List, _LIST_AGAIN)
    if said.lists != _digest(lists):
        raise CursorError(f"the cursor is of a list with other filters: pass the same ones, or {_LIST_AGAIN}")
    position, partition = divmod(said.number, log.partitions)
    if position > log.last_positions()[partition]:
        raise CursorError(f"the cursor is ahead of the store, which was restored to an earlier state: {_LIST_AGAIN}")
    return said.time, said.number


def hits_cursor(log: Log, search: Sequence[object], place: int) -> str:
    """Return the cursor behind a place among the hits of a search: its words and filters."""
    return _written(_Hits(log.identity[:_STORE], _digest(search), place))


def hit_place(cursor: str, log: Log, search: Sequence[object]) -> int:
    """Return the place that a cursor names; `CursorError` if it is not one of this search."""
    said = _said(cursor, log, _Hits, _SEARCH_AGAIN)
    if said.search != _digest(search):
        raise CursorError(f"the cursor is of a search with other words or filters: {_SEARCH_AGAIN}")
    return said.place


def _written(said: _Stream | _List | _Hits) -> str:
    return urlsafe_b64encode(_encode(said)).decode().rstrip("=")


def _said(cursor: object, log: Log, kind: type[C], again: str) -> C:
    """Return the fields of a cursor of one kind and this store."""
    if not isinstance(cursor, str):
        raise CallError(f"a cursor is a str that this store gave, not {brief(cursor)}")
    try:
        said: _Stream | _List | _Hits = _decode(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (msgspec.MsgspecError, binascii.Error, ValueError):
        raise CursorError(f"the text is no cursor: {again}") from None
    if not isinstance(said, kind):
        raise CursorError(f"the cursor is of {_WHAT[type(said)]}, not of {_WHAT[kind]}: {again}")
    if said.store != log.identity[:_STORE]:
        raise CursorError(f"the cursor is of another store: {again}")
    return said


def _digest(lists: Sequence[object]) -> bytes:
    return blake2b(_encode(lists), digest_size=8).digest()
