"""Calls of models and tools in a browser: states, failures, sums, and answers of a person."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import eventlog
from eventlog import Allow
from eventlog.values import Tokens, Usage
from tests.support.inspector_server import browser, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page


@pytest.fixture(scope="module")
def started() -> Iterator[Browser]:
    """A browser."""
    with browser() as found:
        yield found


@pytest.fixture
def asked(started: Browser, tmp_path: Path) -> Iterator[tuple[Path, Page]]:
    """A store in which two calls wait, and a page that answers for them."""
    with eventlog.open(tmp_path / "store") as store:
        session = store.create_session(id="s")
        session.user("drop both")
        with session.assistant("acme/one", id="a") as reply:
            for name in ("old", "older"):
                reply.tool("drop", call_id=name, id=name).ask("no undo", input={"table": name})
            reply.finish("tool-calls")
    with serving(tmp_path / "store", "--token", "--allow-answers") as address:
        page = started.new_page(viewport={"width": 1200, "height": 800})
        page.set_default_timeout(20_000)
        page.goto(address)
        page.goto(f"{address.partition('?')[0]}#/s/s")
        page.locator(".asked-call").nth(1).wait_for()
        for field in page.get_by_label("who answers").all():
            field.fill("ann")
        yield tmp_path / "store", page
        page.close()


def answers_of(path: Path) -> list[tuple[str, str]]:
    """Each answer with the part of its call."""
    with eventlog.open(path, read_only=True) as store:
        events = [recorded.event for recorded in store.session("s").events()]
    return [
        (event.part, "edit" if event.edit else event.verdict)
        for event in events
        if isinstance(event, eventlog.events.CallAnswered)
    ]


def click_twice(page: Page, button: Locator, settled: Locator | None = None) -> None:
    """Click a button, and what is in its place a moment later."""
    button.scroll_into_view_if_needed()
    box = button.bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    for number in (1, 2):
        page.mouse.down(click_count=number)
        page.mouse.up(click_count=number)
        page.wait_for_timeout(150)
        if settled is not None:
            settled.wait_for()


@pytest.mark.parametrize("width", [390, 1200])
def test_a_double_click_answers_for_no_call_by_chance(asked: tuple[Path, Page], width: int) -> None:
    """The second click changes nothing, whichever button is under the pointer by then."""
    path, page = asked
    page.set_viewport_size({"width": width, "height": 800})
    first = page.locator(".asked-call").first
    click_twice(page, first.get_by_role("button", name="Change the arguments"))
    first.get_by_label("allowed with these arguments").wait_for()
    assert answers_of(path) == []
    click_twice(page, first.get_by_role("button", name="Leave the arguments"))
    first.get_by_role("button", name="Change the arguments").wait_for()
    assert answers_of(path) == []
    click_twice(page, first.get_by_role("button", name="Allow"), page.locator(".asked-call:only-of-type"))
    assert answers_of(path) == [("old", "allow")]
    assert page.locator(".asked-call").count() == 1


def test_buttons_of_an_answer_keep_their_places(asked: tuple[Path, Page]) -> None:
    """Where arguments are changed, allowing and denying stand where they stood."""
    path, page = asked
    last = page.locator(".asked-call").last
    buttons = [last.get_by_role("button", name=name) for name in ("Allow", "Deny")]
    last.scroll_into_view_if_needed()
    before = [button.bounding_box() for button in buttons]
    last.get_by_role("button", name="Change the arguments").click()
    edited = last.get_by_label("allowed with these arguments")
    edited.wait_for()
    assert [button.bounding_box() for button in buttons] == before
    edited.fill('{"table": "copy"}')
    buttons[0].click()
    page.locator(".asked-call:only-of-type").wait_for()
    assert answers_of(path) == [("older", "edit")]


@contextmanager
def shown(started: Browser, path: Path, fill: Callable[[eventlog.Store], None]) -> Generator[tuple[str, Page]]:
    """A store that was filled, the address that serves it, and a page."""
    now = iter(range(1_768_471_200_000, 1 << 60, 400))
    with eventlog.open(path, clock=lambda: next(now), prices=lambda _model, _tokens: None) as store:
        fill(store)
    with serving(path) as address:
        page = started.new_page(viewport={"width": 1200, "height": 800})
        page.set_default_timeout(20_000)
        yield address, page
        page.close()


def test_a_call_has_one_state_in_all_views(started: Browser, tmp_path: Path) -> None:
    """A call that runs, was interrupted or allowed has one word in chat, versions and steps."""
    with eventlog.open(tmp_path / "store") as store:
        session = store.create_session(id="s")
        session.user("go")
        with session.assistant("acme/one", id="a") as reply:
            calls = {name: reply.tool(name, call_id=name) for name in ("cut", "run", "let", "ask")}
            calls["cut"].start({})
            calls["cut"].fail(interrupted=True)
            calls["run"].start({})
            for name in ("let", "ask"):
                calls[name].ask("no undo", input={})
            session.answer_call("a", "let", Allow(), by="ann")
            with serving(tmp_path / "store") as address:
                page = started.new_page(viewport={"width": 1200, "height": 800})
                words = ["interrupted", "running", "allowed by ann", "asked"]
                page.goto(f"{address}#/s/s")
                page.locator(".tag", has_text="allowed by ann").wait_for()
                tags = page.locator("details.call").evaluate_all(
                    "all => all.map(one => [...one.querySelectorAll('.tag')].map(tag => tag.innerText).join())"
                )
                assert tags == words
                page.goto(f"{address}#/s/s/versions")
                page.locator(".pair-left .tag", has_text="interrupted").wait_for()
                page.goto(f"{address}#/s/s/steps")
                page.locator("tbody tr").wait_for()
                runs = page.locator(".tools-cell .nowrap").all_inner_texts()
                assert [re.sub(r"[\d.]+ m?s |[()]", "", run) for run in runs] == [
                    f"{name} {word}" for name, word in zip(calls, words, strict=True)
                ]
                page.close()
            calls["run"].succeed("done")
            reply.finish("tool-calls")


def test_a_failure_stands_in_its_row(started: Browser, tmp_path: Path) -> None:
    """Steps name the error of a reply; a sum without tokens is a lower bound, none no zero."""

    def fill(store: eventlog.Store) -> None:
        for name in ("silent", "mixed"):
            session = store.create_session(id=name)
            session.user("go")
            with session.assistant("acme/one") as reply:
                reply.step()
                reply.add_text("The answer")
                reply.abort(eventlog.MessageError("overloaded", "HTTP 529: again in 20 s"))
        with session.assistant("acme/one") as reply:
            reply.step()
            reply.add_text("The answer")
            reply.finish(usage=Usage(Tokens(700, 20)))

    with shown(started, tmp_path / "store", fill) as (address, page):
        page.goto(f"{address}#/s/silent/steps")
        page.locator("td .tag.bad", has_text="broke off: overloaded").wait_for()
        assert re.findall(r"(\S+) tokens in|(\S+ ?%?) from a cache|(\S+) tokens out", sums_of(page)) == [
            ("\u2013", "", ""),
            ("", "\u2013", ""),
            ("", "", "\u2013"),
        ]
        assert re.search(r"\d\d:\d\d:\d\d", page.locator(".when-cell").inner_text())
        page.get_by_role("link", name="Step 1").click()
        page.locator("dd", has_text="HTTP 529: again in 20 s").wait_for()
        page.goto(f"{address}#/s/mixed/steps")
        page.locator("tbody tr").nth(1).wait_for()
        assert "1 without usage ≥ 700 tokens in 0 % from a cache ≥ 20 tokens out" in sums_of(page)
        page.get_by_label("Order").select_option("tokens")
        page.locator("tbody tr:first-child .tag.bad").wait_for(state="detached")
        assert page.url.endswith("steps?sort=tokens")
        page.locator("tbody .verdict.unknown").nth(1).wait_for()
        page.goto(f"{address}#/usage")
        assert page.locator(".bars title").first.text_content() == "2026-01-15: not known"


def sums_of(page: Page) -> str:
    """The line of sums above the steps."""
    return " ".join(page.locator(".sums").inner_text().split())


def test_a_text_that_streams_is_replayed_in_its_line(started: Browser, tmp_path: Path) -> None:
    """Words that come one by one stand behind each other before the text has ended."""

    def fill(store: eventlog.Store) -> None:
        session = store.create_session(id="s")
        session.user("go")
        with session.assistant("acme/one") as reply:
            text = reply.stream_text()
            for word in ("Table", " 1", " is", " moved", ".\n\n**It is.**"):
                text.append(word)
            reply.finish()

    with shown(started, tmp_path / "store", fill) as (address, page):
        page.goto(f"{address}#/s/s/replay")
        page.get_by_role("combobox", name="Speed").select_option("0.5")
        page.get_by_role("button", name="Play").click()
        page.locator(".stage .message.assistant", has_text=" moved").wait_for()
        assert "Table 1 is moved" in page.locator(".stage").inner_text()
        page.locator(".stage strong", has_text="It is.").wait_for()
