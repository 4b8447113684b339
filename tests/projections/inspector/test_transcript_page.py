"""The transcript in a browser: its ends, sub-sessions, and the direction of writing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import eventlog
from eventlog.session.session import Session
from projections.loop import CallModel, ContextWindow, RunTools, task_tool
from tests.support.inspector_server import serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


def work(session: Session) -> None:
    """Let a loop answer: the first session by a task, which a sub-session does."""
    tools = [task_tool(agents={"reader": "reads"})]
    with ContextWindow(session, model="acme/one", limits=eventlog.Limits(), tools=tools) as window:
        while step := window.next_step():
            match step:
                case CallModel():
                    reply, request = window.begin(step)
                    if session.info.parent or len(request.messages) > 1:
                        reply.add_text("It is empty.")
                        reply.finish()
                    else:
                        reply.tool("task", call_id="c", input=TASK)
                        reply.end_step("tool-calls")
                case RunTools():
                    window.run_task(step.calls[0], work)
                    window.finish()
                case _:
                    window.perform(step)


def arabic(session: Session) -> None:
    """Add a question, arguments, an output and an error that each begin with an Arabic letter."""
    session.user("مرحبا file.txt")
    with session.assistant("acme/one") as reply:
        reply.step()
        call = reply.tool("ls", call_id="c1", input={"path": "ملف argument.txt"})
        call.succeed("ملف output.txt data.txt")
        call = reply.tool("ls", call_id="c2")
        call.start({})
        call.fail("خطأ error.txt")
        reply.finish()


TASK: dict[str, object] = {"description": "Read", "prompt": "Read the log, please", "subagent_type": "reader"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A long conversation, served: its address."""
    path = tmp_path_factory.mktemp("served") / "store"
    with eventlog.open(path) as store:
        long = store.create_session(id="long")
        with long.pipeline():
            for number in range(400):
                long.user(f"question {number}\n\n" + "more words\n\n" * 5)
        arabic(store.create_session(id="arabic"))
        asking = store.create_session(id="asking")
        asking.user("Read the log")
        work(asking)
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


def test_a_task_leads_to_its_sub_session(page: Page, served: str) -> None:
    """A call whose work a sub-session does has a link to it, also while it is folded."""
    page.goto(f"{served}#/s/asking")
    page.locator(".part.tool", has_text="task").get_by_role("link", name="sub-session").click()
    in_sight(page, "Read the log, please")
    page.locator(".facts", has_text="sub-session of asking").wait_for()


def test_output_is_left_to_right_and_prose_by_its_first_letter(page: Page, served: str) -> None:
    """Arabic at the beginning turns a question around, and no argument, output or error."""
    page.goto(f"{served}#/s/arabic")
    page.locator("details.call").first.wait_for()
    for call in page.locator("details.call > summary").all():
        call.click()
    for word, direction in (("file.txt", "rtl"), ("output.txt", "ltr"), ("error.txt", "ltr")):
        assert directions(page, word) == {direction}, word
    assert directions(page, "argument.txt") == {"ltr"}
    page.goto(f"{served}#/search?q=data")
    assert directions(page, "output.txt", ".snippet") == {"ltr"}
    page.goto(f"{served}#/s/arabic/replay")
    page.get_by_role("button", name="Play").click()
    page.locator(".stage").get_by_text("argument.txt").wait_for()
    assert directions(page, "argument.txt") == {"ltr"}


def directions(page: Page, word: str, where: str = "main :not(:has(*))") -> set[str]:
    """The directions of what has a word in it: by default of the innermost elements."""
    found = page.locator(where, has_text=word)
    found.first.wait_for()
    return set(found.evaluate_all("all => all.map(one => getComputedStyle(one).direction)"))
