"""Session of one recorded stream, and what the stream readers of all providers share.

Every record is stored so that `emit` gives it back (`stream_remainder.py`), `[DONE]` as a text too.

A stream has no identity that is safe to use, because recordings of one request exist under many
names: its session is named after the format and the path.  A stream has no times either: the n-th
record is n milliseconds after `created`, if the provider sends that, or after 1970.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import BinaryIO

from eventlog import events as ev
from eventlog.importers.common.importer import ImportBatch, Report, bounded_id, own_id, path_identity
from eventlog.importers.common.json_lines import DamagedLineError, parse
from eventlog.importers.common.sse import DONE, Record, kind_of_stream, records
from eventlog.importers.common.stream_remainder import StreamRemainder
from eventlog.values import MessageError, Model, Origin

__all__ = ["StreamImporter", "StreamReader", "StreamSession"]


class StreamSession:
    """Session of one stream while it is read, and the batch that is being filled."""

    def __init__(self, name: str, path: str, report: Report) -> None:
        self.report = report
        identity = path_identity(path)
        digest = sha256(identity.encode("utf-8", "surrogateescape")).hexdigest()
        self.id = f"{name}-{digest[:26]}"
        self._started = ev.SessionStarted(os.path.basename(path), origin=Origin(name, identity, identity))  # noqa: PTH119  # not always a path
        self.batch = ImportBatch(self.id)
        self.batch.snapshot = []
        self.remainder = StreamRemainder()
        self._begun = False
        self._ids: set[str] = set()
        self._base = 0
        self._time = 0

    def tick(self, created: object = None) -> None:
        """Advance the time to the next record's: one millisecond later.

        The first `created` (UTC seconds) sets where time begins.
        """
        self._time += 1
        if not self._base and isinstance(created, int) and not isinstance(created, bool) and 0 < created < 1 << 40:
            self._base = created * 1000
            self._time = 0

    def add(self, event: ev.Event) -> None:
        """Append an event at the time of the record that is being read."""
        self._begin()
        self.batch.add(self._base + self._time, event)
        self.remainder.event(event)

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self.report.sessions.append(self.id)
            self.batch.add(self._base + self._time, self._started)
            self.remainder.event(self._started)

    def end_record(self, record: Record) -> None:
        """End the record: what events do not have of it is kept."""
        value = DONE if record.value is None else record.value
        if self.remainder.full():
            self._begin()
        for number, text in enumerate(self.remainder.close(record.line, value, plain=record.plain, begun=self._begun)):
            self._keep_aside(f"line:{record.line}:{number}", text)
        if self._begun and (self.remainder.due() or record.value is None):
            self._keep_aside(f"lines:{self.remainder.first}", self.remainder.data())
            self.remainder.clear()

    def _keep_aside(self, of: str, text: str) -> None:
        self.batch.add(self._base + self._time, ev.ForeignKept(of, self.batch.content(text)))

    def pop_batch(self) -> ImportBatch:
        """Return the batch filled so far and begin a new one."""
        batch, self.batch = self.batch, ImportBatch(self.id)
        self.batch.snapshot = []
        return batch

    def last_batch(self) -> ImportBatch:
        """Return the last batch, with the records that no stored remainder has yet.

        It has no events when the file has no conversation.
        """
        batch = self.pop_batch()
        if self._begun and self.remainder.has_records():
            kept = ev.ForeignKept(f"tail:{self.remainder.first}", batch.content(self.remainder.data()))
            batch.snapshot = [(self._base + self._time, kept)]
        return batch

    def new_id(self, wanted: str) -> str:
        """Return an unused id: the wanted one, or one made from it."""
        name, number = bounded_id(wanted), 1
        while name in self._ids:
            number += 1
            name = bounded_id(f"{wanted}#{number}")
        self._ids.add(name)
        return name


class StreamReader(ABC):
    """Reader of one stream: adds the events of its records to `session`."""

    def __init__(self, session: StreamSession, report: Report) -> None:
        self.session = session
        self.report = report
        self.message = ""
        """The message that is being streamed."""
        self.foreign: object = None
        """Its id in the stream."""
        self.model: Model | None = None
        self.parts = 0
        """How many parts `new_part` has named."""

    def begin_message(self, line: int, foreign: object, model: object, provider: str = "") -> None:
        """Begin an assistant message with the id and model of the stream, if it has them."""
        self.foreign = foreign
        self.message = self.session.new_id(foreign if isinstance(foreign, str) and foreign else f"message-{line}")
        self.model = Model(provider, model) if isinstance(model, str) and model else None
        self.parts = 0
        self.session.remainder.begin_message()
        self.session.add(ev.AssistantMessageStarted(self.message, model=self.model))
        self.session.add(ev.StepStarted(self.message, own_id(self.message, "step")))
        self.report.messages += 1

    def new_part(self) -> str:
        """Return the id of the message's next part, and count it."""
        part = own_id(self.message, str(self.parts))
        self.parts += 1
        self.report.parts += 1
        return part

    def run_call(self, line: int, part: str, text: str) -> bool:
        """Start a call whose input has ended; False, and a report, if it is no whole JSON."""
        try:
            parse(text.encode("utf-8", "surrogatepass"))
        except DamagedLineError:
            self.report.skip(line, "a call whose input is not whole: it stays pending")
            return False
        self.session.add(ev.ToolRunning(part, self.session.batch.content(text)))
        return True

    @property
    def finish_part(self) -> str:
        """Id of the part that finishes the message's step."""
        return own_id(self.message, "finish")

    def finish_step(self, reason: str) -> None:
        """Finish the message's step."""
        self.session.add(ev.StepFinished(self.message, self.finish_part, reason))

    def fail(self, error: MessageError) -> None:
        """Finish the message with an error."""
        self.finish_step("error")
        self.session.add(ev.MessageFinished(self.message, "error", error))

    @abstractmethod
    def read_record(self, record: Record) -> None:
        """Add the events of one record."""


class StreamImporter:
    """Importer of one kind of stream; `reader` makes the reader of its records."""

    def __init__(self, name: str, reader: Callable[[StreamSession, Report], StreamReader]) -> None:
        self.name = name
        self._reader = reader

    def detect(self, start: bytes, path: str) -> bool:
        """Whether the first record is one of this kind of stream."""
        del path
        return kind_of_stream(start) == self.name

    def read(self, file: BinaryIO, path: str, report: Report) -> Iterator[ImportBatch]:
        """Yield the stream's events."""
        reader = self._reader(StreamSession(self.name, path, report), report)
        for record in records(file, report):
            reader.read_record(record)
            reader.session.end_record(record)
            if reader.session.batch.full():
                yield reader.session.pop_batch()
        last = reader.session.last_batch()
        if last.items or last.snapshot:
            yield last
