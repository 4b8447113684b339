"""Forgetting records: nothing shows them, at once, and a scrub frees their bytes."""

from __future__ import annotations

import subprocess
import sys
from io import BytesIO
from itertools import pairwise
from typing import Any

import pytest

from eventlog import Feed, Forgotten, NotFoundError, RecordBuilder, Store, import_file
from eventlog import events as ev
from eventlog.history.catalog import entry_of
from eventlog.history.ranges import clipped, covers, meets, merged, without
from eventlog.testing.file_search import files_with
from projections import LiveView, ModelView, Transcript
from projections.exports.jsonl import jsonl_lines
from projections.replay.loop import state_at
from projections.reports.audit import audit
from projections.reports.timeline import timeline
from projections.verify.verify import verify
from projections.view.targets import PROJECTION
from projections.window.retrieval.part_text import read_message
from tests.support.engines import ENCRYPTED, ENGINES, Engine, places
from tests.support.toy_records import ToyMapping, shown

SECRET = "the-secret-word-of-this-test"
ASK = {"kind": "user", "text": f"my number is {SECRET}", "short": "s3cret"}
CALL = {"kind": "answer", "text": "I look it up", "calls": [{"id": "c1", "tool": "ls", "input": {"q": SECRET}}]}
RESULT = {"kind": "result", "call": "c1", "output": f"{SECRET} " * 200}
END: dict[str, Any] = {"kind": "answer", "text": "That is all there is", "calls": []}
TOLD: list[Any] = [ASK, CALL, RESULT, END]


engine = places(*ENGINES, ENCRYPTED)


def told(store: Store) -> tuple[Feed, list[int]]:
    """A feed whose session has the records."""
    feed = Feed(store.create_session(), ToyMapping())
    return feed, feed.add(TOLD)


@pytest.mark.promise(13)
def test_forgotten_records_are_nowhere(engine: Engine) -> None:
    """No view of any version shows them, no transcript, export, timeline, or fork."""
    store = engine.open()
    feed, numbers = told(store)
    session = feed.session
    version = session.version
    fork = session.fork()
    live = LiveView(session)
    assert len(live.view.messages) > 1
    message = next(found.event.message for found in session.events() if isinstance(found.event, ev.UserMessageAdded))
    feed.forget(numbers[:3])
    feed.forget(numbers[:1])  # again
    for seen in (session, fork, engine.open().session(session.id)):
        assert shown(seen) == [("assistant", END["text"], ())]
        assert shown(seen, at=version) == [("assistant", END["text"], ())]
        for at in range(1, version + 1):
            assert SECRET not in repr(shown(seen, at=at)) + repr(list(seen.history(at)))
        assert [part.text for one in Transcript(seen).newest_first() for part in one.parts if part.text] == [
            END["text"]
        ]
        assert SECRET not in b"".join(jsonl_lines(seen)).decode()
        assert SECRET not in repr(timeline(seen))
        assert SECRET not in repr(list(seen.events()))
        assert SECRET not in repr(list(seen.history()))
    assert verify(store, deep=True).sound
    assert len(live.advance().messages) == 1
    assert feed.path() == numbers[3:]
    assert feed.read(numbers) == [*map(Forgotten, numbers[:3]), END]
    assert Feed(fork, ToyMapping()).read(numbers[1:]) == [Forgotten(numbers[1]), Forgotten(numbers[2]), END]
    with pytest.raises(NotFoundError):
        read_message(session, message)
    assert {step.verdict for step in audit(session)} <= {"unknown", "redacted"}


def test_the_state_of_a_fork_has_no_message_that_its_parent_forgot(engine: Engine) -> None:
    """Not even an empty one; read as of now, and as of the newest version."""
    store = engine.open()
    feed, numbers = told(store)
    name = feed.session.fork().id
    feed.forget(numbers[:3])
    for opened in (store, engine.open()):
        fork = opened.session(name)
        for uses in (True, False):
            newest = state_at(fork, PROJECTION, uses_checkpoints=uses).state
            assert len(newest.messages) == 1
            assert newest.encode() == state_at(fork, PROJECTION, fork.version, uses_checkpoints=uses).state.encode()


def test_no_state_begins_with_a_checkpoint_of_messages_that_were_rolled_back(engine: Engine) -> None:
    """Not even where a record behind it was forgotten."""
    store = engine.open()
    feed, numbers = told(store)
    LiveView(feed.session).save()
    (_, other) = feed.add([END | {"text": "said instead"}, END | {"text": SECRET}], after=numbers[1])
    feed.forget([other])
    expected = shown(feed.session, at=feed.session.version)
    assert END["text"] not in repr(expected)
    assert shown(feed.session) == shown(engine.open().session(feed.session.id)) == expected


@pytest.mark.parametrize("is_fork", [False, True])
def test_a_view_that_is_behind_stores_nothing_that_was_forgotten(engine: Engine, *, is_fork: bool) -> None:
    """A view that has not advanced saves no checkpoint of a forgotten, scrubbed text."""
    store = engine.open()
    feed, numbers = told(store)
    session = feed.session.fork() if is_fork else feed.session
    live = LiveView(session)
    feed.forget(numbers[:3])
    if engine.name in {"embedded", ENCRYPTED}:
        store.scrub()
    live.save()
    for seen in (session, engine.open().session(session.id)):
        assert shown(seen) == shown(seen, at=seen.version) == [("assistant", END["text"], ())]
    if engine.name == "embedded":
        assert files_with(engine.path, SECRET) == []
    assert verify(store, deep=True).sound
    live.advance()
    live.save()
    assert shown(engine.open().session(session.id)) == [("assistant", END["text"], ())]


def test_forgotten_bytes_are_in_no_file_after_a_scrub(engine: Engine) -> None:
    """A scrub removes events, rests, bodies, later edits and derived data; `verify` passes."""
    if engine.name not in {"embedded", ENCRYPTED}:
        pytest.skip("no files")
    store = engine.open(checkpoint_events=5)
    feed, numbers = told(store)
    part = next(found.event.part for found in feed.session.events() if isinstance(found.event, ev.PartStarted))
    assert part
    answer = [found.event.part for found in feed.session.events() if isinstance(found.event, ev.PartStarted)][1]
    feed.session.edit_part(answer, f"edited {SECRET}")
    fork = feed.session.fork()
    fork.edit_part(answer, f"edited in the fork {SECRET}")
    list(Transcript(feed.session).newest_first())
    ModelView.of(fork)
    name, heir = feed.session.id, fork.id
    assert engine.name == ENCRYPTED or files_with(engine.path, SECRET)
    feed.forget(numbers[:3])
    store.close()
    cleaned = engine.open()
    cleaned.scrub()
    assert files_with(engine.path, SECRET) == []
    assert files_with(engine.path, "s3cret") == []
    for seen in (name, heir):
        again = Feed(cleaned.session(seen), ToyMapping())
        assert again.read(numbers) == [*map(Forgotten, numbers[:3]), END]
        assert shown(again.session) == [("assistant", END["text"], ())]
        assert again.add([ASK])
    report = verify(cleaned)
    assert [one for one in report.sessions if one.problems] == []


def test_an_export_of_a_session_that_forgot_is_imported(engine: Engine) -> None:
    """Event JSONL has the place of what is forgotten, and the forgetting, but nothing of it."""
    store = engine.open()
    feed, numbers = told(store)
    feed.forget(numbers[:2])
    other = Engine("memory")
    target = other.open()
    report = import_file(target, BytesIO(b"".join(jsonl_lines(feed.session))))
    again = Feed(target.session(report.sessions[0]), ToyMapping())
    assert again.read(numbers) == feed.read(numbers)
    assert shown(again.session) == shown(feed.session)
    other.close()


def test_answers_of_several_records_lose_what_is_forgotten() -> None:
    """A message told in several records goes when all of them are forgotten, not before."""

    class Pieces(ToyMapping):
        def read(self, record: Any, to: Any) -> None:
            if to.conversation.open is None:
                to.answer()
            to.text(record["text"])

    engine = Engine("memory")
    feed = Feed(engine.open().create_session(), Pieces())
    numbers = [feed.add([{"text": f"piece {number} of an answer"}])[0] for number in range(3)]
    feed.forget(numbers[:1])
    assert shown(feed.session) == [("assistant", "piece 1 of an answerpiece 2 of an answer", ())]
    feed.forget(numbers[1:])
    assert shown(feed.session) == []
    assert list(Transcript(feed.session).newest_first()) == []


def test_a_long_thread_is_forgotten_in_one_go() -> None:
    """Two thousand records are one range of one event of a few bytes."""
    engine = Engine("memory")
    feed = Feed(engine.open().create_session(), ToyMapping())
    numbers: list[int] = []
    for start in range(0, 2_000, 500):
        numbers += feed.add([{"kind": "user", "text": f"record {number}"} for number in range(start, start + 500)])
    feed.forget(numbers)
    head = feed.session.store.log.head(feed.session.id)
    assert head is not None
    assert len(entry_of(head).forgotten) == 1
    assert feed.path() == []
    assert shown(feed.session) == []


KILLED = """
import sys
import eventlog
from eventlog import Feed
from tests.support.toy_records import ToyMapping
with eventlog.open(sys.argv[1]) as store:
    feed = Feed(store.session("s"), ToyMapping())
    for number in range(int(sys.argv[2]), 1000):
        feed.add([{"kind": "user", "text": f"record {number}"}, {"kind": "answer", "text": f"answer {number}", "calls":
            [{"id": f"c{number}", "tool": "t", "input": {}}]}], wait=5)
        print(number, flush=True)
        feed.add([{"kind": "result", "call": f"c{number}", "output": "done"}], after=feed.path()[-1], wait=5)
        if number % 3 == 0:
            feed.forget(feed.path()[:1])
"""


def test_a_kill_leaves_whole_appends(tmp_path: Any) -> None:
    """Killed between any two appends, a feed has all records of each append, or none."""
    import eventlog

    with eventlog.open(tmp_path / "store") as store:
        store.create_session(id="s")
    begin = 0
    for lines in (1, 3, 6, 2, 9):
        arguments = [sys.executable, "-c", KILLED, str(tmp_path / "store"), str(begin)]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _ in range(lines):
                begin = int(process.stdout.readline()) + 1
            process.kill()
        with eventlog.open(tmp_path / "store") as store:
            feed = Feed(store.session("s"), ToyMapping())
            values = feed.read(feed.path())
            kinds = [value["kind"] for value in values]
            assert kinds[0] != "result" or kinds.count("user") < kinds.count("answer") + 2
            for one, following in pairwise(values):
                if one["kind"] == "user":
                    assert following["kind"] == "answer", "the two are one append"
            assert len(shown(feed.session)) >= len([kind for kind in kinds if kind != "result"])


def test_ranges_are_sets_of_versions() -> None:
    """Merging, cutting and asking agree with plain sets."""
    first, second = merged([(5, 9), (1, 2), (3, 3), (20, 30)]), merged([(2, 6), (25, 25)])
    assert first == ((1, 3), (5, 9), (20, 30))

    def plain(ranges: Any) -> set[int]:
        return {version for low, high in ranges for version in range(low, high + 1)}

    assert plain(without(first, second)) == plain(first) - plain(second)
    assert plain(without([(1, 40)], first)) == set(range(1, 41)) - plain(first)
    assert without(first, ()) == list(first)
    for version in range(42):
        assert covers(first, version) == (version in plain(first))
        for last in range(version, 42):
            assert meets(first, version, last) == bool(plain(first) & set(range(version, last + 1)))
            assert plain(clipped(first, version, last)) == plain(first) & set(range(version, last + 1))


@pytest.mark.promise(13)
def test_a_forgotten_question_waits_for_no_answer(engine: Engine) -> None:
    """A session of which the question is forgotten has nothing to go on with."""
    store = engine.open()
    feed = Feed(store.create_session(), ToyMapping())
    (number,) = feed.add([ASK])
    assert [info.id for info in store.unfinished()] == [feed.session.id]
    feed.forget([number])
    for seen in (store, engine.open()):
        assert seen.unfinished() == []
        assert [info.state for info in seen.newest_sessions().sessions] == ["waiting"]


@pytest.mark.promise(13)
def test_a_question_whose_answer_is_forgotten_waits_again(engine: Engine) -> None:
    """Every handle lists it as unfinished, as a loop that goes on finds it."""
    store = engine.open()
    feed = Feed(store.create_session(), ToyMapping())
    feed.session.user("What is there?")
    (number,) = feed.add([END])
    with feed.session.lease():
        assert store.unfinished() == []
    feed.forget([number])
    for seen in (store, engine.open()):
        assert [info.id for info in seen.unfinished()] == [feed.session.id]
        assert [info.state for info in seen.newest_sessions().sessions] == ["unfinished"]
    with feed.session.pipeline():
        feed.session.rename("quiet")
    assert [info.id for info in store.unfinished()] == [feed.session.id]


def test_a_removal_outlives_the_record_that_told_it(engine: Engine) -> None:
    """A message that a record removed stays removed when that record is forgotten."""

    class Removing(ToyMapping):
        def read(self, record: Any, to: RecordBuilder) -> None:
            if record["kind"] == "remove":
                assert to.remove(record["message"])
                assert not to.remove(record["message"])  # it is gone, in the same append as well
            else:
                super().read(record, to)

    store = engine.open()
    feed = Feed(store.create_session(), Removing())
    feed.add([ASK])
    message = next(
        found.event.message for found in feed.session.events() if isinstance(found.event, ev.UserMessageAdded)
    )
    numbers = feed.add([{"kind": "remove", "message": message}, END])
    feed.forget(numbers[:1])
    assert shown(feed.session) == [("assistant", END["text"], ())]
    assert feed.session.info.messages == 1
    assert [found.problems for found in verify(store, deep=True).sessions] == [[]]
