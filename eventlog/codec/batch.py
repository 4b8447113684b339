"""Events to bytes and back: the canonical encoding of one append.

A batch is the MessagePack array `[schema, time, escaped, entries, messages]`; `time` is UTC
milliseconds, and each entry is `[0, milliseconds after time, event]` or a run of deltas
(`deltas.py`, tag 1). `messages` is by how much the append changes the session's number of visible
messages, which no event says of a rollback; nil stands for the number of messages it adds. Behind
it a repair puts what it found (`maintenance/emptied.py`). The encoding of a schema version never
changes (golden files hold it), because digests are taken over it.

Text with lone surrogates cannot be UTF-8. A batch that has some is `escaped`: in each of its
strings, U+10FFFF stands for an escape, followed by four hexadecimal digits for a lone surrogate, or
by U+10FFFF for itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import cache
from threading import Lock
from typing import Any, TypeAlias, TypeVar, cast

import msgspec

from eventlog.codec.deltas import DeltaRun
from eventlog.codec.payload import is_encrypted
from eventlog.codec.surrogates import escape, map_text, unescape
from eventlog.codec.upcast import upcast
from eventlog.errors import CallError, DamagedError, KeyMissingError, TooNewError, UnknownEventError
from eventlog.events import SCHEMA, Base, Event, ValuePut


class Entry(msgspec.Struct, frozen=True, array_like=True, tag=0, gc=False):
    """One event with its time, in milliseconds after the batch's."""

    after: int
    event: Event


class PutEntry(msgspec.Struct, frozen=True, array_like=True, tag=0, gc=False):
    """An entry that puts a value: its decoder is made without a look at all other events."""

    after: int
    event: ValuePut


class _Split(msgspec.Struct, array_like=True, gc=False):
    """A batch whose entries are not decoded."""

    schema: int
    time: int
    escaped: bool
    entries: list[msgspec.Raw]


class _Tag(msgspec.Struct, array_like=True, gc=False):
    tag: str


class _Tagged(msgspec.Struct, array_like=True, gc=False, tag=0):
    after: int
    event: _Tag


class _Tags(msgspec.Struct, array_like=True, gc=False):
    """A batch of which only the events' tags are decoded."""

    schema: int
    time: int
    escaped: bool
    entries: list[_Tagged]


class Batch(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The events of one append, as stored."""

    schema: int
    time: int
    escaped: bool
    entries: list[Entry | DeltaRun]
    messages: int | None = None
    """Change of the session's number of visible messages; None: the messages it adds."""


Item: TypeAlias = tuple[int, Event] | DeltaRun
"""Argument of `encode`: an event with its time in UTC milliseconds, or a run.

The run is built on the batch's time.
"""

_ENCODER = msgspec.msgpack.Encoder()
_PLAIN = msgspec.msgpack.Decoder(list[Any])


KINDS: tuple[type[Base], ...] = cast("Any", Event).__args__
"""The events there are."""
_TAGS = frozenset(cast("str", kind.__struct_config__.tag) for kind in KINDS)


def encode(items: Iterable[Item], time: int, messages: int | None = None) -> bytes:
    """Return the canonical bytes of one append; `time` is the batch's time."""
    return encode_batch(batch_of(items, time, messages))


_making = Lock()
"""Held while the types of a struct are inspected.

Two threads that inspect them at once end the process: msgspec has no lock there.
"""
# A child must not find it held by a thread that it has not.
os.register_at_fork(before=_making.acquire, after_in_parent=_making.release, after_in_child=_making.release)


@cache
def _decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    """Return the decoder of a type, made when it is first needed.

    Inspecting the types of all events takes a quarter as long as the rest of the import.
    """
    with _making:
        return msgspec.msgpack.Decoder(kind)


@cache
def json_decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """Return the JSON decoder of a type that names events, made when it is first needed."""
    with _making:
        return msgspec.json.Decoder(kind)


def batch_of(items: Iterable[Item], time: int, messages: int | None = None) -> Batch:
    """Return the batch of these items, equal to what `decode` returns for its bytes."""
    entries = [item if isinstance(item, DeltaRun) else Entry(item[0] - time, item[1]) for item in items]
    return Batch(SCHEMA, time, False, entries, messages)


def encode_batch(batch: Batch) -> bytes:
    """Return the canonical bytes of a batch of the current schema."""
    try:
        return _ENCODER.encode(batch)
    except UnicodeEncodeError:
        plain = msgspec.to_builtins(batch.entries, builtin_types=(bytes,))
        return _ENCODER.encode([SCHEMA, batch.time, True, map_text(plain, escape), batch.messages])


def validate(event: Event) -> None:
    """Raise `CallError` unless every field of the event is of its type.

    Structs are not validated when they are created, and what cannot be read must not be written.
    """
    try:
        try:
            same = _decoder(Event).decode(_ENCODER.encode(event))
        except UnicodeEncodeError:
            plain = msgspec.to_builtins(event, builtin_types=(bytes,))
            _ENCODER.encode(map_text(plain, escape))  # also refuses what only the encoder does: numbers over 64 bits
            _decoder(Batch)  # which knows the types of an `Entry`
            # Inside a struct, whose type is looked at once: a bare union is looked at in every
            # call, for 40 µs.
            same = msgspec.convert([0, 0, plain], Entry).event
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError):
        raise CallError(_misfit(event)) from None
    if event != same:
        raise CallError(_misfit(event))


def _misfit(event: Event) -> str:
    from eventlog.validation import misfit

    return misfit(event)


_split = msgspec.msgpack.Decoder(_Split).decode
_tagged = msgspec.msgpack.Decoder(_Tags).decode


def split(payload: bytes) -> list[msgspec.Raw]:
    """Return the bytes of a payload's entries; none of one that must be decoded as a whole."""
    try:
        batch = _split(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, RecursionError):
        return []
    return batch.entries if batch.schema == SCHEMA and not batch.escaped else []


def tags_in(payload: bytes) -> list[str]:
    """Return the tags of a payload's events; none if some have none, as a run has."""
    try:
        batch = _tagged(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, RecursionError):
        return []
    return [entry.event.tag for entry in batch.entries] if batch.schema == SCHEMA and not batch.escaped else []


def entry_decoder(kind: type = Entry) -> Callable[[msgspec.Raw], Any]:
    """Return what decodes one entry of `split` that is no run; `kind` is a narrower `Entry`."""
    return _decoder(kind).decode


def decode(payload: bytes) -> Batch:
    """Decode a payload.

    `TooNewError`, `UnknownEventError` or `DamagedError` if it cannot be read.
    """
    return decode_sized(payload)[0]


def decode_sized(payload: bytes) -> tuple[Batch, int]:
    """Decode a payload; return the batch and its number of events."""
    try:
        batch: Batch = _decoder(Batch).decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, RecursionError):
        batch = _decode_slowly(payload)
    if batch.schema != SCHEMA or batch.escaped:
        batch = _decode_slowly(payload)
    entries = batch.entries
    length = len(entries)
    for entry in entries:
        if type(entry) is DeltaRun:
            try:
                entry.validate()
            except ValueError as error:
                raise DamagedError(str(error)) from error
            length += entry.count - 1
    return batch, length


def _decode_slowly(payload: bytes) -> Batch:
    """Decode escaped and older batches; raise a typed error for other bytes."""
    if is_encrypted(payload):
        raise KeyMissingError("it is encrypted, and its key is not there")
    try:
        fields = _PLAIN.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise DamagedError("a batch that is not a MessagePack array") from error
    if len(fields) < 5 or not isinstance(fields[0], int) or not isinstance(fields[3], list):
        raise DamagedError("a batch of another shape")
    schema, time, escaped, entries, messages = fields[:5]
    if schema > SCHEMA:
        raise TooNewError(f"events of schema version {schema}; this program knows up to {SCHEMA}")
    try:
        if escaped:
            entries = map_text(entries, unescape)
        fresh = [_upcast_entry(entry, schema) for entry in cast("list[list[Any]]", entries)]
        return msgspec.convert([SCHEMA, time, False, fresh, messages], Batch)
    except (msgspec.ValidationError, KeyError, IndexError, TypeError, ValueError) as error:
        raise DamagedError(f"a batch that does not fit schema version {schema}") from error


def _upcast_entry(entry: list[Any], schema: int) -> list[Any]:
    if entry[0] == 0:
        event = upcast(entry[2], schema, SCHEMA)
        if event[0] not in _TAGS:
            raise UnknownEventError(f"an event of kind {event[0]!r}")
        return [0, entry[1], event]
    return entry


_MARK = b"\xc1"
"""First byte of a packed value with escaped text: no MessagePack value begins with it."""
V = TypeVar("V")


def encode_value(value: msgspec.Struct) -> bytes:
    """Return the bytes of a small value stored beside the events, lone surrogates included."""
    try:
        return _ENCODER.encode(value)
    except UnicodeEncodeError:
        return _MARK + _ENCODER.encode(map_text(msgspec.to_builtins(value, builtin_types=(bytes,)), escape))


def decode_value(data: bytes, kind: type[V]) -> V:
    """Return the value of `encode_value`; `DamagedError` if it cannot be read."""
    try:
        decoder = _decoder(cast("Any", kind))
        if data.startswith(_MARK):
            return msgspec.convert(map_text(_PLAIN.decode(data[1:]), unescape), kind)
        return cast("V", decoder.decode(data))
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError) as error:
        raise DamagedError(f"a {kind.__name__} that cannot be read") from error
