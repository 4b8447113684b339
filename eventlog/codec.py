"""Events to bytes and back: the canonical encoding of one append.

A batch is the MessagePack array `[schema, time, escaped, entries]`; `time` is UTC milliseconds, and each
entry is `[0, milliseconds after time, event]` or a run of deltas (`deltas.py`, tag 1).  The encoding of a
schema version never changes (golden files hold it), because digests are taken over it.

Text with lone surrogates cannot be UTF-8.  A batch that has some is `escaped`: in every string of it, U+10FFFF stands
for an escape, followed by four hexadecimal digits for a lone surrogate, or by U+10FFFF for itself.

Not here: compression (the log's business) and meaning (`state.py`, `projections`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

import msgspec

from eventlog.deltas import DeltaRun
from eventlog.errors import CallError, DamagedError, DataError, TooNewError, UnknownEventError
from eventlog.events import SCHEMA, Event
from eventlog.log.base import Commit
from eventlog.upcast import upcast

__all__ = [
    "Entry",
    "Item",
    "Recorded",
    "Span",
    "decode",
    "encode",
    "events_of",
    "pack",
    "spans_of",
    "unpack",
    "validate",
]


class Entry(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """One event with its time, in milliseconds after the batch's."""

    after: int
    event: Event


class Batch(msgspec.Struct, frozen=True, array_like=True):
    """One append's events as they are stored."""

    schema: int
    time: int
    escaped: bool
    entries: list[Entry | DeltaRun]


class Recorded(NamedTuple):
    """An event in its place: what `Session.events()` and projections are given."""

    session: str
    version: int
    position: int
    time: int
    """UTC milliseconds."""
    epoch: int
    event: Event


class Span(NamedTuple):
    """One or more consecutive versions in their place: a single event, or a whole run of deltas.

    `first` and `position` are those of the first; a run of n deltas has versions `first .. first + n - 1`.
    """

    session: str
    first: int
    position: int
    time: int
    """UTC milliseconds of the first event; a run's later times are `item.times(time - item.start)`."""
    epoch: int
    item: Event | DeltaRun

    @property
    def last(self) -> int:
        """Version of the last event."""
        return self.first + self.item.count - 1 if isinstance(self.item, DeltaRun) else self.first

    def events(self) -> Iterator[Recorded]:
        """The events one by one."""
        item = self.item
        if not isinstance(item, DeltaRun):
            yield Recorded(self.session, self.first, self.position, self.time, self.epoch, item)
            return
        for number, (time, delta) in enumerate(zip(item.times(self.time - item.start), item.deltas(), strict=True)):
            yield Recorded(self.session, self.first + number, self.position + number, time, self.epoch, delta)

    def cut(self, after: int, upto: int | None) -> Span | None:
        """The part of the span in versions `after + 1 .. upto`, or None."""
        start = max(after + 1 - self.first, 0)
        count = self.last - self.first + 1
        stop = count if upto is None else min(count, upto + 1 - self.first)
        if start >= stop:
            return None
        item = self.item
        if not isinstance(item, DeltaRun) or (start == 0 and stop == count):
            return self
        time = item.times(self.time - item.start)[start]
        return self._replace(
            first=self.first + start, position=self.position + start, time=time, item=item.cut(start, stop)
        )


Item: TypeAlias = tuple[int, Event] | DeltaRun
"""What `encode` takes: an event with its time in UTC milliseconds, or a run built on the batch's time."""

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Batch)
_EVENTS = msgspec.msgpack.Decoder(list[Event])
_PLAIN = msgspec.msgpack.Decoder(list[Any])
_ESCAPE = "\U0010ffff"
_TO_ESCAPE = re.compile("[\ud800-\udfff\U0010ffff]")
_ESCAPED = re.compile("\U0010ffff(?:\U0010ffff|([0-9a-f]{4}))")


def _tags() -> frozenset[str]:
    union = cast("Any", Event).__args__
    return frozenset(cast("str", kind.__struct_config__.tag) for kind in union)


_TAGS = _tags()


def encode(items: Iterable[Item], time: int) -> bytes:
    """The canonical bytes of one append; `time` is the batch's time."""
    entries: list[Entry | DeltaRun] = [
        item if isinstance(item, DeltaRun) else Entry(item[0] - time, item[1]) for item in items
    ]
    try:
        return _ENCODER.encode(Batch(SCHEMA, time, False, entries))
    except UnicodeEncodeError:
        plain = msgspec.to_builtins(entries, builtin_types=(bytes,))
        return _ENCODER.encode([SCHEMA, time, True, _map_text(plain, _escape)])


def validate(events: Sequence[Event]) -> None:
    """Raise `CallError` unless every field of the events is of its type.

    Structs are not checked when they are made, and what cannot be read back must not be written.
    """
    try:
        try:
            same = _EVENTS.decode(_ENCODER.encode(events))
        except UnicodeEncodeError:
            plain = msgspec.to_builtins(events, builtin_types=(bytes,))
            _ENCODER.encode(_map_text(plain, _escape))  # also refuses what only the encoder does: numbers over 64 bits
            same = msgspec.convert(plain, list[Event])
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise CallError(f"an event with a field that is not of its type: {error}") from None
    for event, read in zip(events, same, strict=True):
        if event != read:
            raise CallError(f"a {type(event).__name__} with a field that would be read back as something else")


def decode(payload: bytes) -> Batch:
    """The batch in `payload`; `TooNewError`, `UnknownEventError` or `DamagedError` if that cannot be."""
    try:
        batch = _DECODER.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, RecursionError):
        return _decode_slowly(payload)
    if batch.schema != SCHEMA or batch.escaped:
        return _decode_slowly(payload)
    _validate(batch)
    return batch


def spans_of(commit: Commit, after: int = 0, upto: int | None = None) -> Iterator[Span]:
    """The spans of a commit that hold versions `after + 1 .. upto`, with runs of deltas whole; none if it was erased."""
    if commit.emptied and not commit.payload:
        return
    try:
        batch = decode(commit.payload)
    except DataError as error:
        raise type(error)(
            error.message, session=commit.session, version=commit.first, position=commit.position
        ) from error
    offset = 0
    for entry in batch.entries:
        if isinstance(entry, DeltaRun):
            item: Event | DeltaRun = entry
            time = batch.time + entry.start
            count = entry.count
        else:
            item, time, count = entry.event, batch.time + entry.after, 1
        first = commit.first + offset
        last = first + count - 1
        if last > after and (upto is None or first <= upto):
            span = Span(commit.session, first, commit.position + offset, time, commit.epoch, item)
            part = span if first > after and (upto is None or last <= upto) else span.cut(after, upto)
            if part is not None:
                yield part
        offset += count
    if offset != commit.count:
        raise DamagedError(
            f"a commit of {commit.count} events holds {offset}",
            session=commit.session,
            version=commit.first,
            position=commit.position,
        )


def events_of(commit: Commit, after: int = 0, upto: int | None = None) -> Iterator[Recorded]:
    """The events of a commit one by one."""
    for span in spans_of(commit, after, upto):
        yield from span.events()


def _validate(batch: Batch) -> None:
    for entry in batch.entries:
        if isinstance(entry, DeltaRun):
            try:
                entry.validate()
            except ValueError as error:
                raise DamagedError(str(error)) from error


def _decode_slowly(payload: bytes) -> Batch:
    """Escaped and older batches, and a typed error for what is neither."""
    try:
        fields = _PLAIN.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise DamagedError("a batch that is not a MessagePack array") from error
    if len(fields) < 4:
        raise DamagedError("a batch of another shape")
    schema, time, escaped, entries = fields[:4]
    if not isinstance(schema, int) or not isinstance(entries, list):
        raise DamagedError("a batch of another shape")
    if schema > SCHEMA:
        raise TooNewError(f"events of schema version {schema}; this program knows up to {SCHEMA}")
    try:
        if escaped:
            entries = _map_text(entries, _unescape)
        fresh = [_upcast_entry(entry, schema) for entry in cast("list[list[Any]]", entries)]
        batch = msgspec.convert([SCHEMA, time, False, fresh], Batch)
    except (msgspec.ValidationError, KeyError, IndexError, TypeError, ValueError) as error:
        raise DamagedError(f"a batch that does not fit schema version {schema}") from error
    _validate(batch)
    return batch


def _upcast_entry(entry: list[Any], schema: int) -> list[Any]:
    if entry[0] == 0:
        event = upcast(entry[2], schema, SCHEMA)
        if event[0] not in _TAGS:
            raise UnknownEventError(f"an event of kind {event[0]!r}")
        return [0, entry[1], event]
    return entry


def _map_text(value: Any, change: Any) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, (list, tuple)):
        return [_map_text(item, change) for item in cast("Sequence[Any]", value)]
    return value


def _escape(text: str) -> str:
    return _TO_ESCAPE.sub(lambda found: _ESCAPE + (_ESCAPE if found[0] == _ESCAPE else f"{ord(found[0]):04x}"), text)


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)) if found[1] else _ESCAPE, text)


_MARK = b"\xc1"
"""Before a packed value that is escaped as a batch is: a byte that no MessagePack begins with."""
V = TypeVar("V")


def pack(value: msgspec.Struct) -> bytes:
    """The bytes of a small value that is kept beside the events, lone surrogates included."""
    try:
        return _ENCODER.encode(value)
    except UnicodeEncodeError:
        return _MARK + _ENCODER.encode(_map_text(msgspec.to_builtins(value, builtin_types=(bytes,)), _escape))


def unpack(data: bytes, kind: type[V]) -> V:
    """The value of `pack`; `DamagedError` if it cannot be read."""
    try:
        if data.startswith(_MARK):
            return msgspec.convert(_map_text(_PLAIN.decode(data[1:]), _unescape), kind)
        return msgspec.msgpack.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError) as error:
        raise DamagedError(f"a {kind.__name__} that cannot be read") from error
