"""Importer of recorded streams of four APIs, answer by answer.

The readers of live answers read the records (`eventlog.streams`); `answer.py` makes events of their
steps. Fields that no step has are kept in `ForeignKept` events, named after the part that they are
about, so that a redaction reaches them, or `record:LINE`.

An answer ends with the record that says so, or with `[DONE]`; later ones may correct its usage.
Another begins with a record that starts one, or has content under another id.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

from eventlog import events as ev
from eventlog.errors import StreamError, UnknownStreamError
from eventlog.importers.common.importer import ImportBatch, Report
from eventlog.importers.common.json_lines import dump, is_array
from eventlog.importers.streams.answer import ImportedAnswer, ImportedCall
from eventlog.importers.streams.session import StreamSession
from eventlog.importers.streams.sse import Record, kind_of_stream, records
from eventlog.streams.answer import API, is_known
from eventlog.streams.records import object_of, objects_of, text_of
from eventlog.streams.steps import Attached, Called, Said, Step, Used
from eventlog.values import MessageError, Model

STREAMS: dict[str, tuple[API, str]] = {
    "anthropic_sse": ("anthropic", "anthropic"),
    "openai_chat_sse": ("openai-chat", ""),
    "openai_responses_sse": ("openai-responses", ""),
    "gemini_stream": ("gemini", "google"),
}
"""API and provider of each format; compatible servers are of many providers."""
_STARTS = frozenset({"message_start", "response.created"})


class StreamImporter:
    """Importer of one format."""

    def __init__(self, name: str) -> None:
        self.name = name

    def detect(self, start: bytes, path: str) -> bool:
        """Whether the first record is one of this kind of stream."""
        del path
        return kind_of_stream(start) == self.name

    def read(self, file: BinaryIO, path: str, report: Report) -> Iterator[ImportBatch]:
        """Yield the stream's events."""
        stream = _Stream(self.name, StreamSession(self.name, path, report))
        for record in records(file, report):
            stream.read(record)
            if stream.session.batch.full():
                yield stream.session.pop_batch()
        last = stream.session.pop_batch()
        if last.items:
            yield last


class _About(NamedTuple):
    """The fields of a record that are about its answer."""

    id: str
    model: str
    created: object

    @classmethod
    def of(cls, value: dict[str, Any]) -> _About:
        inner = object_of(value.get("message")) or object_of(value.get("response")) or value
        return cls(
            text_of(inner.get("id")) or text_of(inner.get("responseId")),
            text_of(inner.get("model")) or text_of(inner.get("modelVersion")),
            inner.get("created", inner.get("created_at")),
        )


class _Stream:
    """The answers of one stream."""

    def __init__(self, name: str, session: StreamSession) -> None:
        self.session = session
        self.report = session.report
        api, self._provider = STREAMS[name]
        self._api: API = api
        self._hosted: dict[object, ImportedCall] = {}
        self._answer = self._another()
        self._system = ""
        self._tools = ""
        self._choices: set[object] = set()
        """Numbers of the choices that were reported."""

    def _another(self) -> ImportedAnswer:
        return ImportedAnswer(self.session, self._api, self._hosted)

    def read(self, record: Record) -> None:
        """Add the events of one record."""
        value = record.value
        if value is None:
            self.session.tick(None)
            if self._answer.message and not self._answer.is_done:
                self._answer.end(record.line)
            self._answer = self._another()
            return
        about = _About.of(value)
        self.session.tick(about.created)
        if self._begins_another(record.line, value, about):
            self._answer = self._another()
        self._answer.touched = ""
        try:
            self._take(record.line, value, about)
        except StreamError as error:
            if self._answer.is_done:
                self._answer = self._another()
            self._begin(record.line, about)
            self._answer.fail(MessageError(error.code or "unknown", error.said, dump(value, plain=record.plain)))
        except (ConnectionError, UnknownStreamError) as error:
            self.report.skip(record.line, str(error))
            if self._answer.message and not self._answer.is_done and _is_cancelled(value):
                self._answer.fail(MessageError("aborted"))
        except (TypeError, ValueError, LookupError, AttributeError):  # readers take chunks of sound shapes
            self.report.skip(record.line, "a record of another shape: it is kept, and not read")
        rest = self.session.rests.rest_of(value, plain=record.plain)
        if rest is not None:
            of = self._answer.touched or self._about_part(value) or f"record:{record.line}"
            self.session.add(ev.ForeignKept(of, self.session.batch.content(rest)))

    def _begins_another(self, line: int, value: dict[str, Any], about: _About) -> bool:
        answer = self._answer
        if not answer.message:
            return False
        if text_of(value.get("type")) in _STARTS:
            if answer.is_done or about.id != answer.foreign:
                return True
            self.report.skip(line, "the message was started already")
            return False
        has_content = bool(value.get("choices") or value.get("candidates"))
        return answer.is_done and has_content and about.id not in {"", answer.foreign}

    def _take(self, line: int, value: dict[str, Any], about: _About) -> None:
        """Carry out the steps of a record."""
        answer = self._answer
        if answer.is_done:
            steps = answer.reader.take(value)
            if not any(isinstance(step, (Said, Called, Attached)) for step in steps):
                self._correct(line, steps)
                return
            self.report.skip(line, "content behind the end of its message: a message of its own")
            answer = self._answer = self._another()
        if not is_known(value) and "error" not in value and value.get("type") != "error":
            self.report.skip(line, f"a record of unknown type {text_of(value.get('type'))[:40]!r}")
            return
        if about.id:
            self._begin(line, about)
            self._settings(object_of(value.get("response")))
        self._report_choices(line, value)
        for step in answer.reader.steps(value):
            self._begin(line, about)
            answer.carry_out(line, step)
        if answer.message and answer.reader.is_over:
            answer.end(line)

    def _correct(self, line: int, steps: list[Step]) -> None:
        """Carry out the steps behind the end: usage that was corrected, or told late."""
        for step in steps:
            if isinstance(step, Used):
                self._answer.carry_out(line, step)
            else:
                self.report.skip(line, "a piece behind the end of its message")

    def _begin(self, line: int, about: _About) -> None:
        if not self._answer.message:
            self._answer.begin(line, about.id, Model(self._provider, about.model) if about.model else None)

    def _settings(self, response: dict[str, Any]) -> None:
        """Set the system prompt and the tools that a response names, if they changed."""
        system, tools = response.get("instructions"), response.get("tools")
        if isinstance(system, str):
            self.session.rests.hold(system)
            if system != self._system:
                self._system = system
                self.session.add(ev.SystemPromptSet(self.session.batch.content(system)))
        if is_array(tools) and tools:
            self.session.rests.hold(tools)
            if (text := dump(tools)) != self._tools:
                self._tools = text
                self.session.add(ev.ToolsSet(self.session.batch.content(text)))

    def _report_choices(self, line: int, value: dict[str, Any]) -> None:
        for choice in objects_of(value.get("choices") or value.get("candidates")):
            number = choice.get("index")
            if isinstance(number, int) and number and number not in self._choices:
                self._choices.add(number)
                self.report.skip(line, f"choice {number} and its later chunks: only choice 0 is imported")

    def _about_part(self, value: dict[str, Any]) -> str:
        """Return the part of the call whose piece a record without steps has; "" for others."""
        item = text_of(value.get("item_id"))
        return self._answer.part_of(item) if text_of(value.get("type")).endswith(".delta") else ""


def _is_cancelled(value: dict[str, Any]) -> bool:
    response = object_of(value.get("response")) or value
    return response.get("status") == "cancelled" or value.get("type") == "response.cancelled"
