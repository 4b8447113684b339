"""Subscriptions: history, then live, without gap or duplicate, across processes."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from threading import Thread

import pytest

from eventlog import events as ev
from eventlog.codec.decoded import Recorded
from eventlog.open_store import open_store
from eventlog.store import Store
from tests.support import streaming_worker
from tests.support.engines import Engine

SLOW = 3_600.0
"""Seconds between flushes, so that no flush comes by itself during a test."""


def streamed(store: Store, session: str, texts: list[str]) -> None:
    """An answer in deltas, whole."""
    with store.session(session).assistant(model="m") as reply:
        text = reply.stream_text()
        for piece in texts:
            text.append(piece)
        reply.finish("stop")


def in_order(store: Store, events: list[Recorded]) -> list[list[Recorded]]:
    """Events by partition, each in the order given."""
    return [
        [recorded for recorded in events if store.log.partition_of(recorded.session) == partition]
        for partition in range(store.log.partitions)
    ]


def everything(store: Store) -> list[Recorded]:
    """All committed events, read without following."""
    found = [event for info in store.sessions() for event in store.session(info.id).events()]
    return sorted(found, key=lambda recorded: recorded.position)


def test_history_then_live_without_a_gap_or_a_duplicate(engine: Engine) -> None:
    """A follower that starts mid-write gets each event exactly once, in order."""
    store = engine.open()
    for name in ("a", "b"):
        store.create_session(id=name).user(f"question of {name}")
    seen: list[Recorded] = []

    def follow() -> None:
        archived = 0
        for recorded in store.subscribe(timeout=60):
            seen.append(recorded)
            archived += isinstance(recorded.event, ev.SessionArchived)
            if archived == 2:
                return

    assert len(list(islice(store.subscribe(), 3))) == 3
    follower = Thread(target=follow)
    follower.start()
    for number in range(20):
        streamed(store, "ab"[number % 2], [f"{number} {piece} " for piece in range(40)])
    for name in ("a", "b"):
        store.session(name).archive()
    follower.join()
    expected = everything(store)
    assert in_order(store, seen) == in_order(store, expected)
    assert in_order(store, [*seen[:100], *store.subscribe(seen[99].cursor, timeout=0)]) == in_order(store, expected)


def test_sessions_and_kinds_choose(engine: Engine) -> None:
    """A follower gets the sessions and kinds it asks for; its cursor moves past the others."""
    store = engine.open()
    for name in ("a", "b"):
        store.create_session(id=name).user("hello")
        streamed(store, name, ["one", "two"])
    deltas = list(store.subscribe(session="b", kinds=[ev.PartDelta], timeout=0))
    assert texts_of(deltas) == ["one", "two"]
    assert {recorded.session for recorded in deltas} == {"b"}
    rest = list(store.subscribe(deltas[0].cursor, session="b", kinds=[ev.PartDelta], timeout=0))
    assert rest == deltas[1:]


def test_another_process_is_followed_while_it_streams(tmp_path: Path) -> None:
    """Deltas of another process arrive while they stream, before their message ends."""
    path = tmp_path / "store"
    with open_store(path) as store:
        store.create_session(id="s").user("go")
    writer = streaming_worker.start(path, "s")
    assert writer.stdin is not None
    with open_store(path, read_only=True) as store:
        texts = (
            recorded.event.text for recorded in store.subscribe(timeout=60) if isinstance(recorded.event, ev.PartDelta)
        )
        assert list(islice(texts, 10)) == [f"word {number} " for number in range(10)]
        assert not any(isinstance(recorded.event, ev.MessageFinished) for recorded in store.session("s").events())
        writer.stdin.write(b"end\n")
        writer.stdin.flush()
        finished = (r for r in store.subscribe(timeout=60) if isinstance(r.event, ev.MessageFinished))
        assert next(finished).session == "s"
    writer.communicate(timeout=60)
    assert writer.returncode == 0


def test_a_slow_reader_holds_little_and_slows_nobody(tmp_path: Path) -> None:
    """A slow follower buffers a bounded part, slows no writer, and gets every event."""
    with open_store(tmp_path / "store") as store:
        session = store.create_session(id="s")
        session.user("begin")
        follower = store.subscribe(timeout=0)
        next(follower)
        size = 20_000
        for number in range(400):
            session.user(f"{number} " + "x" * size)
        tracemalloc.start()
        try:
            rest = sum(1 for _ in follower)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert rest == session.version - 1
        assert peak < 400 * size


@pytest.mark.promise(2)
def test_accepted_events_are_told_before_they_are_committed(engine: Engine) -> None:
    """Promise 2: provisional events arrive at once, and again with a cursor when committed."""
    store = engine.open(flush_interval=SLOW)
    session = store.create_session(id="s")
    session.user("go")
    follower = store.subscribe(session="s", timeout=30, provisional=True)
    begun = list(islice(follower, session.version))
    assert all(recorded.cursor for recorded in begun)
    with session.assistant(model="m") as reply:
        text = reply.stream_text()
        for piece in ("one ", "two ", "three "):
            text.append(piece)
        early = [next(follower) for _ in range(5)]
        text.append("four")
        early.append(next(follower))
        assert {recorded.cursor for recorded in early} == {None}
        assert texts_of(early) == ["one ", "two ", "three ", "four"]
        assert list(store.subscribe(session="s", timeout=0)) == begun
        reply.finish("stop")
    later = [recorded for recorded in follower_until(follower, ev.MessageFinished) if recorded.cursor]
    assert [(r.version, r.time, r.event) for r in later[: len(early)]] == [(r.version, r.time, r.event) for r in early]
    assert [*begun, *later] == list(session.events())


def follower_until(follower: Iterator[Recorded], kind: type[ev.Base]) -> Iterator[Recorded]:
    """The events a follower gets up to the first committed event of a kind."""
    for recorded in follower:
        yield recorded
        if recorded.cursor and isinstance(recorded.event, kind):
            return


@pytest.mark.promise(2)
def test_other_stores_see_nothing_that_is_not_committed(engine: Engine) -> None:
    """Promise 2: followers of another store get an accepted event only once committed."""
    writing, reading = engine.open(flush_interval=SLOW), engine.open()
    session = writing.create_session(id="s")
    session.user("go")
    with session.assistant(model="m") as reply:
        reply.stream_text().append("unseen")
        assert told(writing) == ["unseen"]
        assert told(reading) == []
        writing.flush()
        assert told(reading) == ["unseen"]
        reply.finish("stop")


def told(store: Store) -> list[str]:
    """The deltas that a follower with provisional events has available now."""
    return texts_of(store.subscribe(kinds=[ev.PartDelta], timeout=0, provisional=True))


def texts_of(events: Iterable[Recorded]) -> list[str]:
    """The texts of the deltas among some events."""
    return [recorded.event.text for recorded in events if isinstance(recorded.event, ev.PartDelta)]
