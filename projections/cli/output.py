"""Output of commands: text that is safe on a terminal, tables, JSON, notes, progress.

Standard output has data only; notes, counts and progress go to standard error. Pipes and files get
plain text, and tables as lines of tab-separated cells. JSON is one document and a newline, or one
document a line.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, NamedTuple, cast

from projections.cli.exits import Exit, Fault
from projections.cli.screen import Paged, console, draw, harmful_in_json, is_terminal, safe, wrapped
from projections.cli.screen import columns as terminal_width
from projections.reports.wording import counted

_PIECE = 1 << 18
"""Characters that are written at a time."""
_GAP = 2
"""Columns between two cells."""
_LEAST = 8
"""Columns that a cell keeps when it is cut."""
_LOOKS = {
    **dict.fromkeys(("session", "part", "call", "step", "version"), "yellow"),
    **dict.fromkeys(("message", "updated", "asked", "created", "time"), "dim"),
    **dict.fromkeys(("tool", "model", "state"), "magenta"),
    **dict.fromkeys(("kind", "role", "change"), "cyan"),
    **dict.fromkeys(("cost", "spent"), "green"),
    "failed": "red",
}
"""Styles of columns by their names."""


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


class Cell(NamedTuple):
    """A cell that a terminal shows otherwise: a shorter id, time or price, or one in a colour."""

    whole: object
    drawn: str
    style: str = ""


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    numbers: Collection[str] = (),
    flexible: Collection[str] = (),
    optional: Sequence[str] = (),
    share: float = 1 / 3,
) -> None:
    """Print a table; `None` is an empty cell.

    A terminal gets a line for each row: the columns in `numbers` are aligned to the right, empty
    ones are left out, and those in `flexible` are cut where there is no room. Those in `optional`
    are left out, the last first, until each flexible one is whole or has its `share` of the width.
    If that does not suffice, each row is a paragraph. A pipe or file gets every column whole, so
    that scripts can rely on them.
    """
    if not is_terminal():
        for row in [columns, *rows]:
            sys.stdout.write("\t".join(safe(_text(cell, whole=True), one_line=True) for cell in row) + "\n")
        return
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    rows = list(rows)
    cells = [[safe(_text(cell, whole=False), one_line=True) for cell in row] for row in [columns, *rows]]
    shown = [number for number in range(len(columns)) if any(row[number] for row in cells[1:])]
    widths = {number: max(cell_len(row[number]) for row in cells) for number in shown}
    soft = {number for number in shown if columns[number] in flexible}
    room = terminal_width()

    def fits(least: int) -> bool:
        taken = (min(width, least) if number in soft else width for number, width in widths.items())
        return sum(taken) + _GAP * (len(widths) - 1) <= room

    for name in reversed(optional):
        if fits(max(int(room * share), _LEAST)):
            break
        widths.pop(columns.index(name), None)
    if len(shown) > 2 and not fits(_LEAST):
        for row in cells[1:]:
            facts = [(cells[0][number], row[number]) for number in shown if row[number]]
            table(facts[0], facts[1:])
        return
    drawn = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="bold")
    for number, width in widths.items():
        drawn.add_column(
            Text(cells[0][number]),
            style=_LOOKS.get(columns[number], ""),
            justify="right" if columns[number] in numbers else "left",
            min_width=min(width, _LEAST),
            no_wrap=number not in soft and len(shown) > 2,
        )
    for row, given in zip(cells[1:], rows, strict=True):
        drawn.add_row(
            *(
                Text(row[number], _style(given[number]), no_wrap=number in soft, overflow="ellipsis")
                for number in widths
            )
        )
    console().print(drawn)


def _text(cell: object, *, whole: bool) -> str:
    if isinstance(cell, Cell):
        cell = cell.whole if whole else cell.drawn
    return "" if cell is None else str(cell)


def _style(cell: object) -> str:
    return cell.style if isinstance(cell, Cell) else ""


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


def note_more(shown: int, noun: str, following: str, *, by_cursor: bool, everything: str = "") -> None:
    """Say how to go on behind a page of `shown` entries that is not the last.

    A person is told which --limit shows more, and with `everything` what shows all. A script, and
    a person who gave a cursor, gets the next one.
    """
    if by_cursor or not is_terminal():
        note(f"more: --cursor {following}")
        return
    rest = f", all with {everything}" if everything else ""
    note(f"the first {counted(shown, noun)}; more with --limit {2 * shown}{rest}")


def answer(value: Any, *lines: str, json: bool) -> None:
    """Print the JSON document, or without `json` the lines for people."""
    if json:
        document(value)
        return
    for text in lines:
        line(text)


@contextmanager
def verdict(code: Exit) -> Generator[None]:
    """Print the result that a code is of: the code stands where the reader leaves early."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        raise Fault("", code) from None


def fields(record: Any, *names: str) -> dict[str, Any]:
    """Return the fields of a record, or only those that are named."""
    return {name: getattr(record, name) for name in names or record.__struct_fields__}


def document(value: Any, *, indent: int | None = None) -> None:
    """Print one JSON document, long texts piece by piece; a record becomes an object.

    Lone surrogates and characters that steer a terminal are printed as JSON escapes.
    """
    import json

    ascii_only = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
    encode = json.JSONEncoder(ensure_ascii=ascii_only, default=_plain).encode
    for piece in _json(value, encode, "\n" if indent is not None else "", " " * (indent or 0)):
        sys.stdout.write(harmful_in_json(piece))
    sys.stdout.write("\n")


def _plain(value: Any) -> Any:
    """Return a record as an object, and an amount as its text."""
    return str(value) if isinstance(value, Decimal) else fields(value)


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
