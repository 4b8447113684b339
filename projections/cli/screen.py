"""The terminal: whether there is one, its width, colours, pager, and texts that fit it.

Colours follow https://no-color.org: none if NO_COLOR is set, none on a terminal that is `dumb`.
Texts of a conversation are made harmless before they are printed: a terminal obeys control
characters, wherever they come from.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from shutil import get_terminal_size
from typing import TYPE_CHECKING, ClassVar, Literal

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_INDENT = "  "
"""Before the second line of a line that is wrapped, and all after it."""

_HARMFUL = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u206f\ud800-\udfff]"
"""Control characters but tab and newline, line separators, and surrogates.

Overrides of the writing direction, too.
"""
_HARMFUL_IN_A_LINE = "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u206f\ud800-\udfff]"
"""Tab, newline and marks of writing direction as well: a line has text beside a name."""
_HIDDEN_IN_JSON = "[\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u206f\ud800-\udfff]"
"""Harmful characters that JSON does not escape."""
NARROWEST = 20
"""Columns that every output may use, however narrow the terminal says it is."""


class Paged:
    """Whether a pager has standard output, and what is to be noted after it."""

    now = False
    notes: ClassVar[list[str]] = []


def is_terminal() -> bool:
    """Return whether a person reads standard output."""
    return Paged.now or sys.stdout.isatty()


def columns() -> int:
    """Return the width of the terminal, of COLUMNS if that is set, else 80."""
    return max(get_terminal_size().columns, NARROWEST)


def console() -> Console:
    """Return the console that draws on standard output, which is a terminal or a pager."""
    return _console(columns(), "auto" if not os.environ.get("NO_COLOR") else None)


@cache
def _console(width: int, colours: Literal["auto"] | None) -> Console:
    from rich.console import Console

    class Output(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # as every other writer; Rich would end the program

    return Output(width=width, height=25, force_terminal=True, color_system=colours, highlight=False)


# -- pager -------------------------------------------------------------------------------------

_SETTINGS = {"LESS": "FRX", "LV": "-c"}
"""Environment of the pager, where the user has not set it otherwise."""


@contextmanager
def paged() -> Generator[None]:
    """Send the output of the block through the pager, if a person reads it.

    That is the program that PAGER names, else `less`. With LESS unset, `less` ends by itself if all
    fits the screen, and shows colours. `PAGER=cat`, or an empty one, is none; so is a program that
    is not there.
    """
    if not sys.stdout.isatty() or os.environ.get("TERM") == "dumb" or _names_none(os.environ.get("PAGER", "less")):
        yield
        return
    from click import get_pager_file

    os.environ.update(_SETTINGS | os.environ)
    failure: Exception | None = None
    with get_pager_file(color=True) as pager:
        terminal, sys.stdout, Paged.now = sys.stdout, pager, True
        try:
            yield
        except BrokenPipeError:  # the reader has left the pager
            raise
        except Exception as error:  # noqa: BLE001  # reported once the reader has left, who reads what came before it
            failure = error
        finally:
            sys.stdout, Paged.now = terminal, False
    sys.stderr.writelines(Paged.notes)
    Paged.notes.clear()
    if failure is not None:
        raise failure


def _names_none(command: str) -> bool:
    import shlex

    try:
        return shlex.split(command) in ([], ["cat"])
    except ValueError:  # an unbalanced quote
        return True


# -- harmless text -----------------------------------------------------------------------------


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
    if text.isprintable():  # most lines are: then no expression is compiled
        return text
    if one_line:
        return re.sub(_HARMFUL_IN_A_LINE, _visible, text)
    return re.sub(_HARMFUL, _visible, text.replace("\r\n", "\n"))


def harmful_in_json(piece: str) -> str:
    """Return a piece of JSON with the characters escaped that steer a terminal."""
    if piece.isprintable():
        return piece
    return re.sub(_HIDDEN_IN_JSON, lambda match: f"\\u{ord(match[0]):04x}", piece)


# -- lines -------------------------------------------------------------------------------------


def draw(*pieces: tuple[str, str], cut_at: int = 0) -> None:
    """Print a line of texts, each with a style; on a terminal cut at a width, else wrapped."""
    harmless = [(safe(text, one_line=True), style) for text, style in pieces]
    if not is_terminal():
        sys.stdout.write("".join(text for text, _ in harmless) + "\n")
        return
    from rich.text import Text

    line = Text.assemble(*harmless)
    if cut_at:
        line.truncate(cut_at, overflow="ellipsis")
    console().print(line if cut_at else _wrapped(line), soft_wrap=True)


def cut(text: str, width: int) -> str:
    """Return the text, with "…" at its end if it takes more columns than `width`."""
    from rich.text import Text

    line = Text(text)
    line.truncate(max(width, 0), overflow="ellipsis")
    return line.plain


def wrapped(text: str) -> str:
    """Return a line as several that fit, broken between words; all but the first are indented.

    A line with a word that no line has room for is left to the terminal.
    """
    if text.isascii() and len(text) <= columns():
        return text
    from rich.cells import cell_len
    from rich.text import Text

    stays = max(map(cell_len, text.split(" "))) > columns() - len(_INDENT)
    return text if stays else _wrapped(Text(text)).plain


def _wrapped(line: Text) -> Text:
    if line.cell_len <= columns():
        return line
    return type(line)(f"\n{_INDENT}").join(line.wrap(console(), columns() - len(_INDENT)))
