"""Lost rows, and rows that another handle stored otherwise, cost time and no fact."""

from __future__ import annotations

import pytest

from eventlog.errors import AlreadyExistsError
from eventlog.session.session import Session
from eventlog.state.loader import apply_spans
from eventlog.state.state import State
from eventlog.state.stored import canonical
from eventlog.store import Store
from tests.eventlog.state.test_archive import answers, packing, turn
from tests.support.engines import Engine


def drop(store: Store, kind: str) -> None:
    """Delete the stored rows of these kinds."""
    store.log.put_derived([(key, None) for key in store.log.derived_keys(f"checkpoint\0{kind}".encode())])


def add_turns(session: Session, numbers: range) -> None:
    """Append turns of these numbers."""
    for number in numbers:
        session.append([(0, event) for event in turn(number)])


def replayed(session: Session) -> State:
    """The state from the first event on."""
    whole = State()
    apply_spans(session.store.log, session.reader.ancestry(), whole, session.version)
    return whole


def require_exact(session: Session) -> None:
    """Compare a session's state with a replay, id by id and as a whole."""
    state, whole = session.reader.state(), replayed(session)
    assert [name for name, facts in whole.messages.items() if state.messages.get(name) != facts] == []
    assert answers(state) == answers(whole)
    assert canonical(state) == canonical(whole)


@pytest.mark.promise(7, 8)
@pytest.mark.parametrize("kind", ["", "facts", "opens", "state"])
@pytest.mark.parametrize("own", [3, 20])
def test_a_fork_makes_lost_rows_anew_from_its_own_events_too(engine: Engine, kind: str, own: int) -> None:
    """Promises 7 and 8: the handle that made a fork replays the fork, too."""
    with packing(2, 2), engine.open(checkpoint_events=40) as store:
        parent = store.create_session(id="parent")
        add_turns(parent, range(20))
        fork = parent.fork(id="fork")
        add_turns(fork, range(20, 20 + own))
        drop(store, kind)
        with pytest.raises(AlreadyExistsError):
            fork.user("again", id="u20")
        fork.rollback(before="a5")
        require_exact(fork)


@pytest.mark.promise(7)
def test_lost_entries_of_a_parent_leave_those_of_the_fork(engine: Engine) -> None:
    """Promise 7: a fork that has stored nothing makes only its parent's packs anew."""
    with packing(2, 2), engine.open(checkpoint_events=40) as store:
        add_turns(store.create_session(id="parent"), range(20))
    with packing(2, 2), engine.open() as store:
        fork = store.session("parent").fork(id="fork")
        add_turns(fork, range(20, 40))
        drop(store, "opens")
        fork.rollback(before="a5")
        require_exact(fork)


@pytest.mark.promise(7, 8)
@pytest.mark.parametrize("forked", [False, True])
def test_a_handle_finds_what_another_one_has_not_archived(engine: Engine, forked: bool) -> None:
    """Promises 7 and 8: another handle's checkpoint may archive fewer messages."""
    with packing(8, 4), engine.open(checkpoint_events=20) as store, engine.open(checkpoint_events=5) as other:
        session = store.create_session(id="session")
        for number in range(40):
            add_turns(session, range(number, number + 1))
            for old in range(1, min(number, 24), 2):  # old messages that are read come back, and newer ones go
                session.reader.state().part(f"a{old}:call")
        read = session.fork(id="fork") if forked else session
        drop(store, "state")  # so the other handle replays, and stores an archive of its own
        again = other.session("session")
        again.user(id="x")
        again.user(id="y")
        other.flush()
        assert "u37" in again.reader.state().hot_messages
        with pytest.raises(AlreadyExistsError):
            read.user("again", id="u37")
        require_exact(read)
        add_turns(read, range(100, 110))
        require_exact(read)
    with packing(8, 4), engine.open() as store:
        require_exact(store.session(read.id))
