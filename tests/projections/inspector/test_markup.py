"""Stored text never becomes markup."""

from __future__ import annotations

import re
from html import escape, unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.exports.html_text import visible
from projections.inspector.markup import RENDERED, code_html, found_pieces, prose_html
from projections.inspector.message_json import gist
from tests.support.inspected_store import HOSTILE

ALLOWED = re.compile(
    r"</?(?:blockquote|br|code|del|em|h[3-6]|hr|li|ol|p|pre|s|span|strong|table|tbody|td|th|thead|tr|ul|a)"
    r'(?: (?:href|title|class|rel|target|tabindex|start)="[^"<>]*")*>'
)
"""The tags that may be in what is rendered."""
PIECES = st.sampled_from(
    ["<script>", "</script>", "<img src=x onerror=alert(1)>", "[a](javascript:x)", "![i](http://e/x.png)", "`", "```html\n",
     "\n\n", "**", "<b", "&lt;", '"', "'", "# ", "> ", "- ", "|a|b|\n|-|-|\n", "\x1b[2J", "\x00", "\u202e", "<!--", "-->",
     "<a href='javascript:x'>", "data:text/html,<script>", "[x]: javascript:y\n", "<https://e.org>", "שלום", "中文"]
)  # fmt: skip


def is_safe(html: str) -> bool:
    """Whether nothing but the allowed tags is in it."""
    return "<" not in ALLOWED.sub("", html) and "javascript:" not in "".join(re.findall(r'href="([^"]*)"', html))


@given(st.lists(PIECES | st.text(max_size=8), max_size=30).map("".join))
def test_any_text_is_rendered_as_safe_markup(text: str) -> None:
    """Any text becomes HTML with the allowed elements only, and no address of code."""
    html = prose_html(text)
    assert is_safe(html), html
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", html)


def test_hostile_text_is_shown_as_it_is() -> None:
    """Tags, addresses of code and steering characters are there to be read, and do nothing."""
    html = prose_html(HOSTILE)
    assert is_safe(html)
    for shown in ("&lt;script&gt;", "&lt;b&gt;bold&lt;/b&gt;", "⟨U+202E⟩gnp.exe", "\u241b[31mred", "שלום עולם"):
        assert shown in html
    assert "<img" not in html


def test_markdown_and_code_are_rendered() -> None:
    """Headings stand below the page's own; code has colours; a picture is a link."""
    html = prose_html("# Title\n\n**bold** ![alt](https://e.org/x.png)\n\n```python\nfor x in y: ...\n```\n")
    assert "<h3>Title</h3>" in html
    assert "<strong>bold</strong>" in html
    assert '<a href="https://e.org/x.png"' in html
    assert '<span class="k">for</span>' in html


def test_a_long_text_is_shown_plain() -> None:
    """A text over the bound is not rendered, and is safe all the same."""
    html = prose_html("**<b>**" * RENDERED)
    assert html.startswith("<pre")
    assert is_safe(html)
    assert "<strong>" not in html


def test_control_characters_are_visible() -> None:
    """Control characters, lone surrogates and overrides are shown as signs; lines stay."""
    assert visible("a\x00\x1b\x7f\r\nb\tc\ud800\u202e") == "a\u2400\u241b\u2421\nb\tc\ufffd⟨U+202E⟩"


@pytest.mark.parametrize("given", ["[" * 9_000, '{"a": "\ud800', '{"command": "[' + "x" * 20_000])
def test_what_a_call_was_given_is_a_line(given: str) -> None:
    """Arguments that are nested too deep, cut, or long are shown as one short line."""
    line = gist(given)
    assert 0 < len(line) <= 160
    assert "\n" not in line


def found_in(text: str, *words: str, prose: bool = True) -> list[tuple[str, bool]]:
    """The pieces of a snippet in which these words were found."""
    return found_pieces(text, sorted(found.span() for word in words for found in re.finditer(word, text)), prose=prose)


def test_a_snippet_has_words_without_marks() -> None:
    """Markdown in which words were found is shown as it reads; results stay as they are."""
    text = "It took **4.2 seconds** before.\n\n1. Each `row`\n\n| rows |\n|---|\n| 2**8 |"
    assert found_in(text, "4", "row\\b") == [
        ("It took ", False),
        ("4", True),
        (".2 seconds before. · Each ", False),
        ("row", True),
        (" · rows · 2**8", False),
    ]
    assert found_in(text, "4", prose=False) == [("It took **", False), ("4", True), (text[11:], False)]
    assert found_in("and cut** in `two", "two") == [("and cut in ", False), ("two", True)]
    assert found_in("see [this](http://a/word)", "word") == [
        ("see [this](http://a/", False),
        ("word", True),
        (")", False),
    ]


@given(st.lists(PIECES | st.text(max_size=8), max_size=12), st.integers(0, 11), st.integers(1, 3))
def test_any_snippet_keeps_what_was_found(texts: list[str], first: int, many: int) -> None:
    """In any Markdown each found word is one piece, and no control character is left."""
    words = [f"word{number}" for number in range(many)]
    texts[first:first] = words
    pieces = found_in("".join(texts), *words)
    assert [piece for piece, is_found in pieces if is_found] == words
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", "".join(piece for piece, _ in pieces))


def test_strange_code_is_shown_without_colours() -> None:
    """Long blanks and lines, which take some grammars seconds, are escaped and nothing else."""
    for language, text in (("matlab", "\n" * 20_000), ("console", "<" * 20_000), ("python", " \n" * 10_000)):
        assert code_html(text, language) == escape(text)


def test_the_rest_of_a_slow_block_has_no_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where colouring takes too long, the rest of the text is shown without colours, whole."""
    monkeypatch.setattr("projections.inspector.markup._SLICE", -1.0)
    text = "if a < b:\n    return 1\n" * 50
    assert unescape(re.sub("<[^>]*>", "", code_html(text, "python"))) == text
    assert code_html(text, "python").count("<span") <= 1
