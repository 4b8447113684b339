"""Conversations of a store as an application of `eventsourcing` to follow, read only.

    PERSISTENCE_MODULE=eventlog.recorder.conversations  EVENTLOG_PATH=chats

Every event of every conversation is a notification, in the order of commits:

* its id is the event's position; the ids have gaps where the store holds other data;
* its originator is the session, its originator version the event's version;
* its topic is the event's class (`eventlog.events:UserMessageAdded`), for `get_topic` filters;
* its state is the event's canonical bytes (`codec/batch.py`), which `ConversationMapper` decodes.

Conversations are appended to through `eventlog.Session` only.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NoReturn
from uuid import UUID

import msgspec
from eventsourcing.domain import DomainEventProtocol
from eventsourcing.persistence import (
    AggregateRecorder,
    ApplicationRecorder,
    InfrastructureFactory,
    Mapper,
    Notification,
    NotSupportedError,
    ProcessRecorder,
    StoredEvent,
    TrackingRecorder,
    Transcoder,
)
from eventsourcing.utils import Environment, EnvType, get_topic
from typing_extensions import override

from eventlog.codec import batch as batch_module
from eventlog.codec.decoded import Recorded, events_of
from eventlog.codec.payload import is_encrypted, is_foreign
from eventlog.errors import CallError, DamagedError
from eventlog.events import Event
from eventlog.history.ancestry import ancestry, spans
from eventlog.history.catalog import entry_of
from eventlog.log.contract import Log
from eventlog.recorder.factory import open_from
from eventlog.recorder.faults import FAULTS
from eventlog.recorder.subscription import NotifyingRecorder

_COMMITS = 200
"""Commits that one page reads."""


class ConversationEvent(msgspec.Struct, frozen=True):
    """An event of a conversation, in the shape that projections of `eventsourcing` process."""

    originator_id: str
    """The session."""
    originator_version: int
    """The event's version."""
    time: int
    """UTC milliseconds."""
    event: Event


class ConversationRecorder(NotifyingRecorder):
    """All conversations of a log, to be read and followed."""

    def __init__(self, log: Log) -> None:
        if log.partitions > 1:
            raise CallError(
                f"notifications have one order, and the log has {log.partitions} partitions: take a log of one"
            )
        self.log = log

    @property
    def source(self) -> ConversationRecorder:
        """This recorder."""
        return self

    def page(
        self, after: int, limit: int, upto: int | None = None, topics: Collection[str] = ()
    ) -> tuple[list[Notification], int]:
        """See `subscription.NotificationSource`."""
        found: list[Notification] = []
        scanned = after
        if limit < 1 or (upto is not None and upto <= after):
            return found, scanned
        for commit in self.log.commits_after(after, _COMMITS):
            if not is_foreign(commit) and not is_encrypted(commit.payload):
                for recorded in events_of(commit, commit.first - 1 + max(after + 1 - commit.position, 0)):
                    if upto is not None and recorded.position > upto:
                        return found, upto
                    topic = get_topic(type(recorded.event))
                    if not topics or topic in topics:
                        found.append(_notification(recorded, topic))
                        if len(found) == limit:
                            return found, recorded.position
            scanned = commit.last_position
            if upto is not None and scanned >= upto:
                return found, upto
        return found, scanned

    def newest(self) -> int | None:
        """Return the position of the newest event of a conversation, None if there is none."""
        return max((head.position for head in self.log.heads() if not is_foreign(head)), default=None)

    def events(self, session: str) -> list[Recorded]:
        """Return all events of a session, inherited ones included."""
        head = self.log.head(session)
        if head is None or is_foreign(head) or entry_of(head).erased:
            return []
        streams = ancestry(self.log, session)
        return [recorded for span in spans(self.log, streams) for recorded in span.events()]

    @override
    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:
        """`NotSupportedError`: conversations are appended to through `eventlog.Session`."""
        _read_only()

    def select_events(
        self,
        originator_id: UUID | str,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> Sequence[StoredEvent]:
        """Return the events of a session by version; a fork has its inherited events too."""
        with FAULTS:
            found = [
                StoredEvent(str(originator_id), recorded.version, get_topic(type(recorded.event)), _state(recorded))
                for recorded in self.events(str(originator_id))
                if (gt is None or recorded.version > gt) and (lte is None or recorded.version <= lte)
            ]
        if desc:
            found.reverse()
        return found if limit is None else found[: max(limit, 0)]


class ConversationMapper(Mapper[str]):
    """Mapper from stored events of this module to `ConversationEvent`, without a transcoder."""

    def to_domain_event(self, stored_event: StoredEvent) -> DomainEventProtocol[str]:
        """Return the event with its session, version and time."""
        with FAULTS:
            batch = batch_module.decode(stored_event.state)
            entry = batch.entries[0] if len(batch.entries) == 1 else None
            if not isinstance(entry, batch_module.Entry):
                raise DamagedError("the state of a conversation's event is one event")
        session, version = str(stored_event.originator_id), stored_event.originator_version
        return ConversationEvent(session, version, batch.time + entry.after, entry.event)


class ConversationFactory(InfrastructureFactory[TrackingRecorder]):
    """Factory of the conversation recorder; `close()` closes the log."""

    def __init__(self, env: Environment | EnvType | None) -> None:
        super().__init__(env)
        self.log: Log = open_from(self.env)

    def mapper(
        self, transcoder: Transcoder | None = None, mapper_class: type[Mapper[Any]] | None = None
    ) -> Mapper[Any]:
        """Return a `ConversationMapper`, or a mapper of the given class."""
        return super().mapper(transcoder, mapper_class or ConversationMapper)

    def application_recorder(self) -> ApplicationRecorder:
        """Return the recorder of all conversations of the store."""
        return ConversationRecorder(self.log)

    @override
    def aggregate_recorder(self, purpose: str = "events") -> AggregateRecorder:
        """Raise `NotSupportedError`."""
        _read_only()

    @override
    def tracking_recorder(self, tracking_recorder_class: type[TrackingRecorder] | None = None) -> TrackingRecorder:
        """`NotSupportedError`: track projections of conversations with `eventlog.recorder`."""
        _read_only()

    def process_recorder(self) -> ProcessRecorder:
        """Raise `NotSupportedError`."""
        _read_only()

    def close(self) -> None:
        """Close the log."""
        with FAULTS:
            self.log.close()


def _read_only() -> NoReturn:
    raise NotSupportedError("conversations are read through here; they are appended to through eventlog.Session")


def _notification(recorded: Recorded, topic: str) -> Notification:
    return Notification(recorded.session, recorded.version, topic, _state(recorded), recorded.position)


def _state(recorded: Recorded) -> bytes:
    return batch_module.encode([(recorded.time, recorded.event)], recorded.time)
