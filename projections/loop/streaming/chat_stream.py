"""Read the answer of an OpenAI-compatible endpoint as pieces: server-sent events, or JSON.

Pure: bytes in, pieces out.  Errors hold no text of the answer and no words of a provider, which may
repeat a key; only its error code, if that is one word.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, cast

import msgspec

from eventlog.errors import RequestTooLargeError, SummarizerError, SummarizerRefusedError, UnknownStreamError
from eventlog.streams.tokens import chat_usage
from projections.loop.streaming.chat_text import said_by, texts_of
from projections.loop.streaming.stream_api import is_chat
from projections.window.compaction.summarizer import Piece, ToolCalled

__all__ = [
    "LARGEST_REFUSAL",
    "LARGEST_STREAM",
    "LARGEST_WHOLE",
    "error_code",
    "is_too_large",
    "pieces_of_answer",
    "pieces_of_stream",
    "refused",
    "unpacked",
]

LONGEST_EVENT = 4 * 1024 * 1024
"""Bytes of one event of a stream at most; a summary has some thousands."""
MOST_EVENTS = 1_000_000
"""Most events of a stream: several times the tokens of any model's longest answer.

Reasoning is included.
"""
LARGEST_STREAM = 256 * 1024 * 1024
"""Most bytes of a streamed answer, as they come and as they are unpacked.

Some hundreds for each token.
"""
LARGEST_WHOLE = 16 * 1024 * 1024
"""Bytes at most of an answer that is read as a whole."""
LARGEST_REFUSAL = 1024 * 1024
"""Bytes that are read of an answer that says why there is none."""
_PIECE = 1024 * 1024
"""Bytes that are unpacked at a time."""

_CODE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,60}")
_SIZE = re.compile(
    r"context[ _-]?(?:length|window)|maximum context|prompt is too long|input is too long|too many (?:input )?tokens|request too large",
    re.IGNORECASE,
)
"""How providers say that a request is too large when they have no code for it."""


def pieces_of_stream(chunks: Iterable[bytes]) -> Iterator[Piece]:
    """The pieces of a streamed answer.

    `SummarizerError` if the stream breaks off, is no stream, or tells of an error;
    `SummarizerRefusedError` if the answer was cut short (`length`) or withheld (`content_filter`);
    what comes after that reason, its usage, is given first.
    """
    ended: str | None = None
    done = known = False
    for number, data in enumerate(_events(chunks)):
        if number == MOST_EVENTS:
            raise SummarizerRefusedError(f"the answer to the request for a summary has more than {MOST_EVENTS} events")
        if data == b"[DONE]":
            done = True
            break
        record = _object(data)
        if record.get("error"):
            raise _stream_error(record)
        known = known or _is_chat(record)
        for choice in _objects(record.get("choices")):
            yield from _said(choice)
            ended = _text(choice.get("finish_reason")) or ended
        if isinstance(record.get("usage"), dict):
            yield chat_usage(record["usage"])
    _end(ended, done=done)


def unpacked(chunks: Iterable[bytes], encoding: str, most: int) -> Iterator[bytes]:
    """Yield an answer's decompressed bytes; `SummarizerRefusedError` if there are over `most`."""
    name = encoding.strip().lower()
    if name in {"", "identity"}:
        yield from _bounded(chunks, most)
    elif name in {"gzip", "x-gzip", "deflate"}:
        yield from _bounded(_inflated(_bounded(chunks, most), bare=name == "deflate"), most)
    else:
        raise SummarizerRefusedError(
            "the answer to the request for a summary is packed in a way that the request did not ask for"
        )


def _bounded(chunks: Iterable[bytes], most: int) -> Iterator[bytes]:
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > most:
            raise SummarizerRefusedError(f"the answer to the request for a summary has more than {most} bytes")
        yield chunk


def _inflated(chunks: Iterable[bytes], *, bare: bool) -> Iterator[bytes]:
    """Yield inflated bytes; `bare`: the deflate header may be missing."""
    inflater = zlib.decompressobj(zlib.MAX_WBITS | 32)
    first = True
    try:
        for chunk in filter(None, chunks):
            if first and bare and chunk[0] & 15 != zlib.DEFLATED:
                inflater = zlib.decompressobj(-zlib.MAX_WBITS)
            first = False
            left = chunk
            while left and not inflater.eof:
                yield inflater.decompress(left, _PIECE)
                left = inflater.unconsumed_tail
    except zlib.error:
        raise SummarizerError("the answer to the request for a summary cannot be unpacked") from None


def pieces_of_answer(data: bytes) -> Iterator[Piece]:
    """The pieces of an answer that was not streamed, from an endpoint that does not stream."""
    record = _object(data)
    if record.get("error"):
        raise _stream_error(record)
    _is_chat(record)
    ended: str | None = None
    for choice in _objects(record.get("choices")):
        yield from _said(choice)
        ended = _text(choice.get("finish_reason")) or ended
    if isinstance(record.get("usage"), dict):
        yield chat_usage(record["usage"])
    _end(ended, done=bool(record.get("choices")))


def refused(status: int, body: bytes) -> SummarizerRefusedError:
    """The error for an answer with a status that is no use to try again."""
    code = error_code(body)
    if is_too_large(status, body):
        return RequestTooLargeError(
            f"the request for a summary was refused for its size (HTTP {status})", status=status
        )
    said = f", {code}" if code else ""
    return SummarizerRefusedError(f"the request for a summary was refused (HTTP {status}{said})", status=status)


def is_too_large(status: int, body: bytes) -> bool:
    """Whether a refusal is for the size of the request."""
    if status == 413 or error_code(body) == "context_length_exceeded":
        return True
    return status in {400, 422} and _SIZE.search(body.decode("utf-8", "replace")) is not None


def error_code(body: bytes) -> str | None:
    """The provider's word for the error, if it is one word."""
    try:
        record: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    found = cast("dict[str, Any]", record).get("error") if isinstance(record, dict) else None
    error = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    return next(
        (word for name in ("code", "type") if (word := _text(error.get(name))) and _CODE.fullmatch(word)),
        None,
    )


# -- helpers -----------------------------------------------------------------------------------


def _events(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the data of each event.

    Lines end at line feeds only: JSON may hold other characters that end lines elsewhere.
    """
    rest = b""
    data: list[bytes] = []
    size = 0
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            text = line.removesuffix(b"\r")
            if text.startswith(b"data:"):
                data.append(text[5:].strip())
                size += len(text)
            elif not text and data:
                yield b"\n".join(data)
                data, size = [], 0
        if len(rest) + size > LONGEST_EVENT:
            raise SummarizerError("the answer to the request for a summary is no stream of events")
    if rest.startswith(b"data:"):
        data.append(rest[5:].strip())
    if data:
        yield b"\n".join(data)


def _object(data: bytes) -> dict[str, Any]:
    try:
        record: Any = msgspec.json.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        raise SummarizerError("the answer to the request for a summary is not JSON")
    return cast("dict[str, Any]", record)


def _is_chat(record: dict[str, Any]) -> bool:
    """Return whether a record is known; `SummarizerRefusedError` for one of another API."""
    try:
        return is_chat(record)
    except UnknownStreamError as error:
        raise SummarizerRefusedError(str(error)) from None


def _said(choice: dict[str, Any]) -> Iterator[Piece]:
    """Yield the pieces of a choice; reasoning is no part of a summary."""
    try:
        delta, texts = said_by(choice), [*texts_of(choice)]
    except UnknownStreamError as error:
        raise SummarizerRefusedError(str(error)) from None
    yield from (text for kind, text in texts if kind == "text")
    calls = _objects(delta.get("tool_calls"))
    if isinstance(delta.get("function_call"), dict):
        calls.append({"function": delta["function_call"]})
    for call in calls:
        function = call.get("function")
        name = _text(cast("dict[str, Any]", function).get("name")) if isinstance(function, dict) else None
        if name:  # later pieces of a call have no name
            yield ToolCalled(name)


def _end(reason: str | None, *, done: bool) -> None:
    """Raise unless the answer came to its end."""
    if reason is None and not done:
        raise SummarizerError("the answer to the request for a summary broke off")
    if reason in {"length", "content_filter"}:
        raise SummarizerRefusedError(f"the summary was not written to its end ({reason})")


def _stream_error(record: dict[str, Any]) -> SummarizerError | SummarizerRefusedError:
    body = msgspec.json.encode(record)
    code = error_code(body)
    if code == "context_length_exceeded" or is_too_large(400, body):
        return RequestTooLargeError("the request for a summary was refused for its size", status=None)
    return SummarizerError(f"the answer to the request for a summary ended in an error{f' ({code})' if code else ''}")


def _objects(value: object) -> list[dict[str, Any]]:
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("dict[str, Any]", item) for item in items if isinstance(item, dict)]


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
