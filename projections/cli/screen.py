"""The terminal: whether there is one, its width, colours, and texts that fit it.

Colours follow https://no-color.org: none if NO_COLOR is set, none on a terminal that is `dumb`.
Texts of a conversation are made harmless before they are printed: a terminal obeys control
characters, wherever they come from.
"""

from __future__ import annotations

import os
import re
import sys
from typing import ClassVar

__all__ = [
    "Paged",
    "columns",
    "cut",
    "harmful_in_json",
    "is_coloured",
    "is_terminal",
    "safe",
    "styled",
    "width_of",
    "wrapped",
]

_HARMFUL = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u206f\ud800-\udfff]"
"""Control characters but tab and newline, line separators, and surrogates.

Overrides of the writing direction, too.
"""
_HARMFUL_IN_A_LINE = "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u206f\ud800-\udfff]"
"""Tab, newline and marks of writing direction as well: a line has text beside a name."""
_HIDDEN_IN_JSON = "[\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u206f\ud800-\udfff]"
"""Harmful characters that JSON does not escape."""
_STYLES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
    "grey": "90",
}
_NO_WIDTH = frozenset(("Mn", "Me", "Cf"))
"""Categories of characters that change the one before them: accents, joiners, variants."""
NARROWEST = 20
"""Columns that every output may use, however narrow the terminal says it is."""


class Paged:
    """Whether a pager has standard output, and what is to be noted after it."""

    now = False
    notes: ClassVar[list[str]] = []


def is_terminal() -> bool:
    """Return whether a person reads standard output."""
    return Paged.now or sys.stdout.isatty()


def is_coloured() -> bool:
    """Return whether to print colours."""
    return is_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def columns() -> int:
    """Return the width of the terminal, of COLUMNS if that is set, else 80."""
    if os.environ.get("COLUMNS", "").isdigit():
        return max(int(os.environ["COLUMNS"]), NARROWEST)
    for stream in (sys.__stdout__, sys.__stderr__):
        try:
            return max(os.get_terminal_size(stream.fileno()).columns, NARROWEST) if stream is not None else 80
        except (OSError, ValueError):  # no terminal
            continue
    return 80


def styled(text: str, *styles: str) -> str:
    """Return the text with colours, if there are any on this output.

    A style is one of the names above, or a number among the 256 colours of a terminal.
    """
    if not text or not is_coloured():
        return text
    codes = (f"38;5;{style}" if style.isdigit() else _STYLES[style] for style in styles)
    return f"\x1b[{';'.join(codes)}m{text}\x1b[0m"


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


# -- widths ------------------------------------------------------------------------------------


def width_of(text: str) -> int:
    """Return the columns that a line takes; most East Asian characters take two, colours none."""
    if "\x1b" in text:
        text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    if text.isascii():
        return len(text)
    from unicodedata import category, east_asian_width

    return sum(0 if category(each) in _NO_WIDTH else 2 if east_asian_width(each) in "WF" else 1 for each in text)


def cut(text: str, width: int) -> str:
    """Return the text, with "…" at its end if it takes more columns than `width`."""
    if len(text) <= width and width_of(text) <= width:
        return text
    kept = text[: max(width - 1, 0)]
    while kept and width_of(kept) > width - 1:
        kept = kept[:-1]
    return kept.rstrip() + "…" if width > 0 else ""


def wrapped(text: str, width: int, indent: str = "  ") -> str:
    """Return a line as several that fit, broken between words; all but the first are indented.

    A word that no line has room for goes on where it begins.
    """
    if len(text) <= width and width_of(text) <= width:
        return text
    lead = text[: len(text) - len(text.lstrip(" "))]
    line, *words = text[len(lead) :].split(" ")
    lines, line = list[str](), lead + line
    for word in words:
        longer = f"{line} {word}"
        if width_of(longer) > width >= width_of(lead + indent + word):
            lines.append(line)
            longer = lead + indent + word
        line = longer
    return "\n".join([*lines, line])
