"""The follower of a store: it rings who is concerned, costs nothing while idle, and ends."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Event

import pytest

import eventlog
from eventlog.errors import ClosedError, DamagedError
from eventlog.following import follower as follower_module
from eventlog.following.follower import Watch
from eventlog.log.commit import Commit
from eventlog.log.embedded.watchers import MarkWatch
from eventlog.store import Store
from tests.support.engines import ENGINES, Engine
from tests.support.python_process import Program
from tests.support.sample_sessions import apart, begin

SOON = 20.0
SPEAKER = """
import sys, eventlog
with eventlog.open(sys.argv[1]) as store:
    session = store.session("s")
    for line in sys.stdin:
        session.user(line.strip())
        print("said", flush=True)
"""


@pytest.fixture(params=ENGINES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Return a store of each engine."""
    engine = Engine(request.param, tmp_path)
    yield engine.open(flush_interval=3_600.0)
    engine.close()


def until(condition: Callable[[], bool]) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + SOON
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_watch_is_rung_for_its_session_only(store: Store) -> None:
    """A commit rings the watches of its session and of all sessions, and no other."""
    one, other, every = Event(), Event(), Event()
    sessions = [store.create_session(id=name) for name in ("s", "t")]
    watches = [Watch(event.set, provisional=False) for event in (one, other, every)]
    for watch, name in zip(watches, ("s", "t", None), strict=True):
        store.host.follower.add(watch, [name])
    sessions[0].user("hello")
    assert one.wait(SOON)
    assert every.wait(SOON)
    assert not other.is_set()
    assert [watch.stirred for watch in watches] == [True, False, True]


def test_a_watch_is_rung_once_until_it_is_cleared(store: Store) -> None:
    """Many commits ring once while the owner has not looked."""
    rung: list[int] = []
    watch = Watch(lambda: rung.append(1), provisional=False)
    session = store.create_session()
    store.host.follower.add(watch, [session.id])
    for number in range(5):
        session.user(f"{number}")
    until(lambda: bool(rung))
    time.sleep(0.05)
    assert len(rung) == 1
    watch.stirred = False
    session.user("again")
    until(lambda: len(rung) == 2)


def test_accepted_text_rings_who_wants_it(store: Store) -> None:
    """A delta that is not committed rings the provisional watches of its session at once."""
    session = store.create_session()
    sure, early = Event(), Event()
    with session.assistant() as reply:
        text = reply.stream_text()
        store.flush()
        watches = [Watch(sure.set, provisional=False), Watch(early.set, provisional=True)]
        for watch in watches:
            store.host.follower.add(watch, [session.id])
        text.append("token")
        assert early.wait(SOON)
        assert not sure.is_set()
        store.flush()
        assert sure.wait(SOON)
        reply.finish()


def test_damage_is_told_once_and_hides_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A commit that cannot be read rings each watch once, and those behind it ring as ever."""
    monkeypatch.setattr(follower_module, "LOOK", 0.02)
    engine = Engine("embedded", tmp_path)
    with engine.open() as store:
        bad, good = store.create_session(id="s"), store.create_session(id="t")
        rung: dict[str, list[float]] = {"s": [], "t": []}
        watches: list[Watch] = []
        for name in ("s", "t"):
            watches.append(Watch(lambda name=name: rung[name].append(time.monotonic()), provisional=False))  # type: ignore[misc]
            store.host.follower.add(watches[-1], [name])
        read = store.log.engine.commits_after
        damaged: list[int] = []

        def reading(after: int, limit: int = 1000, *, partition: int = 0) -> list[Commit]:
            found = read(after, limit, partition=partition)
            if any(commit.position in damaged for commit in found):
                raise DamagedError("a payload")
            return found

        monkeypatch.setattr(store.log.engine, "commits_after", reading)
        damaged.append(store.log.last_positions()[0] + 1)
        bad.user("this will be damaged")
        until(lambda: all(rung.values()))
        for _ in range(20):
            for watch in watches:
                watch.stirred = False
            time.sleep(0.02)
        assert {name: len(times) for name, times in rung.items()} == {"s": 1, "t": 1}
        good.user("said behind the damage")
        until(lambda: len(rung["t"]) == 2)
        assert len(rung["s"]) == 1
    engine.close()


def test_an_error_of_any_kind_leaves_the_thread_alive(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """After an error that this package does not raise, the follower goes on and watches ring."""
    monkeypatch.setattr(follower_module, "LOOK", 0.02)
    session = store.create_session()
    wait, failed = store.log.wait_after, Event()

    def waiting(positions: Sequence[int], timeout: float) -> bool:
        if not failed.is_set():
            failed.set()
            raise IndexError("no row")
        return wait(positions, timeout)

    monkeypatch.setattr(store.log, "wait_after", waiting)
    rung: list[int] = []
    watch = Watch(lambda: rung.append(1), provisional=False)
    store.host.follower.add(watch, [session.id])
    until(lambda: failed.is_set() and bool(rung))
    watch.stirred = False
    session.user("hello")
    until(lambda: len(rung) == 2)


def test_a_slow_server_keeps_no_other_watch_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """While one watch asks where the log ends, others are added, rung and removed."""
    with eventlog.open("memory:") as store:
        session = store.create_session()
        asked, answer = Event(), Event()
        last = store.log.last_positions

        def slow() -> tuple[int, ...]:
            if threading.current_thread() is first:
                asked.set()
                assert answer.wait(SOON)
            return last()

        monkeypatch.setattr(store.log, "last_positions", slow)
        follower, early = store.host.follower, Event()
        waits = Watch(lambda: None, provisional=False)
        first = threading.Thread(target=follower.add, args=(waits, [session.id]))
        first.start()
        assert asked.wait(SOON)
        rings = Watch(early.set, provisional=False)
        apart(lambda: follower.add(rings, [session.id]))
        session.user("hello")
        assert early.wait(SOON)
        answer.set()
        first.join(SOON)
        assert waits.stirred


@pytest.mark.parametrize("place", ["memory:", "store"])
def test_closing_the_store_wakes_its_followers(place: str, tmp_path: Path) -> None:
    """A follower that waits hears at once that the store is closed."""
    store = eventlog.open(place if ":" in place else tmp_path / place)
    following = begin(lambda: list(store.subscribe()))
    time.sleep(0.05)
    store.close()
    with pytest.raises(ClosedError):
        following.result(SOON)


def test_another_process_wakes_a_follower_without_polling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit of another process is told by the system; the mark is looked at no sooner."""
    waits: list[float] = []
    waiting = MarkWatch.wait

    def watched(self: MarkWatch, timeout: float) -> bool:
        waits.append(timeout)
        return waiting(self, timeout)

    monkeypatch.setattr(MarkWatch, "wait", watched)
    with eventlog.open(tmp_path / "store") as store:
        store.create_session(id="s")
        speaker, rung = Program("-c", SPEAKER, tmp_path / "store"), Event()
        watch = Watch(rung.set, provisional=False)
        store.host.follower.add(watch, ["s"])
        for number in range(10):
            watch.stirred = False
            rung.clear()
            speaker.tell(f"{number}")
            assert speaker.hear() == "said"
            assert rung.wait(SOON)
        speaker.end()
        assert store.info("s").messages == 10
    if sys.platform == "linux":
        assert len(waits) < 200
        assert sorted(waits)[3] > 0.05  # where a program is slow, the rest of a wait is short


def test_a_deaf_watch_looks_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system does not say that the mark moved, a commit is found all the same."""

    def hears_nothing(_: MarkWatch, timeout: float = 0.0) -> bool:
        time.sleep(min(timeout, 0.05))
        return False

    monkeypatch.setattr(MarkWatch, "drain", hears_nothing)
    monkeypatch.setattr(MarkWatch, "wait", hears_nothing)
    path = tmp_path / "store"
    with eventlog.open(path) as store:
        store.create_session(id="s")
        speaker, rung = Program("-c", SPEAKER, path), Event()
        watch = Watch(rung.set, provisional=False)
        store.host.follower.add(watch, ["s"])
        time.sleep(0.2)
        speaker.tell("hello")
        speaker.end()
        assert rung.wait(SOON)
        assert watch.stirred
