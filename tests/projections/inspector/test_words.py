"""Numbers, times and sums in the page: exact enough to tell two of them apart."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

import eventlog
from eventlog.values import Tokens, Usage
from projections.exports.html_text import visible
from tests.support.inspector_server import serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


PICTURES = [eventlog.Attachment("image/png", "data:image/png;base64,iVBORw0KGgo=", name) for name in ("a.png", "b.png")]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A conversation with sub-agents, served: its address."""
    path = tmp_path_factory.mktemp("served") / "store"
    with eventlog.open(path) as store:
        top = store.create_session(id="top", title="With two helpers")
        top.user("Go")
        store.create_session(id="empty")
        helper = top.subsession(id="helper", title="A helper")
        for session, cost in ((top, "0.0168"), (helper, "0.03"), (helper.subsession(id="last"), "0.00477")):
            session.record_usage(Usage(Tokens(10), Decimal(cost)), model="acme/one")
        many = store.create_session(id="many")
        with many.pipeline():
            for _ in range(41):
                with many.assistant("acme/one") as reply:
                    reply.add_text("yes")
                    reply.finish()
            with store.session("many").assistant("acme/one") as reply:
                reply.tool("look", call_id="c", input={}).succeed("seen", attachments=PICTURES)
                reply.finish()
    with serving(path) as address:
        yield address


@pytest.fixture
def page(started: Browser, served: str) -> Iterator[Page]:
    """A page that shows the list."""
    context = started.new_context(viewport={"width": 1200, "height": 800})
    context.set_default_timeout(20_000)
    found = context.new_page()
    found.goto(served)
    found.locator("a.row").first.wait_for()
    yield found
    context.close()


def test_times_are_told_in_two_units(page: Page) -> None:
    """Two times that differ by a tenth read as two."""
    times = {
        950: "950 ms", 4_300: "4.3 s", 59_949: "59.9 s", 59_960: "1 min", 89_000: "1 min 29 s", 95_000: "1 min 35 s",
        140_000: "2 min 20 s", 3_500_000: "58 min 20 s", 3_599_600: "1 h", 11_100_000: "3 h 5 min",
        7_199_000: "2 h", 97_000_000: "26 h 57 min",
    }  # fmt: skip
    said = page.evaluate("times => import('/page/ui.js').then(ui => times.map(ui.duration))", list(times))
    assert said == list(times.values())


def test_the_cost_of_a_conversation_has_that_of_its_sub_agents(page: Page, served: str) -> None:
    """List, header and tree say the own cost, and the cost with sub-sessions."""
    both = "$0.0168, $0.0516 with sub-sessions"
    assert page.locator("a.row", has_text="With two helpers").locator(".num").last.inner_text().split() == [
        "$0.0168",
        "cost",
    ]
    assert page.locator("details.below > summary").inner_text() == "1 sub-session, cost with them $0.0516"
    page.goto(f"{served}#/s/top/tree")
    page.locator(".facts", has_text=both).wait_for()
    page.locator(".node", has_text=both).wait_for()
    page.get_by_role("heading", name="3 sessions in the tree, $0.0516 in all").wait_for()


def test_small_amounts_are_not_nothing(page: Page) -> None:
    """An amount below a hundredth of a cent has two digits that say something."""
    amounts = {"0": "$0.00", "0.0000113": "$0.000011", "0.00012": "$0.0001", "0.05157": "$0.0516", "1.5": "$1.50", "1234.5": "$1,235"}  # fmt: skip
    said = page.evaluate("amounts => import('/page/ui.js').then(ui => amounts.map(ui.dollars))", list(amounts))
    assert said == list(amounts.values())


def test_the_page_shows_signs_as_its_server_does(page: Page) -> None:
    """Characters that steer or turn around what is written are the same signs on both ways."""
    every = "".join(map(chr, (*range(0x100), *range(0x2020, 0x2030), *range(0x2060, 0x2070), 0xFEFF, 0xFFFA)))
    every = every.replace("\r", "")
    assert page.evaluate("text => import('/page/ui.js').then(ui => ui.visible(text))", every) == visible(every)


def test_an_address_that_leads_nowhere_says_so(page: Page, served: str) -> None:
    """An unknown page, session or version is named, with a way back; nothing else is shown."""
    for place in ("nonsense/x", "s/top/nonsense"):
        page.goto(f"{served}#/{place}")
        page.get_by_role("heading", name="No such page").wait_for()
        assert f"#/{place}" in page.locator("main").inner_text()
        page.get_by_role("link", name="All sessions").click()
        page.locator("a.row").first.wait_for()
    page.goto(f"{served}#/s/nosuch")
    page.locator(".failed[role=alert]", has_text="nosuch").wait_for()
    page.get_by_role("link", name="All sessions").click()
    page.locator("a.row").first.wait_for()
    page.goto(f"{served}#/s/top/versions?at=99999")
    page.get_by_text(re.compile(r"There is no version 99,999: the newest is \d\.")).wait_for()


def test_an_empty_session_has_no_chart(page: Page, served: str) -> None:
    """Where nothing was said, no chart, no beginning and no empty table is drawn."""
    page.goto(f"{served}#/s/empty/window")
    page.locator("#now").wait_for()
    assert page.locator(".chart, table").count() == 0
    page.goto(f"{served}#/s/empty")
    page.get_by_text("Nothing was said yet.").wait_for()
    assert page.get_by_text("the beginning").count() == 0


def test_a_folded_call_says_that_its_result_has_files(page: Page, served: str) -> None:
    """The number of files stands at the call before it is opened."""
    page.goto(f"{served}#/s/many")
    page.locator("details.call:not([open]) > summary", has_text="2 files").wait_for()


def test_the_button_below_a_table_stands_at_its_edge(page: Page, served: str) -> None:
    """All that a view of steps has begins at one edge, the button for earlier ones, too."""
    page.goto(f"{served}#/s/many/steps")
    page.get_by_role("button", name="Earlier steps").wait_for()
    lefts = page.locator("main > *").evaluate_all("all => all.map(one => Math.round(one.getBoundingClientRect().left))")
    assert len(set(lefts)) == 1
