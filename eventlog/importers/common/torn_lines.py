"""Whole records of a torn line, which stand behind a broken record or null bytes.

A program that dies while it writes leaves a piece of a record, and the next one is written right
behind it. Each whole record is read, and each torn piece reported with the line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

from eventlog.importers.common.importer import Report
from eventlog.importers.common.json_lines import DamagedLineError, Line, LineNumber, is_object, parse

IsRecord: TypeAlias = Callable[[dict[str, Any]], bool]
"""Whether an object is a whole record of the format, not a member of one."""

BACK = 8
"""Characters before a syntax error in which the record may begin that causes it.

The text of a torn string goes on to the first quote of the record behind it.
"""
TEARS = 256
"""Places of a line at which a record is looked for, at most: noise is no work."""
_BEGINNING = re.compile(r'\{[ \t]*"')
_SPACE = re.compile(r"[ \t\r\n]*")
_BRACES = re.compile(r'"(?:[^"\\]|\\.)*"|[{}]')
_BLANK = " \t\r\n\0"


class _Piece(NamedTuple):
    """A part of a line: a whole record, or a torn one with the reason why it is none."""

    text: str
    torn: str = ""


Value: TypeAlias = tuple[int, Any, bool, bytes]
"""A value of a line: its place, the value, whether it is plain (`parse`), and its text."""


def values(lines: Iterable[Line], report: Report, is_record: IsRecord) -> Iterator[Value]:
    """Yield the values of lines; torn pieces are reported."""
    for number, data, ended in lines:
        if data is None:
            report.skip(number, "longer than 32 MiB")
            continue
        try:
            value, plain = parse(data)
        except DamagedLineError as error:
            yield from _torn(Line(number, data, ended), str(error), report, is_record)
        else:
            yield number, value, plain, data


def _torn(line: Line, error: str, report: Report, is_record: IsRecord) -> Iterator[Value]:
    """Yield the whole records of a torn line."""
    pieces = list(_pieces(line, is_record))
    if all(piece.torn for piece in pieces):
        report.skip(line.number, error if line.ended else f"incomplete last line ({error})")
        return
    found = 0
    for piece in pieces:
        if piece.torn:
            report.skip(line.number, piece.torn)
        else:
            place = LineNumber(line.number, found) if found else line.number
            data = _bytes(piece.text)
            yield place, *parse(data), data
            found += 1


def _pieces(line: Line, is_record: IsRecord) -> Iterator[_Piece]:
    assert line.data is not None
    text = line.data.decode("utf-8", "surrogateescape")
    told, at, reason = 0, 0, ""
    for begin, end, damage in _stretches(text, is_record, ended=line.ended):
        reason = reason or damage
        if begin == end:
            continue
        if text[told:begin].strip(_BLANK) or "\0" in text[told:begin]:
            yield _Piece(text[told:begin], _reason(text[told:begin], told, reason))
        yield _Piece(text[begin:end])
        told, at, reason = end, end, ""
    if text[at:].strip(_BLANK) or "\0" in text[at:]:
        yield _Piece(text[at:], _reason(text[at:], at, reason))


def _reason(piece: str, at: int, reason: str) -> str:
    if not piece.strip(_BLANK):
        return f"{piece.count(chr(0))} null bytes at character {at}"
    return f"a torn record at character {at} ({reason or 'not JSON'})"


def _stretches(text: str, is_record: IsRecord, *, ended: bool) -> Iterator[tuple[int, int, str]]:
    """Yield begin and end of each whole record; equal ones, with a reason, where a tear is."""
    decode = json.JSONDecoder().raw_decode
    at: int | None = 0
    tears = 0
    while at is not None and at < len(text) and tears < TEARS:
        try:
            _, end = decode(text, at)
        except json.JSONDecodeError as error:
            tears += 1
            yield at, at, f"not JSON: {error.msg} at character {error.pos}"
            # Torn where a value may stand, a record has taken the whole one behind it for a member.
            inner = _closed_last(text, at, error.pos) if ended else None
            if inner is not None and _is_whole(text[inner[0] : inner[1]], is_record):
                yield *inner, ""
                at = _next(text, inner[1])
            else:
                at = _next(text, max(at + 1, error.pos - BACK))
            continue
        except (RecursionError, ValueError):
            return
        if _is_whole(text[at:end], is_record if tears else None):
            yield at, end, ""
        at = _next(text, end) if tears else _SPACE.match(text, end).end()  # type: ignore[union-attr]


def _next(text: str, at: int) -> int | None:
    found = _BEGINNING.search(text, at)
    return None if found is None else found.start()


def _closed_last(text: str, begin: int, end: int) -> tuple[int, int] | None:
    """Return where the object is that closes last before `end`; None if other text follows it."""
    end = len(text[:end].rstrip(_BLANK + ",]"))
    if end <= begin or text[end - 1] != "}":
        return None
    open_at: list[int] = []
    for token in _BRACES.finditer(text, begin, end):
        if token.group() == "{":
            open_at.append(token.start())
        elif token.group() == "}" and open_at:
            last = open_at.pop()
            if token.end() == end:
                return last, end
    return None


def _is_whole(text: str, is_record: IsRecord | None) -> bool:
    """Whether a text is a sound object; behind a tear it is a record, too."""
    try:
        value, _ = parse(_bytes(text))
    except DamagedLineError:
        return False
    return is_object(value) and (is_record is None or is_record(value))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
