"""Output of commands: text that is safe on a terminal, tables, JSON, notes, progress.

Standard output has data only; notes, counts and progress go to standard error. Pipes and files get
plain text, and tables as lines of tab-separated cells. JSON is one document and a newline, or one
document a line.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, cast

from projections.cli.screen import Paged, columns, draw, harmful_in_json, is_terminal, safe, wrapped
from projections.cli.table import Cell, table

__all__ = [
    "Cell",
    "answer",
    "block",
    "columns",
    "document",
    "draw",
    "gap",
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

_PIECE = 1 << 18
"""Characters that are written at a time."""


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
    """Return whether a person reads standard output."""
    return is_terminal()


def line(text: str = "") -> None:
    """Print one line, on a terminal wrapped; newlines in the text are made visible."""
    text = safe(text, one_line=True)
    sys.stdout.write((wrapped(text) if is_terminal() else text) + "\n")


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


def gap() -> None:
    """Print an empty line between two tables on a terminal."""
    if is_terminal():
        sys.stdout.write("\n")


def heading(text: str) -> None:
    """Print a line, in bold and wrapped on a terminal."""
    draw((text, "bold"))


def note(text: str) -> None:
    """Print a line on standard error, wrapped on a terminal; after the end of a pager."""
    text = safe(text, one_line=True)
    line = (wrapped(text) if sys.stderr.isatty() else text) + "\n"
    if Paged.now:
        Paged.notes.append(line)
        return
    sys.stdout.flush()
    sys.stderr.write(line)


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
    import json

    ascii_only = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
    encode = json.JSONEncoder(ensure_ascii=ascii_only).encode
    for piece in _json(value, encode, "\n" if indent is not None else "", " " * (indent or 0)):
        sys.stdout.write(harmful_in_json(piece))
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

    columns: list[bars.ProgressColumn] = [bars.TextColumn("{task.description}", markup=False), bars.BarColumn()]
    columns += [bars.DownloadColumn(), bars.TransferSpeedColumn()] if unit == "bytes" else [bars.MofNCompleteColumn()]
    with bars.Progress(*columns, bars.TimeRemainingColumn(), console=Console(stderr=True), transient=True) as drawn:
        task = drawn.add_task(safe(what, one_line=True), total=None)
        yield lambda done, total: drawn.update(task, completed=done, total=total)
