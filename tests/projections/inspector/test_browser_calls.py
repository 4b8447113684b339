"""Calls of a session in a browser: answered by a person, with one state everywhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import eventlog
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
