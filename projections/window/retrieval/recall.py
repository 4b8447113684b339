"""Recall what the view no longer shows: truncated, pruned or covered text, by its id.

Nothing is appended.  Only the part or message itself is read (`part_text.py`), however long the
history is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, cast

import msgspec

from eventlog.errors import CallError, NotFoundError
from eventlog.errors.base import brief
from eventlog.session.session import Session
from eventlog.validation import require, require_or_none
from projections.tokens.counter import utf8_length
from projections.transcript.message import TranscriptMessage, TranscriptPart
from projections.window.retrieval.excerpts import Match, bytes_of, lines_of, matches_in
from projections.window.retrieval.part_text import gone, read_message, read_part, read_url
from projections.window.retrieval.truncation import count_lines

_SILENT = {"step-start", "step-finish", "snapshot", "compaction"}
"""Kinds of parts that say nothing."""


class RecallResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """A recalled text, its size, and the range or matches that were asked for.

    Ranges are those that `text` really has; None where none was asked for.
    """

    id: str
    kind: str
    """"message", or the kind of the part: "text", "tool", "file" …"""
    lines: int
    """Lines of the whole."""
    size: int
    """Bytes of the whole (UTF-8)."""
    text: str = ""
    """The whole, or the range; empty for a search."""
    line_range: tuple[int, int] | None = None
    """First and last line, counted from 1."""
    byte_range: tuple[int, int] | None = None
    """First byte, counted from 0, and the one behind the last."""
    matches: tuple[Match, ...] = ()
    more: bool = False
    """Whether more lines match than were asked for."""
    parts: tuple[str, ...] = ()
    """The parts of a message, each to be recalled by itself."""
    open: bool = False
    """Whether it has not ended, so that more may come."""


def recall(
    session: Session,
    name: str,
    *,
    lines: tuple[int, int] | None = None,
    bytes: tuple[int, int] | None = None,
    search: str | None = None,
    regex: bool = False,
    ignore_case: bool = False,
    context: int = 0,
    most: int = 50,
    field: Literal["output", "input"] = "output",
) -> RecallResult:
    """Return a part or message of this id: whole, by lines or bytes, or by a search.

    It is read as it was said, also if a prune cleared it. Of a tool part it is the whole output, or
    the error of one that failed; with `field` "input" its arguments as JSON. Of a file it is the
    address, a `data:` URL with its bytes. `search` looks for a plain text, or with `regex` for a
    regular expression, which is trusted not to run for ever; it gives at most `most` lines with
    `context` lines around each. `lines` and `bytes` are (first, last) from 1; `ignore_case` is for
    a search. Raises `NotFoundError` for an id that names no part or message that counts now, and
    `CallError` for more than one kind of excerpt, or one that cannot be had.
    """
    require(Session, session, "a session is a Session")
    require(str, name, "an id is a str")
    require_or_none(str, search, "what is searched for is a str")
    for what, given in (("lines", lines), ("bytes", bytes)):
        _require_range(what, given)
    for number in (context, most):
        require(int, number, "context and most are whole numbers")
    if field not in ("output", "input"):
        raise CallError(f"a field is output or input, not {brief(field)}")
    if sum(wanted is not None for wanted in (lines, bytes, search)) > 1:
        raise CallError("recall gives lines, or bytes, or the matches of a search; ask for one of them")
    found = _whole(session, name, field)
    if lines is not None:
        excerpt = lines_of(found.text, *lines)
        return msgspec.structs.replace(found, text=excerpt.text, line_range=(excerpt.first, excerpt.last))
    if bytes is not None:
        excerpt = bytes_of(found.text, *bytes)
        return msgspec.structs.replace(found, text=excerpt.text, byte_range=(excerpt.first, excerpt.last))
    if search is not None:
        matches = matches_in(found.text, search, regex=regex, ignore_case=ignore_case, context=context, most=most)
        return msgspec.structs.replace(found, text="", matches=matches.found, more=matches.more)
    return found


def _require_range(what: str, given: object) -> None:
    """`CallError` unless it is None or two whole numbers."""
    if given is None:
        return
    require((tuple, list), given, f"{what} are a pair of whole numbers")
    pair = cast("Sequence[object]", given)
    if len(pair) != 2 or not all(isinstance(number, int) for number in pair):
        raise CallError(f"{what} are a pair of whole numbers, not {brief(given)}")


def _whole(session: Session, name: str, field: Literal["output", "input"]) -> RecallResult:
    """Return all of a part or message, a message as its parts, each under a line with its id."""
    try:
        part = read_part(session, name)
    except NotFoundError:
        message = _message(session, name)
    else:
        if field == "input" and part.kind != "tool":
            raise CallError(f"a {part.kind} part has no input")
        text = _input(part) if field == "input" else _output(part)
        if part.kind == "file" and not text:
            text = read_url(session, name)
        return _recalled(name, part.kind, text, is_open=part.open)
    if field == "input":
        raise CallError("a message has no input; recall the call")
    told = [part for part in message.parts if part.kind not in _SILENT and not part.removed]
    found = _recalled(name, "message", "\n".join(map(_told, told)), is_open=any(part.open for part in told))
    return msgspec.structs.replace(found, parts=tuple(part.id for part in told))


def _message(session: Session, name: str) -> TranscriptMessage:
    try:
        return read_message(session, name)
    except NotFoundError:
        raise NotFoundError("message or part", name, session=session.id, gone=gone(session, name)) from None


def _recalled(name: str, kind: str, text: str, *, is_open: bool) -> RecallResult:
    return RecallResult(name, kind, count_lines(text), utf8_length(text), text, open=is_open)


def _output(part: TranscriptPart) -> str:
    return part.text or part.error


def _input(part: TranscriptPart) -> str:
    return part.text if part.redacted else part.input


def _told(part: TranscriptPart) -> str:
    """A part of a message: a line that names it, and what it says."""
    named = f"{part.kind} {part.tool}" if part.tool else f"{part.kind} {part.mime}" if part.mime else part.kind
    given = f"{part.input}\n" if part.kind == "tool" and part.input else ""
    return f"[{named} {part.id}]\n{given}{_output(part)}"
