"""Erasure of a scope: all that belongs to a person goes, and what is out of reach is said."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import eventlog
from eventlog.errors import CallError, KeyMissingError, LeaseHeldError, RefusedError
from eventlog.maintenance.erase import erase_all
from eventlog.store import Store
from projections.verify.verify import verify
from projections.view.model_view import ModelView
from tests.support.engines import ENCRYPTED, ENGINES, POSTGRES, Engine
from tests.support.postgres_server import running
from tests.support.sample_sessions import exchange

MANY = 7
SECRET = "the name of the king"


def persons(store: Store) -> set[str]:
    """Make sessions of alice, of bob and of no scope; return the ids of those of alice."""
    for number in range(MANY):
        exchange(store.create_session(id=f"a{number}", scope="alice"))
    store.session("a0").archive()
    exchange(store.session("a1").fork(id="fork"))
    exchange(store.session("a2").subsession(id="sub"))
    store.open_session(("telegram", "alice"), scope="alice", id="named").user(SECRET)
    exchange(store.create_session(id="b", scope="bob"))
    exchange(store.create_session(id="none"))
    return {*(f"a{number}" for number in range(MANY)), "fork", "sub", "named"}


@pytest.mark.promise(6)
@pytest.mark.parametrize("name", [*ENGINES, ENCRYPTED])
def test_all_that_belongs_to_a_scope_goes(name: str, tmp_path: Path) -> None:
    """Archived and named sessions, forks and sub-sessions of a scope are erased, and no other."""
    engine = Engine(name, tmp_path)
    with engine.open() as store:
        mine = persons(store)
        before = store.head()
        done = store.erase_scope("alice", reason="asked for")
        assert (set(done.erased), done.kept) == (mine, ())
        assert {info.id for info in store.sessions()} == {"b", "none"}
        assert list(store.sessions(format="telegram")) == []
        assert store.erase_scope("alice").erased == ()
        assert verify(store, against=before).sound
        store.open_session(("telegram", "alice"), scope="alice").user("a new beginning")
    engine.close()


@pytest.mark.parametrize("name", [*ENGINES, ENCRYPTED])
def test_what_depends_in_other_scopes_is_chosen(name: str, tmp_path: Path) -> None:
    """A sub-session that has another scope is refused, kept or erased, before anything is."""
    engine = Engine(name, tmp_path)
    with engine.open() as store:
        mine = persons(store)
        child = store.create_session(id="child", scope="bob", parent="a3")
        exchange(child)
        with pytest.raises(RefusedError, match="child"):
            store.erase_scope("alice")
        assert len(list(store.sessions(scope="alice"))) == len(mine)
        done = store.erase_scope("alice", subsessions="keep")
        assert done.kept == ("child",)
        assert len(ModelView.of(store.session("child")).messages) == 2
        exchange(store.create_session(id="carol", scope="carol"))
        exchange(store.create_session(id="hers", scope="bob", parent="carol"))
        assert set(store.erase_scope("carol", subsessions="cascade").erased) == {"carol", "hers"}
    engine.close()


@pytest.mark.promise(4)
@pytest.mark.parametrize("name", ENGINES)
def test_a_running_session_keeps_all(name: str, tmp_path: Path) -> None:
    """Nothing is erased while a task runs one of the sessions."""
    engine = Engine(name, tmp_path)
    with engine.open() as store, engine.open() as other:
        mine = persons(store)
        with other.session("a4").lease(), pytest.raises(LeaseHeldError):
            store.erase_scope("alice")
        assert len(list(store.sessions(scope="alice"))) == len(mine)
        assert set(asyncio.run(asyncio.to_thread(store.erase_scope, "alice")).erased) == mine
    engine.close()


def test_a_session_that_begins_meanwhile_goes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that another task begins during the erasure is erased by the same call."""
    with eventlog.open("memory:") as store:
        mine = persons(store)
        late = ["late"]

        def with_another(*given: object, **options: object) -> tuple[str, ...]:
            if late:
                store.create_session(id=late.pop(), scope="alice")
            return erase_all(*given, **options)  # type: ignore[arg-type]

        monkeypatch.setattr("eventlog.maintenance.erase_scope.erase_all", with_another)
        assert set(store.erase_scope("alice").erased) == mine | {"late"}


@pytest.mark.parametrize("scope", ["", None, 3])
def test_a_scope_is_named(scope: object) -> None:
    """No call without the name of a scope erases anything."""
    with eventlog.open("memory:") as store:
        store.create_session(id="s")
        with pytest.raises(CallError):
            store.erase_scope(scope)  # type: ignore[arg-type]
        assert store.info("s").id == "s"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("embedded", "the files of this store, for a minute"),
        (POSTGRES, "write-ahead log, archives, standbys and base backups"),
        (ENCRYPTED, "copies of its key"),
    ],
)
def test_the_report_says_what_is_out_of_reach(name: str, words: str, tmp_path: Path) -> None:
    """The list of places with copies follows the engine and the keys."""
    engine = Engine(name, tmp_path)
    with engine.open() as store:
        store.create_session(scope="alice").user(SECRET)
        reach = store.erase_scope("alice").out_of_reach
        assert any(words in each for each in reach)
        assert any("providers of models" in each for each in reach)
        assert any("backups, until" in each for each in reach) == (name != ENCRYPTED)
    engine.close()


@pytest.mark.parametrize("on_server", [False, True])
def test_with_keys_every_copy_is_unreadable(tmp_path: Path, *, on_server: bool) -> None:
    """In a store with keys a backup from before an erasure shows nothing of the scope."""
    place = running().new_schema() if on_server else tmp_path / "store"
    copy, keys = tmp_path / "copy", tmp_path / "keys"
    with eventlog.open(place, keys=keys) as store:
        mine = persons(store)
        store.backup(copy)
        store.erase_scope("alice")
    with eventlog.open(copy, keys=keys) as kept:
        assert {info.id for info in kept.sessions() if info.locked} == mine
        with pytest.raises(KeyMissingError):
            next(kept.session("named").events())
        assert len(ModelView.of(kept.session("b")).messages) == 2
