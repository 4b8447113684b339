"""Rollback, redo and fork through the handle: history returns, others' is unchanged."""

from __future__ import annotations

import pytest

from eventlog import events as ev
from eventlog.errors import (
    AlreadyExistsError,
    CallError,
    NotFoundError,
    RefusedError,
)
from eventlog.history import checkpoint_store
from eventlog.session.lease import Block, Lease
from eventlog.session.session import Session
from eventlog.state.stored import canonical
from eventlog.store import Store
from eventlog.values import (
    MessageError,
    Patch,
    Text,
    Todo,
)
from tests.support.engines import Engine
from tests.support.sample_sessions import USAGE, exchange, said


@pytest.mark.promise(6, 9)
def test_rollback_and_redo_bring_back_what_was(store: Store) -> None:
    """Promise 9: rollback hides, redo shows again, and every version keeps the view it had."""
    session = store.create_session()
    exchange(session, "one")
    middle = session.version
    exchange(session, "two")
    end = session.version
    full, half = said(session), said(session, middle)
    assert len(full) == 2
    result = session.rollback(middle)
    assert (result.version, result.to) == (end + 1, middle)
    assert said(session) == half
    assert said(session, end) == full
    session.redo()
    assert said(session) == full
    with pytest.raises(RefusedError):
        session.redo()
    session.rollback(middle)
    exchange(session, "three")
    assert list(said(session).values()) == ["one", "three"]
    assert said(session, end) == full


@pytest.mark.promise(9)
def test_a_rollback_to_what_an_earlier_one_hid_can_be_undone(store: Store) -> None:
    """Promise 9: a return to right before the newest rollback is a redo; others are undoable."""
    session = store.create_session()
    for number in range(100):
        session.user(f"{number}")
    texts, end = heard(session), session.version
    session.rollback(61)
    early = heard(session)
    session.rollback(151)
    assert heard(session) == texts[:75]
    assert session.redo().to == end + 1
    assert heard(session) == early
    assert session.redo().to == end
    assert heard(session) == texts
    with pytest.raises(RefusedError):
        session.redo()
    session.rollback(61)
    middle = session.version
    session.rollback(session.version)
    assert session.redo().to == middle
    session.rollback(middle - 1)  # by hand what a redo does
    assert heard(session) == texts
    with pytest.raises(RefusedError):
        session.redo()


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


def test_a_state_that_an_older_program_kept_is_not_used(engine: Engine) -> None:
    """A state checkpoint of an older redo numbering is ignored and the log is read."""
    with engine.open() as store:
        session = store.create_session(id="s")
        for number in range(3):
            session.user(f"{number}")
        session.rollback(3)
        session.rollback(5)
        wrong = session.reader.state().history
        wrong.undone[-1] = 0  # as that program took it
        data = canonical(session.reader.state())
        checkpoint_store.save(store.log, "state 4", "s", session.version, data, surplus=checkpoint_store.newest(1))
        wanted = session.version - 1
    with engine.open() as store:
        assert store.session("s").redo().to == wanted


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


def test_rollback_into_an_open_message_settles_it(store: Store) -> None:
    """A rollback into an open message settles it in the same append: tools fail, text stays."""
    session = store.create_session()
    session.user("q")
    with session.assistant() as reply:
        text = reply.stream_text()
        for word in ("one ", "two ", "three"):
            text.append(word)
        call = reply.tool("bash", call_id="c", input="{}")
        inside = session.version
        call.succeed("out")
        reply.finish()
    running = session.rollback(inside)
    assert [recorded.event for recorded in session.events(running.version - 1)] == [
        ev.RolledBack(inside),
        ev.PartEnded(text.id),
        ev.ToolFailed(call.id, "[Tool execution was interrupted]", interrupted=True),
        ev.MessageFinished(reply.id, None, MessageError("aborted", "rolled back")),
    ]
    assert said(session) == {text.id: "one two three"}
    deltas = session.reader.find(text.id) + 2
    session.rollback(deltas)
    assert said(session) == {text.id: "one two "}
    assert session.reader.state().open_messages() == ()


def test_rollback_inside_a_user_message_keeps_the_parts_up_to_there(store: Store) -> None:
    """A rollback inside a user message keeps the parts up to that version."""
    session = store.create_session()
    session.user([Text("a"), Text("b"), Text("c")])
    session.rollback(3)
    texts = [
        recorded.event.kind.text
        for span in session.history()
        for recorded in span.events()
        if isinstance(recorded.event, ev.PartStarted) and isinstance(recorded.event.kind, Text)
    ]
    assert texts == ["a"]


def test_rollback_is_refused_inside_an_open_message(store: Store) -> None:
    """A rollback while a message streams is refused and writes nothing."""
    session = store.create_session()
    with session.assistant() as reply:
        reply.stream_text().append("x")
        before = session.version
        with pytest.raises(RefusedError):
            session.rollback(1)
        assert session.version == before
        reply.abort()


def test_rollback_names_the_file_states_after_it(store: Store) -> None:
    """The result names the snapshots and patches after the target, hidden ones left out."""
    session = store.create_session()
    base = session.version
    with session.assistant() as reply:
        reply.step(snapshot="s1")
        reply.part(Patch("s1", ("a.py",)))
        reply.end_step(snapshot="s2")
        reply.finish()
    result = session.rollback(base)
    assert (result.snapshots, result.patches) == (("s1", "s2"), (Patch("s1", ("a.py",)),))
    assert session.rollback(base).snapshots == ()


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
def test_a_fork_continues_its_parent_and_neither_changes_the_other(engine: Engine) -> None:
    """Promise 13: later events and rollbacks of a parent never change its fork, or reverse."""
    store = engine.open()
    parent = store.create_session(title="t", scope="s")
    exchange(parent, "one")
    at = parent.version
    exchange(parent, "two")
    fork = parent.fork(at)
    assert (fork.version, store.info(fork.id).title, store.info(fork.id).scope) == (at + 1, "t", "s")
    assert list(said(fork).values()) == ["one"]
    exchange(fork, "other")
    parent.rollback(2)
    exchange(parent, "three")
    assert list(said(fork).values()) == ["one", "other"]
    assert list(said(parent).values()) == ["three"]
    version = fork.version
    store.close()
    with engine.open() as again:
        assert list(said(again.session(fork.id)).values()) == ["one", "other"]
        info = again.info(fork.id)
        assert (info.fork_of, info.forked_at, info.events) == (parent.id, at, version - at)


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


def test_a_fork_inside_a_stream_is_settled_by_its_own_lease(store: Store) -> None:
    """A fork inside a run of deltas has the text so far and closes it when it is run."""
    session = store.create_session()
    with session.assistant() as reply:
        text = reply.stream_text()
        for word in ("one ", "two ", "three "):
            text.append(word)
        session.flush()
        fork = session.fork(session.reader.find(text.id) + 2)
        assert said(fork) == {text.id: "one two "}
        exchange(fork, "next")
        assert list(said(fork).values()) == ["one two ", "next"]
        text.append("four")
        reply.finish()
    assert said(session) == {text.id: "one two three four"}
    closed = [recorded.event for recorded in fork.events(fork.reader.find(text.id) + 3)]
    assert closed[2:4] == [
        ev.PartEnded(text.id),
        ev.MessageFinished(reply.id, None, MessageError("aborted", "interrupted")),
    ]


def test_a_fork_of_a_fork_at_an_inherited_version(engine: Engine) -> None:
    """Versions resolve through forks of forks, also after reopening."""
    store = engine.open()
    root = store.create_session(id="root")
    exchange(root, "one")
    early = root.version
    exchange(root, "two")
    middle = root.fork(id="middle")
    exchange(middle, "three")
    leaf = middle.fork(early, id="leaf")
    exchange(leaf, "four")
    deep = leaf.fork(id="deep")
    deep.rollback(early)
    root.rollback(2)
    for opened in (store, engine.open()):
        assert list(said(opened.session("leaf")).values()) == ["one", "four"]
        assert list(said(opened.session("middle")).values()) == ["one", "two", "three"]
        assert list(said(opened.session("deep")).values()) == ["one"]
        assert [piece.stream for piece in opened.session("leaf").reader.lineage()] == ["root", "leaf"]
        assert {piece.stream for piece in opened.session("deep").reader.lineage()} == {"root", "deep"}
        versions = [recorded.version for recorded in opened.session("deep").events()]
        assert versions == list(range(1, opened.session("deep").version + 1))


def test_a_fork_rolls_back_into_what_it_inherited_and_redoes_it(store: Store) -> None:
    """A fork's rollback into inherited history works, and the parent does not see it."""
    root = store.create_session()
    exchange(root, "one")
    early = root.version
    exchange(root, "two")
    fork = root.fork()
    exchange(fork, "three")
    full = said(fork)
    fork.rollback(early)
    assert list(said(fork).values()) == ["one"]
    fork.redo()
    assert said(fork) == full
    assert list(said(root).values()) == ["one", "two"]


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
