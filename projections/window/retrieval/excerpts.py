"""Excerpts of a text: a range of lines, a range of bytes, or the matches of a search.

Pure.  Lines end with a line feed and count from 1, and a range includes its end; bytes are those of
UTF-8 and count from 0, and a range does not include its end.  A truncation's marker names ranges in
the same way.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from eventlog.errors import CallError
from projections.tokens.counter import utf8_length

SHOWN = 400
"""Characters of one line that a search shows."""


class Excerpt(NamedTuple):
    """A piece of a text, and the range that it really is."""

    text: str
    first: int
    last: int


class Match(msgspec.Struct, frozen=True, omit_defaults=True):
    """A matching line, with lines around it; long lines are cut around the match."""

    line: int
    at: int
    """Byte at which the match begins."""
    text: str
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


class Matches(NamedTuple):
    """The matching lines in order, and whether there are more of them."""

    found: tuple[Match, ...]
    more: bool


def lines_of(text: str, first: int, last: int) -> Excerpt:
    """Return lines `first` to `last`, as far as there are any.

    Raises `CallError` for an empty range, and one that begins behind the end.
    """
    if not 1 <= first <= last:
        raise CallError(f"lines {first}-{last}: lines count from 1, and the last is not before the first")
    start = _line_start(text, 0, first - 1)
    if start is None or (start == len(text) and first > 1):
        raise CallError(f"lines {first}-{last} begin behind the end of the text")
    end = _line_start(text, start, last - first + 1)
    piece = text[start:end]
    return Excerpt(piece, first, first + max(piece.count("\n") - piece.endswith("\n"), 0))


def bytes_of(text: str, start: int, end: int) -> Excerpt:
    """Return bytes `start` to before `end`, widened to whole characters.

    Raises `CallError` as for lines.
    """
    if not 0 <= start < end:
        raise CallError(f"bytes {start}-{end}: bytes count from 0, and the end is behind the start")
    data = None if text.isascii() else text.encode("utf-8", "surrogatepass")
    size = len(text if data is None else data)
    if start >= size and start > 0:
        raise CallError(f"bytes {start}-{end} begin behind the end of the text")
    end = min(end, size)
    if data is None:
        return Excerpt(text[start:end], start, end)
    while data[start] & 0xC0 == 0x80:
        start -= 1
    while end < size and data[end] & 0xC0 == 0x80:
        end += 1
    return Excerpt(data[start:end].decode("utf-8", "surrogatepass"), start, end)


def matches_in(
    text: str, wanted: str, *, regex: bool = False, ignore_case: bool = False, context: int = 0, most: int = 50
) -> Matches:
    """Return the first `most` lines in which `wanted` begins, with `context` lines around.

    `wanted` is plain text or a regular expression.

    `^` and `$` are the ends of a line. `CallError` for nothing wanted, an expression that is none,
    or bounds below zero.
    """
    if not wanted or context < 0 or most < 0:
        raise CallError("a search wants some text, and no bound below zero")
    try:
        pattern = re.compile(
            wanted if regex else re.escape(wanted), re.MULTILINE | (re.IGNORECASE if ignore_case else 0)
        )
    except (re.error, RecursionError, OverflowError) as error:
        raise CallError(f"the regular expression cannot be understood: {error}") from None
    found: list[Match] = []
    number, known, size = 1, 0, 0
    position = 0
    while position <= len(text) and (hit := pattern.search(text, position)) is not None:
        at = hit.start()
        if at == len(text) and (not text or text.endswith("\n")):  # no line begins here
            break
        if len(found) == most:
            return Matches(tuple(found), more=True)
        number += text.count("\n", known, at)
        size += utf8_length(text[known:at])
        known = at
        begin, end = text.rfind("\n", 0, at) + 1, _line_end(text, at)
        before, after = _around(text, begin, end, context)
        found.append(Match(number, size, _shown(text, begin, end, at), before, after))
        position = end + 1
    return Matches(tuple(found), more=False)


# -- helpers -----------------------------------------------------------------------------------


def _line_start(text: str, start: int, count: int) -> int | None:
    """Return where the line `count` lines later begins; None if the text ends before."""
    for _ in range(count):
        start = text.find("\n", start) + 1
        if start == 0:
            return None
    return start


def _line_end(text: str, at: int) -> int:
    found = text.find("\n", at)
    return len(text) if found < 0 else found


def _around(text: str, begin: int, end: int, context: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the lines before and after the one from `begin` to `end`, in order."""
    before: list[str] = []
    stop = begin
    while len(before) < context and stop > 0:
        start = text.rfind("\n", 0, stop - 1) + 1
        before.append(_shown(text, start, stop - 1, start))
        stop = start
    after: list[str] = []
    start = end + 1
    while len(after) < context and start < len(text):
        stop = _line_end(text, start)
        after.append(_shown(text, start, stop, start))
        start = stop + 1
    return tuple(reversed(before)), tuple(after)


def _shown(text: str, begin: int, end: int, at: int) -> str:
    """A line, or of a long one so many characters around a place."""
    if end - begin <= SHOWN:
        return text[begin:end]
    start = min(max(begin, at - SHOWN // 4), end - SHOWN)
    return text[start : start + SHOWN]
