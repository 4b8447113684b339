"""Event JSONL, the lossless text form of sessions: its format and its reader.

`projections/exports/jsonl.py` writes it, `one_file.py` puts it into a store. A line that is plainly
an append is decoded straight into events.  All others are parsed first, so that damage is reported
with its reason.

Format version 1:

* First line: `{"eventlog": 1, "schema": S}`, the version of this format and the schema version of
  the events (`events`).
* `{"session": ID, "first": V}` begins the stream of a session, whose first own event has version V:
  1, or for a fork the one after its parent's.  Sessions come after those that they were forked from
  or are sub-sessions of.
* `{"version": V, "time": MS, "events": [[AFTER, EVENT], …]}` is one append: its first version, its
  time in UTC milliseconds, and each event with its time, in milliseconds after that.  `"request"`
  is the request id of the append, if it had one.  With `"more": true` the append goes on in the
  next line of this kind.
* An event is the array `[TAG, FIELD, …]` of its canonical encoding; bytes are base64, decimals
  text.  Runs of deltas are told delta by delta.
* `{"body": SHA-256 IN HEX, "text": TEXT}` is a large text, before the first append of its session
  that refers to it; with `"more": true` it goes on in the next line. One that is no text has
  `"data"` instead, in base64.
* Last line: `{"end": {"sessions": N, "events": N}}`.  A file without it was cut off.

A line with `"escaped": true` holds lone surrogates, which two JSON escapes in a row cannot tell
from a character: in every string of it U+10FFFF stands for an escape, followed by four hexadecimal
digits for a surrogate, or by itself for itself (as in `codec/batch.py`).

Not in it: positions, leases and their epochs, which belong to a store.  A damaged line ends its
session there; the other sessions are read.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, BinaryIO

import msgspec

from eventlog import events as ev
from eventlog.codec.batch import json_decoder
from eventlog.codec.redaction import bodies_of
from eventlog.codec.surrogates import escape, map_text, unescape
from eventlog.codec.upcast import upcast
from eventlog.compression import pack
from eventlog.errors import ImportFormatError, TooNewError
from eventlog.errors.base import brief
from eventlog.importers.common.importer import ImportBatch, Report
from eventlog.importers.common.json_lines import DamagedLineError, is_object, parse
from eventlog.values import Body

VERSION = 1
"""Version of the format that is written; older ones are read."""


class JsonlAppend(ImportBatch):
    """An append, or the rest of a cut one; `first` is the version of its first event."""

    __slots__ = ("first", "line", "request")

    def __init__(self, session: str, first: int, line: int, request: str | None) -> None:
        super().__init__(session)
        self.first: int = first
        self.line: int = line
        self.request: str | None = request


def line_of(value: object) -> bytes:
    """Encode a line of the file; structs become arrays."""
    try:
        return msgspec.json.encode(value) + b"\n"
    except UnicodeEncodeError:
        return msgspec.json.encode({"escaped": True, **map_text(msgspec.to_builtins(value), escape)}) + b"\n"


MAX_LINE = 512 * 1024 * 1024
"""Longest line that is read, in bytes; only one huge event makes a long line."""
MAX_HEAD = 1024
"""Longest first line."""


class EventJsonl:
    """Importer of event JSONL."""

    name = "event_jsonl"

    def detect(self, start: bytes, path: str) -> bool:
        """Whether the file begins with the first line of this format."""
        del path
        return start.startswith(b'{"eventlog":')

    def read(self, file: BinaryIO, path: str, report: Report) -> Iterator[JsonlAppend]:
        """Yield the appends in order; `TooNewError` for a file of a newer program."""
        del path
        return EventReader(report, file.readline(MAX_HEAD)).appends(file)


def _schema(line: bytes) -> int:
    try:
        head, _ = parse(line)
    except DamagedLineError as error:
        raise ImportFormatError(f"not event JSONL: {error}") from None
    version, schema = (head.get(key) for key in ("eventlog", "schema")) if is_object(head) else (None, None)
    if not isinstance(version, int) or not isinstance(schema, int):
        raise ImportFormatError("not event JSONL: the first line has no version")
    if version > VERSION:
        raise TooNewError(f"event JSONL of version {brief(version)}; this program knows up to {VERSION}")
    if schema > ev.SCHEMA:
        raise TooNewError(f"events of schema version {brief(schema)}; this program knows up to {ev.SCHEMA}")
    return schema


def _decoded(data: object) -> bytes | None:
    """Decode base64; None if it is none."""
    try:
        return b64decode(data, validate=True) if isinstance(data, str) else None
    except ValueError:
        return None


def _object(raw: bytes) -> dict[str, Any]:
    value, _ = parse(raw)
    if not is_object(value):
        raise DamagedLineError("not an object")
    found: dict[str, Any] = map_text(value, unescape) if value.get("escaped") is True else value
    return found


class _AppendLine(msgspec.Struct):
    """The line of an append."""

    version: int
    time: int
    events: list[tuple[int, ev.Event]]
    request: str | None = None
    more: bool = False
    escaped: bool = False


_APPEND = b'{"version":'


def _decoded_append(raw: bytes) -> _AppendLine | None:
    """Decode the line of an append of the current schema; None unless it is plainly one."""
    try:
        line: _AppendLine = json_decoder(_AppendLine).decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, RecursionError):
        return None
    return None if line.escaped else line


def _converted_append(value: dict[str, Any], schema: int) -> _AppendLine:
    """Return the append of a parsed line; its events may be of an older schema."""
    try:
        if schema != ev.SCHEMA:
            value["events"] = [[after, upcast(fields, schema, ev.SCHEMA)] for after, fields in value["events"]]
        return msgspec.convert(value, _AppendLine)
    except (msgspec.ValidationError, LookupError, TypeError, ValueError) as error:
        raise DamagedLineError(f"an append that does not fit: {error}") from None


class EventReader:
    """Reads one file behind its first line."""

    def __init__(self, report: Report, first_line: bytes) -> None:
        self.report = report
        self.schema: int = _schema(first_line)
        self.lines: int = 1
        self.session: str | None = None
        """Session whose stream is read; None before the first, and after damage."""
        self.expected: int = 0
        """Version of the next event."""
        self.sessions: int = 0
        self.events: int = 0
        self.known: set[bytes] = set()
        """Digests of the bodies that the session's appends have referred to."""
        self.ended: bool = False
        self.digest: str | None = None
        """Digest of the body that is being read, which has `text` so far."""
        self.text: list[str | bytes] = []
        self.waiting: dict[bytes, bytes] = {}
        """Packed bodies that no append has referred to yet."""

    def appends(self, file: BinaryIO) -> Iterator[JsonlAppend]:
        """Yield the appends of the lines that follow."""
        while raw := file.readline(MAX_LINE):
            self.lines += 1
            if not raw.endswith(b"\n") and len(raw) == MAX_LINE:
                self.report.skip(self.lines, f"a line of more than {MAX_LINE} bytes")
                while raw and not raw.endswith(b"\n"):
                    raw = file.readline(MAX_LINE)
                self.session = None
                continue
            batch = self.read_line(self.lines, raw)
            if batch is not None:
                yield batch
        if not self.ended:
            self.report.skip(self.lines, "the file ends without its last line: it was cut off")

    def read_line(self, number: int, raw: bytes) -> JsonlAppend | None:
        """Read a line; return the append that it is, if it is one."""
        try:
            if raw.startswith(_APPEND) and self.schema == ev.SCHEMA and (line := _decoded_append(raw)) is not None:
                # An append without this tag refers to no body.
                return self._append(number, line, refers=b'"b"' in raw or b"\\u0062" in raw)
            value = _object(raw)
            if "events" in value:
                return self._append(number, _converted_append(value, self.schema), refers=True)
            if "body" in value:
                self._body(value)
            elif "session" in value:
                self._begin(value)
            else:
                self._end(number, value)
        except DamagedLineError as error:
            session = self.session
            lost = f"; the rest of session {brief(session)} is not imported" if session else ""
            self.report.skip(number, f"{error}{lost}")
            self.session = None
        return None

    def _begin(self, value: dict[str, Any]) -> None:
        session, first = value["session"], value.get("first")
        if not isinstance(session, str) or not isinstance(first, int) or first < 1:
            raise DamagedLineError("a session without id or first version")
        self.session, self.expected, self.known = session, first, set()
        self.sessions += 1
        self.digest, self.text, self.waiting = None, [], {}

    def _end(self, number: int, value: dict[str, Any]) -> None:
        written = value.get("end")
        if not is_object(written):
            raise DamagedLineError("a line of no known kind")
        self.ended = True
        found = {"sessions": self.sessions, "events": self.events}
        if written != found:
            self.report.skip(number, f"the file was written with {brief(dict(written))}, and {found} could be read")

    def _body(self, value: dict[str, Any]) -> None:
        digest, text = value["body"], value.get("text")
        if self.session is None:
            return
        piece = _decoded(value.get("data")) if text is None else text
        if not isinstance(digest, str) or not isinstance(piece, (str, bytes)) or self.digest not in {None, digest}:
            raise DamagedLineError("a body without digest or text, or in the middle of another")
        self.digest = digest
        self.text.append(piece)
        if value.get("more") is True:
            return
        data = b"".join(
            [each.encode("utf-8", "surrogatepass") if isinstance(each, str) else each for each in self.text]
        )
        self.digest, self.text = None, []
        if sha256(data).hexdigest() != digest:
            raise DamagedLineError("a body that is not what was written")
        self.waiting[bytes.fromhex(digest)] = pack(data)

    def _append(self, number: int, line: _AppendLine, *, refers: bool) -> JsonlAppend | None:
        if self.session is None:
            return None
        if line.version != self.expected:
            raise DamagedLineError(f"version {self.expected} is missing")
        if not line.events:
            raise DamagedLineError("an append without events")
        batch = JsonlAppend(self.session, line.version, number, None if line.more else line.request)
        batch.items = [(line.time + after, event) for after, event in line.events]
        kinds = [type(event) for _, event in line.events]
        if refers:
            for _, event in line.events:
                for body in bodies_of(event) if type(event) is not ev.PartDelta else ():
                    self._refer(batch, body)
        self.report.messages += kinds.count(ev.UserMessageAdded) + kinds.count(ev.AssistantMessageStarted)
        self.report.parts += kinds.count(ev.PartStarted)
        self.expected += len(kinds)
        self.events += len(kinds)
        return batch

    def _refer(self, batch: JsonlAppend, body: Body) -> None:
        packed = self.waiting.pop(body.digest, None)
        if packed is not None:
            batch.bodies[body.digest] = packed
            batch.weight += len(packed)
            self.known.add(body.digest)
        elif body.digest not in self.known:
            raise DamagedLineError(f"the body {body.digest.hex()} is missing")
