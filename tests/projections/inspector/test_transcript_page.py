"""The transcript in a browser: its ends, links to sub-sessions, and the direction of writing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import eventlog
from tests.support.inspector_server import serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A long conversation, served: its address."""
    path = tmp_path_factory.mktemp("served") / "store"
    with eventlog.open(path) as store:
        long = store.create_session(id="long")
        with long.pipeline():
            for number in range(400):
                long.user(f"question {number}\n\n" + "more words\n\n" * 5)
    with serving(path) as address:
        yield address


@pytest.fixture
def page(started: Browser) -> Iterator[Page]:
    """A page."""
    context = started.new_context(viewport={"width": 1200, "height": 800})
    context.set_default_timeout(20_000)
    yield context.new_page()
    context.close()


IN_SIGHT = "one => innerHeight > one.getBoundingClientRect().top && one.getBoundingClientRect().bottom > 0"


def in_sight(page: Page, words: str) -> None:
    """Wait until a message stands in sight."""
    message = page.locator("article.message", has_text=words)
    message.wait_for()
    page.wait_for_function(IN_SIGHT, arg=message.element_handle())


def test_both_ends_of_a_long_conversation_are_one_step_away(page: Page, served: str) -> None:
    """Links and keys lead to the first message and back to the newest, more than once."""
    page.goto(f"{served}#/s/long")
    in_sight(page, "question 399")
    ends = page.get_by_role("navigation", name="Ends of the conversation")
    ends.get_by_role("link", name="First message").click()
    in_sight(page, "question 0")
    page.locator("main").evaluate("main => main.scrollTo(0, 0)")
    ends.get_by_role("link", name="First message").click()
    in_sight(page, "question 0")
    ends.get_by_role("link", name="Newest message").click()
    in_sight(page, "question 399")
    page.keyboard.press("g")
    in_sight(page, "question 0")
    page.keyboard.press("G")
    in_sight(page, "question 399")
