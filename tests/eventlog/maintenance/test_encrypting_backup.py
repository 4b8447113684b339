"""A backup with keys makes an encrypted store of a plain one, and loses nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import pytest
from eventsourcing.persistence import StoredEvent
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import eventlog
from eventlog import events as ev
from eventlog.encryption.key_file import KeyFile
from eventlog.errors import (
    AlreadyExistsError,
    CallError,
    DamagedError,
    ErasedError,
    KeyMissingError,
    KeysError,
    RequestReusedError,
    UnfinishedError,
)
from eventlog.log.embedded.engine import EmbeddedLog
from eventlog.maintenance import copy_commits
from eventlog.recorder import LogFactory
from eventlog.store import Store
from projections.verify.verify import verify
from projections.view.model_view import ModelView
from tests.faults.tally import SLOW
from tests.support.encrypted_store import SECRET, Service, confess, leaks
from tests.support.faults.encrypted_stores import is_said
from tests.support.history_strategies import histories
from tests.support.sample_sessions import ODD, exchange, started

PICKS = st.integers(0, 1 << 16)
CHECKS = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)


def facts(store: Store) -> dict[str, tuple[Any, ...]]:
    """All that a store says of its sessions: listing, events with their places, and view."""
    found: dict[str, tuple[Any, ...]] = {}
    for info in store.sessions():
        session = store.session(info.id)
        events = [
            (recorded.version, recorded.position, recorded.time, repr(recorded.event)[:40])
            for recorded in session.events()
        ]
        texts = [session.text(body) for body in bodies(session)]
        found[info.id] = info, events, texts, ModelView.of(session).digest, list(session.values.items())
    for name in store.shelves():
        found[f"shelf {name}"] = name, list(store.shelf(name).values.items())
    return found


def bodies(session: eventlog.Session) -> Iterator[Any]:
    """The large texts of tool results and system prompts."""
    for recorded in session.events():
        for field in ("output", "header", "rest"):
            content = getattr(recorded.event, field, None)
            if content is not None:
                yield content


def family(store: Store) -> None:
    """Fill a store: forks of forks and of early versions, sub-sessions, requests."""
    session = confess(store)
    early = session.fork(4, id="early")
    exchange(early, ODD)
    exchange(session)
    session.rollback(before=session.user("wrong"))
    late = session.fork(id="late", title="late")
    exchange(late)
    inherits = early.fork(3, id="inherits")  # its fork point lies in the parent of its parent
    exchange(inherits)
    exchange(session.subsession(id="sub", title="sub"))
    session.values.put(SECRET, SECRET)
    early.values.put("large", SECRET.encode() * 100)
    for name in ("dropped", SECRET):
        store.shelf(name).values.put(SECRET, SECRET * 100)
    store.drop_shelf("dropped")
    exchange(session)
    store.create_session(id="empty", scope="scope of nothing")
    session.archive()


@pytest.mark.promise(7, 11, 13)
@pytest.mark.parametrize("batch", [1, 1_000])
def test_an_encrypted_copy_has_all_that_the_plain_store_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    """Promises 7, 11, 13: events, places, lists and views are equal, and all is hidden."""
    monkeypatch.setattr(copy_commits, "BATCH_COMMITS", batch)
    service = Service()
    to = tmp_path / "copies" / "e"
    with eventlog.open(tmp_path / "s") as store:
        family(store)
        asked = store.session("p").user("once", request_id="once")
        shown, plain = facts(store), store.head()
        copied = store.backup(to, keys=service)
        assert (copied.whole, copied.sessions) == (True, 6)
        assert (copied.events + 3,) == store.log.last_positions()  # without those of the shelf that was dropped
        page = [info.id for info in store.newest_sessions("scope of nothing").sessions]
    assert leaks(tmp_path / "copies") == []
    with eventlog.open(to, read_only=True) as locked:
        assert [info.locked for info in locked.sessions()] == [True] * 6
        assert verify(locked).sound
        with pytest.raises(KeyMissingError):
            list(locked.session("p").events())
    with eventlog.open(to, keys=service) as store:
        assert facts(store) == shown
        report = verify(store, deep=True)
        assert report.sound, report
        assert store.head() != plain
        assert [info.id for info in store.newest_sessions("scope of nothing").sessions] == page
        session = store.session("p")
        version = session.version
        assert session.user("once", request_id="once") == asked
        with pytest.raises(RequestReusedError):
            session.user("twice", request_id="once")
        assert session.version == version
        exchange(session)
        exchange(session.fork(2, id="later"))
        assert store.shelf("dropped").values.get(SECRET) is None
        store.scrub()
        assert verify(store, deep=True).sound
    assert leaks(tmp_path / "copies") == []


def test_forks_share_a_key_and_others_have_their_own(tmp_path: Path) -> None:
    """A family has one key: the store's own and one for each session that is no fork."""
    service = Service()
    with eventlog.open(tmp_path / "s") as store:
        family(store)
        store.backup(tmp_path / "e", keys=service)
    assert len(service.keys) == 1 + len({"p", "sub", "empty", "the shelf"})
    with eventlog.open(tmp_path / "e", keys=service) as store:
        store.erase("sub")
        store.erase("p", forks="keep", subsessions="keep")
        assert len(service.keys) == 4
        assert ModelView.of(store.session("late")).messages
        for name in ("late", "early", "inherits"):
            store.erase(name, forks="keep")
        assert len(service.keys) == 3
        assert verify(store, deep=True).sound


@pytest.mark.promise(6)
@pytest.mark.parametrize("maintained", [False, True])
def test_what_was_erased_or_redacted_stays_so(tmp_path: Path, *, maintained: bool) -> None:
    """Promise 6: erased sessions are tombstones, what forks inherited and redactions hold."""
    with eventlog.open(tmp_path / "s") as store:
        for name in ("gone", "kept"):
            session = store.create_session(id=name)
            secret = session.user(f"the secret of {name} " * 200)
            exchange(session)
            fork = session.fork(id=f"fork of {name}") if name == "kept" else None
            exchange(session, f"the end of {name} " * 200)
            if fork is not None:
                fork.redact(started(fork, {secret})[0], search=False)
            store.erase(name, forks="keep", reason="why")
        if maintained:
            store.scrub()
            store.vacuum()
        shown = facts(store)
        copied = store.backup(tmp_path / "e", keys=True)
        assert copied.sessions == 1
    with eventlog.open(tmp_path / "e", keys=True) as store:
        assert facts(store) == shown
        for name in ("gone", "kept"):
            with pytest.raises(ErasedError):
                store.session(name)
        report = verify(store, deep=True)
        assert report.sound, report
        exchange(store.session("fork of kept"))
        store.scrub()
        assert verify(store, deep=True).sound
    assert not is_said(tmp_path / "e", tmp_path / "e.keys", "the secret of gone")
    assert not is_said(tmp_path / "e", tmp_path / "e.keys", "the secret of kept")
    assert not is_said(tmp_path / "e", tmp_path / "e.keys", "the end of")


def test_streams_of_other_programs_are_copied(tmp_path: Path) -> None:
    """Events that a recorder keeps in the log are encrypted too, and read the same."""
    event = StoredEvent(uuid4(), 1, "topic", SECRET.encode())
    to = tmp_path / "copies" / "e"
    plain = LogFactory({"EVENTLOG_PATH": str(tmp_path / "s")})
    plain.application_recorder().insert_events([event])
    plain.close()
    with eventlog.open(tmp_path / "s") as store:
        exchange(store.create_session(id="a"))
        assert store.backup(to, keys=tmp_path / "k").sessions == 1
    assert leaks(tmp_path / "copies") == []
    encrypted = LogFactory({"EVENTLOG_PATH": str(to), "EVENTLOG_KEY_FILE": str(tmp_path / "k")})
    assert list(encrypted.application_recorder().select_events(event.originator_id)) == [event]
    encrypted.close()
    with eventlog.open(to, keys=tmp_path / "k") as store:
        assert verify(store, deep=True).sound


def test_writers_go_on_while_an_encrypted_copy_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy ends where it began to be made; later events, forks and erasures are not in it."""
    monkeypatch.setattr(copy_commits, "BATCH_COMMITS", 2)
    with eventlog.open(tmp_path / "s") as store:
        family(store)
        exchange(store.create_session(id="dying"))
        shown, (upto,) = facts(store), store.log.last_positions()

        def write(position: int, last: int) -> None:
            assert position <= last == upto
            exchange(store.session("p"))
            exchange(store.session("p").fork())
            if store.log.head("dying") is not None and "dying" in {info.id for info in store.sessions()}:
                store.erase("dying")

        copied = store.backup(tmp_path / "e", keys=True, on_progress=write)
        assert store.log.last_positions() > (upto,)
    with eventlog.open(tmp_path / "e", keys=True) as store:
        assert copied.cursor == store.cursor()
        assert facts(store) == shown
        assert verify(store, deep=True).sound


@pytest.mark.promise(12)
def test_a_history_that_does_not_give_its_head_is_not_encrypted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise 12: a changed append is told and gets no new hash; the copy is no store."""
    with eventlog.open(tmp_path / "s") as store:
        family(store)
        store.vacuum()  # a backup would, for what is erased, and write what is forged below into the store
        honest = EmbeddedLog.commits_after

        def forged(log: EmbeddedLog, after: int, limit: int = 1000) -> list[Any]:
            return [
                replace(commit, time=commit.time + (commit.session == "late")) for commit in honest(log, after, limit)
            ]

        with monkeypatch.context() as patch:
            patch.setattr(EmbeddedLog, "commits_after", forged)
            with pytest.raises(DamagedError, match="late"):
                store.backup(tmp_path / "e", keys=True)
        with pytest.raises(UnfinishedError):
            eventlog.open(tmp_path / "e", keys=True)
        store.backup(tmp_path / "e", keys=True)
    with eventlog.open(tmp_path / "e", keys=True) as store:
        assert verify(store, deep=True).sound


def test_a_broken_off_copy_is_begun_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy that broke off says so, and a plain backup does not go on with it."""
    monkeypatch.setattr(copy_commits, "BATCH_COMMITS", 2)

    def stop(_position: int, _last: int) -> None:
        raise KeyboardInterrupt

    with eventlog.open(tmp_path / "s") as store:
        family(store)
        shown, head = facts(store), store.head()
        for to in ("e", "b"):
            with pytest.raises(KeyboardInterrupt):
                store.backup(tmp_path / to, keys=tmp_path / "k", on_progress=stop)
            with pytest.raises(UnfinishedError):
                eventlog.open(tmp_path / to, keys=tmp_path / "k")
        store.backup(tmp_path / "e", keys=tmp_path / "k")
        assert store.backup(tmp_path / "b").whole
        with pytest.raises(KeyboardInterrupt):
            store.backup(tmp_path / "half plain", on_progress=stop)
        with pytest.raises(AlreadyExistsError):
            store.backup(tmp_path / "half plain", keys=tmp_path / "k")
    with eventlog.open(tmp_path / "e", keys=tmp_path / "k") as store:
        assert facts(store) == shown
    with eventlog.open(tmp_path / "b") as store:
        assert store.head() == head


KINDS = ["new", "fork", "fork", "redact", "put", "put", "drop", "shelf", "drop_shelf", "rollback", "erase", "vacuum"]
STEPS = st.tuples(st.sampled_from(KINDS), PICKS, PICKS)


def do(store: Store, number: int, step: tuple[str, int, int], history: list[tuple[int, ev.Event]]) -> None:
    """Carry out one step on a picked session, if there is one and it is allowed."""
    kind, pick, back = step
    names = [info.id for info in store.sessions() if not info.erased]
    if kind == "new" or not names:
        session = store.create_session(id=f"s{number}", title="t")
        if history[1:]:
            session.append(history[1:])
        return
    session = store.session(names[pick % len(names)])
    with suppress(CallError):
        match kind:
            case "fork":
                exchange(session.fork(1 + back % session.version, id=f"s{number}"))
            case "redact":
                session.redact(started(session)[back % 7], search=False)
            case "put":
                session.values.put(f"key {back % 3}", "value " * (back % 200))
            case "drop":
                session.values.drop(f"key {back % 3}")
            case "shelf":
                store.shelf(f"shelf {pick % 2}").values.put(f"key {back % 3}", "value " * (back % 200))
            case "drop_shelf":
                store.drop_shelf(f"shelf {pick % 2}")
            case "rollback":
                session.rollback(1 + back % session.version)
            case "erase":
                store.erase(session.id, forks="keep", subsessions="keep")
            case _:
                store.scrub() if back % 2 else store.vacuum()


@pytest.mark.promise(7, 11, 13)
@settings(max_examples=400 if SLOW else 12, deadline=None, suppress_health_check=CHECKS)
@given(steps=st.lists(st.tuples(STEPS, histories()), min_size=1, max_size=12))
def test_any_store_is_encrypted_without_a_loss(steps: list[tuple[tuple[str, int, int], list[Any]]]) -> None:
    """Promises 7, 11, 13: any mix of forks, rollbacks and erasures comes out equal."""
    with TemporaryDirectory() as directory:
        place = Path(directory)
        with eventlog.open(place / "s") as store:
            for number, (step, history) in enumerate(steps):
                with suppress(IndexError):
                    do(store, number, step, history)
            shown = facts(store)
            store.backup(place / "e", keys=True)
        with eventlog.open(place / "e", keys=True) as store:
            assert facts(store) == shown
            report = verify(store, deep=True)
            assert report.sound, report


def test_places_and_keys_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    """An encrypted copy needs a plain store in a directory, and a new place."""
    refused: list[tuple[Callable[[], object], type[Exception]]] = []
    with eventlog.open("memory:") as memory, eventlog.open(tmp_path / "s") as store:
        exchange(store.create_session(id="a"))
        store.backup(tmp_path / "b")
        store.backup(tmp_path / "e", keys=True)
        with eventlog.open(tmp_path / "e", keys=True) as encrypted:
            refused = [
                (lambda: memory.backup(tmp_path / "n", keys=tmp_path / "k"), CallError),
                (lambda: encrypted.backup(tmp_path / "n", keys=tmp_path / "k"), CallError),
                (lambda: store.backup(tmp_path / "s", keys=True), CallError),
                (lambda: store.backup(tmp_path / "s" / "in", keys=True), CallError),
                (lambda: store.backup(tmp_path / "n", keys=tmp_path / "n" / "k"), KeysError),
                (lambda: store.backup(tmp_path / "n", keys=False), KeysError),
                (lambda: store.backup(tmp_path / "b", keys=True), AlreadyExistsError),
            ]
            for work, error in refused:
                with pytest.raises(error):
                    work()
        with pytest.raises(AlreadyExistsError):
            store.backup(tmp_path / "e", keys=True)
        with pytest.raises(CallError):
            store.backup(tmp_path / "e")
        assert not (tmp_path / "n").exists()
        assert store.backup(tmp_path / "b").events == 0
    assert KeyFile(tmp_path / "e.keys").path.exists()
