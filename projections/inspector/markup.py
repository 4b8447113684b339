"""Markdown and code as the page shows them: safe HTML, with colours for code."""

from __future__ import annotations

from functools import cache
from html import escape
from typing import Any, cast

from projections.exports.html_text import markdown_html, plain_html, visible

__all__ = ["RENDERED", "code_html", "prose_html", "visible"]

RENDERED = 60_000
"""Characters of a text that are rendered as Markdown; a longer one is shown as it is."""
_HIGHLIGHTED = 20_000
"""Characters of a block of code that are coloured."""
_COLOURS = {"Keyword": "k", "Literal": "l", "Comment": "c", "Operator": "o", "Generic": "g"}
"""The class of each kind of token that has a colour."""


def prose_html(text: str) -> str:
    """Return the safe HTML of a Markdown text; of a long one that of the plain text."""
    if len(text) > RENDERED:
        return f'<pre tabindex="0">{plain_html(text)}</pre>'
    return markdown_html(text, code_html)


def code_html(text: str, language: str) -> str:
    """Return safe HTML of a piece of code, coloured where its language is known."""
    lexer = _lexer(language.strip().split(" ")[0].lower()) if len(text) <= _HIGHLIGHTED else None
    if lexer is None:
        return escape(text)
    pieces: list[str] = []
    for kind, value in lexer.get_tokens(text):
        colour = _COLOURS.get(str(kind).split(".")[1] if "." in str(kind) else "")
        written = escape(value)
        pieces.append(f'<span class="{colour}">{written}</span>' if colour and value.strip() else written)
    return "".join(pieces)


@cache
def _lexer(language: str) -> Any:
    from pygments import lexers
    from pygments.util import ClassNotFound

    try:
        return cast("Any", lexers).get_lexer_by_name(language, ensurenl=False, stripnl=False) if language else None
    except ClassNotFound:
        return None
