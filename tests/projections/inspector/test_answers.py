"""The answers to the page: all that was said, what was seen of it, and when."""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from msgspec.structs import replace

import eventlog
from eventlog import Allow, Deny, UsageByDay
from eventlog.errors import CallError, NotFoundError
from eventlog.session.session import Session
from eventlog.store import Store
from eventlog.values import Tokens, Usage
from projections import ModelView, Transcript
from projections.inspector import answers
from projections.inspector.app import usage
from projections.inspector.catalogue import Catalogue, Estimates
from projections.inspector.history import History
from projections.inspector.large_text import MOST
from projections.inspector.markup import prose_html
from projections.inspector.message_json import gist
from projections.inspector.room import Room, Rooms
from projections.inspector.window_series import POINTS, sample
from projections.loop.context.report import window_report
from projections.loop.context.window import ContextWindow
from projections.reports.audit import audit
from projections.reports.usage import UsageTotals
from projections.view.neutral import Result, Text
from tests.support.inspected_store import HOSTILE


def pages(room: Room, **query: str) -> list[dict[str, Any]]:
    """Every message, read in pages."""
    found: list[dict[str, Any]] = []
    more = True
    before: dict[str, str] = {}
    while more:
        page = answers.messages(room, {"size": "7", **query, **before})
        json.dumps(page)
        found = page["messages"] + found
        more, before = page["more"], {"before": str(found[0]["version"])}
    return found


def points_of(room: Room) -> list[dict[str, Any]]:
    """The points of the window over time, read in pieces."""
    points: list[dict[str, Any]] = []
    done = False
    while not done:
        answer = answers.window(room, {"have": str(len(points))})
        points += answer["points"]
        done = not answer["left"]
    return points


def jumps_of(room: Room, kind: str) -> list[int]:
    """The versions of the jumps of a kind."""
    return [jump.version for jump in room.history.jumps if jump.kind == kind]


def test_pages_have_everything_once_in_order(inspected: Store) -> None:
    """The pages together have each message of the session once, those rolled back included."""
    room = Room(inspected, "talk")
    found = pages(room)
    assert [message["version"] for message in found] == room.history.messages
    effective = {message.id for message in Transcript(room.session).oldest_first()}
    hidden = {message["id"] for message in found} - effective
    assert hidden
    assert {message["id"] for message in found if message["reason"] == "rolled-back"} == hidden


def test_a_page_without_a_checkpoint_comes_before_its_reasons(
    inspected: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quick page has the same messages, and says that its reasons are to come."""
    monkeypatch.setattr("projections.inspector.room._NEAR", -1)
    room, catalogue = Room(inspected, "talk"), Catalogue(inspected)
    quick = answers.messages(room, {"quick": "1"})
    assert not quick["marked"]
    first = answers.session(room, {"quick": "1"}, catalogue)
    assert (first["partial"], first["model"]) == (True, "")
    whole = answers.messages(room, {})
    assert whole["marked"]
    assert [message["id"] for message in whole["messages"]] == [message["id"] for message in quick["messages"]]
    assert {message["reason"] for message in quick["messages"]} == {"shown", "rolled-back"}
    assert {message["reason"] for message in whole["messages"]} > {"shown", "rolled-back"}
    assert answers.session(room, {}, catalogue)["model"] == "acme/one"
    monkeypatch.setattr("projections.inspector.room._NEAR", 50_000)
    assert answers.messages(Room(inspected, "talk"), {"quick": "1"}) == whole


def test_pages_lead_on_from_a_message_in_the_middle(inspected: Store) -> None:
    """Around a version a page has its message; from there all newer and older ones follow."""
    room = Room(inspected, "talk")
    begins = room.history.messages
    middle = begins[len(begins) // 2]
    page = answers.messages(room, {"around": str(middle), "size": "8"})
    found = [message["version"] for message in page["messages"]]
    assert middle in found
    newer = page["newer"]
    while newer:
        page = answers.messages(room, {"after": str(found[-1]), "size": "8"})
        found += [message["version"] for message in page["messages"]]
        newer = page["newer"]
    assert found == begins[begins.index(found[0]) :]
    assert answers.messages(room, {"after": str(begins[-1])})["messages"] == []
    first = answers.messages(room, {"around": "1", "size": "8"})
    assert [message["version"] for message in first["messages"]] == begins[:8]


def test_what_is_not_seen_has_the_reason_that_the_view_gives(inspected: Store) -> None:
    """Each part is marked as `ModelView.explain` explains it, now and at earlier versions."""
    room = Room(inspected, "talk")
    newest = room.session.version
    reasons: set[str] = set()
    for at in (newest, *jumps_of(room, "compacted"), *jumps_of(room, "rolled-back")):
        view = ModelView.of(room.session, at)
        for message in pages(room, at=str(at)):
            assert message["reason"] == view.explain(message["id"]).reason
            assert message["seen"] == view.explain(message["id"]).shown
            for part in message["parts"]:
                assert part["reason"] == view.explain(part["id"]).reason
                reasons.add(part["reason"])
    assert {"shown", "cleared", "covered", "rolled-back"} <= reasons


def test_the_right_side_is_the_view(inspected: Store) -> None:
    """The right side has every result and carried text of the view, in any version."""
    room = Room(inspected, "talk")
    for at in range(20, room.session.version, 97):
        sent = ModelView.of(room.session, at).messages
        outputs = [part.output for message in sent for part in message.parts if isinstance(part, Result)]
        seen = [part for message in pages(room, at=str(at), seen="1") for part in message["view"].items()]
        shown = [part for _, part in seen if part["state"] != "gone"]
        for output in outputs:
            assert any(part["text"][:500] == output[:500] for part in shown)
        carried = [part.text for message in sent for part in message.parts if isinstance(part, Text)]
        added = [part["text"] for name, part in seen if name == "+"]
        assert all(any(text == whole[: len(text)] for whole in carried) for text in added)
        cleared = [part for part in shown if part["reason"] == "cleared"]
        assert len(cleared) == outputs.count("[Old tool result content cleared]")
        assert all(part["state"] == "changed" for part in cleared)


def test_steps_have_what_was_recorded_and_whether_it_matches(inspected: Store) -> None:
    """Every step is listed with its usage; its request has the digest that the audit gives."""
    room = Room(inspected, "talk")
    audited = list(audit(room.session))
    listed = answers.steps(room, {})
    assert listed["all"] == len(audited)
    assert [step["number"] for step in listed["steps"]] == list(range(len(audited), 0, -1))[: len(listed["steps"])]
    earlier = answers.steps(room, {"before": str(room.history.steps[4].version)})["steps"]
    assert [step["number"] for step in earlier] == [4, 3, 2, 1]
    assert sum(step["cost"] is not None for step in listed["steps"]) == listed["calls"]
    assert (listed["cost"], listed["estimate"], listed["unknown"]) == (str(room.session.info.cost), None, 0)
    assert listed["reported"] + listed["output"] == room.session.info.tokens
    assert sum(step["reported"] or 0 for step in listed["steps"]) == listed["reported"]
    verdicts = answers.verdicts(room, {"first": "3", "last": "9"})["steps"]
    assert [step["number"] for step in verdicts] == list(range(3, 10))
    assert [step["recorded"] for step in verdicts] == [step.recorded for step in audited[2:9]]
    assert {step["verdict"] for step in verdicts} == {"match"}


def test_the_headline_counts_every_request(inspected: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """All requests are checked, a piece at a time, also those of steps that come meanwhile."""
    monkeypatch.setattr("projections.inspector.room._SLICE", 0.000_001)
    room = Room(inspected, "talk")
    of = len(room.history.steps)
    answer: dict[str, Any] = {}
    checked = 0
    while checked < of:
        answer = answers.audited(room, {})
        assert checked < answer["checked"] <= of == answer["all"]
        checked = answer["checked"]
    assert answer["verdicts"] == Counter(step.verdict for step in audit(room.session)) == {"match": of}


def test_steps_that_come_later_are_checked_as_well(store: Store) -> None:
    """A session that grows, or loses a text, is checked anew as far as that changes verdicts."""
    session = store.create_session(id="s")
    session.user("the password is xyzzy", id="m1")
    talk(session)
    room = Room(store, "s")
    assert answers.audited(room, {})["verdicts"] == {"match": 1}
    session.user("and now?")
    talk(session)
    with session.assistant("acme/one") as reply:
        reply.step()
        reply.finish()
    assert answers.audited(room, {}) == {"checked": 3, "all": 3, "verdicts": {"match": 2, "unknown": 1}}
    session.redact(Transcript(session).oldest_first()[0].parts[0].id)
    room.refresh()
    assert answers.audited(room, {})["verdicts"] == {"redacted": 2, "unknown": 1}


def test_what_a_change_freed_is_one_number(inspected: Store) -> None:
    """The tokens before and after a change are those that the window over time has there."""
    room = Room(inspected, "talk")
    points = points_of(room)
    totals = {point["version"]: point["total"] for point in points}
    versions = [version for kind in ("pruned", "compacted", "rolled-back") for version in jumps_of(room, kind)]
    assert len(versions) > 10
    for version in versions:
        change = answers.changes(room, {"first": str(version - 1), "second": str(version)})
        assert change["tokens"] == [totals[version - 1], totals[version]]
        assert not any("token" in sentence for sentence in change["sentences"])


def test_a_request_is_read_in_pages(inspected: Store) -> None:
    """The pages of a request have its messages in order, and its digest once rebuilt."""
    room = Room(inspected, "talk")
    number = len(room.history.steps)
    first = answers.request(room, {"step": str(number)})
    assert first["verdict"] == "match"
    assert first["recorded"] == first["rebuilt"]
    of = first["request"]["of"]
    rest = answers.request(room, {"step": str(number), "from": "3"})["request"]["messages"]
    assert len(first["request"]["messages"]) == of
    assert rest == first["request"]["messages"][3:]
    with pytest.raises(NotFoundError):
        answers.request(room, {"step": str(number + 1)})


def test_the_window_over_time_is_that_of_each_version(inspected: Store) -> None:
    """At each point the tokens are those that a report on the window counts there."""
    room = Room(inspected, "talk")
    points = points_of(room)
    report = window_report(ContextWindow(room.session))
    assert points[-1]["total"] == report.counted
    assert points[-1]["usable"] == report.usable
    assert points[-1]["kinds"]["results"] == report.kinds.results
    for point in points[:: len(points) // 6]:
        assert point["total"] == ModelView.of(room.session, point["version"]).tokens
    versions = [point["version"] for point in points]
    for jump in jumps_of(room, "compacted"):
        before, after = points[versions.index(jump - 1)], points[versions.index(jump)]
        assert after["total"] < before["total"]


def test_a_window_has_the_limits_and_steps_that_other_views_have(store: Store) -> None:
    """Without recorded limits those of the model count; steps are those that are listed."""
    session = store.create_session(id="s")
    for question in ("one", "two"):
        session.user(question)
        with session.assistant("openai/gpt-5") as reply:
            reply.add_text("yes")
            reply.finish()
    room = Room(store, "s")
    points = points_of(room)
    assert points[-1]["usable"] == window_report(ContextWindow(session)).usable
    assert points[-1]["usable"] is not None
    assert points[-1]["calls"] == answers.steps(room, {})["all"] == 2
    assert [point["calls"] for point in points] == sorted(point["calls"] for point in points)


def test_a_folded_call_begins_with_a_text_or_a_name() -> None:
    """The first argument stands bare only if it is a text that says something by itself."""
    assert gist('{"command": "ls -l", "timeout": 3}') == "ls -l timeout=3"
    assert gist('{"replace_all": false, "file_path": "/src/a.py"}') == "replace_all=false file_path=/src/a.py"


def test_what_was_counted_outlives_what_was_read(store: Store) -> None:
    """A window that was counted is there after visits to many sessions, until it changes."""
    for number in range(12):
        store.create_session(id=f"s{number}").user("one")
    rooms = Rooms(store)
    first = rooms.enter("s0")
    first.refresh()
    points_of(first)
    series = first.series
    for number in range(1, 12):
        rooms.enter(f"s{number}").refresh()
    again = rooms.enter("s0")
    again.refresh()
    assert again.series is series
    assert not again._history.version  # what was read is gone
    assert answers.window(again, {}) == {"points": series.points if series else [], "from": 0, "left": 0}
    store.session("s0").user("two")
    assert points_of(again)[-1]["version"] == store.session("s0").version


def test_a_long_history_is_sampled(inspected: Store) -> None:
    """However many steps and jumps there are, a bounded number of versions is looked at."""
    room = Room(inspected, "talk")
    history = History()
    history.version = 1_000_000
    history.steps = room.history.steps * 300
    history.jumps = room.history.jumps * 300
    assert len(sample(history)) <= POINTS
    assert sample(history)[-1] == 1_000_000


def test_a_large_output_is_read_as_far_as_it_is_asked_for(inspected: Store) -> None:
    """A page has no output; a part comes in pieces of at most 200,000 characters."""
    room = Room(inspected, "hostile")
    page = answers.messages(room, {})
    assert len(json.dumps(page)) < 20_000
    first = answers.part(room, {"part": "h-call"})
    assert (len(first["text"]), first["end"]) == (first["text"].count("\n") and len(first["text"]), MOST)
    assert first["size"] > 1_900_000
    second = answers.part(room, {"part": "h-call", "from": str(MOST)})
    whole = next(
        part.text
        for message in Transcript(room.session).oldest_first()
        for part in message.parts
        if part.id == "h-call"
    )
    assert first["size"] == len(whole)
    assert (first["text"] + second["text"]).replace("⟨U+202E⟩", "\u202e") == whole[: 2 * MOST]
    with pytest.raises(NotFoundError):
        answers.part(room, {"part": "no-such"})


def test_no_answer_has_a_control_character(inspected: Store) -> None:
    """Hostile text in titles, names, arguments and texts arrives with its characters visible."""
    room = Room(inspected, "hostile")
    told = [
        answers.session(room, {}, Catalogue(inspected)),
        answers.messages(room, {"seen": "1"}),
        answers.part(room, {"part": "h-call"}),
        answers.view(room, {}),
        answers.request(room, {"step": "1"}),
        answers.events_to_play(room, {}),
        answers.tree(room, {}, Catalogue(inspected)),
    ]
    assert "\x1b" in HOSTILE
    for answer in told:
        text = json.dumps(answer, ensure_ascii=False).replace("\\n", "")
        assert not set(text) & {"\x1b", "\x07", "\x00", "\u202e"}


def test_a_replay_is_what_was_said(inspected: Store) -> None:
    """The scenes of a replay, page by page, add up to the texts of the session."""
    room = Room(inspected, "talk")
    scenes: list[dict[str, Any]] = []
    last, newest = 0, 1
    while last < newest:
        page = answers.events_to_play(room, {"after": str(last), "limit": "100"})
        scenes += page["scenes"]
        last, newest = page["last"], page["newest"]
    texts: dict[str, str] = {}
    for scene in scenes:
        if scene["op"] in {"part", "delta"} and scene.get("field") != "input":
            texts[scene["part"]] = texts.get(scene["part"], "") + scene.get("text", "")
    for message in Transcript(room.session).oldest_first():
        for part in message.parts:
            if part.kind in {"text", "reasoning"}:
                assert texts[part.id] == part.text
    rendered = [scene for scene in scenes if "html" in scene]
    assert rendered
    assert all(scene["html"] == prose_html(scene["text"]) for scene in rendered)
    assert [scene["v"] for scene in scenes] == sorted(scene["v"] for scene in scenes)


def test_what_is_redacted_is_in_no_answer(store: Store) -> None:
    """A redaction reaches a page that was read before it, its replay and its steps."""
    session = store.create_session(id="s")
    session.user("the password is xyzzy", id="m1")
    talk(session)
    room = Room(store, "s")
    earlier = session.version
    room.refresh()
    answers.messages(room, {"at": str(earlier), "size": "1"})  # its reader waits for the page before
    assert "xyzzy" in json.dumps(answers.messages(room, {"at": str(earlier - 1), "seen": "1"}))
    session.redact(Transcript(session).oldest_first()[0].parts[0].id)
    room.refresh()
    asked = [
        answers.messages(room, {"at": str(earlier), "before": "5"}),
        answers.messages(room, {"at": str(earlier - 1), "seen": "1"}),
        answers.events_to_play(room, {}),
        answers.request(room, {"step": "1"}),
    ]
    assert "xyzzy" not in json.dumps(asked)


def test_a_report_on_the_window_has_nothing_redacted(store: Store) -> None:
    """Also that on a fork, whose version stays when its parent redacts."""
    session = store.create_session(id="s")
    session.user("look")
    with session.assistant() as reply:
        call = reply.tool("read", call_id="c", input={"path": "xyzzy"})
        call.succeed("xyzzy", title="xyzzy")
        reply.finish()
    room = Room(store, session.fork().id)
    assert "xyzzy" in json.dumps(answers.window_now(room, {}))
    session.redact(call.id)
    assert "xyzzy" not in json.dumps(answers.window_now(room, {}))


def talk(session: Session) -> None:
    """Let a loop answer once."""
    with ContextWindow(session, model="acme/one", limits=eventlog.Limits()) as window:
        step = window.next_step()
        reply, _ = window.begin(step)  # type: ignore[arg-type]
        reply.add_text("noted")
        reply.finish()


def test_a_cost_that_was_not_recorded_is_estimated(tmp_path: Path) -> None:
    """Steps, sums and the list have the price of a known model, apart from recorded costs."""
    rates = eventlog.Rates(input=Decimal(2), output=Decimal(10), cache_read=Decimal("0.5"))
    models = eventlog.ModelCatalogue({"acme/one": eventlog.KnownModel(eventlog.Limits(), (rates,))}, date="2026-11-01")
    tokens = Tokens(input=1_000, output=100, cache_read=4_000)

    def answer(session: Session, model: str) -> None:
        with session.assistant(model) as reply:
            reply.step()
            reply.add_text("yes")
            reply.finish(usage=eventlog.Usage(tokens))

    with eventlog.open(tmp_path / "store", prices=lambda _model, _tokens: None) as store:
        for name in ("known", "unknown", "mixed"):
            store.create_session(id=name, title="A session").user("hello")
        answer(store.session("known"), "acme/one")
        answer(store.session("unknown"), "acme/two")
    with eventlog.open(tmp_path / "store", models=models) as store:
        answer(store.session("mixed"), "acme/one")  # recorded with its cost
        catalogue = Catalogue(store)

        def costs() -> dict[str, tuple[str | None, str | None]]:
            page = catalogue.page({"estimates": "1"})
            assert not page["estimating"]
            return {info["id"]: (info["cost"], info["estimate"]) for info in page["sessions"]}

        first = catalogue.page({})
        assert first["estimating"]
        assert not any(info["estimate"] for info in first["sessions"])
        assert costs() == {"known": (None, "0.005"), "unknown": (None, None), "mixed": ("0.005", None)}
        listed = answers.steps(Room(store, "known"), {})
        assert [(step["cost"], step["estimate"]) for step in listed["steps"]] == [(None, "0.005")]
        assert (listed["cost"], listed["estimate"], listed["unknown"]) == (None, "0.005", 0)
        assert listed["prices"] == "2026-11-01"
        assert answers.steps(Room(store, "unknown"), {})["unknown"] == 1
        assert answers.session(Room(store, "known"), {}, catalogue)["estimate"] == "0.005"
    with eventlog.open(tmp_path / "store", prices=lambda _model, _tokens: None, models=models) as store:
        catalogue = Catalogue(store)
        assert costs()["known"] == (None, "0.005")
        answer(store.session("known"), "acme/one")
        assert costs()["known"] == (None, "0.010")


def test_a_long_list_waits_for_no_estimate(inspected: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list without time for estimates comes at once, says so, and has them when asked again."""
    monkeypatch.setattr("projections.inspector.catalogue._SLICE", -1.0)
    session = inspected.info("talk")
    estimates = Estimates(inspected)
    assert estimates.of([replace(session, unpriced=3)]) == {}
    monkeypatch.setattr("projections.inspector.catalogue._SLICE", 0.000_001)
    found: dict[str, UsageTotals] = {}
    asked = 0
    while not found:
        found, asked = estimates.of([replace(session, unpriced=3)]), asked + 1
    assert {name: sums.estimated for name, sums in found.items()} == {"talk": 0}
    assert asked > 10


def ids(page: dict[str, Any]) -> set[str]:
    """The ids of a page of the list."""
    return {info["id"] for info in page["sessions"]}


def test_the_catalogue_lists_by_scope_state_and_title(inspected: Store) -> None:
    """Sessions are found by scope, by what is unfinished, and by a text in the title."""
    catalogue = Catalogue(inspected)
    first = catalogue.page({"limit": "2"})
    assert len(first["sessions"]) == 2
    second = catalogue.page({"limit": "2", "cursor": first["next"]})
    assert not ids(first) & ids(second)
    assert ids(catalogue.page({"scope": "bob"})) == {"waiting"}
    assert "waiting" in ids(catalogue.page({"state": "unfinished"}))
    assert "talk" not in ids(catalogue.page({"state": "unfinished"}))
    assert ids(catalogue.page({"text": "IMPORT"})) >= {"talk", "helper"}
    assert ids(catalogue.page({"text": "import", "scope": "bob"})) == set()
    assert ids(catalogue.page({"text": "a", "state": "unfinished"})) == ids(catalogue.page({"state": "unfinished"})) - {
        "hostile"
    }
    assert ids(catalogue.page({"state": "running"})) == set()
    assert {scope["scope"]: scope["sessions"] for scope in catalogue.scopes()}["alice"] == 3
    assert [fork["id"] for fork in catalogue.forks_of("talk")] == ["talk-fork"]


def test_sessions_of_a_state_are_looked_for_in_pieces(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """First rows come at once, and the pages together have each unfinished session once."""
    monkeypatch.setattr("projections.inspector.catalogue._SLICE", 0.0)
    monkeypatch.setattr("projections.inspector.catalogue._LOOKED_AT", 50)
    for number in range(130):
        session = store.create_session(id=f"s{number}")
        session.user("a question")
        if number % 10:
            with session.assistant("acme/one") as reply:
                reply.add_text("an answer")
                reply.finish()
    catalogue = Catalogue(store)
    pages = [catalogue.page({"state": "unfinished", "limit": "50"})]
    while pages[-1]["next"]:
        pages.append(catalogue.page({"state": "unfinished", "limit": "50", "cursor": pages[-1]["next"]}))
    assert [page["looked"] for page in pages] == [50, 50, 30]
    found = [info["id"] for page in pages for info in page["sessions"]]
    assert found == [f"s{number}" for number in range(120, -1, -10)]
    assert set(found) == {info.id for info in store.unfinished()}


def test_a_list_is_filtered_and_sorted(store: Store) -> None:
    """Sub-sessions stand apart, and every order has the largest first, in pages."""
    clock = store.create_session(id="dear", title="Dear")
    with clock.assistant("acme/one") as reply:
        reply.finish(usage=Usage(Tokens(5, 1), Decimal("0.9")))
    store.create_session(id="long", scope="x").user("one")
    store.session("long").user("two")
    store.session("dear").subsession(id="below").user("help")
    catalogue = Catalogue(store)

    def listed(**asked: str) -> list[str]:
        page = catalogue.page(asked | {"limit": "2"})
        rows = page["sessions"]
        while page["next"] is not None:
            page = catalogue.page(asked | {"limit": "2", "cursor": page["next"]})
            rows += page["sessions"]
        return [info["id"] for info in rows]

    assert set(listed(subsessions="no")) == {"dear", "long"}
    assert listed(parent="dear") == ["below"]
    assert {info["id"]: info["subsessions"] for info in catalogue.page({})["sessions"]} == {
        "dear": 1,
        "long": 0,
        "below": 0,
    }
    assert listed(sort="cost")[0] == listed(sort="tokens")[0] == "dear"
    assert listed(sort="messages")[0] == "long"
    assert set(listed(sort="created")) == {"below", "long", "dear"}
    assert listed(cost="0.5") == listed(model="acme/one") == ["dear"]
    assert listed(model="acme/two") == []
    store.session("long").record_usage(Usage(Tokens(1)), model="acme/two")
    assert listed(model="acme/one", scope="x") == []
    assert listed(model="acme/two", scope="x") == ["long"]
    assert listed(until=str(store.info("dear").updated), sort="created") == []
    assert set(listed(since=str(store.info("dear").updated), subsessions="no")) == {"dear", "long"}
    for wrong in ({"sort": "colour"}, {"cost": "much"}, {"since": "-1"}):
        with pytest.raises(CallError):
            catalogue.page(wrong)


def test_a_list_is_read_while_another_waits_for_the_index(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that waits for the index of models holds no other request up."""
    store.create_session(id="one")
    catalogue, usage_by_day = Catalogue(store), store.usage_by_day
    found: list[eventlog.SessionInfo] = []

    def waiting(**asked: Any) -> UsageByDay:
        other = Thread(target=lambda: found.extend(catalogue.everyone()), daemon=True)
        other.start()
        other.join(10)
        assert [info.id for info in found] == ["one"]
        return usage_by_day(**asked)

    monkeypatch.setattr(store, "usage_by_day", waiting)
    assert catalogue.page({"model": "acme/one"})["sessions"] == []


def test_usage_over_time_is_that_of_the_sessions(store: Store) -> None:
    """All sums of the overview are those of the sessions; what has no price is unknown, not 0."""
    for scope, model, cost in (("a", "acme/one", "0.5"), ("b", "acme/one", None), ("b", "acme/two", None)):
        session = store.create_session(scope=scope)
        session.record_usage(Usage(Tokens(3, 4, 0, 5), None if cost is None else Decimal(cost)), model=model)
        with session.assistant(model) as reply:
            reply.abort(eventlog.MessageError("api", "refused"))
    found = usage(store, {})
    assert (found["total"]["input"], found["total"]["cache_read"], found["total"]["output"]) == (9, 15, 12)
    assert (found["total"]["replies"], found["total"]["errors"], found["total"]["sessions"]) == (3, 3, 3)
    assert (found["total"]["cost"], found["total"]["unknown"]) == ("0.5", 2)
    assert {each["model"]: (each["cost"], each["unknown"]) for each in found["models"]} == {
        "acme/one": ("0.5", 1),
        "acme/two": (None, 1),
    }
    assert [each["scope"] for each in found["scopes"]] == ["a", "b"]
    assert [each["cost"] for each in found["days"]] == ["0.5"]
    assert usage(store, {"scope": "b"})["total"]["calls"] == 2
    assert usage(store, {"model": "acme/two", "scope": "a"})["days"] == []
    day = found["days"][0]["day"]
    assert usage(store, {"until": str(day)})["days"] == []
    assert usage(store, {"since": str(day), "until": str(day + 1)})["days"] == found["days"]


def test_a_step_has_its_tools_and_its_times(store: Store) -> None:
    """A step says when its answer began, which tools it called, and how long they took."""
    session = store.create_session(id="timed")
    session.user("go")
    with session.assistant("acme/one") as reply:
        reply.step()
        reply.add_text("so")
        call = reply.tool("grep", call_id="c", input={"pattern": "x"})
        reply.end_step("tool-calls", usage=Usage(Tokens(7, 2), Decimal("0.5")))
        call.succeed("found")
        reply.finish()
    (message,) = answers.spent(Room(store, "timed"), {})["messages"].values()
    (step,) = message
    (run,) = step["tools"]
    assert (run["tool"], run["state"]) == ("grep", "completed")
    assert step["time"] <= step["first"] <= step["ended"]
    assert run["began"] <= run["ended"]
    assert (step["reported"], step["output"], step["cost"]) == (7, 2, "0.5")
    assert answers.spent(Room(store, "timed"), {"first": "1000"})["messages"] == {}


def test_a_call_that_waited_says_who_answered(store: Store) -> None:
    """A call that a person allowed or denied has the answer and the person, also once it ran."""
    session = store.create_session(id="waited")
    session.user("go")
    with session.assistant("acme/one", id="a") as reply:
        reply.step()
        for name in ("c", "d"):
            reply.tool("drop", call_id=name, id=name).ask("no undo", input={})
        session.answer_call("a", "c", Allow(), by="ann \u202e")
        session.answer_call("a", "d", Deny("no"), by="bob")
        reply.call("c").start({})
        reply.call("c").succeed("dropped")
        reply.end_step("tool-calls")
        reply.finish()
    ((step,),) = answers.spent(Room(store, "waited"), {})["messages"].values()
    first, second = (run["answer"] for run in step["tools"])
    assert first.startswith("allowed by ann")
    assert "\u202e" not in first
    assert second == "denied by bob"


def test_a_tree_says_which_sessions_wait_for_a_loop(inspected: Store) -> None:
    """Each session of the tree has its state, as in the list."""
    tree = answers.tree(Room(inspected, "talk"), {}, Catalogue(inspected))
    states = {info["id"]: info["state"] for info in tree["sessions"]}
    assert states == {"talk": "waiting", "talk-fork": "unfinished", "helper": "waiting"}


@pytest.mark.parametrize(
    "text", ["-1", "x", "1.5", "", "0", "99999999999999999999999", "0000000000000000000199999999999999999", "²"]
)
def test_a_version_that_is_none_is_refused(inspected: Store, text: str) -> None:
    """A query with a version that the session does not have is a wrong call."""
    with pytest.raises(CallError, match="at is a whole number"):
        answers.messages(Room(inspected, "talk"), {"at": text})
