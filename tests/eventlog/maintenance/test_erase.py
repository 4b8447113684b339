"""Erasing sessions: forks and sub-sessions, tombstones, space returned, and retention."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import eventlog
from eventlog import events as ev
from eventlog.errors import CallError, ErasedError, LeaseHeldError, RefusedError
from eventlog.store import Store
from eventlog.testing.file_search import files_with
from projections.verify.verify import verify
from projections.view.model_view import ModelView
from tests.support.engines import ENGINES, Engine
from tests.support.sample_sessions import exchange

SECRET = "the name of the king"


def letters(count: int) -> str:
    """A text that hardly compresses, the same in every run."""
    chance = random.Random(count)
    return "".join(chance.choice("abcdefghijklmnopqrstuvwxyz0123456789") for _ in range(count))


def family(store: Store) -> eventlog.Session:
    """A session with a fork in its middle, a fork of that, and a sub-session."""
    session = store.create_session(id="p")
    for turn in range(4):
        exchange(session)
        if turn == 1:
            fork = store.fork(session, session.version, id="f")
            exchange(fork)
            exchange(store.fork(fork, 3, id="g"))
    session.user(SECRET)
    exchange(session.subsession(id="s"))
    exchange(store.create_session(id="other"))
    return session


@pytest.mark.parametrize("name", ENGINES)
def test_an_erased_session_is_gone_at_once(name: str, tmp_path: Path) -> None:
    """An erased session is gone from lists, handles and ids; its tombstone stays."""
    engine = Engine(name, tmp_path)
    store, second = engine.open(), engine.open()
    session = store.create_session(id="p", title=SECRET)
    exchange(session)
    early = second.session("p")
    assert early.version == session.version
    assert store.erase("p", reason="asked for") == ("p",)
    assert list(store.sessions()) == list(second.sessions()) == []
    for use in (
        lambda: store.session("p"),
        lambda: store.info("p"),
        lambda: store.erase("p"),
        lambda: session.version,
        lambda: session.user("more"),
        lambda: early.user("more"),
        early.executor.acquire,
        lambda: list(early.events()),
    ):
        with pytest.raises(ErasedError):
            use()
    with pytest.raises(ErasedError):
        store.create_session(id="p")
    told = [type(recorded.event) for recorded in store.subscribe(timeout=0)]
    assert told == [ev.SessionErased]
    (tombstone,) = store.head().sessions
    assert (tombstone.session, tombstone.erased) == ("p", True)
    engine.close()


def test_a_message_that_was_on_its_way_is_refused(tmp_path: Path) -> None:
    """An append decided before an erasure does not get in behind it."""
    with eventlog.open(tmp_path / "s") as store, eventlog.open(tmp_path / "s") as other:
        session = store.create_session(id="p")
        with session.executor.collecting() as pipeline:
            session.user("late")
        other.erase("p")
        with pytest.raises(ErasedError):
            pipeline.commit()
        assert [commit.count for commit in store.log.read("p")] == [1, 1]


def test_forks_and_subsessions_are_named_kept_or_erased(tmp_path: Path) -> None:
    """Forks and sub-sessions are refused, kept or erased as asked; a refusal erases nothing."""
    for number, (forks, subsessions, left) in enumerate(
        [
            ("keep", "keep", {"f", "g", "s", "other"}),
            ("keep", "cascade", {"f", "g", "other"}),
            ("cascade", "keep", {"s", "other"}),
            ("cascade", "cascade", {"other"}),
        ]
    ):
        with eventlog.open(tmp_path / str(number)) as store:
            family(store)
            before = store.head()
            with pytest.raises(RefusedError, match=r'forks: f.*forks="keep".*forks="cascade"'):
                store.erase("p", subsessions="keep")
            with pytest.raises(RefusedError, match=r'sub-sessions: s.*subsessions="keep"'):
                store.erase("p", forks="keep")
            assert store.head() == before
            erased = store.erase("p", forks=forks, subsessions=subsessions)  # type: ignore[arg-type]  # one of the words
            assert {info.id for info in store.sessions()} == left
            assert set(erased) == {"p", "f", "g", "s", "other"} - left
            assert verify(store, against=before).sound
    with eventlog.open("memory:") as store, pytest.raises(CallError):
        store.erase(store.create_session().id, forks="drop")  # type: ignore[arg-type]  # that is the point


def test_a_kept_fork_goes_on_with_what_it_inherited(tmp_path: Path) -> None:
    """A kept fork's views stay equal after its parent's erasure and after the vacuum."""
    with eventlog.open(tmp_path / "s") as store:
        family(store)
        forks = [store.session("f"), store.session("g")]
        before = {(fork.id, at): ModelView.of(fork, at).digest for fork in forks for at in range(1, fork.version + 1)}
        head = store.head()

        def same() -> None:
            for (name, at), digest in before.items():
                assert ModelView.of(store.session(name), at).digest == digest
            report = verify(store, against=head, deep=True)
            assert report.sound, report

        store.erase("p", forks="keep", subsessions="cascade")
        same()
        assert store.vacuum().emptied
        same()
        exchange(store.session("f"))
        head = store.head()
        store.erase("f", forks="keep")
        store.vacuum()
        before = {key: digest for key, digest in before.items() if key[0] == "g"}
        same()
        followed = [recorded.session for recorded in store.subscribe(timeout=0)]
        assert {"g", "other"} <= set(followed)
        store.erase("g")
        assert store.vacuum().erased == 4
    with eventlog.open(tmp_path / "s") as store:
        assert {info.id for info in store.sessions()} == {"other"}
        exchange(store.session("other"))
        assert verify(store, against=head, deep=True).sound


def test_vacuum_gives_space_back(tmp_path: Path) -> None:
    """Vacuum after an erasure shrinks the files and leaves neither title nor texts."""
    path = tmp_path / "s"
    with eventlog.open(path) as store:
        exchange(store.create_session(id="other"))
        session = store.create_session(id="p", title=SECRET)
        session.user(letters(2_000_000))
        session.user(f"{SECRET} {letters(900)}")
    with eventlog.open(path) as store:
        assert files_with(path, SECRET)
        head = store.head()
        store.erase("p", reason="asked for")
        done = store.vacuum()
        assert (done.erased, done.bytes_before - done.bytes_after > 1_000_000) == (1, True)
        assert not files_with(path, SECRET)
        assert verify(store, against=head, deep=True).sound
        last = store.log.last_positions()[0]
        exchange(store.create_session(id="new"))
        assert store.log.commits_after(last, 1)[0].position == last + 1, "no position is given twice"


def test_a_backup_forgets_what_the_store_forgot(tmp_path: Path) -> None:
    """The next backup after a vacuum has nothing erased and verifies against the old head."""
    with eventlog.open(tmp_path / "s") as store:
        family(store)
        head = store.head()
        store.backup(tmp_path / "b")
        assert files_with(tmp_path / "b", SECRET)
        store.erase("p", forks="keep", subsessions="keep")
        store.backup(tmp_path / "b")
        store.vacuum()
        assert store.backup(tmp_path / "b").whole
        assert not files_with(tmp_path / "b", SECRET)
        assert store.backup(tmp_path / "b").events == 0
        with eventlog.open(tmp_path / "b", read_only=True) as copy:
            assert copy.head() == store.head()
            assert verify(copy, against=head, deep=True).sound
        eventlog.restore(tmp_path / "b", tmp_path / "r")
        with eventlog.open(tmp_path / "r") as restored, pytest.raises(ErasedError):
            restored.session("p")


def test_a_session_that_is_run_is_not_erased(tmp_path: Path) -> None:
    """Erasing a session whose lease is held, its own or a child's, is `LeaseHeldError`."""
    with eventlog.open(tmp_path / "s") as store, eventlog.open(tmp_path / "s") as second:
        family(store)
        with second.session("s").lease():
            with pytest.raises(LeaseHeldError):
                store.erase("p", forks="cascade", subsessions="cascade")
            assert len(list(store.sessions())) == 5
            planned = store.expire(count=0, dry_run=True)
            assert planned.running == ("s",)
            assert len(list(store.sessions())) == 5
            assert store.expire(count=0) == planned


def test_retention_by_age_count_and_size(tmp_path: Path) -> None:
    """Retention erases the oldest sessions with their sub-sessions until all limits hold."""
    now = [1_000_000]
    everything = {"s1", "s2", "s3", "s4", "s4b", "mine"}
    cases: list[tuple[dict[str, Any], set[str]]] = [
        ({"age": 1500}, {"s3", "s4", "s4b", "mine"}),
        ({"count": 2}, {"s4", "s4b", "mine"}),
        ({"count": 1, "scope": "x"}, everything),
        ({"size": 2000}, {"s4", "s4b", "mine"}),
        ({"size": 10**9, "age": 10**9, "count": 99}, everything),
    ]
    for number, (limits, left) in enumerate(cases):
        now[0] = 1_000_000
        with eventlog.open(tmp_path / str(number), clock=lambda: now[0]) as store:
            for name in ("s1", "s2", "s3", "s4"):
                now[0] += 1000
                store.create_session(id=name).user(letters(1000))
            store.session("s4").subsession(id="s4b")
            store.create_session(id="mine", scope="x")
            now[0] += 500
            planned = store.expire(**limits, dry_run=True)
            assert {info.id for info in store.sessions()} == everything, "a dry run erases nothing"
            assert store.expire(**limits) == planned
            assert {info.id for info in store.sessions()} == left, limits
    with eventlog.open("memory:") as store, pytest.raises(CallError):
        store.expire()


@pytest.mark.parametrize("work", [Store.vacuum, Store.scrub])
def test_a_store_in_memory_is_not_rewritten(work: Any) -> None:
    """Vacuum and scrub are refused in memory, and no program waits for them elsewhere."""
    with eventlog.open("memory:") as store, pytest.raises(CallError):
        work(store)
