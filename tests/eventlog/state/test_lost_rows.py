"""Lost rows, and rows that another handle stored otherwise, cost time and no fact."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

import eventlog
from eventlog.errors import AlreadyExistsError
from eventlog.history.checkpoint_store import key_of
from eventlog.session.session import Session
from eventlog.state.loader import apply_spans
from eventlog.state.state import State
from eventlog.state.stored import canonical
from eventlog.state.stored_facts import FACTS
from eventlog.store import Store
from tests.eventlog.state.test_archive import answers, packing, turn
from tests.support.engines import Engine
from tests.support.python_process import printed


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


def prunable(state: State) -> list[str]:
    """The results that can be pruned now."""
    calls = ((name, facts) for name, facts in state.parts.items() if state.history.holds(facts.added))
    return [name for name, facts in calls if state.status(facts) == "completed" and state.now(facts.prunes) != "pruned"]


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


ARCHIVER = """
import sys
import eventlog
from eventlog import events as ev
from tests.eventlog.state.test_archive import packing

with packing(8, 4), eventlog.open(sys.argv[1], checkpoint_events=50) as store:
    session = store.session("session")
    for name in "xy":
        session.executor.command([ev.UserMessageAdded(name)])
    print(*session.reader.state().hot_messages)
"""
"""Stores an archive of its own: a process does not see what others have in memory."""


@pytest.mark.promise(7, 8)
def test_a_fork_finds_what_another_process_archived_otherwise(tmp_path: Path) -> None:
    """Promises 7 and 8: two processes each store an archive, and a fork rests on both."""
    with packing(8, 4), eventlog.open(tmp_path, checkpoint_events=10) as store:
        session = store.create_session(id="session")
        for number in range(40):
            add_turns(session, range(number, number + 1))
            for old in range(1, min(number, 24), 2):
                session.reader.state().part(f"a{old}:call")
        add_turns(session.fork(id="fork"), range(100, 106))
        assert "u37" in printed(ARCHIVER, tmp_path).split()
    with packing(8, 4), eventlog.open(tmp_path) as store:
        require_exact(store.session("fork"))
        require_exact(store.session("session"))


@pytest.mark.parametrize("seed", range(8))
def test_handles_forks_and_losses_in_any_order(engine: Engine, seed: int) -> None:
    """Random appends, prunes, rollbacks, forks and losses leave exact states."""
    random = Random(seed)
    with packing(random.choice([1, 2, 5]), random.choice([1, 2, 4])):
        stores = [engine.open(checkpoint_events=random.choice([10, 25, 60])) for _ in range(2)]
        names = [stores[0].create_session(id="s").id]
        for number in range(70):
            session = random.choice(stores).session(random.choice(names))
            work = random.choice(["add", "add", "add", "add", "prune", "back", "fork", "lose", "reopen", "check"])
            if work == "add":
                add_turns(session, range(number, number + 1))
            elif work == "prune":
                calls = [name for name in prunable(replayed(session)) if random.random() < 0.1]
                if calls:
                    session.context.prune(calls)
            elif work == "back" and not session.reader.state().open_messages():
                session.rollback(random.randint(1, session.version))
            elif work == "fork" and len(names) < 6:
                names.append(session.fork(random.randint(1, session.version), id=f"f{number}").id)
            elif work == "lose":
                keys = stores[0].log.derived_keys(b"checkpoint\0")
                stores[0].log.put_derived([(key, None) for key in keys if random.random() < 0.3])
            elif work == "reopen":
                place = random.randrange(2)
                stores[place].close()
                stores[place] = engine.open(checkpoint_events=random.choice([10, 25, 60]))
            else:
                require_exact(session)
        for store in stores:
            for name in names:
                require_exact(store.session(name))


def test_rows_of_an_archive_that_is_gone_are_deleted(engine: Engine) -> None:
    """Once all runs of an archive are merged, the session has no rows but those of it."""
    with packing(2, 2), engine.open(checkpoint_events=40) as store:
        session = store.create_session(id="session")
        orphan = key_of(FACTS, "session", 7 << 24)
        add_turns(session, range(20))
        store.log.put_derived([(orphan, b"of no archive")])
        number = 20
        while store.log.get_derived(orphan) is not None:
            add_turns(session, range(number, number + 5))
            number += 5
            assert number < 400
        require_exact(session)
