"""Lines of a foreign file and the JSON in them, bounded in length and depth.

A damaged line gives a reason for the report.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, BinaryIO, NamedTuple, Self, TypeGuard

import msgspec

from eventlog.streams.records import dump as encoded
from eventlog.validation import MAX_DEPTH, is_deep

OBJECT: Any = dict
"""Type of a parsed JSON object: `isinstance` with it is `is_object` without a call."""
ARRAY: Any = list
"""Type of a parsed JSON array, likewise."""
MAX_LINE = 32 * 1024 * 1024
"""Longest line that is read, in bytes; a longer one is damaged."""

START = 64 * 1024
"""Bytes of a file that are read to detect its format."""
LONGEST = 1024 * 1024
"""Bytes that are read beyond `START` to have the first line whole."""
TITLE = 80
"""Longest title taken from a prompt, in characters."""

_BOM = b"\xef\xbb\xbf"
_DECODER = msgspec.json.Decoder()


class DamagedLineError(ValueError):
    """A line that cannot be read; its text is the reason, and never quotes the line."""


class Line(NamedTuple):
    """A line without its end; `number` counts from 1, `data` is None over `MAX_LINE`."""

    number: int
    data: bytes | None
    ended: bool
    """Whether a line feed followed: the last line of a file that is being written has none."""


class LineNumber(int):
    """Line of a record behind `nth` others on the same line; it prints as `LINE+NTH`."""

    nth: int

    def __new__(cls, line: int, nth: int) -> Self:
        """Return the number; it equals the line's."""
        number = super().__new__(cls, line)
        number.nth = nth
        return number

    @classmethod
    def read(cls, text: str) -> int:
        """Return the number that prints as this text."""
        line, _, nth = text.partition("+")
        return cls(int(line), int(nth)) if nth else int(line)

    def __format__(self, spec: str) -> str:
        return f"{int(self)}+{self.nth}"


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Whether a parsed value is a JSON object."""
    return isinstance(value, dict)


def is_array(value: object) -> TypeGuard[list[Any]]:
    """Whether a parsed value is a JSON array."""
    return isinstance(value, list)


def lines(file: BinaryIO, *, blank: bool = False, after: int = 0) -> Iterator[Line]:
    """Yield the lines without byte order mark and outer white space, blank ones if asked.

    `after` lines stand before those that the file has from here on.
    """
    number = after
    while raw := file.readline(MAX_LINE + 1):
        number += 1
        if len(raw) > MAX_LINE and not raw.endswith(b"\n"):
            while raw and not raw.endswith(b"\n"):
                raw = file.readline(MAX_LINE)
            yield Line(number, None, ended=bool(raw))
            continue
        ended = raw.endswith(b"\n")
        data = (raw[len(_BOM) :] if number == 1 and raw.startswith(_BOM) else raw).strip(b" \t\r\n")
        if data or blank:
            yield Line(number, data, ended)


def parse(data: bytes) -> tuple[Any, bool]:
    """Return the JSON value in `data`, and whether it is plain.

    `DamagedLineError` if it is no JSON value, or nested too deeply.

    What msgspec refuses and the standard library reads (lone surrogates, NaN, numbers out of range)
    is read, and not plain.
    """
    plain = True
    try:
        value = _DECODER.decode(data)
    except RecursionError:
        raise DamagedLineError("nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        value = _parse_slowly(data)
        plain = False
    if data.count(b"[") + data.count(b"{") > MAX_DEPTH:
        check_depth(value)
    return value, plain


def value_in(text: object) -> Any:
    """Return the JSON value in a text; None for anything else."""
    try:
        return parse(text.encode())[0] if isinstance(text, str) else None
    except (DamagedLineError, UnicodeEncodeError):
        return None


def _parse_slowly(data: bytes) -> Any:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise DamagedLineError(f"not UTF-8 at byte {error.start}") from None
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            raise DamagedLineError(f"more than one JSON value, the second at character {error.pos}") from None
        raise DamagedLineError(f"not JSON: {error.msg} at character {error.pos}") from None
    except RecursionError:
        raise DamagedLineError("nested too deeply") from None
    except ValueError:
        raise DamagedLineError("not JSON: a number with too many digits") from None


def check_depth(value: Any) -> None:
    """Raise `DamagedLineError` if a value is nested more than `MAX_DEPTH` levels deep."""
    if is_deep(value):
        raise DamagedLineError(f"nested more than {MAX_DEPTH} levels deep")


def dump(value: Any, *, plain: bool = True) -> str:
    """Return compact JSON text that parses to an equal value; `plain` as `parse` returned it."""
    return encoded(value) if plain else json.dumps(value, separators=(",", ":"))


def milliseconds(stamp: object) -> int | None:
    """Return the UTC milliseconds of an ISO 8601 time; None for anything else.

    A time without a zone is UTC.
    """
    if not isinstance(stamp, str):
        return None
    try:
        moment = datetime.fromisoformat(stamp)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        since = moment - _EPOCH
    except (ValueError, OverflowError):
        return None
    return (since.days * 86_400 + since.seconds) * 1_000 + since.microseconds // 1_000


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read_beginning(file: BinaryIO) -> bytes:
    """Read the first bytes of a file, at least its first line unless that is very long."""
    start = file.read(START)
    return start if b"\n" in start else start + file.readline(LONGEST)


def has_record(
    start: bytes, most: int, is_record: Callable[[dict[str, Any]], bool], is_beginning: Callable[[bytes], bool]
) -> bool:
    """Whether one of the first lines of a file is a record of a format.

    `is_beginning` decides about a single line that breaks off.
    """
    head = start.split(b"\n")
    for data in head[:most]:
        try:
            record, _ = parse(data.strip(b"\xef\xbb\xbf \t\r"))
        except DamagedLineError:
            if len(head) == 1 and is_beginning(data):
                return True
            continue
        if is_object(record) and is_record(record):
            return True
    return False


def title_of(prompt: str) -> str:
    """Return the first line of a prompt, cut to a title's length."""
    head = prompt.strip().splitlines()[0]
    return head if len(head) <= TITLE else head[: TITLE - 1] + "…"
