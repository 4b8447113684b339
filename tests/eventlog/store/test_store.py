"""The store: listing, closing, reopening, garbage collection, read-only opening."""

from __future__ import annotations

import copy
import gc
import pickle
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal

import pytest

from eventlog import events as ev
from eventlog.codec.decoded import Recorded
from eventlog.errors import CallError, ClosedError
from eventlog.open_store import open_store
from eventlog.store import Store
from eventlog.values import Tokens, Usage
from projections import ModelView
from projections.verify.verify import verify
from tests.support.engines import Engine
from tests.support.sample_sessions import exchange, said


def test_sessions_are_listed_without_reading_them(store: Store) -> None:
    """The list has title, scope, times, version and counts per session, from a cursor."""
    for name in ("b", "a", "c"):
        store.create_session(id=name, title=name.upper(), time=1000)
    store.session("a").user("hi")
    store.session("b").archive()
    assert [info.id for info in store.sessions()] == ["a", "b", "c"]
    assert [info.id for info in store.sessions(after="a")] == ["b", "c"]
    first, second, _ = store.sessions()
    assert (first.title, first.version, first.events, first.messages, first.created) == ("A", 3, 3, 1, 1000)
    assert first.updated > 1000
    assert second.archived
    store.session("b").unarchive()
    assert not store.info("b").archived


@pytest.mark.promise(1)
def test_everything_accepted_is_there_after_closing_and_reopening(engine: Engine) -> None:
    """Promise 1: closing the store makes everything durable, and gives leases back."""
    store = engine.open(flush_interval=60.0)
    session = store.create_session()
    session.executor.acquire()
    reply = session.assistant()
    reply.begin()
    text = reply.stream_text()
    text.append("kept")
    store.close()
    store.close()
    with pytest.raises(ClosedError):
        text.append("more")
    for command in (lambda: session.rename("x"), store.create_session, lambda: list(store.sessions())):
        with pytest.raises(ClosedError):
            command()
    with engine.open() as again:
        found = again.session(session.id)
        assert said(found) == {text.id: "kept"}
        with found.lease():
            assert found.reader.state().open_messages() == ()


@pytest.mark.promise(1)
def test_a_forgotten_store_commits_what_it_accepted(engine: Engine) -> None:
    """Promise 1: a store without references commits what it accepted within the interval."""
    watcher = engine.open()
    session = watcher.create_session()
    name = stream_and_forget(engine, session.id)
    for _ in range(3000):
        if said(session).get(name) == "kept":
            return
        watcher.log.wait_after(watcher.log.last_positions(), 0.02)
    pytest.fail("the deltas of a forgotten store were lost")


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_handles_are_not_copied(store: Store, copied: Callable[[object], object]) -> None:
    """A copy of a handle, as `dataclasses.asdict` makes, is refused and takes nothing with it."""
    session = store.create_session()
    session.user("hi")
    with pytest.raises(TypeError, match="open the store by its path again"):
        copied(store)
    for handle in (session, session.values, session.reader, ModelView.of(session), store.log):
        with suppress(TypeError):  # a shallow copy of what only points to the store is harmless
            copied(handle)
    gc.collect()
    session.user("ho")
    assert verify(store, deep=True).sound
    assert len(copy.deepcopy([*ModelView.of(session).messages])) == 2


def stream_and_forget(engine: Engine, session: str) -> str:
    """Accept a delta in a store and drop every reference to it."""
    store = engine.open(flush_interval=0.1)
    engine._stores.remove(store)
    handle = store.session(session)
    handle.executor.acquire()
    reply = handle.assistant()
    reply.begin()
    text = reply.stream_text()
    text.append("kept")
    return text.id


def test_a_read_only_store_reads_and_refuses_to_write(engine: Engine) -> None:
    """A store opened for reading shows everything and writes nothing."""
    if engine.name in {"memory", "partitioned"}:
        pytest.skip("a memory store has nothing to open for reading")
    with engine.open() as store:
        session = store.create_session(title="t")
        exchange(session)
        expected = said(session)
    with open_store(engine.place, read_only=True) as reader:
        found = reader.session(session.id)
        assert said(found) == expected
        for command in (
            lambda: found.rename("x"),
            found.executor.acquire,
            found.fork,
            reader.create_session,
            lambda: found.append([(1, ev.SessionRenamed("x"))]),
        ):
            with pytest.raises(CallError):
                command()


def test_reading_a_range_gives_exactly_those_versions(store: Store) -> None:
    """Events and spans of a range, inherited ones included, are exactly its versions."""
    root = store.create_session()
    exchange(root, "one")
    fork = root.fork()
    exchange(fork, "two")
    every: list[Recorded] = list(fork.events())
    assert [recorded.version for recorded in every] == list(range(1, fork.version + 1))
    for after in range(fork.version + 2):
        for upto in (None, 0, after, after + 1, fork.version, fork.version + 5):
            top = fork.version if upto is None else upto
            assert list(fork.events(after, upto)) == [recorded for recorded in every if after < recorded.version <= top]


def test_totals_of_a_list_need_no_event(store: Store) -> None:
    """The list has tokens and cost over all branches; a fork counts its own only."""
    session = store.create_session(scope="alice")
    session.user("hi")
    before = session.version
    session.record_usage(Usage(Tokens(10, 5, 2, 3, 1), Decimal("0.25")))
    session.record_usage(Usage(Tokens(1, 1, total=7)))
    session.rollback(before)
    fork = session.fork()
    fork.record_usage(Usage(Tokens(1), Decimal("0.5")))
    listed = {info.id: info for info in store.sessions(scope="alice")}
    assert (listed[session.id].tokens, listed[session.id].cost, listed[session.id].unpriced) == (26, Decimal("0.25"), 1)
    assert (listed[fork.id].tokens, listed[fork.id].cost, listed[fork.id].unpriced) == (1, Decimal("0.5"), 0)
    assert [info.id for info in store.sessions(limit=1)] == [min(listed)]
