"""Turns stored text into what a page may show: Markdown and code as safe HTML, or plain text.

Stored text never becomes markup. HTML in Markdown is shown as the text that it is; what the
renderer makes is cleaned once more, down to the few elements named here. A picture becomes a link.
"""

from __future__ import annotations

import html
import re
from functools import cache
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markdown_it import MarkdownIt
    from markdown_it.token import Token

__all__ = ["RENDERED", "code_html", "markdown_html", "visible"]

RENDERED = 60_000
"""Characters of a text that are rendered as Markdown; a longer one is shown as it is."""
_HIGHLIGHTED = 20_000
"""Characters of a block of code that are coloured."""
_HEADING = 3
"""How far headings are moved down: the page's own stand above them."""

_HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")
_STEERING = re.compile("[\u202a-\u202e\u2066-\u2069]")
"""Overrides of the writing direction: shown, so that a text cannot pose as another."""
_TAGS = {
    "a", "blockquote", "br", "code", "del", "em", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "s", "span",
    "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
_ATTRIBUTES = {"a": {"href", "title"}, "code": {"class"}, "span": {"class"}, "pre": {"tabindex"}, "ol": {"start"}}


def visible(text: str) -> str:
    """Return the text with control characters and lone surrogates as visible signs."""
    text = text.replace("\r\n", "\n")
    return _STEERING.sub(_named, _HARMFUL.sub(_shown, text))


def markdown_html(text: str, *, breaks: bool = False) -> str:
    """Return the safe HTML of a Markdown text; of a long one that of the plain text.

    With `breaks` each line of it stays a line.
    """
    import nh3

    if len(text) > RENDERED:
        return f'<pre tabindex="0">{html.escape(visible(text))}</pre>'
    rendered = _markdown(breaks).render(visible(text))
    return nh3.clean(
        rendered,
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener noreferrer nofollow",
        set_tag_attribute_values={"a": {"target": "_blank"}},
    )


def code_html(text: str, language: str) -> str:
    """Return safe HTML of a piece of code, coloured where its language is known."""
    lexer = _lexer(language.strip().split(" ")[0].lower()) if len(text) <= _HIGHLIGHTED else None
    if lexer is None:
        return html.escape(text)
    pieces: list[str] = []
    for kind, value in lexer.get_tokens(text):
        colour = _COLOURS.get(str(kind).split(".")[1] if "." in str(kind) else "")
        written = html.escape(value)
        pieces.append(f'<span class="{colour}">{written}</span>' if colour and value.strip() else written)
    return "".join(pieces)


_COLOURS = {"Keyword": "k", "Name": "", "Literal": "l", "Comment": "c", "Operator": "o", "Generic": "g"}


@cache
def _lexer(language: str) -> Any:
    from pygments import lexers
    from pygments.util import ClassNotFound

    try:
        return cast("Any", lexers).get_lexer_by_name(language, ensurenl=False, stripnl=False) if language else None
    except ClassNotFound:
        return None


@cache
def _markdown(breaks: bool) -> MarkdownIt:
    from markdown_it import MarkdownIt

    made = MarkdownIt("commonmark", {"html": False, "maxNesting": 20, "breaks": breaks}).enable(
        ["table", "strikethrough"]
    )
    made.disable(["image", "html_block", "html_inline"])
    made.add_render_rule("fence", _fence)
    made.add_render_rule("code_block", _fence)
    made.add_render_rule("heading_open", _heading)
    made.add_render_rule("heading_close", _heading)
    return made


def _fence(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    del renderer, options, env
    token = tokens[index]
    return f'<pre tabindex="0"><code>{code_html(token.content, html.unescape(token.info))}</code></pre>\n'


def _heading(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    del renderer, options, env
    token = tokens[index]
    level = min(int(token.tag[1:]) + _HEADING - 1, 6)
    return f"<h{level}>" if token.nesting == 1 else f"</h{level}>"


def _shown(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    return "\ufffd"


def _named(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"
