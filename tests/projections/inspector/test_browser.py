"""The inspector in a browser: every view, by mouse and keys, live, hostile text included."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import eventlog
from benchmarks.engine import filled
from benchmarks.workloads import small_turns
from eventlog.importers import import_file
from eventlog.values import Tokens, Usage
from projections.inspector.room import Room
from projections.verify.verify import verify
from tests.eventlog.search.test_damaged_commits import damage
from tests.eventlog.search.test_damaged_commits import filled as filled_in_blocks
from tests.projections.view.test_opaque_compactions import ANSWERS, CLAUDE
from tests.support.inspected_store import LARGE, hostile, inspected_store
from tests.support.inspector_server import serving
from tests.support.shared import shared_path

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

RECORDED = (
    "entireio_claude_code/cli__37_995ebed6e4_2_full.jsonl",
    "entireio_codex/git-sync__79_aa4e9d44f3_4_full.jsonl",
)
VIEWS = ("", "versions", "window", "steps", "steps/3", "tree", "replay")
SETTLED = {
    "": "article.message",
    "versions": ".sides article",
    "window": "#now",
    "steps": ".verdict",
    "steps/3": ".sent",
    "tree": ".node",
    "replay": ".stage",
}
"""An element that is there once a view is drawn."""
OF_STORE = {"list": ("#/", "a.row"), "usage": ("#/usage", ".bars")}
"""Views of the whole store: their address, and such an element."""
LISTENING = """
  window.listening = new Map();
  const count = (name, by) => listening.set(name, (listening.get(name) || 0) + by);
  const isGlobal = (target) => target === undefined || target === window || target === document || target instanceof MediaQueryList;
  const { addEventListener: add, removeEventListener: remove } = EventTarget.prototype;
  EventTarget.prototype.addEventListener = function (type, listener, options) {
    if (isGlobal(this)) {
      count(type, 1);
      options?.signal?.addEventListener("abort", () => count(type, -1));
    }
    return add.call(this, type, listener, options);
  };
  EventTarget.prototype.removeEventListener = function (type, ...rest) {
    if (isGlobal(this)) count(type, -1);
    return remove.call(this, type, ...rest);
  };
  for (const name of ["MutationObserver", "ResizeObserver", "IntersectionObserver"]) {
    const { observe, disconnect } = window[name].prototype;
    window[name].prototype.observe = function (...given) {
      if (!this.counted) count(name, 1);
      this.counted = true;
      return observe.apply(this, given);
    };
    window[name].prototype.disconnect = function () {
      if (this.counted) count(name, -1);
      this.counted = false;
      return disconnect.call(this);
    };
  }
  window.EventSource = class extends EventSource {
    constructor(...given) {
      super(...given);
      count("EventSource", 1);
    }
    close() {
      count("EventSource", -1);
      super.close();
    }
  };
"""
"""Counts what listens to the whole page, by name."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A store that is served: its path and its address."""
    path = tmp_path_factory.mktemp("served") / "store"
    inspected_store(path)
    with serving(path) as address:
        yield path, address


@pytest.fixture
def page(started: Browser, served: tuple[Path, str]) -> Iterator[Page]:
    """A page; it fails the test if it asks another server, breaks its policy, or has an error."""
    context = started.new_context(viewport={"width": 1200, "height": 800})
    context.set_default_timeout(20_000)
    found = context.new_page()
    faults: list[str] = []
    here = served[1]

    def asked(request: Any) -> None:
        if not str(request.url).startswith(here):
            faults.append(f"asked {request.url}")

    found.on("request", asked)
    found.on("console", lambda said: faults.append(said.text) if said.type in {"error", "warning"} else None)
    found.on("pageerror", lambda error: faults.append(str(error)))
    yield found
    context.close()
    assert not faults


def until(found: Callable[[], bool]) -> None:
    """Wait until something is true, for at most ten seconds."""
    end = time.monotonic() + 10
    while not found():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.02)


def test_every_view_is_reached_from_the_list(page: Page, served: tuple[Path, str]) -> None:
    """A reader clicks from the list through all views of a session."""
    page.goto(served[1])
    page.get_by_role("link", name="Why the import is slow").click()
    page.locator("article.message").last.wait_for()
    assert "It took" in page.locator("article.message").last.inner_text()
    for name, seen in (
        ("Versions", ".sides article"),
        ("Window", ".chart canvas"),
        ("Steps", "tbody tr"),
        ("Tree", ".node"),
        ("Replay", ".stage"),
        ("Transcript", "article.message"),
    ):
        page.get_by_role("navigation", name="Views of the session").get_by_role("link", name=name).click()
        page.locator(seen).first.wait_for()
        assert page.title().startswith("Why the import is slow")
    page.get_by_role("link", name="eventlog: sessions", exact=True).click()
    page.get_by_role("heading", name="Sessions").wait_for()


def test_a_transcript_shows_what_the_model_does_not_see(page: Page, served: tuple[Path, str]) -> None:
    """Messages say that a summary covers them or a rollback hides them; calls unfold."""
    page.goto(f"{served[1]}#/s/talk")
    cleared = page.locator("details.call", has_text="result cleared").first
    cleared.wait_for()
    older = page.get_by_role("button", name="Older messages")
    while older.count():
        page.locator("main").evaluate("main => main.scrollTo(0, -main.scrollHeight)")
        page.wait_for_timeout(50)
    said = page.locator("main").text_content() or ""  # also of what is not drawn
    assert "covered by a compaction" in said
    assert "rolled back" in said
    with eventlog.open(served[0], read_only=True) as store:
        everything = len(Room(store, "talk").history.messages)
    assert page.locator("article.message").count() == everything
    call = page.locator("details.call").first
    call.locator("summary").click()
    call.get_by_text("line 159 of round 0").wait_for()


def test_versions_are_compared_side_by_side(page: Page, served: tuple[Path, str]) -> None:
    """From jump to jump the right side shows what the model saw: changed, gone, added."""
    page.goto(f"{served[1]}#/s/talk/versions")
    page.locator(".sides article").first.wait_for()
    states: set[str] = set()
    jumps = page.get_by_role("combobox", name="Jump to").locator("option").all_inner_texts()
    assert {"prune", "compaction", "rollback", "fork"} <= {text.split()[1].strip(":") for text in jumps[1:]}
    page.get_by_role("slider", name="Version").fill("1")
    for _ in {text.split()[0] for text in jumps[1:]}:
        before = page.locator(".moment").inner_text()
        page.keyboard.press("]")
        page.wait_for_function("before => document.querySelector('.moment').innerText !== before", arg=before)
        page.locator(".sides article").first.wait_for()
        for state in ("same", "changed", "gone", "added"):
            if page.locator(f".seen.{state}").count():
                states.add(state)
    assert states == {"same", "changed", "gone", "added"}
    page.keyboard.press("[")
    page.locator(".moment .jump").first.wait_for()
    for named in [text for text in jumps if "rollback to" in text or "fork:" in text]:  # of one version
        page.get_by_role("combobox", name="Jump to").select_option(label=named)
        page.wait_for_timeout(300)
        assert page.get_by_role("combobox", name="Jump to").locator("option:checked").inner_text() == named


def test_two_versions_stand_side_by_side(page: Page, served: tuple[Path, str]) -> None:
    """Each side has what the model saw at its version; the address names both."""
    page.goto(f"{served[1]}#/s/talk/compare?first=20&second=200")
    page.locator(".pair-left", has_text="line 0 of round 0").first.wait_for()
    assert page.locator(".pair-right.fresh", has_text="[Old tool result content cleared]").count()
    page.get_by_label("left: version").fill("200")
    page.keyboard.press("Enter")
    page.get_by_text("no difference in what was said").wait_for()
    assert page.url.endswith("first=200&second=200")
    assert not page.locator(".pair-right.fresh").count()


def test_filters_and_order_are_in_the_address(page: Page, served: tuple[Path, str]) -> None:
    """Choices are kept in the address, and an address shows its choices."""
    page.goto(served[1])
    page.get_by_label("Order").select_option("tokens")
    page.get_by_placeholder("Title contains").fill("import")
    until(lambda: {"sort=tokens", "text=import"} <= set(re.split("[?&]", page.evaluate("() => location.hash"))))
    until(lambda: page.locator("a.row").count() == 2)
    page.goto(f"{served[1]}#/?cost=0.1&scope=alice")
    until(lambda: page.locator("a.row").count() == 1)
    page.goto(f"{served[1]}#/?scope=alice")
    page.locator("details.below > summary").click()
    page.get_by_role("link", name="Look for other slow imports").wait_for()


def test_sessions_of_a_model_are_listed(page: Page, served: tuple[Path, str]) -> None:
    """The models that were used can be chosen, and the choice is in the address."""
    page.goto(served[1])
    page.get_by_text("More filters").click()
    page.get_by_label("Model", exact=True).select_option("acme/one")
    until(lambda: "model=acme%2Fone" in page.evaluate("() => location.hash"))
    until(lambda: page.get_by_text("A question that nobody answered").count() == 0)
    page.get_by_role("link", name="Look for other slow imports").wait_for()


def test_usage_is_shown_over_time(page: Page, served: tuple[Path, str]) -> None:
    """Bars and sums by day, model and scope follow the choices, which are in the address."""
    page.goto(served[1])
    page.get_by_role("link", name="Usage").click()
    page.get_by_role("img", name="Cost by day; the table has the numbers").wait_for()
    assert "2026-01-15" in page.get_by_role("table", name="By day").inner_text()
    assert "on 2026-01-15" in page.locator(".bars figcaption").inner_text()  # the dearest day
    page.get_by_role("link", name="Tokens").click()
    page.get_by_role("img", name="Tokens by day; the table has the numbers").wait_for()
    page.get_by_role("table", name="By scope").get_by_role("link", name="alice").click()
    until(lambda: page.evaluate("() => location.hash") == "#/usage?scope=alice&show=tokens")
    until(lambda: page.get_by_role("table", name="By scope").get_by_role("link").count() == 1)
    page.goto(f"{served[1]}#/usage?from=2030-01-01")
    page.get_by_text("change the filters above").wait_for()


def test_no_listener_is_left_behind(page: Page, served: tuple[Path, str]) -> None:
    """Going through all views again leaves no more listeners than the first time."""
    page.add_init_script(LISTENING)
    page.goto(served[1])
    counts: list[dict[str, int]] = []
    for _ in range(3):
        for view in ("usage", *VIEWS, "list"):
            page.evaluate("hash => location.hash = hash", OF_STORE[view][0] if view in OF_STORE else f"#/s/talk/{view}")
            page.locator(OF_STORE[view][1] if view in OF_STORE else SETTLED[view]).first.wait_for()
        counts.append(page.evaluate("() => Object.fromEntries(listening)"))
    page.keyboard.press("t")
    assert counts[0]["keydown"] >= 1
    assert counts[0] == counts[2]


def test_the_facts_above_a_session_follow_it(started: Browser, tmp_path: Path) -> None:
    """Title and counts of a session that is watched change with it."""
    with eventlog.open(tmp_path / "store") as store:
        session = store.create_session(id="s", title="Before")
        session.user("one")
        with serving(tmp_path / "store") as address, shown_at(started, 1200, "light") as page:
            page.goto(f"{address}#/s/s")
            page.locator(".facts", has_text="1 message").wait_for()
            page.locator("article.message").first.wait_for()
            session.rename("After")
            session.user("two")
            page.locator(".facts", has_text="2 messages").wait_for()
            page.get_by_role("heading", name="After").wait_for()


def test_a_change_before_the_page_follows_is_shown(started: Browser, tmp_path: Path) -> None:
    """A message that comes between the page's reading and its stream is shown as others are."""
    with eventlog.open(tmp_path / "store") as store:
        session = store.create_session(id="s")
        session.user("one")
        with serving(tmp_path / "store") as address, shown_at(started, 1200, "light") as page:

            def say_and_go_on(route: Route) -> None:
                session.user("two")
                route.continue_()

            page.route("**/live/s/live*", say_and_go_on)
            page.goto(f"{address}#/s/s")
            page.locator("article.message", has_text="two").wait_for()
            page.locator(".facts", has_text="2 messages").wait_for()


def test_a_jump_shows_first_what_it_changed(page: Page, served: tuple[Path, str]) -> None:
    """A rollback shows what it hid, not the prune that it undid; a prune shows both."""
    with eventlog.open(served[0], read_only=True) as store:
        jumps = Room(store, "talk").history.jumps
    back, prune = (next(jump.version for jump in jumps if jump.kind == kind) for kind in ("rolled-back", "pruned"))
    in_sight = "one => one.getBoundingClientRect().top < innerHeight && one.getBoundingClientRect().top > 0"
    page.goto(f"{served[1]}#/s/talk/versions?at={back}")
    hidden = page.locator(".pair-right.chief", has_text="gone: rolled back").first
    hidden.wait_for()
    until(lambda: bool(hidden.evaluate(in_sight)))
    page.get_by_role("spinbutton", name="version").fill(str(prune))
    page.keyboard.press("Enter")
    page.locator(".chief", has_text="[Old tool result content cleared]").wait_for()
    page.locator(".pair-left .output", has_text="line 159 of round").wait_for()


def test_the_summary_of_a_compaction_is_one_click_away(page: Page, served: tuple[Path, str]) -> None:
    """At a compaction the page leads to its summary, below the slider that stays above it."""
    with eventlog.open(served[0], read_only=True) as store:
        at = next(jump.version for jump in Room(store, "talk").history.jumps if jump.kind == "compacted")
    page.goto(f"{served[1]}#/s/talk/versions?at={at}")
    page.locator(".chief").first.wait_for()
    page.get_by_role("button", name="Its summary").click()
    summary = page.locator(".pair-left .message.summary").last
    slider = page.locator("section.slider")
    below = "(one, slider) => one.getBoundingClientRect().top >= slider.getBoundingClientRect().bottom"
    assert summary.evaluate(below, slider.element_handle())
    assert summary.evaluate("one => one.getBoundingClientRect().top < innerHeight - 100")


def test_a_compaction_of_the_provider_is_counted_in_the_next_request(page: Page, served: tuple[Path, str]) -> None:
    """Its row has what the next step was sent: the history is there until its answer ends."""
    with eventlog.open(served[0]) as store:
        session = store.create_session(id="provider")
        for text in ("first " * 3_000, "second", "third"):
            session.user(text)
            with session.assistant(CLAUDE) as reply:
                if text == "second":
                    reply.fill(ANSWERS[CLAUDE])
                else:
                    reply.add_text("one")
                    reply.finish()
    page.goto(f"{served[1]}#/s/provider/window")
    page.locator("#now").wait_for()
    row = page.get_by_role("row", name=re.compile("compaction of the provider"))
    before, after = (int(cell.replace(",", "")) for cell in row.locator("td").all_inner_texts()[2:4])
    assert after < before / 10
    with eventlog.open(served[0]) as store:
        store.erase("provider")


def test_the_window_is_drawn_and_told(page: Page, served: tuple[Path, str]) -> None:
    """The chart has a picture, a sentence, a legend with numbers, and a table."""
    page.goto(f"{served[1]}#/s/talk/window")
    page.locator("#now").wait_for()
    chart = page.get_by_role("img", name=re.compile("Tokens by kind over .* usable 12,000"))
    chart.locator("canvas").wait_for()
    colours = chart.locator("canvas").evaluate(
        "c => new Set(Array.from(new Uint32Array(c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer))).size"
    )
    assert colours > 8
    chart.hover(position={"x": 300, "y": 100})
    assert "of 12,000" in page.locator(".legend").inner_text()
    freed = page.get_by_role("region", name="What was freed").inner_text()
    assert "compaction" in freed
    change, what = page.get_by_role("row", name=re.compile("prune")).last.locator("b, a").all_inner_texts()[::-1]
    assert re.fullmatch(r"\W[\d,]+", change)
    page.get_by_text("The chart as a table").click()
    assert page.get_by_role("columnheader", name="tool results").count() == 1
    assert "Next compaction" in page.locator("main").inner_text()
    page.get_by_role("link", name=what, exact=True).click()  # the same number stands in the other view
    page.locator(".moment", has_text="1 part cleared").get_by_text(change, exact=True).wait_for()


def test_marks_below_the_slider_are_named_and_apart(page: Page, served: tuple[Path, str]) -> None:
    """Each kind of change has a lane and a name; a fork hides no rollback at the same version."""
    page.goto(f"{served[1]}#/s/talk/versions")
    page.locator(".lanes path").first.wait_for(state="attached")
    legend = page.get_by_role("list", name="Marks below the slider").inner_text()
    assert re.sub(r"\d+", "N", legend).split("\n") == ["N prunes", "N compactions", "N rollback", "N fork"]
    places = page.locator(".lanes path").evaluate_all("all => all.map(one => one.getAttribute('d'))")
    assert len(set(places)) == len(places) == sum(map(int, re.findall(r"\d+", legend)))


def test_a_phone_says_which_side_is_which(started: Browser, served: tuple[Path, str]) -> None:
    """Where the sides stand below each other, each says whether it was said or seen."""
    for width, marked in ((390, True), (1440, False)):
        with shown_at(started, width, "light") as page:
            open_view(page, served[1], "versions")
            assert page.locator(".side-mark", has_text="The model saw").first.is_visible() is marked
            assert page.locator(".side-mark", has_text=re.compile("^Said$")).first.is_visible() is marked
            assert page.get_by_role("heading", name="What the model saw").is_visible() is not marked


def test_an_imported_step_leads_to_what_was_seen(started: Browser, tmp_path: Path) -> None:
    """A step without a recorded view leads to its version; an estimated cost is one line."""
    with eventlog.open(tmp_path / "store", prices=lambda _model, _tokens: None) as store:
        session = store.create_session(id="bare")
        session.user("hello")
        with session.assistant("openai/gpt-5") as reply:
            reply.step()
            reply.add_text("hi")
            reply.end_step(usage=Usage(Tokens(20_000_000, 100)))
            reply.finish()
    with serving(tmp_path / "store") as address, shown_at(started, 1440, "dark") as page:
        page.goto(address)
        cost = page.locator(".num b", has_text="$25.00")
        cost.wait_for()
        assert "≈" in cost.inner_text()
        assert cost.evaluate("one => one.getClientRects()[0].height") < 30
        page.goto(f"{address}#/s/bare/steps/1")
        page.get_by_role("link", name=re.compile(r"^version \d+$")).click()
        page.get_by_role("heading", name="What the model saw").wait_for()
        assert "versions?at=" in page.url


@pytest.mark.parametrize("width", [390, 1024, 1440])
def test_figures_of_steps_stand_below_each_other(started: Browser, served: tuple[Path, str], width: int) -> None:
    """A step that called tools has its figures where the others have them."""
    with shown_at(started, width, "dark") as page:
        open_view(page, served[1], "steps")
        page.locator(".tools-cell", has_text="grep").first.wait_for(state="attached")
        rows = page.locator(".steps-table tbody tr")
        lefts = rows.evaluate_all(
            "all => all.map(row => Math.round(row.querySelector('.n').getBoundingClientRect().left))"
        )
        assert len(lefts) > 2
        assert len(set(lefts)) == 1


def test_every_step_has_its_request(page: Page, served: tuple[Path, str]) -> None:
    """A step shows verdict, both digests, tokens, cost, and the messages that were sent."""
    page.goto(f"{served[1]}#/s/talk/steps")
    page.locator(".verdict-cell .verdict.match").first.wait_for()
    page.get_by_role("heading", name=re.compile(r"^(\d+) of \1 exact requests match$")).wait_for()
    assert "$0.15" in page.locator(".sums").inner_text()
    page.get_by_role("link", name="Step 9", exact=True).click()
    page.locator(".sent.tool").first.wait_for()
    said = page.locator("main").text_content() or ""
    digests = re.findall("[0-9a-f]{64}", said)
    assert len(digests) == 2
    assert digests[0] == digests[1]
    assert "match" in said
    assert "$0.0042" in said
    assert "[Old tool result content cleared]" in said
    page.keyboard.press("]")
    page.get_by_role("heading", name="Step 10 of").wait_for()


def test_a_search_finds_what_was_said_and_leads_there(page: Page, served: tuple[Path, str]) -> None:
    """Words are searched in all that was said; a hit opens the session at its message."""
    page.goto(served[1])
    page.keyboard.press("/")
    page.keyboard.type("importer where time goes (round 2)")
    page.keyboard.press("Enter")
    hit = page.locator("a.hit", has_text="Read the importer").last
    hit.wait_for()
    assert page.locator("mark", has_text="importer").count()
    assert not re.search(r"\*\*|`|##", page.locator("main").inner_text())
    page.get_by_role("combobox", name="What is searched").select_option("user")
    page.locator("a.hit", has_text="(round 2)").last.click()
    target = page.locator("article.message.fresh")
    target.wait_for()
    assert "(round 2)" in target.inner_text()
    assert page.evaluate("document.activeElement.classList.contains('fresh')")
    newer = page.get_by_role("button", name="Newer messages")
    while newer.evaluate_all("found => found.map(button => button.click()).length"):
        page.wait_for_timeout(50)
    assert "(round 18)" in (page.locator("main").text_content() or "")


def test_a_search_and_sums_name_the_sessions_that_are_damaged(tmp_path: Path, started: Browser) -> None:
    """Of a damaged block both pages name the sessions, and show the rest."""
    filled_in_blocks(tmp_path / "store", keyed=False)
    damage(tmp_path / "store", 1)
    with eventlog.open(tmp_path / "store") as store:
        wrong = {one.session for one in verify(store).sessions if not one.sound} - {"fork"}
    for file in (tmp_path / "store").rglob("search-*"):
        file.unlink()
    with serving(tmp_path / "store") as address, shown_at(started, 1200, "light") as page:
        for view, lack, rest in (("search?q=common", "not searched", "a.hit"), ("usage", "in no sum", ".bars")):
            page.goto(f"{address}#/{view}")
            said = page.locator("p[role=status]", has_text=f"Damaged, and {lack}")
            page.locator(rest).first.wait_for()
            assert wrong <= set(said.get_by_role("link").all_inner_texts()) <= {*wrong, "fork"}


def test_a_tree_leads_to_forks_and_sub_sessions(page: Page, served: tuple[Path, str]) -> None:
    """The tree names forks with their version, and sub-sessions; both can be opened."""
    page.goto(f"{served[1]}#/s/talk/tree")
    page.get_by_role("link", name=re.compile(r"sub-session.*Look for other slow imports.*, took \d+ ms")).wait_for()
    page.get_by_role("link", name=re.compile(r"fork at v\d+ The same with a larger batch unfinished")).click()
    page.get_by_role("heading", name="The same with a larger batch").wait_for()


def test_a_replay_plays_pauses_and_seeks(page: Page, served: tuple[Path, str]) -> None:
    """A replay grows at its pace, stands when it is paused, and begins where it is told to."""
    page.goto(f"{served[1]}#/s/talk/replay")
    stage = page.locator(".stage")
    page.get_by_role("button", name="Play").click()
    stage.get_by_text("Why does the import").wait_for()
    first = len(stage.inner_text())
    until(lambda: len(stage.inner_text()) > first)
    page.get_by_role("button", name="Pause").click()
    page.wait_for_timeout(100)
    paused = stage.inner_text()
    page.wait_for_timeout(400)
    assert stage.inner_text() == paused
    page.get_by_role("combobox", name="Speed").select_option("64")
    page.get_by_role("slider", name="Version").fill("800")
    page.keyboard.press("Space")
    stage.get_by_text("(round 18)").wait_for()
    page.get_by_role("button", name="Play").wait_for()
    stage.locator("strong", has_text="seconds").last.wait_for()
    until(lambda: "**" not in stage.inner_text())


def test_text_streams_in_and_the_list_follows(page: Page, served: tuple[Path, str]) -> None:
    """Another process writes: its session appears as running, and its words as they are said."""
    path, address = served
    page.goto(address)
    page.get_by_role("heading", name="Sessions").wait_for()
    with eventlog.open(path, flush_interval=0.02) as store:
        session = store.create_session(id="live", title="A live one")
        session.user("Tell me a story")
        with session.assistant("acme/one") as reply:
            row = page.get_by_role("link", name="A live one")
            row.filter(has_text="running").wait_for()
            row.click()
            page.get_by_text("Tell me a story").wait_for()
            text = reply.stream_text()
            text.append("Once upon **a time** ")
            page.locator(".stream", has_text="Once upon **a time**").wait_for()
            for word in range(30):
                text.append(f"word{word} ")
            page.locator(".stream", has_text="word29").wait_for()
            call = reply.tool("look", call_id="c1", input={"path": "/etc/x"})
            text.end()
            page.locator("details.call", has_text="/etc/x").wait_for()
            call.succeed("seen")
            reply.finish()
        page.locator("strong", has_text="a time").wait_for()
        asked = session.user("And then?")
        page.get_by_text("And then?").wait_for()
        session.rollback(before=asked)
        page.locator("article.unseen", has_text="And then?").wait_for()


def test_hostile_text_stays_text(started: Browser, tmp_path: Path) -> None:
    """Scripts do not run, tags are read, an output of 100 MB opens with its beginning."""
    with eventlog.open(tmp_path / "store") as store:
        hostile(store, large=LARGE)
    with serving(tmp_path / "store") as address, shown_at(started, 1200, "light") as page:
        page.goto(f"{address}#/s/hostile")
        page.locator("details.call > summary").click()
        page.get_by_text("Show more: 200K of 100M characters are shown").click()
        page.get_by_text("Show more: 400K of 100M characters are shown").wait_for()
        page.get_by_text("Thought").click()
        for view in VIEWS[1:]:
            page.goto(f"{address}#/s/hostile/{view.replace('3', '1')}")
            page.locator({"window": ".chart canvas", "steps/3": "main h2"}.get(view, SETTLED[view])).first.wait_for()
        page.goto(address)
        page.get_by_text("<b>bold</b>").wait_for()
        page.goto(f"{address}#/search?q=%3Cscript%3E")
        page.get_by_role("heading", name="<script>").wait_for()
        assert "owned" not in page.title()
        assert page.evaluate("document.querySelectorAll('img:not([src^=\"page/\"]), #app script, b b').length") == 0


def test_recorded_sessions_are_shown(page: Page, tmp_path: Path, started: Browser) -> None:
    """Sessions that other programs recorded open in every view."""
    del page
    with eventlog.open(tmp_path / "store") as store:
        for name in RECORDED:
            import_file(store, shared_path("data", *name.split("/")))
        sessions = [info.id for info in store.sessions() if info.messages > 5]
    with serving(tmp_path / "store") as address:
        shown = started.new_page()
        errors: list[str] = []
        shown.on("pageerror", lambda error: errors.append(str(error)))
        for session in sessions:
            for view in ("", "versions", "window", "steps", "tree", "replay"):
                shown.goto(f"{address}#/s/{session}/{view}")
                shown.locator(SETTLED[view]).first.wait_for()
                assert not shown.locator(".failed[role=alert]").count()
                if view == "steps":
                    for width in (390, 900, 1440):  # models have long names
                        shown.set_viewport_size({"width": width, "height": 800})
                        assert shown.locator(".scroll-x").evaluate("one => one.scrollWidth <= one.clientWidth"), width
                    shown.get_by_role("heading", name=re.compile("^No exact request can be checked")).wait_for()
                    assert re.search(r"cost ≈ \$\d", shown.locator(".sums").inner_text())
        shown.goto(address)
        until(lambda: shown.locator("a.row", has_text="≈ $").count() == len(sessions))
        shown.close()
        assert not errors


def test_all_can_be_done_with_keys(page: Page, served: tuple[Path, str]) -> None:
    """A reader without a mouse opens a session, walks its messages, unfolds one, goes on."""
    page.goto(served[1])
    page.locator("a.row").first.wait_for()
    titles = page.locator("a.row .row-title").all_inner_texts()
    for _ in range(1 + next(place for place, title in enumerate(titles) if "Why the import" in title)):
        page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.locator("article.message").first.wait_for()
    page.keyboard.press("k")
    assert page.evaluate("document.activeElement.matches('article.message')")
    while not page.evaluate("!!document.activeElement.querySelector('details')"):
        page.keyboard.press("k")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.querySelector('details').open")
    page.keyboard.press("4")
    page.locator("tbody tr").first.wait_for()
    while not page.evaluate("document.activeElement.matches('tbody a')"):
        page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name=re.compile("Step")).wait_for()
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Keys").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type("slow")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Search: slow").wait_for()
    page.keyboard.press("Escape")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("u")
    page.get_by_role("heading", name="Sessions").wait_for()


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1440, "light")])
def test_views_are_accessible(started: Browser, served: tuple[Path, str], width: int, scheme: Any) -> None:
    """No view has a moderate finding of axe-core, on a phone in the dark and on a desk by day."""
    from axe_playwright_python.sync_playwright import Axe

    axe: Any = Axe()
    with shown_at(started, width, scheme) as page:
        for view in ("list", "usage", *VIEWS):
            open_view(page, served[1], view)
            found: list[Any] = axe.run(page, options={"resultTypes": ["violations"]}).response["violations"]
            serious: list[Any] = [
                (each["id"], [node["html"] for node in each["nodes"]][:3])
                for each in found
                if each["impact"] != "minor"
            ]
            assert not serious, view


@pytest.mark.parametrize("width", [320, 390, 900, 1440])
def test_no_view_is_wider_than_its_screen(started: Browser, served: tuple[Path, str], width: int) -> None:
    """At every width, in narrow and wide fonts, a view is read without scrolling sideways."""
    with shown_at(started, width, "light") as page:
        for view in ("list", "usage", *VIEWS):
            open_view(page, served[1], view)
            for spacing in ("normal", "0.05em", "0.1em"):
                page.evaluate("spacing => document.documentElement.style.letterSpacing = spacing", spacing)
                check_width(page, view, width)


def check_width(page: Page, view: str, width: int) -> None:
    """Check that nothing is scrolled sideways, or cut."""
    assert page.evaluate("document.documentElement.scrollWidth") <= width, view
    assert page.evaluate("(main => main.scrollWidth <= main.clientWidth)(document.querySelector('main'))"), view
    if view == "window":  # tokens first: no screen is too narrow for them
        assert page.locator(".scroll-x:has(.largest)").evaluate("one => one.scrollWidth <= one.clientWidth")
    if view in {"steps", "steps/3"}:  # no column is cut, and all begin at one edge
        assert page.locator(".scroll-x").evaluate_all("all => all.every(one => one.scrollWidth <= one.clientWidth)")
        left = "all => new Set(all.map(one => Math.round(one.getBoundingClientRect().left))).size"
        assert page.locator("main > *").evaluate_all(left) == 1


@contextmanager
def shown_at(started: Browser, width: int, scheme: Any) -> Generator[Page]:
    """A page of some width, light or dark."""
    context = started.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    context.set_default_timeout(20_000)
    yield context.new_page()
    context.close()


def open_view(page: Page, address: str, view: str) -> None:
    """Open a view of the talk, the list or the usage, and wait until it is drawn."""
    place, settled = OF_STORE.get(view) or (f"#/s/talk/{view}", SETTLED[view])
    page.goto(f"{address}{place}")
    page.locator(settled).first.wait_for()


@pytest.mark.skipif(os.environ.get("EVERDELTA_SLOW") != "1", reason="takes a minute: EVERDELTA_SLOW=1")
def test_a_million_events_are_scrolled_smoothly(started: Browser, tmp_path: Path) -> None:
    """A session of a million events opens, and scrolls without a long task."""
    with eventlog.open(tmp_path / "store") as store:
        session = filled(store, small_turns(11_400))
        assert session.version > 1_000_000
        name = session.id
    with serving(tmp_path / "store") as address, shown_at(started, 1200, "light") as page:
        begin = time.monotonic()
        page.goto(f"{address}#/s/{name}")
        page.locator("article.message").first.wait_for()
        opened = time.monotonic() - begin
        page.wait_for_timeout(1_000)
        frames, tasks = page.evaluate(SCROLLING)
        print(f"opened in {opened:.2f} s; p95 frame {frames:.1f} ms; longest task {tasks:.0f} ms")
        assert page.locator("article.message").count() > 60
        assert frames <= 33
        assert tasks <= 200


SCROLLING = """async () => {
  const main = document.querySelector("main.chat"), frames = [], tasks = [0];
  new PerformanceObserver((list) => list.getEntries().forEach((each) => tasks.push(each.duration))).observe({ type: "longtask" });
  let last = performance.now();
  const end = last + 5000;
  await new Promise((done) => {
    const frame = (now) => {
      frames.push(now - last);
      last = now;
      main.scrollBy(0, -150);
      now < end ? requestAnimationFrame(frame) : done();
    };
    requestAnimationFrame(frame);
  });
  frames.sort((one, two) => one - two);
  return [frames[Math.floor(frames.length * 0.95)], Math.max(...tasks)];
}"""
"""Scrolls up for five seconds; gives the 95th percentile frame and the longest task."""


def test_the_file_of_a_token_leads_a_browser_in(started: Browser, tmp_path: Path) -> None:
    """The file for the browser of `serve` ends at the list, without a token in the address."""
    store, opener, given = tmp_path / "store", tmp_path / "browser", tmp_path / "given"
    inspected_store(store)
    opener.write_text(f'#!/bin/sh\necho "$1" > {given}.part && mv {given}.part {given}\n', encoding="utf-8")
    opener.chmod(0o700)
    with serving(store, "--token", opened_by=opener) as address:
        ends = time.monotonic() + 20
        while not given.exists() and time.monotonic() < ends:
            time.sleep(0.02)
        page = started.new_page()
        page.goto(given.read_text(encoding="utf-8").strip())
        page.wait_for_selector("a[href*='#/s/']")
        assert page.url.partition("#")[0] == address.partition("?")[0]
        assert "token" not in page.evaluate("document.cookie + location.href + document.referrer")
