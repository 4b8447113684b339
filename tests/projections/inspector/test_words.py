"""Numbers, times and sums in the page: exact enough to tell two of them apart."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

import eventlog
from eventlog.values import Tokens, Usage
from tests.support.inspector_server import serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A conversation with sub-agents, served: its address."""
    path = tmp_path_factory.mktemp("served") / "store"
    with eventlog.open(path) as store:
        top = store.create_session(id="top", title="With two helpers")
        top.user("Go")
        helper = top.subsession(id="helper", title="A helper")
        for session, cost in ((top, "0.0168"), (helper, "0.03"), (helper.subsession(id="last"), "0.00477")):
            session.record_usage(Usage(Tokens(10), Decimal(cost)), model="acme/one")
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
