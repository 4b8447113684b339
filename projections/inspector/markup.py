"""Markdown and code as the page shows them: safe HTML, with colours for code."""

from __future__ import annotations

import re
from functools import cache
from html import escape
from time import thread_time
from typing import TYPE_CHECKING, Any, cast

from projections.exports.html_text import markdown_html, markdown_words, plain_html, visible

if TYPE_CHECKING:
    from collections.abc import Sequence

RENDERED = 60_000
"""Characters of a text that are rendered as Markdown; a longer one is shown as it is."""
_HIGHLIGHTED = 20_000
"""Characters of a block of code that are coloured."""
_STRANGE = re.compile(r"[^\n]{1000}|\s{500}")
"""A long line or blank, which takes some grammars seconds: its block has no colours."""
_SLICE = 0.1
"""Seconds of processor time after which the rest of a block stays without colours."""
_BEGIN, _END = "\ue000", "\ue001"
"""Stand around what was found while Markdown is read: neither blank nor punctuation."""
_HALF = re.compile(r"(?<!\w)(\*{2,3}|`{1,3})|(\*{2,3}|`{1,3})(?!\w)")
"""Marks whose other half is outside of a snippet; between two letters they are none."""
_COLOURS = {"Keyword": "k", "Literal": "l", "Comment": "c", "Operator": "o", "Generic": "g"}
"""The class of each kind of token that has a colour."""


def prose_html(text: str) -> str:
    """Return the safe HTML of a Markdown text; of a long one that of the plain text."""
    if len(text) > RENDERED:
        return f'<pre tabindex="0">{plain_html(text)}</pre>'
    return markdown_html(text, code_html)


def found_pieces(text: str, found: Sequence[tuple[int, int]], *, prose: bool) -> list[tuple[str, bool]]:
    """Return a snippet as pieces, and whether each was found; `prose` loses Markdown's marks."""
    text = re.sub(f"[{_BEGIN}{_END}]", "\ufffd", text)
    marked, end = "", 0
    for first, last in found:
        marked += f"{text[end:first]}{_BEGIN}{text[first:last]}{_END}"
        end = last
    marked += text[end:]
    words = _HALF.sub("", markdown_words(marked)) if prose else visible(marked)
    if words.count(_BEGIN) != len(found):  # one was in a mark, such as the address of a link
        words = visible(marked)
    pieces: list[tuple[str, bool]] = []
    for place, piece in enumerate(re.split(f"[{_BEGIN}{_END}]", words)):
        pieces.append((piece, place % 2 == 1))
    return [(piece, is_found) for piece, is_found in pieces if piece]


def code_html(text: str, language: str) -> str:
    """Return safe HTML of a piece of code, coloured where its language is known.

    Some grammars take a time that is quadratic in the length of a text: their rest is not coloured.
    """
    is_read = len(text) <= _HIGHLIGHTED and not _STRANGE.search(text)
    lexer = _lexer(language.strip().split(" ")[0].lower()) if is_read else None
    if lexer is None:
        return escape(text)
    pieces: list[str] = []
    done, end = 0, thread_time() + _SLICE
    for kind, value in lexer.get_tokens(text):
        colour = _COLOURS.get(str(kind).split(".")[1] if "." in str(kind) else "")
        written = escape(value)
        pieces.append(f'<span class="{colour}">{written}</span>' if colour and value.strip() else written)
        done += len(value)
        if thread_time() > end:
            pieces.append(escape(text[done:]))
            break
    return "".join(pieces)


@cache
def _lexer(language: str) -> Any:
    from pygments import lexers
    from pygments.util import ClassNotFound

    try:
        return cast("Any", lexers).get_lexer_by_name(language, ensurenl=False, stripnl=False) if language else None
    except ClassNotFound:
        return None
