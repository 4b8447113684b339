"""Records of a recorded provider stream, and the provider whose stream a file is.

A file is server-sent events (`data: {…}` between blank lines), or one JSON value a line, as some
recorders write it. Streams that no importer reads are named here, so that such a file is refused by
name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

from eventlog.importers.common.importer import Report
from eventlog.importers.common.json_lines import DamagedLineError, Line, is_array, is_object, lines, parse

DONE = b"[DONE]"

STRANGE = 3
"""Lines of no stream that a file may begin with, beyond the number of its records."""

_FIELDS = (b"event:", b"id:", b"retry:", b":")


class Record(NamedTuple):
    """One record of a stream: a JSON object, or None for the `[DONE]` that ends some."""

    line: int
    value: dict[str, Any] | None
    plain: bool = True


def records(file: BinaryIO, report: Report) -> Iterator[Record]:
    """Yield the records of the file in order; damage is reported."""
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
    """Yield the record in the data lines of one event, or each of several whole records."""
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
        if line.data == DONE:
            yield Record(line.number, None)
            continue
        try:
            value, plain = parse(line.data)
        except DamagedLineError as error:
            report.skip(line.number, str(error) if line.ended else f"incomplete last line ({error})")
            continue
        if is_object(value):
            yield Record(line.number, value, plain)
        else:
            report.skip(line.number, "not an object")


def kind_of_stream(start: bytes) -> str:
    """Return the format of the stream that begins with these bytes; "" if it is not known."""
    strange = 0
    for line in start.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        data = line.removeprefix(b"data:").strip()
        if line.startswith(b"{") or (line.startswith(b"data:") and data.startswith(b"{")):
            strange -= 1
        elif not data or line.startswith((b"data:", *_FIELDS)):
            continue
        else:  # an indented line is part of some other document
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
    """Return the format of a stream from the beginning of a damaged line; "" if not known."""
    head = data[:400].replace(b" ", b"")
    if head.startswith((b'{"type":"message_start"', b'{"type":"content_block_')):
        return "anthropic_sse"
    if head.startswith(b'{"type":"response.'):
        return "openai_responses_sse"
    return "openai_chat_sse" if b'"object":"chat.completion.chunk"' in head else ""
