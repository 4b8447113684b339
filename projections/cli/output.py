"""What a command prints: text that does no harm on a terminal, tables, JSON, notes, progress.

Rich is loaded only to draw on a terminal; into a pipe or a file goes plain text, tables as lines of tab-separated cells.
JSON is one document and a newline, or one document a line.  Not here: exit codes and error lines (`exits.py`), and what
there is to say.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, cast

if TYPE_CHECKING:
    from rich.table import Table as RichTable

__all__ = [
    "block",
    "document",
    "heading",
    "line",
    "marked",
    "moment",
    "note",
    "note_warnings",
    "prepare",
    "progress",
    "safe",
    "table",
    "terminal",
]

_HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u206f\ud800-\udfff]")
"""Control characters (escape sequences begin with one), line separators, overrides of the writing direction, and what
is no character.  Tab and newline are the two that are left."""
_HARMFUL_IN_A_LINE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u206f\ud800-\udfff]"
)
"""These two as well, and the marks that move what stands beside them: in a line other things stand beside a name."""
_HIDDEN_IN_JSON = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u206f\ud800-\udfff]")
"""The same beyond ASCII: JSON has escaped the others already."""
DAY = 86_400_000
"""Milliseconds."""
_PIECE = 1 << 18
"""Characters that are written at a time."""
NARROW = 12
"""Characters that a column which may break is given at least, if it has them."""
ENDLESS = 100_000
"""More columns than any table has: to measure one as if the terminal had no edge."""


def _shown(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    return "\ufffd" if 0xD800 <= code < 0xE000 else f"\\u{code:04x}"


def safe(text: str, *, one_line: bool = False) -> str:
    """The text with everything that could steer a terminal made visible; with `one_line` line ends and tabs, too."""
    if one_line:
        return _HARMFUL_IN_A_LINE.sub(_shown, text)
    return _HARMFUL.sub(_shown, text.replace("\r\n", "\n"))


def marked(text: str, mark: str) -> str:
    """The text with a mark before each of its lines."""
    lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    return "\n".join(mark + line for line in lines)


def moment(milliseconds: int) -> str:
    """A time for people: UTC, and marked so, to the second.

    Times on the first day of 1970 are made up by imports of records that have none, and shown as unknown; what no
    calendar has is shown as its number.
    """
    if 0 <= milliseconds < DAY:
        return "unknown"
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return f"{milliseconds} ms"


def prepare() -> None:
    """Let no character that the terminal's encoding lacks, and no standard stream that is closed, stop a command.

    A closed stream is replaced by one that goes nowhere, before the store's files could take its number.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            nothing = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(nothing, mode, encoding="utf-8"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def terminal() -> bool:
    """Whether standard output is a terminal."""
    return sys.stdout.isatty()


def line(text: str = "") -> None:
    """Print one line, whatever is in the text."""
    sys.stdout.write(safe(text, one_line=True) + "\n")


def block(text: str, mark: str = "") -> None:
    """Print what may have lines of its own: what was said; with a mark before each line.  Piece by piece, however long it is."""
    end = len(text)
    if mark and text.endswith("\n"):
        end -= 2 if text.endswith("\r\n") else 1
    sys.stdout.write(mark)
    for piece in _pieces(text, end):
        plain = safe(piece)
        sys.stdout.write(plain.replace("\n", "\n" + mark) if mark else plain)
    sys.stdout.write("\n")


def _pieces(text: str, end: int) -> Iterator[str]:
    """The text up to `end` in pieces, none of which ends between a carriage return and its line feed."""
    begin = 0
    while begin < end:
        stop = min(begin + _PIECE, end)
        if text[stop - 1] == "\r" and stop < end:
            stop += 1
        yield text[begin:stop]
        begin = stop


def heading(text: str) -> None:
    """Print a line that stands out on a terminal."""
    text = safe(text, one_line=True)
    sys.stdout.write(f"\x1b[1m{text}\x1b[0m\n" if terminal() else text + "\n")


def note(text: str) -> None:
    """Print a line beside the output, on standard error."""
    sys.stdout.flush()
    sys.stderr.write(safe(text, one_line=True) + "\n")


def note_warnings() -> None:
    """Have what the engine logs noted, too: it names sessions."""
    import logging

    class Noting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            note(f"eventlog: {record.getMessage()}")

    logger = logging.getLogger("eventlog")
    if not logger.handlers:
        logger.addHandler(Noting(logging.WARNING))


def document(value: Any, *, indent: int | None = None) -> None:
    """Print one JSON document.  Lone surrogates, and what a terminal might obey, stay exact as escapes.

    Long texts are printed piece by piece.
    """
    plain = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
    encode = json.JSONEncoder(ensure_ascii=plain).encode
    for piece in _json(value, encode, "\n" if indent is not None else "", " " * (indent or 0)):
        sys.stdout.write(_HIDDEN_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", piece))
    sys.stdout.write("\n")


def _json(value: Any, encode: Callable[[Any], str], newline: str, indent: str) -> Iterator[str]:
    """The JSON of a value in pieces, none of them of more than a piece of a text; `newline` is "" for a document on one line."""
    if isinstance(value, str) and len(value) > _PIECE:
        yield '"'
        for begin in range(0, len(value), _PIECE):
            yield encode(value[begin : begin + _PIECE])[1:-1]
        yield '"'
    elif isinstance(value, (dict, list, tuple)) and value:
        inner = newline + indent if newline else ""
        named = isinstance(value, dict)
        before = ("{" if named else "[") + inner
        for name, member in cast("dict[str, Any]", value).items() if named else enumerate(cast("list[Any]", value)):
            yield before + encode(name) + ": " if named else before
            yield from _json(member, encode, inner, indent)
            before = "," + (inner or " ")
        yield newline + ("}" if named else "]")
    else:
        yield encode(value)


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    numbers: Sequence[str] = (),
    folded: Sequence[str] = (),
) -> None:
    """Print a table; `None` is an empty cell.

    On a terminal the columns in `numbers` are aligned to the right, those in `folded` may break, and empty ones are left
    out; one that is too narrow is given a paragraph for each row.  Elsewhere it has every column, so that scripts can count on them.
    """
    cells = [["" if cell is None else safe(str(cell), one_line=True) for cell in row] for row in rows]
    names = [safe(name, one_line=True) for name in columns]
    if not terminal():
        for row in [names, *cells]:
            sys.stdout.write("\t".join(row) + "\n")
        return
    from rich.console import Console

    console = Console(file=sys.stdout, highlight=False)
    shown = [number for number in range(len(columns)) if any(row[number] for row in cells)]
    kept = [[row[number] for number in shown] for row in ([*names], *cells)]
    right = [columns[number] in numbers for number in shown]
    breaks = [columns[number] in folded for number in shown]
    narrow = [[cell[:NARROW] if fold else cell for cell, fold in zip(row, breaks, strict=True)] for row in kept]
    endless = console.options.update(max_width=ENDLESS)
    least = console.measure(_drawn(narrow, right, [False] * len(shown)), options=endless).maximum
    if least > console.width:
        _entries(kept)
    else:
        console.print(_drawn(kept, right, breaks))


def _entries(rows: Sequence[Sequence[str]]) -> None:
    """The rows of a table for which the terminal is too narrow: a paragraph for each, a line for each cell that says something.

    The terminal breaks what is longer: better than a number or an id that lacks its end.
    """
    names, *entries = rows
    if len(names) == 2:
        width = max(len(first) for first, _ in rows)
        for first, second in rows:
            sys.stdout.write(f"{first:<{width}}  {second}\n")
        return
    width = max(map(len, names), default=0)
    for first, *rest in entries:
        heading(first)
        for name, cell in zip(names[1:], rest, strict=True):
            if cell:
                sys.stdout.write(f"  {name:<{width}}  {cell}\n")


def _drawn(rows: Sequence[Sequence[str]], right: Sequence[bool], breaks: Sequence[bool]) -> RichTable:
    """The rows, the first of which are the headers, as Rich draws them; nothing in a cell is read as markup."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for name, to_right, may_break in zip(rows[0], right, breaks, strict=True):
        justify: Literal["left", "right"] = "right" if to_right else "left"
        drawn.add_column(Text(name), justify=justify, overflow="fold", no_wrap=not may_break)
    for row in rows[1:]:
        drawn.add_row(*map(Text, row))
    return drawn


@contextmanager
def progress(what: str, *, unit: str = "") -> Generator[Callable[[int, int | None], None]]:
    """Yield a function to be told `(done, total)`: a bar on standard error if that is a terminal, else nothing.

    `unit` "bytes" shows sizes and speed.
    """
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich import progress as bars
    from rich.console import Console
    from rich.markup import escape

    columns: list[bars.ProgressColumn] = [bars.TextColumn("{task.description}"), bars.BarColumn()]
    columns += [bars.DownloadColumn(), bars.TransferSpeedColumn()] if unit == "bytes" else [bars.MofNCompleteColumn()]
    with bars.Progress(*columns, bars.TimeRemainingColumn(), console=Console(stderr=True), transient=True) as drawn:
        task = drawn.add_task(escape(safe(what, one_line=True)), total=None)
        yield lambda done, total: drawn.update(task, completed=done, total=total)
