"""Stored text as HTML: shown, and never acted on.

Markdown is rendered with HTML in it switched off, then cleaned to a short list of tags, without
images. All other text is escaped. Control characters become visible, so does what turns the
direction of writing around, and lone surrogates become U+FFFD. Needs the extra `html`, loaded with
the first Markdown text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from html import escape, unescape
from typing import TYPE_CHECKING, Any

from eventlog.errors import CallError
from projections.requests.text import sendable

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_INVISIBLE = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufff9-\ufffb\ufeff]")
_TAGS = {
    "p", "br", "hr", "strong", "em", "del", "code", "pre", "blockquote", "ul", "ol", "li", "a", "table", "thead", "tbody",
    "tr", "th", "td", "h1", "h2", "h3", "h4", "h5", "h6",
}  # fmt: skip
_HEADINGS = re.compile(r"(</?h)([1-6])(?=>)")


def visible(text: str) -> str:
    """Return a text whose control characters are seen, and change nothing."""
    return _INVISIBLE.sub(lambda found: _sign(ord(found[0])), sendable(text).replace("\r\n", "\n"))


def _sign(code: int) -> str:
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"\u27e8U+{code:04X}\u27e9"


def plain_html(text: str) -> str:
    """Return a text as HTML that shows it as it is."""
    return escape(visible(text))


Colour = Callable[[str, str], str]
"""Gives the HTML of code in a language: its text escaped, in `span` elements with a class."""


def markdown_html(text: str, colour: Colour | None = None) -> str:
    """Return Markdown as HTML; its largest heading is the next below those of a page.

    With `colour` blocks of code get colours, and can be reached with the keyboard.
    """
    import_html()
    import nh3

    cleaned = nh3.clean(
        _parser(colour).render(visible(text)),
        tags=_TAGS if colour is None else _TAGS | {"span"},
        attributes={"a": {"href", "title"}, "code": {"class"}, "ol": {"start"}, "pre": {"tabindex"}, "span": {"class"}},
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener noreferrer nofollow",
        set_tag_attribute_values={} if colour is None else {"a": {"target": "_blank"}},
    )
    largest = min((int(tag[2]) for tag in _HEADINGS.finditer(cleaned)), default=1)
    return _HEADINGS.sub(lambda tag: f"{tag[1]}{min(int(tag[2]) - largest + 3, 6)}", cleaned)


def markdown_words(text: str) -> str:
    """Return the words of a Markdown text without its marks; a dot stands between blocks."""
    import_html()
    blocks: list[str] = []
    for token in _parser(None).parse(visible(text)):
        if token.type == "inline":
            blocks.append("".join(map(_inline_words, token.children or ())))
        elif token.type in {"fence", "code_block"}:
            blocks.append(token.content.strip())
    return " · ".join(filter(None, blocks))


def _inline_words(token: Token) -> str:
    return " " if token.type in {"softbreak", "hardbreak"} else token.content


def import_html() -> None:
    """Raise `CallError` unless the extra `html` is installed."""
    try:
        import markdown_it
        import nh3
    except ImportError as error:
        raise CallError(f"HTML needs the extra `html` ({error.name}): pip install '.[html]'") from None
    del markdown_it, nh3


@cache
def _parser(colour: Colour | None) -> MarkdownIt:
    from markdown_it import MarkdownIt

    options = {"html": False, "linkify": False, "typographer": False, "breaks": True}
    made = (
        MarkdownIt("commonmark", options)
        .enable(["table", "strikethrough"])
        .disable(["image", "html_block", "html_inline"])
    )
    if colour is not None:

        def block(_renderer: Any, tokens: Sequence[Token], index: int, _options: Any, _env: Any) -> str:
            token = tokens[index]
            return f'<pre tabindex="0"><code>{colour(token.content, unescape(token.info))}</code></pre>\n'

        made.add_render_rule("fence", block)
        made.add_render_rule("code_block", block)
    return made
