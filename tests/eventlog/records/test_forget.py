"""Forgetting records: nothing shows them, at once, and a scrub frees their bytes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from io import BytesIO
from itertools import pairwise
from typing import Any

import pytest

from eventlog import Feed, Forgotten, NotFoundError, RecordBuilder, Redacted, Store, import_file
from eventlog import events as ev
from eventlog.history.catalog import entry_of
from eventlog.history.ranges import clipped, covers, meets, merged, without
from projections import LiveView, ModelView, Transcript
from projections.exports.jsonl import jsonl_lines
from projections.reports.audit import audit
from projections.reports.timeline import timeline
from projections.verify.verify import verify
from projections.window.retrieval.part_text import read_message
from tests.support.engines import ENCRYPTED, ENGINES, Engine
from tests.support.file_search import files_with
from tests.support.toy_records import ToyMapping, shown

SECRET = "the-secret-word-of-this-test"
ASK = {"kind": "user", "text": f"my number is {SECRET}", "short": "s3cret"}
CALL = {"kind": "answer", "text": "I look it up", "calls": [{"id": "c1", "tool": "ls", "input": {"q": SECRET}}]}
RESULT = {"kind": "result", "call": "c1", "output": f"{SECRET} " * 200}
END: dict[str, Any] = {"kind": "answer", "text": "That is all there is", "calls": []}
TOLD: list[Any] = [ASK, CALL, RESULT, END]


@pytest.fixture(params=[*ENGINES, ENCRYPTED])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """A place of each engine."""
    made = Engine(request.param)
    yield made
    made.close()


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
        assert not any(SECRET in repr(shown(seen, at=at)) for at in range(1, version + 1))
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


def test_what_a_fork_forgets_its_parent_forgets(engine: Engine) -> None:
    """A record told in the parent is forgotten there, also by its fork."""
    store = engine.open()
    feed, numbers = told(store)
    fork = Feed(feed.session.fork(), ToyMapping())
    own = fork.add([ASK])
    fork.forget([numbers[0], own[0]])
    assert feed.read(numbers[:1]) == [Forgotten(numbers[0])]
    assert fork.path() == numbers[1:]
    (head,) = (head for head in store.log.heads() if head.session == fork.session.id)
    assert entry_of(head).forgotten == ((own[0] - 2, own[0]),)


def test_heirs_of_an_erased_session_forget_together(engine: Engine) -> None:
    """After the parent is erased, each of its forks forgets what it inherited."""
    store = engine.open()
    feed, numbers = told(store)
    first, second = feed.session.fork(), feed.session.fork()
    store.erase(feed.session.id, forks="keep")
    Feed(first, ToyMapping()).forget(numbers[:1])
    assert Feed(second, ToyMapping()).read(numbers[:1]) == [Forgotten(numbers[0])]
    assert Feed(second.fork(5), ToyMapping()).read(numbers[:1]) == [Forgotten(numbers[0])]


def test_only_a_result_is_forgotten(engine: Engine) -> None:
    """A call whose result is forgotten shows none; the record of the call stays."""
    store = engine.open()
    feed, numbers = told(store)
    feed.forget(numbers[2:3])
    assert shown(feed.session)[2] == ("tool", "[Tool execution was interrupted]", "c1")
    assert feed.read(numbers) == [ASK, CALL, Forgotten(numbers[2]), END]
    assert feed.add([RESULT]), "the call is over, so another result means nothing"
    assert shown(feed.session)[2] == ("tool", "[Tool execution was interrupted]", "c1")


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


def test_a_redacted_record_is_never_partly_there(engine: Engine) -> None:
    """A record with some of a redacted part reads as redacted; a scrub removes its rest."""
    store = engine.open()
    feed, numbers = told(store)
    part = next(found.event.part for found in feed.session.events() if isinstance(found.event, ev.PartStarted))
    feed.session.redact(part, search=False)
    assert feed.read(numbers) == [Redacted(numbers[0]), *TOLD[1:]]
    assert feed.path() == numbers
    if engine.name not in {"embedded", ENCRYPTED}:
        return
    store.close()
    cleaned = engine.open()
    cleaned.scrub()
    assert files_with(engine.path, "s3cret") == []
    assert Feed(cleaned.session(feed.session.id), ToyMapping()).read(numbers) == [Redacted(numbers[0]), *TOLD[1:]]


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
    """Ten thousand records are one range of one event of a few bytes."""
    engine = Engine("memory")
    feed = Feed(engine.open().create_session(), ToyMapping())
    numbers: list[int] = []
    for start in range(0, 10_000, 500):
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
def test_a_forgotten_end_is_in_no_view_of_an_earlier_version(engine: Engine) -> None:
    """A version that ends with what was forgotten later does not show it."""
    store = engine.open()
    feed = Feed(store.create_session(), ToyMapping())
    (number,) = feed.add([ASK])
    version = feed.session.version
    for hidden in (feed.session, engine.open().session(feed.session.id)):
        feed.forget([number])
        for at in range(1, version + 1):
            assert shown(hidden, at=at) == []
            assert SECRET not in repr(list(hidden.history(at)))
    assert verify(store, deep=True).sound


@pytest.mark.promise(13)
def test_no_version_shows_a_forgotten_record(engine: Engine) -> None:
    """Looking back to any version, also one within the record, shows nothing of it."""
    store = engine.open()
    feed, numbers = told(store)
    version = feed.session.version
    feed.forget(numbers[:3])
    for at in range(1, version + 1):
        assert SECRET not in repr(list(feed.session.history(at)))
        assert SECRET not in repr(shown(feed.session, at=at))
    assert [found.problems for found in verify(store, deep=True).sessions] == [[]]


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
