"""Importer of OpenCode export JSON (`opencode export SESSION`), one document a session.

An export is a snapshot, so its events are put in the order in which they happened, as far as its
times say: the events of a grown session's export then begin with the old ones.  A time that is
missing is the latest one before it in the message.

* A text of an assistant message was stored at its end, so it is one delta at that time.
* `time.compacted` of a tool part is `Pruned` at that time.
* A compaction part is `CompactionRequested`.  An assistant message with `summary` that answers it
  and has ended is, at its end, `CompactionStarted` (with the tail that OpenCode noted) and
  `CompactionCompleted` or `CompactionFailed`.
* `info.revert` hides what the next prompt would delete: the marked part and those after it, or the
  marked message, and every later message.  It becomes `PartRemoved` and `MessageRemoved` at the
  very end (open messages are closed as aborted first), because a rollback to a version would also
  take back prune marks and late tool results that OpenCode keeps.
* What is only true of the snapshot as a whole is the last batch's `snapshot`: `SessionRenamed`,
  `SessionArchived`, and one `ForeignKept` for each message and for the document, with the
  difference between the events and the export (`importers/common/json_patch.py`).  Of these the
  latest with the same `of` counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from typing import Any, BinaryIO, cast

from eventlog import events as ev
from eventlog.errors import ImportFormatError
from eventlog.importers.common.conversation_parts import COVERS_NOTHING, UNREADABLE
from eventlog.importers.common.importer import BATCH_BYTES, BATCH_EVENTS, ImportBatch, Report, bounded_id
from eventlog.importers.common.json_document import DamagedDocumentError, Document
from eventlog.importers.common.json_lines import DamagedLineError, check_depth, dump
from eventlog.importers.common.json_patch import difference
from eventlog.importers.common.record_index import RecordIndex
from eventlog.importers.opencode.emit import message_of, session_of
from eventlog.importers.opencode.message_events import MessageEvents, MessageFacts
from eventlog.importers.opencode.messages import events_of_message, problem_of
from eventlog.importers.opencode.values import model_of, optional, string, time_of
from eventlog.values import MessageError, Origin

_START = re.compile(rb'^\s*\{\s*"info"\s*:\s*\{')


class OpenCodeImporter:
    """Importer of one export."""

    name = "opencode"

    def detect(self, start: bytes, path: str) -> bool:
        """Whether the file begins with a session's `info`, with id and project or directory."""
        del path
        return bool(_START.match(start)) and b'"id"' in start and (b'"projectID"' in start or b'"directory"' in start)

    def read(self, file: BinaryIO, path: str, report: Report) -> Iterator[ImportBatch]:
        """Yield the session's events; a truncated document gives the messages before the break.

        Bytes that are not UTF-8 are reported, and the mark U+FFFD stands in their place.
        """
        del path
        document = Document(file, "messages", report.skip)
        reader: SessionReader | None = None
        rest: dict[str, Any] = {}
        try:
            for name, value in document.members():
                try:
                    check_depth(value)
                except DamagedLineError as error:
                    report.skip(1, f"{'a message' if name == 'messages' else name}: {error}")
                    continue
                if name == "messages" and reader is not None:
                    yield from reader.add_message(value)
                    continue
                if name == "messages":
                    raise ImportFormatError("an OpenCode export whose messages come before its info")
                rest[name] = value
                if name == "info":
                    reader = SessionReader(value, report)
        except DamagedDocumentError as error:
            report.skip(error.line, error.reason)
        else:
            if not document.met:
                report.skip(1, "the export has no messages")
        if reader is None:
            raise ImportFormatError("not an OpenCode export: it has no info")
        yield from reader.close(rest)


def whole_session(info: dict[str, Any], messages: Iterable[Any], report: Report) -> Iterator[ImportBatch]:
    """Yield the events of a session with this info, and these messages in order."""
    reader = SessionReader(info, report)
    for message in messages:
        yield from reader.add_message(message)
    yield from reader.close({"info": info})


class SessionReader:
    """Emits a session's events by time, each once no later message can precede it.

    Messages are in order of creation, so what happened before the creation of the newest one is
    settled.
    """

    def __init__(self, info: object, report: Report) -> None:
        name = optional(info, "id")
        if not isinstance(info, dict) or not name or bounded_id(name) != name:
            raise ImportFormatError("not an OpenCode export: its info has no session id")
        self.info: dict[str, Any] = cast("dict[str, Any]", info)
        self.session = name
        self.report = report
        self._batch = ImportBatch(self.session)
        self._first: ev.SessionStarted | None = None
        self._created = time_of(self.info, "created")
        self._target = optional(self.info.get("revert"), "messageID")
        """The message that the export goes back to."""
        self._born = self._time = 0
        self._heap: list[tuple[int, int, ev.Event, ImportBatch]] = []
        """Events that wait: time, number, event, and the batch with their message's bodies."""
        self._number = 0
        self._sent_bodies: set[ImportBatch] = set()
        """Messages whose bodies the current batch has."""
        self._messages: dict[str, MessageFacts] = {}
        self._parts = RecordIndex()
        self._odd: list[tuple[int, Any]] = []

    def add_message(self, record: Any) -> Iterator[ImportBatch]:
        """Add the next message; yields a batch when there is enough."""
        index = len(self._messages) + len(self._odd)
        reason = problem_of(record, self._messages)
        if reason:
            self.report.skip(1, f"message {index + 1}: {reason}")
            self._odd.append((index, record))
            return
        self._begin(record["info"])
        own = ImportBatch(self.session)
        message = events_of_message(record, own.content, self._born, self._parts)
        decided = self._compactions(message)
        steps = difference(message_of([*message.items, *message.late], self.session, message.text), record)
        self.report.messages += 1
        self.report.parts += len(record["parts"]) - len(message.skipped)
        for reason in message.skipped:
            self.report.skip(1, f"message {index + 1}: {reason}")
        self._born = message.born
        self._messages[message.id] = message.facts(
            dump(steps, plain=False) if steps else None, is_target=message.id == self._target
        )
        for time, event in (*message.items, *message.late, *decided):
            self._number += 1
            heappush(self._heap, (time, self._number, event, own))
        yield from self._emit_before(self._born)

    def close(self, rest: dict[str, Any]) -> Iterator[ImportBatch]:
        """End the document: yield the remaining events, and the snapshot of the whole."""
        started = self._begin({})
        yield from self._emit_before(None)
        batch = self._batch
        end = max(self._time, time_of(self.info, "updated"))
        for event in self._reverted():
            batch.add(end, event)
        snapshot = batch.snapshot = []
        title = string(self.info, "title")
        if title:
            snapshot.append((end, ev.SessionRenamed(title)))
        if time_of(self.info, "archived"):
            snapshot.append((end, ev.SessionArchived()))
        for name, message in self._messages.items():
            if message.difference is not None:
                snapshot.append((end, ev.ForeignKept(name, batch.content(message.difference))))
        steps = difference(session_of(started, self._created, title), rest)
        steps.extend(["+", ["messages"], index, record] for index, record in self._odd)
        if steps:
            snapshot.append((end, ev.ForeignKept("session", batch.content(dump(steps, plain=False)))))
        yield batch

    def _begin(self, message: dict[str, Any]) -> ev.SessionStarted:
        """Return the session's first event, with the first user message's agent and model."""
        if self._first is None:
            parent = self.info.get("parentID")
            self._first = ev.SessionStarted(
                directory=string(self.info, "directory"),
                agent=string(message, "agent"),
                model=model_of(message.get("model")),
                parent=parent if isinstance(parent, str) else None,
                origin=Origin("opencode", self.session, version=string(self.info, "version")),
            )
            self._batch.snapshot = []
            self._batch.add(self._created, self._first)
            self.report.sessions.append(self.session)
        return self._first

    def _emit_before(self, before: int | None) -> Iterator[ImportBatch]:
        """Yield the events before a time, or all."""
        heap = self._heap
        while heap and (before is None or heap[0][0] < before):
            time, _, event, own = heappop(heap)
            self._time = max(self._time, time)
            batch = self._batch
            batch.add(time, event)
            if own.bodies and own not in self._sent_bodies:
                self._sent_bodies.add(own)
                batch.bodies.update(own.bodies)
                batch.weight += own.weight
            if len(batch.items) >= BATCH_EVENTS or batch.weight >= BATCH_BYTES:
                self._batch = ImportBatch(self.session)
                self._sent_bodies.clear()
                yield batch

    def _compactions(self, message: MessageEvents) -> list[tuple[int, ev.Event]]:
        """Return the events with which an ended summary decides the compaction it answers."""
        asked = self._messages.get(message.parent)
        if not message.summary or message.ended is None or asked is None or asked.compaction is None:
            return []
        part, end = asked.compaction, message.ended
        order = list(self._messages)
        tail = asked.tail if asked.tail in self._messages and asked.tail != message.parent else None
        place = order.index(tail) if tail is not None else 0
        # A named covered range may hold no open message; with one that a crash left open, the
        # range is given by the tail alone.
        crashed = any(self._messages[name].closing is not None for name in order[:place])
        through = order[place - 1] if place and not crashed else None
        started = ev.CompactionStarted(part, through, tail, None, message.model)
        is_over = message.failure is None and message.reason is not None
        if is_over and message.readable:
            return [(end, started), (end, ev.CompactionCompleted(part, message.id))]
        reason = message.failure.name if message.failure is not None else "unfinished"
        if is_over:
            reason = UNREADABLE
            self.report.skip(1, f"message {len(self._messages) + len(self._odd) + 1}: {COVERS_NOTHING}")
        return [(end, started), (end, ev.CompactionFailed(part, reason, message.id))]

    def _reverted(self) -> list[ev.Event]:
        """Return the events that hide what a revert hides."""
        target, part = self._target, optional(self.info.get("revert"), "partID")
        order = list(self._messages)
        if target not in self._messages:
            return []
        events: list[ev.Event] = []
        for name in order[order.index(target) :]:
            message = self._messages[name]
            if message.closing is not None:
                events += [*message.closing, ev.MessageFinished(name, None, MessageError("aborted", "reverted"))]
            if name == target and part in message.parts:
                events += [ev.PartRemoved(later) for later in message.parts[message.parts.index(part) :]]
            else:
                events.append(ev.MessageRemoved(name))
        return events
