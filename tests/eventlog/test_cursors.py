"""Cursors of a store's events: where they go on, and where they are refused."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

import eventlog
from eventlog.codec.decoded import Recorded
from eventlog.errors import CallError, CursorError
from eventlog.log.commit import Commit
from eventlog.log.memory import MemoryLog
from eventlog.open_store import open_store
from eventlog.session.session import Session
from eventlog.store import Store
from tests.support.engines import Engine
from tests.support.python_process import printed

REST = """
import sys
import eventlog
with eventlog.open(sys.argv[1]) as store:
    print(*(recorded.version for recorded in store.subscribe(sys.argv[2], timeout=0)))
"""


def fill(store: Store, sessions: int = 6, messages: int = 4) -> None:
    """Sessions, written in turn."""
    made = [store.create_session(id=f"s{number}") for number in range(sessions)]
    for number in range(messages):
        for session in made:
            session.user(f"{number} of {session.id}")


def told(store: Store, after: str | int | None = None, **options: Any) -> list[Recorded]:
    """The events behind a cursor."""
    return list(store.subscribe(after, timeout=0, **options))


def place(recorded: Recorded) -> tuple[str, int]:
    """The session and version of an event."""
    return recorded.session, recorded.version


def test_the_beginning_now_and_a_version(engine: Engine) -> None:
    """A subscription begins at the beginning, at now, or behind a version of its session."""
    store = engine.open()
    assert told(store, store.cursor()) == []
    fill(store, messages=2)
    everything, now = told(store), store.cursor()
    assert told(store, None) == told(store, "") == everything
    assert told(store, now) == told(store, everything[-1].cursor) == []
    own = told(store, session="s2")
    for version in range(len(own) + 1):
        assert told(store, version, session="s2") == own[version:]
        assert [each.cursor for each in told(store, version, session="s2")] == [each.cursor for each in own[version:]]
    store.session("s1").user("more")
    assert {each.session for each in told(store, now)} == {"s1"}
    assert told(store, now, session="s2") == []
    assert told(store, 0, session="not yet") == []
    fork = store.session("s2").fork(3)
    fork.user("in the fork")
    inherited = told(store, session=fork.id)
    assert [each.version for each in inherited] == [4, 5, 6]
    for version in range(7):
        assert told(store, version, session=fork.id) == inherited[max(version - 3, 0) :]


def test_cursors_go_on_after_a_restart_and_in_another_process(tmp_path: Path) -> None:
    """A cursor goes on in another store object, in another process, and after folds."""
    with open_store(tmp_path / "s") as store:
        fill(store, sessions=2)
        everything = told(store)
    with open_store(tmp_path / "s") as store:
        for number, recorded in enumerate(everything, 1):
            assert told(store, recorded.cursor) == everything[number:]
        assert [recorded.cursor for recorded in told(store)] == [recorded.cursor for recorded in everything]
        assert everything[-1].cursor == store.cursor()
        versions = [recorded.version for recorded in everything]
        assert printed(REST, tmp_path / "s", everything[4].cursor).split() == [str(each) for each in versions[5:]]


def test_only_a_subscriptions_committed_events_have_a_cursor(engine: Engine) -> None:
    """Events read otherwise have no cursor, and are equal to those that have one."""
    store = engine.open()
    fill(store, sessions=1)
    read = list(store.session("s0").events())
    assert {recorded.cursor for recorded in read} == {None}
    assert read == told(store, session="s0")
    assert all(isinstance(recorded.cursor, str) and len(recorded.cursor) < 120 for recorded in told(store))


def test_copies_know_the_cursors_of_what_they_have(tmp_path: Path) -> None:
    """A cursor goes on in a backup and a restored store that has the event, else it is ahead."""
    with open_store(tmp_path / "s") as store:
        fill(store, messages=2)
        early = store.cursor()
        store.backup(tmp_path / "backup")
        fill_more(store.session("s1"))
        late = store.cursor()
        mine = told(store, early)
    with open_store(tmp_path / "backup", read_only=True) as backup:
        assert backup.cursor() == early
        assert told(backup, early) == []
        with pytest.raises(CursorError, match="ahead"):
            told(backup, late)
    eventlog.restore(tmp_path / "backup", tmp_path / "restored")
    with open_store(tmp_path / "restored") as restored:
        with pytest.raises(CursorError, match="ahead"):
            told(restored, late)
        fill_more(restored.session("s2"), 9)
        assert [recorded.session for recorded in told(restored, early)] == ["s2"] * 18
        with pytest.raises(CursorError, match="restored"):  # it has more events, and others
            told(restored, late)
        for recorded in mine:
            with pytest.raises(CursorError, match="restored"):
                told(restored, recorded.cursor)


def fill_more(session: Session, messages: int = 2) -> None:
    """Some more messages."""
    for number in range(messages):
        session.user(f"more {number}")


@pytest.mark.parametrize("rewrite", ["vacuum", "scrub"])
def test_a_rewritten_store_takes_earlier_cursors(tmp_path: Path, rewrite: str) -> None:
    """A vacuum or a scrub keeps positions, so each cursor goes on."""
    with open_store(tmp_path / "s") as store:
        fill(store)
        before = told(store)
        earlier = [store.cursor(), *(recorded.cursor for recorded in before)]
        positions = [before[-1].position, *(recorded.position for recorded in before)]
        store.erase("s1")
        getattr(store, rewrite)()
        everything = told(store)
        for cursor, position in zip(earlier, positions, strict=True):
            assert told(store, cursor) == [recorded for recorded in everything if recorded.position > position]
        for number, recorded in enumerate(everything, 1):
            assert told(store, recorded.cursor) == everything[number:]
        store.session("s2").user("more")
        assert [recorded.session for recorded in told(store, everything[-1].cursor)] == ["s2", "s2"]


def test_a_subscription_outlives_a_rewriting(tmp_path: Path) -> None:
    """A reader of a store that is vacuumed goes on; its later cursors are of the new files."""
    with open_store(tmp_path / "s") as store:
        fill(store)
        following = store.subscribe(store.cursor(), timeout=5)
        store.session("s0").user("before")
        assert [next(following).session for _ in range(2)] == ["s0"] * 2
        store.vacuum()
        store.session("s1").user("behind")
        recorded = [next(following) for _ in range(2)]
        assert [each.session for each in recorded] == ["s1", "s1"]
        assert told(store, recorded[0].cursor) == recorded[1:]


def test_a_cursor_of_another_store(engine: Engine, tmp_path: Path) -> None:
    """A cursor of another store is refused, also if that one has the same sessions."""
    with engine.open() as store, open_store("memory:") as memory, open_store(tmp_path / "other") as other:
        for each in (store, memory, other):
            fill(each, 3)
        for one, another in ((store, memory), (memory, other), (other, store)):
            with pytest.raises(CursorError, match="another store"):
                told(another, one.cursor())


def test_a_cursor_that_is_none(store: Store) -> None:
    """Text that is no cursor of events is `CursorError`, not the beginning."""
    fill(store, 3)
    cursor = store.cursor()
    said = msgspec.msgpack.decode(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))

    def changed(*fields: Any) -> str:
        return base64.urlsafe_b64encode(msgspec.msgpack.encode(fields)).decode()

    assert told(store, changed(*said)) == []
    for text in ("x", "0", "no cursor", "\udc80", "é", cursor[:-3], cursor + "AAAA", changed(1), changed(*said, 1)):
        with pytest.raises(CursorError, match="no cursor"):
            store.subscribe(text)
    reached = said[2]
    with pytest.raises(CursorError, match="no cursor"):
        store.subscribe(changed(*said[:2], [[-1, reached[0][1]], *reached[1:]]))
    with pytest.raises(CursorError, match="ahead"):
        store.subscribe(changed(*said[:2], [[reached[0][0] + 1, reached[0][1]], *reached[1:]]))
    with pytest.raises(CursorError, match="another store"):
        store.subscribe(changed(*said[:2], [*reached, *reached]))
    page = store.newest_sessions(limit=1)
    with pytest.raises(CursorError, match="of a list"):
        store.subscribe(page.next)
    with pytest.raises(CursorError, match="not of a list of sessions"):
        store.newest_sessions(cursor=cursor)


def test_wrong_arguments(store: Store) -> None:
    """A wrong place to begin at is `CallError` at the call."""
    fill(store, 1)
    wrong: list[Callable[[], object]] = [
        lambda: store.subscribe(1),
        lambda: store.subscribe(-1, session="s0"),
        lambda: store.subscribe(True, session="s0"),
        lambda: store.subscribe(1.5, session="s0"),  # type: ignore[arg-type]  # which is what is tested
        lambda: store.subscribe(b"x"),  # type: ignore[arg-type]  # which is what is tested
    ]
    for call in wrong:
        with pytest.raises(CallError):
            call()
    for session, version in (("s0", 10), ("not yet", 1)):
        with pytest.raises(CursorError, match="no version"):
            store.subscribe(version, session=session)


class CountingLog(MemoryLog):
    """A log that counts the commits it gives out."""

    given = 0

    def commits_after(self, after: int, limit: int = 1000, *, partition: int = 0) -> list[Any]:
        """Count them."""
        found = super().commits_after(after, limit, partition=partition)
        self.given += len(found)
        return found

    def read(self, session: str, after: int = 0, upto: int | None = None, *, reverse: bool = False) -> Iterator[Commit]:
        """Count them."""
        for commit in super().read(session, after, upto, reverse=reverse):
            self.given += 1
            yield commit


@pytest.mark.parametrize("messages", [10, 80])
def test_a_look_reads_what_is_new(messages: int) -> None:
    """A look of a subscription reads what is new, however long the history is."""
    log = CountingLog(partitions=4)
    with Store(log) as store:
        fill(store, 8, messages)
        everything = told(store)
        late = everything[-20].cursor
        log.given = 0
        assert len(told(store, late)) == 19
        assert log.given <= 4 + 20
        log.given = 0
        assert told(store, store.cursor()) == []
        assert log.given <= 8
        store.session("s3").user("new")
        log.given = 0
        assert len(told(store, messages * 2 + 1, session="s3")) == 2
        assert log.given == 1
        own = told(store, session="s3")
        log.given = 0
        assert told(store, own[-4].cursor, session="s3") == own[-3:]
        assert log.given <= 14, "the cursor's commit, a binary search, and what follows"
        log.given = 0
        assert told(store, session="s3") == own
        assert log.given == messages + 2, "no other session is read"


@pytest.mark.parametrize("seed", range(4))
def test_a_session_goes_on_at_any_cursor(engine: Engine, seed: int) -> None:
    """A cursor of any event, of another session too, is a place in each session."""
    chance = Random(seed)
    store = engine.open()
    fill(store, 3, 1)
    for _ in range(25):
        session = store.session(f"s{chance.randrange(3)}")
        if chance.random() < 0.2:
            with session.pipeline():
                for number in range(chance.randrange(1, 5)):
                    session.user(f"{number}")
        else:
            session.user("one")
    everything = told(store)
    assert everything == told(store)
    for recorded in everything:
        for name in ("s0", "s1", "s2"):
            behind = [each for each in told(store, recorded.cursor) if each.session == name]
            assert told(store, recorded.cursor, session=name) == behind
