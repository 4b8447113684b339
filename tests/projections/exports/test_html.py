"""The page of a session shows hostile text, never acts on it, and loads nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eventlog
from eventlog import MessageError
from eventlog.errors import CallError
from eventlog.session.session import Session
from eventlog.store import Store
from projections.exports.html import LONGEST, html_pieces
from projections.exports.html_text import markdown_html, plain_html, visible
from tests.support.inspector_server import browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ATTACK = (
    "<script>document.title='owned'</script> <img src=x onerror=\"document.title='owned'\"> </pre></details></article>"
    "<a href=\"javascript:document.title='owned'\">x</a> [y](javascript:alert(1)) ![z](http://tracker.example/p.png)"
    " <iframe src=//tracker.example></iframe> <style>*{display:none}</style> \u202egnp\u202c \0\x1b[31m \ud83d \x07"
)
TAGS = {
    "html", "head", "meta", "title", "style", "body", "main", "header", "h1", "h2", "h3", "h4", "h5", "h6", "dl", "div", "dt",
    "dd", "article", "small", "span", "mark", "details", "summary", "p", "b", "em", "strong", "pre", "code", "ul", "ol", "li",
    "blockquote", "a", "br", "hr", "del", "table", "thead", "tbody", "tr", "th", "td",
}  # fmt: skip


class Tags(HTMLParser):
    """The tags of a page, and the addresses that it names."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.names: set[str] = set()
        self.addresses: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take note of a tag."""
        self.tags.add(tag)
        self.names |= {name for name, _ in attrs}
        self.addresses += [value or "" for name, value in attrs if name in {"href", "src", "action", "srcset"}]


def hostile(store: Store) -> Session:
    """Make a session with hostile text wherever text can be."""
    session = store.create_session(title=ATTACK, scope=ATTACK.replace("\ud83d", ""), directory="<b>", agent="<i>'\"")
    session.user(f"# A heading\n\n{ATTACK}\n\n```html\n{ATTACK}\n```\n\n| a |\n|---|\n| {ATTACK} |", agent=ATTACK)
    with session.assistant(model='m"><script>/x') as reply:
        thought = reply.stream_reasoning()
        thought.append(ATTACK)
        thought.end()
        reply.add_text(f"> {ATTACK}\n\n- {ATTACK}\n\n**bold** `code`")
        reply.tool("<script>", call_id="1", input={"<b>": ATTACK}).succeed(ATTACK, title=ATTACK)
        reply.tool("rm", call_id="2", input={}).fail(ATTACK)
        reply.part(eventlog.Subtask(ATTACK, ATTACK))
        reply.abort(MessageError("<b>", ATTACK))
    return session


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """A hostile session."""
    return hostile(eventlog.open(tmp_path / "store"))


def test_stored_text_is_never_markup(session: Session) -> None:
    """No stored text becomes a tag, an attribute or an address that is loaded or run."""
    page = "".join(html_pieces(session))
    found = Tags(page)
    assert found.tags <= TAGS
    assert not any(name.startswith("on") or name in {"style", "src", "srcdoc"} for name in found.names)
    assert all(address.startswith("http://tracker.example/p.png") for address in found.addresses)
    assert not re.search("[\0-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", page)
    assert page.count("<script>") == 0
    assert "&lt;script&gt;" in page
    page.encode()


def test_a_page_forbids_itself_everything(session: Session) -> None:
    """The page's policy allows its own style and nothing else, and names no other place."""
    page = "".join(html_pieces(session))
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    assert policy.startswith("default-src &#x27;none&#x27;; style-src &#x27;sha256-")
    assert "unsafe" not in policy
    assert page.index("Content-Security-Policy") < page.index("<style>")
    assert "url(" not in page[page.index("<style>") : page.index("</style>")]


@pytest.fixture(scope="module")
def started() -> Iterator[Browser]:
    """A browser."""
    with browser() as found:
        yield found


@pytest.mark.parametrize("width", [390, 820, 1280])
def test_a_browser_runs_nothing_and_fits_the_width(
    started: Browser, session: Session, tmp_path: Path, width: int
) -> None:
    """In a browser the page runs no script, loads nothing, and fits any width."""
    path = tmp_path / "page.html"
    path.write_text("".join(html_pieces(session)), encoding="utf-8")
    page = started.new_page(viewport={"width": width, "height": 900})
    asked: list[str] = []
    said: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.goto(path.as_uri())
    assert "owned" not in page.title().replace("document.title='owned'", "")
    assert asked == [path.as_uri()]
    assert said == []
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("getComputedStyle(document.querySelector('main')).maxWidth") == "832px"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName") in {"A", "SUMMARY", "PRE"}


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1440, "light")])
def test_a_page_is_accessible(started: Browser, session: Session, tmp_path: Path, width: int, scheme: Any) -> None:
    """A page with all its calls unfolded has no serious finding of axe-core, light and dark."""
    from axe_playwright_python.sync_playwright import Axe

    path, axe = tmp_path / "page.html", cast("Any", Axe())
    path.write_text("".join(html_pieces(session)), encoding="utf-8")
    # the page's policy would keep axe-core out as well
    context = started.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True)
    page = context.new_page()
    page.goto(path.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    found: list[Any] = axe.run(page, options={"resultTypes": ["violations"]}).response["violations"]
    assert [each["id"] for each in found if each["impact"] in {"serious", "critical"}] == []


def test_a_long_part_is_cut_with_a_note(tmp_path: Path) -> None:
    """Of an output of 100 MB the page has the beginning, and says how much is left out."""
    with eventlog.open(tmp_path / "store") as store:
        session = store.create_session()
        with session.assistant("p/m") as reply:
            reply.tool("cat", call_id="1", input={}).succeed("0123456789abcde\n" * 6_553_600)
            reply.finish("stop")
        size = sum(map(len, html_pieces(session)))
        assert size < LONGEST + 20_000
        page = "".join(html_pieces(session))
    assert f"{16 * 6_553_600 - LONGEST:,} more characters are not shown" in page


def test_a_session_without_messages_is_a_page(store: Store) -> None:
    """An empty session is a page that says so."""
    assert "no message" in "".join(html_pieces(store.create_session()))


def test_a_missing_library_is_named(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra the error says what to install."""
    monkeypatch.setitem(__import__("sys").modules, "nh3", None)
    with pytest.raises(CallError, match=r"pip install '\.\[html\]'"):
        next(html_pieces(session))


@given(text=st.text())
@settings(max_examples=200, deadline=None)
def test_no_text_becomes_a_foreign_tag(text: str) -> None:
    """Of any Markdown only the allowed tags come out, and of plain text none."""
    assert Tags(markdown_html(text)).tags <= TAGS
    assert not Tags(plain_html(text)).tags


def test_what_turns_text_around_is_seen() -> None:
    """Control characters and overrides of direction are shown by signs; letters stay."""
    assert visible("a\u202eb\x1b\x7f\x85\r\n\u05e9\u05dc\ud83d") == "a⟨U+202E⟩b␛␡⟨U+0085⟩\n\u05e9\u05dc\ufffd"
    assert markdown_html("# a") == markdown_html("### a") == "<h3>a</h3>\n"
    assert markdown_html("## a\n### b") == "<h3>a</h3>\n<h4>b</h4>\n"
    assert 'rel="noopener' in markdown_html("[a](https://example.org)")


def test_a_page_says_what_was_spent_and_whether_it_is_unfinished(tmp_path: Path) -> None:
    """A page has the cost, with ≈ if list prices stand in for it, and says unfinished."""
    rates = eventlog.Rates(input=Decimal(2), output=Decimal(10))
    models = eventlog.ModelCatalogue({"acme/one": eventlog.KnownModel(eventlog.Limits(), (rates,))}, date="2026-11-01")
    with eventlog.open(tmp_path / "store", prices=lambda _model, _tokens: None, models=models) as store:
        session = store.create_session()
        for model in ("acme/one", "acme/two"):
            before = "".join(html_pieces(session))
            session.user("a question")
            with session.assistant(model) as reply:
                reply.add_text("an answer")
                reply.finish(usage=eventlog.Usage(eventlog.Tokens(1_000, 100)))
        after = "".join(html_pieces(session))
        assert "<dt>cost</dt><dd dir=auto>≈ $0.0030, by list prices of 2026-11-01</dd>" in before
        assert "≈ $0.0030, by list prices of 2026-11-01, not known for 1 call" in after
        assert "<dt>state</dt>" not in after
        session.user("another question")
        assert "<dt>state</dt><dd dir=auto>unfinished</dd>" in "".join(html_pieces(session))


def test_output_is_left_to_right_and_prose_by_its_first_letter(tmp_path: Path) -> None:
    """Arguments, output and error of a call are left to right, with any first letter."""
    with eventlog.open(tmp_path / "store") as store:
        session = store.create_session()
        session.user("\u0645\u0644\u0641 file")
        with session.assistant("acme/one") as reply:
            reply.tool("ls", call_id="a", input={"\u0645": 1}).succeed("\u0645\u0644\u0641.txt data.txt")
            call = reply.tool("ls", call_id="b")
            call.start({})
            call.fail("\u062e\u0637\u0623 1")
            reply.finish()
        page = "".join(html_pieces(session))
    written = re.findall(r"<(?:pre|summary)\b.*?\bdir=(\w+)>", page)
    assert written == ["ltr"] * 5
    assert "<p class=error dir=ltr>" in page
    assert "<div class=text dir=auto>" in page
