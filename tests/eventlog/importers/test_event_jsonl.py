"""Event JSONL: a session's file gives its events back exactly, and damage is reported."""

from __future__ import annotations

import io
import json
import random
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import example, given, settings

import eventlog
from eventlog import Store
from eventlog import events as ev
from eventlog.codec import batch
from eventlog.codec.batch import encode
from eventlog.codec.upcast import UPCASTERS
from eventlog.errors import ImportFormatError, TooNewError
from eventlog.importers import Report, detect, import_file
from eventlog.importers.common.json_lines import parse
from eventlog.importers.event_jsonl.reader import EventJsonl, line_of
from projections.exports.jsonl import jsonl_lines
from projections.transcript.transcript import Transcript
from projections.view.model_view import ModelView
from tests.growth.measuring import least
from tests.support.event_strategies import events
from tests.support.export_sessions import Record, canonical, jsonl, put, read, stored, talk
from tests.support.history_strategies import histories
from tests.support.import_counts import recorded
from tests.support.opencode_exports import events_of_export
from tests.support.parity import scenarios
from tests.support.shared import shared_path
from tests.support.spans import Timed


def test_reading_an_event_costs_a_few_times_its_json(store: Store) -> None:
    """Reading 4,000 events costs a small multiple of parsing their JSON lines."""
    session = store.create_session(id="s")
    for number in range(500):
        with session.pipeline():
            for again in range(8):
                session.rename(f"{number} {again}")
    data = jsonl(session)
    lines = data.splitlines()
    parsing = least(lambda: [parse(line) for line in lines])
    reading = least(lambda: [*EventJsonl().read(io.BytesIO(data), "", Report("", ""))])
    assert reading < 25 * parsing


def test_every_parity_export_comes_back_byte_equal(store: Store, other: Store) -> None:
    """Every parity export, written and read again, gives the same canonical events."""
    shared_path("parity")
    newest: dict[str, Record] = {}
    for scenario in scenarios():
        for _, export in scenario.exports():
            newest[export["info"]["id"]] = export
    assert len(newest) > 40
    for export in newest.values():
        session = put(store, events_of_export(export))
        data = jsonl(session)
        report = read(other, data)
        assert report.skipped == []
        assert report.events == session.version
        assert report.sessions == [session.id]
        assert canonical(other.session(session.id)) == canonical(session)
        assert other.info(session.id).origin == session.info.origin
        assert read(other, data).events == 0
        assert jsonl(other.session(session.id)) == data


def test_recorded_sessions_come_back_with_their_trees(store: Store, other: Store) -> None:
    """Recorded files and streams with forks and sub-sessions come back exactly in one file."""
    data = shared_path("data")
    seen = 0
    for path in [*recorded(data, "claude_code_jsonl"), *sorted((data / "sse_extracted").glob("*.sse"))][::3]:
        try:
            report = import_file(store, path)
        except ImportFormatError:
            continue
        roots = [name for name in report.sessions if not store.info(name).fork_of and not store.info(name).parent]
        for root in roots:
            again = read(other, jsonl(store.session(root), tree=True))
            assert again.skipped == []
            seen += len(again.sessions)
    for info in other.sessions():
        assert canonical(other.session(info.id)) == canonical(store.session(info.id))
        assert other.info(info.id) == store.info(info.id)
    assert len([*other.sessions()]) > 20
    assert seen > 20


@settings(max_examples=60, deadline=None)
@given(histories(max_size=50))
def test_random_histories_come_back(items: list[Timed]) -> None:
    """Any random history written to a file and read back gives the same events."""
    with eventlog.open("memory:") as one, eventlog.open("memory:") as two:
        session = stored(one, items)
        assert read(two, jsonl(session)).skipped == []
        assert canonical(two.session(session.id)) == canonical(session)


@settings(max_examples=150, deadline=None)
@given(events)
@example(ev.Custom("\U0010ffff0041\ud800\udc00", "\udfff\U0010ffff"))
def test_any_event_is_told_exactly(event: ev.Event) -> None:
    """Every event kind, with any values and lone surrogates, survives a line of text."""
    lines = [
        line_of({"eventlog": 1, "schema": ev.SCHEMA}),
        line_of({"session": "s", "first": 1}),
        line_of({"version": 1, "time": 5, "events": [(0, ev.SessionStarted()), (1, event)]}),
    ]
    assert all(line.decode().count("\n") == 1 for line in lines)
    report = Report("", "")
    found = [item for batch in EventJsonl().read(io.BytesIO(b"".join(lines)), "", report) for item in batch.items]
    missing = [skipped for skipped in report.skipped if "body" in skipped.reason]
    assert missing or encode(found, 5) == encode([(5, ev.SessionStarted()), (6, event)], 5)


def test_a_native_session_comes_back_whole(store: Store, other: Store) -> None:
    """A native session comes back whole: deltas, bodies, times, settings, and its view."""
    session = talk(store)
    session.append([(9_000_000_000_000, ev.Custom("later", "{}"))], request_id="r1")
    report = read(other, jsonl(session))
    assert report.skipped == []
    assert (report.messages, report.events) == (2, session.version)
    again = other.session(session.id)
    assert canonical(again) == canonical(session)
    assert ModelView.of(again).digest == ModelView.of(session).digest
    before = again.version
    again.append([(1, ev.Custom("later", "{}"))], request_id="r1")
    assert again.version == before, "the request id was kept"


def test_forks_come_with_what_they_inherit(store: Store, other: Store) -> None:
    """A fork's file has the ancestors it needs; a tree's file has forks and sub-sessions."""
    root = talk(store, "ses_root")
    at = root.version
    root.user("only here")
    fork = root.fork(at, id="ses_fork")
    fork.user("in the fork")
    deep = fork.fork(at - 3, id="ses_deep")
    deep.user("deeper")
    sub = root.subsession(id="ses_sub")
    sub.user("below")
    assert read(other, jsonl(deep)).skipped == []
    assert canonical(other.session("ses_deep")) == canonical(deep)
    assert {info.id for info in other.sessions()} == {"ses_root", "ses_fork", "ses_deep"}
    assert other.session("ses_root").version < root.version
    report = read(other, jsonl(root, tree=True))
    assert report.skipped == []
    for session in (root, fork, deep, sub):
        assert canonical(other.session(session.id)) == canonical(session)
        assert other.info(session.id) == store.info(session.id)


def test_growth_is_appended_and_divergence_forked(store: Store, other: Store) -> None:
    """A grown file adds its new events; a diverged one becomes a fork, found again later."""
    session = talk(store, "ses_a")
    read(other, jsonl(session))
    session.user("more")
    assert read(other, jsonl(session)).events == 2
    there = other.session("ses_a")
    common = there.version
    there.user("there")
    session.user("here")
    session.rollback(common)
    session.user("kept")
    kept = session.version
    session.user("dropped")
    session.rollback(kept)
    fork = session.fork(id="ses_f")
    fork.user("in the fork")
    report = read(other, jsonl(session, tree=True))
    assert report.skipped == []
    assert report.sessions == ["ses_a~2", "ses_f"]
    apart = other.session("ses_a~2")
    assert other.info(apart.id).fork_of == "ses_a"
    assert other.info(apart.id).forked_at == common
    assert ModelView.of(apart).messages == ModelView.of(session).messages
    assert other.info("ses_f").fork_of == "ses_a~2"
    assert ModelView.of(other.session("ses_f")).messages == ModelView.of(fork).messages
    assert read(other, jsonl(session, tree=True)).events == 0
    session.user("and on")
    assert read(other, jsonl(session)).sessions == ["ses_a~2"]
    assert ModelView.of(apart).messages == ModelView.of(session).messages
    assert [said.role for said in Transcript(there).page(1)] == ["user"]


def test_a_session_of_the_same_name_is_left_alone(store: Store, other: Store) -> None:
    """A session with the file's id but other content stays as it is; the file's is renamed."""
    talk(store, "ses_a")
    other.create_session(id="ses_a", title="somebody else's")
    assert read(other, jsonl(store.session("ses_a"))).sessions == ["ses_a~2"]
    assert canonical(other.session("ses_a~2")) == canonical(store.session("ses_a"))
    assert other.session("ses_a").version == 1


def test_a_name_comes_with_its_session(store: Store, other: Store) -> None:
    """An imported session is found by the name it brings; a repeated import is nothing new."""
    data = jsonl(store.open_session(("telegram", "chat 17"), id="s"))
    assert read(other, data).events == 2
    assert other.open_session(("telegram", "chat 17"), create=False).id == "s"
    assert read(other, data).events == 0
    assert other.names.free(("telegram", "chat 17")) == "s"


def test_a_name_that_is_taken_stays_with_its_session(store: Store, other: Store) -> None:
    """An imported session loses a name that another session has, and can be given another one."""
    data = jsonl(store.open_session(("telegram", "chat 17"), id="s"))
    owner = other.open_session(("telegram", "chat 17"))
    read(other, data)
    assert other.open_session(("telegram", "chat 17")).id == owner.id
    assert [info.id for info in other.sessions() if info.name is not None] == [owner.id]
    other.names.give("s", ("telegram", "chat 18"))
    assert read(other, data).events == 0


def test_large_appends_and_bodies_are_cut_into_lines(store: Store, other: Store) -> None:
    """Large appends and bodies are split over several lines and come back whole."""
    session = store.create_session(id="ses_l")
    session.user("中" * 3_000_000)
    session.append([(number, ev.Custom("n", str(number))) for number in range(3_500)])
    data = jsonl(session)
    assert max(map(len, data.splitlines())) < 4_000_000
    assert data.count(b'"more":true') == 2 + 3
    assert read(other, data).skipped == []
    assert canonical(other.session("ses_l")) == canonical(session)


def test_writing_and_reading_take_bounded_memory(tmp_path: Path) -> None:
    """A session of 30 MB is written and read with less than 6 MB of memory at a time."""
    path = tmp_path / "big.jsonl"
    with eventlog.open(tmp_path / "one") as store, eventlog.open(tmp_path / "two") as other:
        session = store.create_session()
        letters = random.Random(1)
        with session.pipeline():
            for _ in range(150):
                session.user("".join(letters.choices("abcdefghij \n", k=2000)) * 100)
        session.flush()
        tracemalloc.start()
        try:
            with path.open("wb") as file:
                file.writelines(jsonl_lines(session))
            assert path.stat().st_size > 30_000_000
            assert tracemalloc.get_traced_memory()[1] < 6_000_000
            tracemalloc.reset_peak()
            import_file(other, path)
            assert tracemalloc.get_traced_memory()[1] < 12_000_000
        finally:
            tracemalloc.stop()
        assert other.session(session.id).version == session.version


def test_a_newer_file_is_refused(store: Store) -> None:
    """A file of a later format or schema is a typed error, and no event of it is imported."""
    for head in ({"eventlog": 2, "schema": 1}, {"eventlog": 1, "schema": ev.SCHEMA + 1}):
        with pytest.raises(TooNewError):
            read(store, line_of(head) + line_of({"session": "s", "first": 1}))
    for damaged in (b'{"eventlog":"1"}', b'{"eventlog":'):
        with pytest.raises(ImportFormatError):
            read(store, damaged + b"\n")
    assert [*store.sessions()] == []
    assert detect(line_of({"eventlog": 1, "schema": 1})) == EventJsonl.name


def test_older_events_are_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events of an older, invented, schema version are upcast, as those of a log are."""
    older = ev.SCHEMA
    for module in (batch, ev):
        monkeypatch.setattr(module, "SCHEMA", older + 1)
    monkeypatch.setitem(UPCASTERS, older, lambda event: [event[0], str(event[1]).removesuffix("!"), *event[2:]])
    lines = [
        {"eventlog": 1, "schema": older},
        {"session": "s", "first": 1},
        {"version": 1, "time": 5, "events": [[0, ["ss", "old!"]]]},
        {"end": {"sessions": 1, "events": 1}},
    ]
    assert read(store, b"".join(map(line_of, lines))).skipped == []
    assert store.info("s").title == "old"


def test_a_file_that_is_cut_anywhere_gives_what_came_before(store: Store) -> None:
    """A file cut at any byte is reported, and the events before the cut are imported exactly."""
    session = talk(store, "ses_a")
    data = jsonl(session)
    expected = canonical(session)
    cuts = random.Random(7)
    for _ in range(60):
        place = cuts.randrange(40, len(data) - 1)
        with eventlog.open("memory:") as other:
            report = read(other, data[:place])
            assert any("cut off" in skipped.reason for skipped in report.skipped)
            if report.sessions:
                found = canonical(other.session("ses_a"))
                assert found == expected[: len(found)]


@pytest.mark.parametrize(
    "harm",
    ["drop", "double", "swap", "garbage", "fused", "deep", "type", "time", "empty", "version"],
)
def test_damaged_lines_end_their_session_only(store: Store, other: Store, harm: str) -> None:
    """A damaged line is reported and ends its own session only."""
    root = talk(store, "ses_root")
    sub = root.subsession(id="ses_sub")
    sub.user("below")
    lines = jsonl(root, tree=True).splitlines(keepends=True)
    place = next(number for number, line in enumerate(lines) if b'"mf"' in line and line.startswith(b'{"version"'))
    value = json.loads(lines[place])
    harmed: dict[str, list[bytes]] = {
        "drop": [],
        "double": [lines[place], lines[place]],
        "swap": [lines[place + 1], lines[place]],
        "garbage": [b"\xff\x00{]\n"],
        "fused": [lines[place].rstrip() + lines[place]],
        "deep": [b"[" * 5000 + b"]" * 5000 + b"\n"],
        "type": [line_of({**value, "events": [[0, ["mf", 1, 2, 3]]]})],
        "time": [line_of({**value, "time": "now"})],
        "empty": [line_of({**value, "events": []})],
        "version": [line_of({**value, "version": 10**6})],
    }
    after = place + 2 if harm == "swap" else place + 1
    report = read(other, b"".join([*lines[:place], *harmed[harm], *lines[after:]]))
    assert any(skipped.line > place for skipped in report.skipped)
    expected, found = canonical(root), canonical(other.session("ses_root"))
    assert 0 < len(found) < len(expected)
    assert found == expected[: len(found)]
    assert canonical(other.session("ses_sub")) == canonical(sub)


def test_bodies_are_checked(store: Store, other: Store) -> None:
    """A missing or wrong body ends its session and is never replaced by another text."""
    session = talk(store, "ses_a")
    lines = jsonl(session).splitlines(keepends=True)
    place = next(number for number, line in enumerate(lines) if line.startswith(b'{"body"'))
    for harmed in (b"", lines[place].replace(b"xxx", b"xyx")):
        report = read(other, b"".join([*lines[:place], harmed, *lines[place + 1 :]]))
        assert any("body" in skipped.reason for skipped in report.skipped)
    assert other.session("ses_a").version < session.version


def test_what_the_rules_refuse_is_reported(store: Store) -> None:
    """Events that break the rules, and forks of missing sessions, are reported, not imported."""
    head = line_of({"eventlog": 1, "schema": ev.SCHEMA})
    wrong = {"version": 1, "time": 5, "events": [(0, ev.SessionStarted()), (0, ev.PartEnded("p"))]}
    report = read(store, head + line_of({"session": "s", "first": 1}) + line_of(wrong))
    assert any("PartEnded" in found.reason or "part" in found.reason for found in report.skipped)
    forked = {"version": 4, "time": 5, "events": [(0, ev.SessionForked("nobody", 3))]}
    report = read(store, head + line_of({"session": "f", "first": 4}) + line_of(forked))
    assert any("nobody" in found.reason for found in report.skipped)
    assert store.log.head("f") is None
