"""OpenCode export JSON: what `opencode export SESSION` writes, one document per session.

Not the way back (`emit.py`).  The export is a snapshot, so the events are told in the order in which they happened,
as far as its times say: a later export of the grown session then has the old events as a prefix.  A time that is missing is the
latest one known before it in the message.

What is told how:

* A text of an assistant message was not stored before its end, so it is one delta at its end.
* `time.compacted` of a tool part is `Pruned` at that time.
* A compaction part is `CompactionRequested`; an assistant message with `summary` that answers it and came to an end is
  `CompactionStarted` (with the tail that OpenCode noted) and `CompactionCompleted` or `CompactionFailed`, at its end.
* `info.revert` hides what the next prompt would delete: the marked part and those after it, or the marked message, and every
  later message.  It is told as `PartRemoved` and `MessageRemoved` at the very end (open messages are closed as
  aborted first), because a rollback to a version would also take back prune marks and late tool results that OpenCode keeps.
* What is only true of the snapshot as a whole is the last piece's `snapshot`: `SessionRenamed`, `SessionArchived`, and one `ForeignKept` per message
  and for the document, with the difference between what the events tell and what the export says (`importers/common/json_patch.py`).  Of these
  the latest for its `of` counts; none of them holds anything that the events have a word for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Any, BinaryIO, cast

from eventlog import events as ev
from eventlog.errors import ImportFormatError
from eventlog.importers.common.importer import PIECE_BYTES, PIECE_EVENTS, Piece, Report, bounded_id
from eventlog.importers.common.json_document import DamagedDocumentError, Document
from eventlog.importers.common.json_lines import DamagedLineError, check_depth, dump
from eventlog.importers.common.json_patch import difference
from eventlog.importers.opencode.emit import message_of, restore, session_of
from eventlog.importers.opencode.message_events import MessageEvents
from eventlog.importers.opencode.messages import oddity, tell
from eventlog.importers.opencode.values import model_of, optional, string, time_of
from eventlog.values import MessageError, Origin

__all__ = ["OpenCodeImporter", "restore", "tell_export"]

_START = re.compile(rb'^\s*\{\s*"info"\s*:\s*\{')


class OpenCodeImporter:
    """Reads one export."""

    name = "opencode"

    def detect(self, start: bytes, path: str) -> bool:
        """Whether the file begins as an export does: with the session's `info`, which has an id and a project or directory."""
        del path
        return bool(_START.match(start)) and b'"id"' in start and (b'"projectID"' in start or b'"directory"' in start)

    def read(self, file: BinaryIO, path: str, report: Report) -> Iterator[Piece]:
        """Yield the session's events; a document that breaks off gives the messages before the break.

        Bytes that are not UTF-8 are reported, and the mark U+FFFD stands in their place.
        """
        del path
        document = Document(file, "messages", report.skip)
        reader: _Reader | None = None
        rest: dict[str, Any] = {}
        try:
            for name, value in document.members():
                try:
                    check_depth(value)
                except DamagedLineError as error:
                    report.skip(1, f"{'a message' if name == 'messages' else name}: {error}")
                    continue
                if name == "messages" and reader is not None:
                    yield from reader.take(value)
                    continue
                if name == "messages":
                    raise ImportFormatError("an OpenCode export whose messages come before its info")
                rest[name] = value
                if name == "info":
                    reader = _Reader(value, report)
        except DamagedDocumentError as error:
            report.skip(error.line, error.reason)
        else:
            if not document.met:
                report.skip(1, "the export has no messages")
        if reader is None:
            raise ImportFormatError("not an OpenCode export: it has no info")
        yield from reader.close(rest)


def tell_export(data: dict[str, Any], report: Report | None = None) -> Piece:
    """The whole of an export that is already a value, as one piece.  Pure."""
    found = report or Report("", OpenCodeImporter.name)
    reader = _Reader(data["info"], found)
    whole = Piece(reader.session)
    rest = {name: value for name, value in data.items() if name != "messages"}
    pieces = [piece for message in data["messages"] for piece in reader.take(message)]
    for piece in [*pieces, *reader.close(rest)]:
        whole.items.extend(piece.items)
        whole.items.extend(piece.snapshot or ())
        whole.bodies.update(piece.bodies)
    return whole


class _Reader:
    """Tells a session's messages in the order of time, each event as soon as no later message can come before it.

    Messages are in order of creation, so what happened before the creation of the newest one is settled.
    """

    def __init__(self, info: object, report: Report) -> None:
        name = optional(info, "id")
        if not isinstance(info, dict) or not name or bounded_id(name) != name:
            raise ImportFormatError("not an OpenCode export: its info has no session id")
        self.info = cast("dict[str, Any]", info)
        self.session = name
        self.report = report
        self._piece = Piece(self.session)
        self._first: ev.SessionStarted | None = None
        self._created = time_of(self.info, "created")
        self._born = self._time = 0
        self._heap: list[tuple[int, int, ev.Event, Piece]] = []
        """What is not told yet: time, number, event, and the piece that collects its message's bodies."""
        self._number = 0
        self._given: set[Piece] = set()
        """Whose bodies the current piece has."""
        self._told: dict[str, MessageEvents] = {}
        self._parts: set[str] = set()
        self._odd: list[tuple[int, Any]] = []

    def take(self, record: Any) -> Iterator[Piece]:
        """Take in the next message; yields a piece when there is enough."""
        index = len(self._told) + len(self._odd)
        reason = oddity(record, self._told)
        if reason:
            self.report.skip(1, f"message {index + 1}: {reason}")
            self._odd.append((index, record))
            return
        self._begin(record["info"])
        own = Piece(self.session)
        told = tell(record, own.content, self._born, self._parts)
        decided = self._compactions(told)
        steps = difference(message_of([*told.items, *told.late], self.session, told.text), record, _id_of)
        told.kept = dump(steps, plain=False) if steps else None
        self.report.messages += 1
        self.report.parts += len(record["parts"]) - len(told.skipped)
        for reason in told.skipped:
            self.report.skip(1, f"message {index + 1}: {reason}")
        self._born = told.born
        self._told[told.id] = told
        for time, event in (*told.items, *told.late, *decided):
            self._number += 1
            heappush(self._heap, (time, self._number, event, own))
        told.forget()
        yield from self._settle(self._born)

    def close(self, rest: dict[str, Any]) -> Iterator[Piece]:
        """The end of the document: what is still to be told, and what is true of the snapshot as a whole."""
        started = self._begin({})
        yield from self._settle(None)
        piece = self._piece
        end = max(self._time, time_of(self.info, "updated"))
        for event in self._reverted():
            piece.add(end, event)
        snapshot = piece.snapshot = []
        title = string(self.info, "title")
        if title:
            snapshot.append((end, ev.SessionRenamed(title)))
        if time_of(self.info, "archived"):
            snapshot.append((end, ev.SessionArchived()))
        kept = ((told.id, told.kept) for told in self._told.values() if told.kept is not None)
        snapshot.extend((end, ev.ForeignKept(name, piece.content(steps))) for name, steps in kept)
        steps = difference(session_of(started, self._created, title), rest)
        steps.extend(["+", ["messages"], index, record] for index, record in self._odd)
        if steps:
            snapshot.append((end, ev.ForeignKept("session", piece.content(dump(steps, plain=False)))))
        yield piece

    def _begin(self, message: dict[str, Any]) -> ev.SessionStarted:
        """The session's first event; agent and model are those of its first message, if that is the user's."""
        if self._first is None:
            parent = self.info.get("parentID")
            self._first = ev.SessionStarted(
                directory=string(self.info, "directory"),
                agent=string(message, "agent"),
                model=model_of(message.get("model")),
                parent=parent if isinstance(parent, str) else None,
                origin=Origin("opencode", self.session, version=string(self.info, "version")),
            )
            self._piece.snapshot = []
            self._piece.add(self._created, self._first)
            self.report.sessions.append(self.session)
        return self._first

    def _settle(self, before: int | None) -> Iterator[Piece]:
        """Tell what happened before a time, or all."""
        heap = self._heap
        while heap and (before is None or heap[0][0] < before):
            time, _, event, own = heappop(heap)
            self._time = max(self._time, time)
            piece = self._piece
            piece.add(time, event)
            if own.bodies and own not in self._given:
                self._given.add(own)
                piece.bodies.update(own.bodies)
                piece.weight += own.weight
            if len(piece.items) >= PIECE_EVENTS or piece.weight >= PIECE_BYTES:
                self._piece = Piece(self.session)
                self._given.clear()
                yield piece

    def _compactions(self, told: MessageEvents) -> list[tuple[int, ev.Event]]:
        """How a summary that came to an end decides the compaction that it answers."""
        asked = self._told.get(told.parent)
        if not told.summary or told.ended is None or asked is None or asked.compaction is None:
            return []
        part, end = asked.compaction, told.ended
        order = list(self._told)
        tail = asked.tail if asked.tail in self._told and asked.tail != asked.id else None
        place = order.index(tail) if tail is not None else 0
        # A covered set that is named may hold no open message; one that a crash left open is covered by the tail alone.
        crashed = any(self._told[name].open for name in order[:place])
        through = order[place - 1] if place and not crashed else None
        started = ev.CompactionStarted(part, through, tail, None, told.model)
        if told.failure is None and told.reason is not None:
            return [(end, started), (end, ev.CompactionCompleted(part, told.id))]
        reason = told.failure.name if told.failure is not None else "unfinished"
        return [(end, started), (end, ev.CompactionFailed(part, reason, told.id))]

    def _reverted(self) -> list[ev.Event]:
        """The events that hide what a revert hides."""
        revert = self.info.get("revert")
        message, part = optional(revert, "messageID"), optional(revert, "partID")
        order = list(self._told)
        if message not in self._told:
            return []
        events: list[ev.Event] = []
        for name in order[order.index(message) :]:
            told = self._told[name]
            if told.open:
                events += [*told.closing(), ev.MessageFinished(name, None, MessageError("aborted", "reverted"))]
            if name == message and part in told.parts:
                events += [ev.PartRemoved(later) for later in told.parts[told.parts.index(part) :]]
            else:
                events.append(ev.MessageRemoved(name))
        return events


def _id_of(record: Any) -> object:
    return optional(record, "id")
