"""Recorded provider streams: the records of a file, and the session that one stream makes.

A file is server-sent events (`data: {…}` between blank lines), or one JSON value a line, as some recorders write it.
What a record means is the business of `importers/anthropic/sse.py` and `importers/openai/chat_sse.py`; other providers' streams are named
here, so that a file of theirs is refused instead of misread.

Every record is kept so that `emit` gives it back (`stream_remainder.py`), `[DONE]` too, as a text.

A stream has no identity of its own that is safe to use (recordings of one request are kept under many names), so its
session is named after the format and the path.  It has no times either: the n-th record is given n milliseconds after
`created`, if the provider sends that, or after 1970.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import Any, BinaryIO, NamedTuple

from eventlog import events as ev
from eventlog.importers.common.importer import ImportBatch, Report, bounded_id, path_identity
from eventlog.importers.common.json_lines import DamagedLineError, Line, is_array, is_object, lines, parse, sound
from eventlog.importers.common.stream_remainder import StreamRemainder
from eventlog.values import Model, Origin

__all__ = ["DONE", "Record", "StreamImporter", "StreamReader", "StreamSession", "kind_of_stream", "records"]

DONE = "[DONE]"

STRANGE = 3
"""How many more lines that are none of a stream than records its beginning may have."""

_FIELDS = (b"event:", b"id:", b"retry:", b":")


class Record(NamedTuple):
    """One record of a stream: a JSON object, or None for the `[DONE]` that ends some."""

    line: int
    value: dict[str, Any] | None
    plain: bool = True


def records(file: BinaryIO, report: Report) -> Iterator[Record]:
    """The records of the file in order; what is damaged is reported."""
    data: list[Line] = []
    for line in lines(file, blank=True):
        if line.data is None:
            report.skip(line.number, "longer than 32 MiB")
        elif line.data.startswith(b"data:"):
            data.append(line._replace(data=line.data[5:].strip(b" \t\r\n")))
        elif line.data.startswith(b"{"):
            yield from _dispatch(data, report)
            yield from _dispatch([line], report)
            data = []
        elif not line.data or line.data.startswith(_FIELDS):
            yield from _dispatch(data, report)
            data = []
        else:
            report.skip(line.number, "not a line of a stream")
    yield from _dispatch(data, report)


def _dispatch(data: list[Line], report: Report) -> Iterator[Record]:
    """The record in the data lines of one event; several whole records in it are taken one by one."""
    if len(data) > 1:
        whole = b"\n".join(line.data or b"" for line in data)
        try:
            value, plain = parse(whole)
        except DamagedLineError:
            pass
        else:
            if is_object(value):
                yield Record(data[0].number, value, plain)
                return
    for line in data:
        if not line.data:
            continue
        if line.data == DONE.encode():
            yield Record(line.number, None)
            continue
        found = sound(line, report)
        if found is None:
            continue
        value, plain = found
        if is_object(value):
            yield Record(line.number, value, plain)
        else:
            report.skip(line.number, "not an object")


def kind_of_stream(start: bytes) -> str:
    """Whose stream a file is that begins with these bytes: a format's name, or "" for none that is known."""
    strange = 0
    for line in start.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        data = line.removeprefix(b"data:").strip()
        if line.startswith(b"{") or (line.startswith(b"data:") and data.startswith(b"{")):
            strange -= 1
        elif not data or line.startswith((b"data:", *_FIELDS)):
            continue
        else:  # what is indented is within something else
            strange += 1
            if strange > STRANGE:
                return ""
            continue
        try:
            value, _ = parse(data)
        except DamagedLineError:
            found = _kind_of_start(data)
        else:
            found = _kind(value) if is_object(value) else ""
        if found:
            return found
    return ""


def _kind(record: dict[str, Any]) -> str:
    kind = record.get("type")
    if kind in {"message_start", "content_block_start", "content_block_delta"}:
        return "anthropic_sse"
    if record.get("object") == "chat.completion.chunk":
        return "openai_chat_sse"
    if isinstance(kind, str) and kind.startswith("response."):
        return "openai_responses_sse"
    if "candidates" in record:
        return "gemini_stream"
    if record.keys() & {"messageStart", "contentBlockStart", "contentBlockDelta"}:
        return "bedrock_stream"
    if "done" in record and "model" in record and "created_at" in record:
        return "ollama_stream"
    if "choices" in record and is_array(record["choices"]) and "id" in record:
        choices = record["choices"]
        if not choices or (is_object(choices[0]) and "delta" in choices[0]):
            return "openai_chat_sse"
    return ""


def _kind_of_start(data: bytes) -> str:
    """The same for a line that breaks off or is damaged, by its beginning."""
    head = data[:400].replace(b" ", b"")
    if head.startswith((b'{"type":"message_start"', b'{"type":"content_block_')):
        return "anthropic_sse"
    if head.startswith(b'{"type":"response.'):
        return "openai_responses_sse"
    return "openai_chat_sse" if b'"object":"chat.completion.chunk"' in head else ""


class StreamSession:
    """The session of one stream while it is read, and the batch that is being filled."""

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
        """The next record: a millisecond later; the first `created` (UTC seconds) is where time begins."""
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

    def keep(self, record: Record) -> None:
        """End the record: what events do not have of it is kept."""
        value = DONE if record.value is None else record.value
        if self.remainder.full():
            self._begin()
        for number, text in enumerate(self.remainder.close(record.line, value, plain=record.plain, begun=self._begun)):
            self._aside(f"line:{record.line}:{number}", text)
        if self._begun and (self.remainder.due() or record.value is None):
            self._aside(f"lines:{self.remainder.first}", self.remainder.data())
            self.remainder.clear()

    def _aside(self, of: str, text: str) -> None:
        self.batch.add(self._base + self._time, ev.ForeignKept(of, self.batch.content(text)))

    def take(self) -> ImportBatch:
        """The batch filled so far; a new one begins."""
        batch, self.batch = self.batch, ImportBatch(self.id)
        self.batch.snapshot = []
        return batch

    def last(self) -> ImportBatch:
        """The last batch, with the records that no batch has yet; it has no events when the file has no conversation."""
        batch = self.take()
        if self._begun and self.remainder.left():
            kept = ev.ForeignKept(f"tail:{self.remainder.first}", batch.content(self.remainder.data()))
            batch.snapshot = [(self._base + self._time, kept)]
        return batch

    def fresh(self, wanted: str) -> str:
        """An id not used before in the stream: the wanted one, or one made from it."""
        name, number = bounded_id(wanted), 1
        while name in self._ids:
            number += 1
            name = bounded_id(f"{wanted}#{number}")
        self._ids.add(name)
        return name


class StreamReader(ABC):
    """Takes the records of one stream, and says in `session` what they mean."""

    def __init__(self, session: StreamSession, report: Report) -> None:
        self.session = session
        self.report = report
        self.message = ""
        """The message that is being streamed."""
        self.foreign: object = None
        """Its id in the stream."""
        self.model: Model | None = None

    @abstractmethod
    def take(self, record: Record) -> None:
        """Take in one record of the stream."""


class StreamImporter:
    """The importer of one kind of stream; `reader` makes what takes its records."""

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
            reader.take(record)
            reader.session.keep(record)
            if reader.session.batch.full():
                yield reader.session.take()
        last = reader.session.last()
        if last.items or last.snapshot:
            yield last
