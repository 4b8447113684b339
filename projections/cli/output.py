"""Output of commands: text that is safe on a terminal, tables, JSON, notes, progress.

Rich is loaded only to draw on a terminal. Pipes and files get plain text, and tables as lines of
tab-separated cells. JSON is one document and a newline, or one document a line.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, cast

if TYPE_CHECKING:
    from rich.table import Table as RichTable

__all__ = [
    "answer",
    "block",
    "document",
    "heading",
    "line",
    "marked",
    "note",
    "note_warnings",
    "prepare",
    "progress",
    "safe",
    "table",
    "terminal",
]

_HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u206f\ud800-\udfff]")
"""Control characters but tab and newline, line separators, and surrogates.

Overrides of the writing direction, too.
"""
_HARMFUL_IN_A_LINE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u206f\ud800-\udfff]"
)
"""Tab, newline and marks of writing direction as well: a line has text beside a name."""
_HIDDEN_IN_JSON = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u206f\ud800-\udfff]")
"""Harmful characters that JSON does not escape."""
_PIECE = 1 << 18
"""Characters that are written at a time."""
NARROW = 12
"""Least width of a column that may wrap."""
UNLIMITED = 100_000
"""Columns to measure a table with, as if the terminal had no edge."""


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    return "\ufffd" if 0xD800 <= code < 0xE000 else f"\\u{code:04x}"


def safe(text: str, *, one_line: bool = False) -> str:
    """Return the text with control characters made visible.

    With `one_line` newlines and tabs are made visible, too.
    """
    if one_line:
        return _HARMFUL_IN_A_LINE.sub(_visible, text)
    return _HARMFUL.sub(_visible, text.replace("\r\n", "\n"))


def marked(text: str, mark: str) -> str:
    """Return the text with a mark before each of its lines."""
    lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    return "\n".join(mark + line for line in lines)


def prepare() -> None:
    """Make the standard streams safe to use.

    Characters that the encoding lacks are replaced. A closed stream is replaced by the null device,
    before a file of the store could get its file descriptor.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            nothing = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(nothing, mode, encoding="utf-8"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def terminal() -> bool:
    """Return whether standard output is a terminal."""
    return sys.stdout.isatty()


def line(text: str = "") -> None:
    """Print one line; newlines in the text are made visible."""
    sys.stdout.write(safe(text, one_line=True) + "\n")


def block(text: str, mark: str = "") -> None:
    """Print a text of any length and any number of lines, with a mark before each line."""
    end = len(text)
    if mark and text.endswith("\n"):
        end -= 2 if text.endswith("\r\n") else 1
    sys.stdout.write(mark)
    for piece in _pieces(text, end):
        printable = safe(piece)
        sys.stdout.write(printable.replace("\n", "\n" + mark) if mark else printable)
    sys.stdout.write("\n")


def _pieces(text: str, end: int) -> Iterator[str]:
    """Yield the text up to `end` in pieces, none of which ends within a CR LF."""
    begin = 0
    while begin < end:
        stop = min(begin + _PIECE, end)
        if text[stop - 1] == "\r" and stop < end:
            stop += 1
        yield text[begin:stop]
        begin = stop


def heading(text: str) -> None:
    """Print a line, in bold on a terminal."""
    text = safe(text, one_line=True)
    sys.stdout.write(f"\x1b[1m{text}\x1b[0m\n" if terminal() else text + "\n")


def note(text: str) -> None:
    """Print a line on standard error."""
    sys.stdout.flush()
    sys.stderr.write(safe(text, one_line=True) + "\n")


def note_warnings() -> None:
    """Print the engine's warnings as notes."""
    import logging

    class Noting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            note(f"eventlog: {record.getMessage()}")

    logger = logging.getLogger("eventlog")
    if not logger.handlers:
        logger.addHandler(Noting(logging.WARNING))


def answer(value: Any, *lines: str, json: bool) -> None:
    """Print the JSON document, or without `json` the lines for people."""
    if json:
        document(value)
        return
    for text in lines:
        line(text)


def document(value: Any, *, indent: int | None = None) -> None:
    """Print one JSON document, long texts piece by piece.

    Lone surrogates and characters that steer a terminal are printed as JSON escapes.
    """
    ascii_only = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
    encode = json.JSONEncoder(ensure_ascii=ascii_only).encode
    for piece in _json(value, encode, "\n" if indent is not None else "", " " * (indent or 0)):
        sys.stdout.write(_HIDDEN_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", piece))
    sys.stdout.write("\n")


def _json(value: Any, encode: Callable[[Any], str], newline: str, indent: str) -> Iterator[str]:
    """Yield the JSON of a value in pieces; `newline` is "" for a document on one line."""
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

    On a terminal the columns in `numbers` are aligned to the right, the columns in `folded` may
    wrap, and empty columns are left out. A terminal that is too narrow gets a paragraph for each
    row. A pipe or file gets every column, so that scripts can rely on them.
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
    visible = [[row[number] for number in shown] for row in ([*names], *cells)]
    right = [columns[number] in numbers for number in shown]
    breaks = [columns[number] in folded for number in shown]
    narrow = [[cell[:NARROW] if fold else cell for cell, fold in zip(row, breaks, strict=True)] for row in visible]
    unlimited = console.options.update(max_width=UNLIMITED)
    least = console.measure(_drawn(narrow, right, [False] * len(shown)), options=unlimited).maximum
    if least > console.width:
        _print_paragraphs(visible)
    else:
        console.print(_drawn(visible, right, breaks))


def _print_paragraphs(rows: Sequence[Sequence[str]]) -> None:
    """Print each row as a paragraph, with a line for each cell that is not empty.

    The terminal wraps longer lines, so that no number and no id is cut.
    """
    names, *entries = rows
    if len(names) == 2:
        width = max(len(first) for first, _ in rows)
        for first, second in rows:
            sys.stdout.write(f"{first:<{width}}  {second}\n")
        return
    width = max(map(len, names), default=0)
    for first, *cells in entries:
        heading(first)
        for name, cell in zip(names[1:], cells, strict=True):
            if cell:
                sys.stdout.write(f"  {name:<{width}}  {cell}\n")


def _drawn(rows: Sequence[Sequence[str]], right: Sequence[bool], breaks: Sequence[bool]) -> RichTable:
    """Return the table for Rich; the first row has the headers, and cells are no markup."""
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
    """Show a progress bar on standard error if that is a terminal; yields its `on_progress`.

    `on_progress(done, total)` moves the bar. The unit "bytes" shows sizes and speed.
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
