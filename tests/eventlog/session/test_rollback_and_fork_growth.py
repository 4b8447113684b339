"""The cost of history, in events read or as a ratio of processor time at two sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from time import process_time

import pytest

import eventlog
from eventlog import events as ev
from eventlog.errors import AlreadyExistsError
from eventlog.history import checkpoint_store
from eventlog.log.contract import Log
from eventlog.session.session import Session
from eventlog.state.committed import CHECKPOINT_EVENTS
from eventlog.state.loader import STATE
from eventlog.state.stored_facts import FACTS
from eventlog.store import Store
from eventlog.values import Patch, Text
from projections.verify.verify import verify
from tests.support.engines import Engine
from tests.support.sample_sessions import derived_reads

SMALL, LARGE = 1_000, 8_000
"""Messages, or what else is counted, of the two sizes."""


def talk(session: Session, messages: int) -> None:
    """Questions and answers in turn, a hundred in an append."""
    made: list[ev.Event] = []
    for number in range(messages):
        name = f"{session.id} {session.version} {number}"
        if number % 2:
            made += [ev.AssistantMessageStarted(name), ev.PartStarted(name, f"{name}:text", Text("answer"))]
            made += [ev.PartEnded(f"{name}:text"), ev.MessageFinished(name, "stop")]
        else:
            made += [ev.UserMessageAdded(name), ev.PartStarted(name, f"{name}:text", Text("question"))]
        if number % 100 == 99 or number == messages - 1:
            session.append([(0, event) for event in made])
            made = []


def test_rolling_back_the_newest_message_reads_that_message(
    tmp_path: Path, events_read: Callable[[Log], list[int]]
) -> None:
    """Rolling back and redoing a message reads that message, however long the history."""
    found: list[tuple[int, int]] = []
    for messages in (SMALL, LARGE):
        with eventlog.open(tmp_path / str(messages)) as store:
            session = store.create_session(id="s")
            talk(session, messages)
            version = session.version
            session.user([Text("the newest"), Patch("hash", ("a.py",))], id="newest")
            counts = events_read(store.log)
            assert session.rollback(before="newest").patches == (Patch("hash", ("a.py",)),)
            back = sum(counts)
            assert session.redo().patches == ()
            forth = sum(counts) - back
            session.rollback(version)
            found.append((back, forth))
    assert found[0] == found[1]
    assert sum(found[0]) < 10


def test_a_rollback_costs_the_same_after_ten_thousand_others(tmp_path: Path) -> None:
    """After 10,000 rollbacks the next one is as fast as after an eighth of them."""

    def cost(rollbacks: int) -> float:
        with eventlog.open(tmp_path / str(rollbacks)) as store:
            session = store.create_session(id="s")
            talk(session, 10)
            version, made = session.version, list[ev.Event]()
            for number in range(rollbacks):  # to and fro, and something is said each time
                version += 2
                to = version - 2 if number % 3 else 20 + number % 7
                made += [ev.Custom("n", "{}"), ev.RolledBack(to)]
            session.append([(0, event) for event in made])
            best = 1e9
            for _ in range(7):
                begin = process_time()
                session.rollback(session.version - 1)
                session.rollback(25)
                session.redo()
                best = min(best, process_time() - begin)
            return best

    assert any(cost(10_000 + attempt) < 2 * cost(1_250 + attempt) for attempt in range(3))


def alone(session: Session, messages: int) -> None:
    """Append without a lease, as an import does."""
    talk(session, messages)


def leased(session: Session, messages: int) -> None:
    """Append under one lease."""
    with session.lease():
        talk(session, messages)


@pytest.mark.promise(8)
@pytest.mark.parametrize("writing", [alone, leased])
def test_opening_a_state_reads_no_more_of_a_longer_history(
    engine: Engine, events_read: Callable[[Log], list[int]], writing: Callable[[Session, int], None]
) -> None:
    """Promise 8: opening a session reads its newest checkpoint and the few events after it."""
    for messages in (SMALL, LARGE, LARGE + LARGE // 4):
        with engine.open() as store:
            session = store.create_session(id=str(messages))
            writing(session, messages)
        with engine.open() as store:
            counts, values = events_read(store.log), derived_reads(store.log)
            assert store.session(str(messages)).reader.state().last_message
            assert sum(counts) <= CHECKPOINT_EVENTS + 300  # what is kept comes before an append
            assert not [key for key in values if FACTS.encode() in key]


@pytest.mark.promise(8)
@pytest.mark.parametrize("read_only", [False, True])
def test_a_reader_that_replays_a_long_history_stores_its_state(
    tmp_path: Path, events_read: Callable[[Log], list[int]], read_only: bool
) -> None:
    """Promise 8: where a checkpoint was lost, the first reader stores one, if it may write."""
    with eventlog.open(tmp_path) as store:
        alone(store.create_session(id="s"), LARGE)
        checkpoint_store.forget(store.log, STATE, "s")
    read: list[int] = []
    for _ in range(2):
        with eventlog.open(tmp_path, read_only=read_only) as store:
            counts = events_read(store.log)
            assert store.session("s").reader.state().last_message
            read.append(sum(counts))
    assert read[0] > LARGE
    assert (read[1] < CHECKPOINT_EVENTS) is not read_only


@pytest.mark.promise(8)
def test_going_back_to_the_middle_reads_no_more_of_a_longer_history(
    engine: Engine, events_read: Callable[[Log], list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise 8: a fork in the middle, its first append and a rollback read a few events."""
    monkeypatch.setattr("eventlog.state.committed.EVERY", CHECKPOINT_EVENTS)
    read: list[int] = []
    for messages in (SMALL, LARGE):
        name = str(messages)
        with engine.open() as store:
            alone(store.create_session(id=name), messages)
        with engine.open() as store:
            counts = events_read(store.log)
            session = store.session(name)
            middle = session.version // 2 // 6 * 6
            fork = session.fork(middle, id=f"{name} fork").id
        with engine.open() as store:
            counts += events_read(store.log)
            store.session(fork).user("more", id="m")
            store.session(name).rollback(middle)
            with pytest.raises(AlreadyExistsError):
                store.session(fork).user("more", id=f"{name} 1 0")
            store.session(name).user("more", id=f"{fork} 1 0")
            read.append(sum(counts))
            assert verify(store, deep=True).sound
    assert read[1] < read[0] + 3 * CHECKPOINT_EVENTS


@pytest.mark.promise(9)
def test_a_rollback_finds_old_file_states(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise 9: a rollback names the snapshots and patches after its version, also old ones."""
    monkeypatch.setattr("eventlog.state.version_log.RECENT", 4)
    with engine.open(checkpoint_events=20) as store:
        session = store.create_session(id="s")
        for number in range(40):
            with session.assistant() as reply:
                reply.step(snapshot=f"before {number}")
                reply.part(Patch(f"hash {number}", ("a.py",)))
                reply.finish(snapshot=f"after {number}")
    with engine.open(checkpoint_events=20) as store:
        found = store.session("s").rollback(1)
        assert found.snapshots == tuple(f"{when} {number}" for number in range(40) for when in ("before", "after"))
        assert [patch.hash for patch in found.patches] == [f"hash {number}" for number in range(40)]
        assert store.session("s").rollback(1).snapshots == ()


@pytest.mark.promise(14)
@pytest.mark.parametrize(("handles", "every"), [(1, 500), (2, 800)])  # 800: each handle in its turn keeps one
def test_keeping_a_state_writes_no_more_for_a_longer_history(
    monkeypatch: pytest.MonkeyPatch, engine: Engine, handles: int, every: int
) -> None:
    """Promise 14: a state checkpoint costs what came since the last, also between handles."""
    written: list[int] = []
    for messages in (2 * SMALL, 2 * LARGE):
        sizes = list[int]()
        with ExitStack() as opened:
            stores = [opened.enter_context(engine.open(checkpoint_events=every)) for _ in range(handles)]
            for store in stores:

                def watched(
                    items: Sequence[tuple[bytes, bytes | None]],
                    put: Callable[[Sequence[tuple[bytes, bytes | None]]], None] = store.log.put_derived,
                    sizes: list[int] = sizes,
                ) -> None:
                    sizes.extend(len(value or b"") for _, value in items)
                    put(items)

                monkeypatch.setattr(store.log, "put_derived", watched)
            stores[0].create_session(id=str(messages))
            sessions = [store.session(str(messages)) for store in stores]
            for turn in range(messages // 100):
                talk(sessions[turn % handles], 100)
        written.append(sum(sizes))
    assert written[1] < 16 * written[0]  # written whole each time it would be some 60 times


def chain(store: Store, forks: int) -> None:
    """Fork each session from the one before it."""
    session = store.create_session(id="00000")
    talk(session, 16)
    for number in range(1, forks):
        session = session.fork(id=f"{number:05}")
        talk(session, 16)


def star(store: Store, forks: int) -> None:
    """Fork one long session at many versions; fork ids sort before or after its own."""
    session = store.create_session(id="00100")
    for number in range(forks):
        talk(session, 16)
        session.fork(id=f"{number + number // 100:05}x")


@pytest.mark.parametrize("family", [chain, star])
def test_verify_reads_what_is_stored_and_not_what_is_inherited(
    events_read: Callable[[Log], list[int]], family: Callable[[Store, int], None]
) -> None:
    """Verifying a store costs what it stores, however often that is inherited."""
    read: list[int] = []
    taken: list[float] = []
    for forks in (SMALL // 16, LARGE // 16):
        with eventlog.open("memory:", checkpoint_events=20) as store:
            family(store, forks)
            counts = events_read(store.log)
            begin = process_time()
            report = verify(store)
            taken.append(process_time() - begin)
            assert report.sound
            assert len(report.sessions) in {forks, forks + 1}
            read.append(sum(counts))
    assert read[1] < 9 * read[0]
    assert taken[1] < 16 * taken[0]
