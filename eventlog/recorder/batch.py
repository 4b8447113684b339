"""Bytes of one insert: stored events and a tracking position, as one append of the log.

A batch is the mark of a payload that is no conversation (`eventlog/codec/payload.py`: 0xC1 0xC1),
then the MessagePack array

    [1, tracking, originators, topics, of, versions, topic, states]

1            format of the batch; a greater one is `TooNewError`
tracking     [application name, notification id], or nil
originators  distinct originator ids, as bytes: `u` and a UUID's 16 bytes, or `t` and UTF-8
topics       distinct topics
of, topic    for each event, the index of its originator and of its topic in those lists
versions     for each event, its originator version
states       for each event, its state

Event `i` of a batch has the stream version of its append plus `i`.  A batch that only tracks has no
events, and takes one version.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from hashlib import sha256
from typing import Annotated, Any, TypeAlias
from uuid import UUID

import msgspec
from eventsourcing.persistence import Notification, StoredEvent, Tracking

from eventlog.codec.payload import FOREIGN, is_encrypted, is_foreign
from eventlog.errors import CallError, DamagedError, KeyMissingError, TooNewError
from eventlog.log.commit import Commit

FORMAT = 1
_Place: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
KEY_BYTES = 16
"""Bytes of an originator's key: the beginning of the SHA-256 of its id as text."""


class _StoredBatch(msgspec.Struct, frozen=True, array_like=True):
    """A batch as it is stored, as the head of this module says."""

    format: int
    tracking: tuple[str, int] | None
    originators: list[bytes]
    topics: list[str]
    of: list[_Place]
    versions: list[int]
    topic: list[_Place]
    states: list[bytes]

    def fits(self, count: int) -> bool:
        """Whether the columns belong together, and to an append of `count` versions."""
        events = len(self.of)
        return (
            len(self.versions) == len(self.topic) == len(self.states) == events
            and max(events, 1) == count
            and (not events or (max(self.of) < len(self.originators) and max(self.topic) < len(self.topics)))
        )


class Batch:
    """A decoded batch; events and ids are made on demand."""

    __slots__ = ("_commit", "_stored")

    def __init__(self, commit: Commit, stored: _StoredBatch) -> None:
        self._commit = commit
        self._stored = stored

    @property
    def tracking(self) -> tuple[str, int] | None:
        """Application name and notification id, or None."""
        return self._stored.tracking

    @property
    def versions(self) -> list[int]:
        """Each event's originator version."""
        return self._stored.versions

    def keys(self) -> list[bytes]:
        """Return the key of each event's originator."""
        keys = [key_of(name) for name in self._ids()]
        return [keys[place] for place in self._stored.of]

    def event(self, number: int) -> StoredEvent:
        """Return one of the events."""
        stored = self._stored
        return StoredEvent(
            self._id(stored.originators[stored.of[number]]),
            stored.versions[number],
            stored.topics[stored.topic[number]],
            stored.states[number],
        )

    def notifications(self, after: int, upto: int, topics: Collection[str]) -> Iterator[Notification]:
        """Yield the events of these topics (none: all) with stream versions `after + 1 .. upto`."""
        stored, ids, names, first = self._stored, self._ids(), self._stored.topics, self._commit.first
        wanted = [not topics or name in topics for name in names]
        for number in range(max(after + 1 - first, 0), min(len(stored.of), upto + 1 - first)):
            topic = stored.topic[number]
            if wanted[topic]:
                yield Notification(
                    ids[stored.of[number]],
                    stored.versions[number],
                    names[topic],
                    stored.states[number],
                    first + number,
                )

    def _ids(self) -> list[UUID | str]:
        return [self._id(name) for name in self._stored.originators]

    def _id(self, name: bytes) -> UUID | str:
        try:
            if name[:1] == b"u":
                return UUID(bytes=name[1:])
            if name[:1] == b"t":
                return name[1:].decode()
        except ValueError as error:
            raise _refused(self._commit) from error
        raise _refused(self._commit)


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(_StoredBatch)
_PLAIN = msgspec.msgpack.Decoder(list[Any])


def key_of(originator: UUID | str) -> bytes:
    """Return the key of an originator; a UUID and its text have the same key."""
    return sha256(str(originator).encode("utf-8", "surrogatepass")).digest()[:KEY_BYTES]


def pack(events: Sequence[StoredEvent], tracking: Tracking | None) -> bytes:
    """Encode a batch.

    `CallError` for text that UTF-8 cannot encode, or a number over 64 bits.
    """
    originators: dict[UUID | str, int] = {}
    topics: dict[str, int] = {}
    of = [originators.setdefault(event.originator_id, len(originators)) for event in events]
    topic = [topics.setdefault(event.topic, len(topics)) for event in events]
    try:
        return FOREIGN + _ENCODER.encode(
            (
                FORMAT,
                None if tracking is None else (tracking.application_name, tracking.notification_id),
                [b"u" + name.bytes if isinstance(name, UUID) else b"t" + name.encode() for name in originators],
                list(topics),
                of,
                [event.originator_version for event in events],
                topic,
                [event.state for event in events],
            )
        )
    except (UnicodeEncodeError, OverflowError) as error:
        raise CallError("a stored event has text that UTF-8 cannot encode, or a number over 64 bits") from error


def batch_of(commit: Commit) -> Batch:
    """Decode the batch in a commit; `TooNewError` or `DamagedError` name the place."""
    try:
        if not is_foreign(commit):
            raise _refused(commit)
        stored = _DECODER.decode(commit.payload[len(FOREIGN) :])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _refused(commit) from error
    if stored.format != FORMAT or not stored.fits(commit.count):
        raise _refused(commit)
    return Batch(commit, stored)


def _refused(commit: Commit) -> DamagedError | KeyMissingError | TooNewError:
    where: dict[str, Any] = {"session": commit.session, "version": commit.first, "position": commit.position}
    if is_encrypted(commit.payload):
        return KeyMissingError("it is encrypted, and its key is not there", **where)
    try:
        found = _PLAIN.decode(commit.payload[len(FOREIGN) :])[0] if is_foreign(commit) else None
    except (msgspec.MsgspecError, ValueError, IndexError):
        found = None
    if isinstance(found, int) and found > FORMAT:
        return TooNewError(f"stored events of format {found}; this program knows up to {FORMAT}", **where)
    return DamagedError("stored events that cannot be read", **where)
