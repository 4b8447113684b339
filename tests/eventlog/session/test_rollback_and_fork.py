"""Rollback, redo and fork through the handle: history returns, others' is unchanged."""

from __future__ import annotations

import pytest

from eventlog import events as ev
from eventlog.errors import AlreadyExistsError, CallError, NotFoundError
from eventlog.session.held_lease import Block, Lease
from eventlog.session.session import Session
from eventlog.store import Store
from eventlog.values import File, Text, Todo
from projections.transcript.transcript import Transcript
from tests.support.engines import Engine
from tests.support.sample_sessions import USAGE, exchange


@pytest.mark.promise(9)
def test_a_redo_takes_back_what_another_process_rolled_back_just_before(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise 9: redo chooses its rollback under the lease and sees one made just before."""
    with engine.open() as mine, engine.open() as other:
        session = mine.create_session(id="s")
        for number in range(3):
            session.user(f"{number}")
        session.rollback(3)
        acquire = session.executor.acquire

        def late(*, wait: float = 0.0, block: Block | None = None, take_over: bool = False) -> Lease:
            monkeypatch.setattr(session.executor, "acquire", acquire)
            other.session("s").rollback(5)
            return acquire(wait=wait, block=block, take_over=take_over)

        monkeypatch.setattr(session.executor, "acquire", late)
        session.redo()
        assert heard(session) == ["0"]


def heard(session: Session) -> list[str]:
    """The texts of the effective user messages."""
    events = (recorded.event for span in session.history() for recorded in span.events())
    parts = (event.kind for event in events if isinstance(event, ev.PartStarted))
    return [part.text for part in parts if isinstance(part, Text) and isinstance(part.text, str)]


def test_rollback_before_a_message(store: Store) -> None:
    """A rollback to before a message restores what was there right before it was added."""
    session = store.create_session()
    session.user("one", id="m1")
    session.user("two", id="m2")
    before = session.reader.find("m2") - 1
    assert session.rollback(before="m2").to == before
    assert [recorded.event for span in session.history() for recorded in span.events()][1:3] == [
        recorded.event for recorded in session.events(1, 3)
    ]
    with pytest.raises(NotFoundError):
        session.rollback(before="m2")
    with pytest.raises(CallError):
        session.rollback(3, before="m1")


def test_what_is_gone_is_not_said_to_have_never_been(store: Store) -> None:
    """An error says of a message or part that was removed, or rolled back, that it was there."""
    session = store.create_session()
    session.user("one", id="m1")
    part = next(iter(session.reader.state().message("m1").parts))
    session.user("two", id="m2")
    session.rollback(before="m2")
    session.remove_part(part)
    session.remove_message("m1")
    for call, said in (
        (lambda: session.rollback(before="m1"), "message 'm1' was removed"),
        (lambda: session.remove_message("m1"), "message 'm1' was removed"),
        (lambda: session.edit_part(part, "x"), f"part '{part}' was removed"),
        (lambda: session.rollback(before="m2"), "message 'm2' was rolled back"),
        (lambda: session.rollback(before="m3"), "no message 'm3'"),
    ):
        with pytest.raises(NotFoundError, match=said):
            call()


def test_what_a_rollback_does_not_undo_stays(store: Store) -> None:
    """A rollback keeps titles, usage and redactions, and restores settings and pins."""
    session = store.create_session()
    exchange(session)
    to = session.version
    session.rename("new")
    session.record_usage(USAGE)
    session.set_todos([Todo("x")])
    pin = session.pin("fact")
    session.rollback(to)
    effective = [type(recorded.event) for span in session.history() for recorded in span.events()]
    assert ev.SessionRenamed in effective
    assert ev.UsageRecorded in effective
    assert ev.TodosSet not in effective
    with pytest.raises(NotFoundError):
        session.unpin(pin)
    assert store.info(session.id).title == "new"


@pytest.mark.promise(13)
def test_a_fork_stores_one_event(store: Store) -> None:
    """Promise 13: a fork costs one event, however long the inherited history."""
    parent = store.create_session()
    for _ in range(5):
        exchange(parent)
    fork = parent.fork()
    commits = list(store.log.read(fork.id))
    assert [(commit.first, commit.count) for commit in commits] == [(parent.version + 1, 1)]
    assert len(commits[0].payload) < 300


def test_ids_of_inherited_things_are_taken(store: Store) -> None:
    """Inherited ids are taken in a fork and can be found there."""
    root = store.create_session()
    root.user("hi", id="m1")
    at = root.version
    root.user("later", id="m2")
    fork = root.fork(at)
    with pytest.raises(AlreadyExistsError):
        fork.user("again", id="m1")
    fork.user("mine", id="m2")
    assert fork.reader.find("m1") == root.reader.find("m1")


def test_a_fork_and_a_rollback_end_with_any_message_whole(store: Store) -> None:
    """Before the next message, or now, each message is the last one, with all its parts."""
    session = store.create_session()
    for number in range(2):
        session.user(f"question {number}", files=[File("text/plain", "data:,x", "x.txt")])
        with session.assistant("acme/one") as reply:
            reply.add_text(f"answer {number}")
            reply.finish()
    shown = said(session)
    following = [*(message.id for message in Transcript(session).oldest_first()), None][1:]
    for number, behind in enumerate(following, 1):
        assert said(session.fork(before=behind)) == shown[:number]
        fork = session.fork()
        assert said(fork.fork(before=behind)) == shown[:number]
        if behind is not None:
            fork.rollback(before=behind)
            assert said(fork) == shown[:number]


def said(session: Session) -> list[list[str]]:
    """The texts of each message of the transcript, oldest first."""
    return [[part.text for part in message.parts] for message in Transcript(session).oldest_first()]


@pytest.mark.promise(12)
def test_a_fork_before_no_message_is_refused(store: Store) -> None:
    """Promise 12: an unknown, a hidden or an ambiguous place begins no session."""
    session = store.create_session()
    session.user("one", id="m1")
    session.user("two", id="m2")
    session.rollback(before="m2")
    for before in ("m2", "m3"):
        with pytest.raises(NotFoundError):
            session.fork(before=before)
    with pytest.raises(CallError):
        session.fork(2, before="m1")
    assert len(list(store.sessions())) == 1


@pytest.mark.promise(12)
def test_a_fork_beyond_the_history_is_refused(store: Store) -> None:
    """Promise 12: a fork at a missing version is `NotFoundError`, and no session is created."""
    session = store.create_session()
    for at in (0, 2, -1):
        with pytest.raises(NotFoundError):
            session.fork(at)
    assert len(list(store.sessions())) == 1


def test_sub_sessions_know_their_parent(store: Store) -> None:
    """A sub-session is a session of its own that names its parent and shares its scope."""
    session = store.create_session(scope="alice")
    child = session.subsession(title="look", agent="explore", directory="/d")
    info = store.info(child.id)
    assert (info.parent, info.scope, info.title, info.agent, info.directory) == (
        session.id,
        "alice",
        "look",
        "explore",
        "/d",
    )
    assert child.version == 1
