"""Shelves: values without a conversation, in no list of sessions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import eventlog
from eventlog.errors import CallError, ErasedError, KeyMissingError, LimitError, NotFoundError, ReadOnlyError
from eventlog.session.shelf import find_shelf
from eventlog.store import Store
from eventlog.testing.file_search import files_with
from projections.verify.verify import verify
from tests.support.encrypted_store import Service
from tests.support.engines import ENCRYPTED, ENGINES, Engine, places
from tests.support.sample_sessions import run_together

engine = places(*ENGINES, ENCRYPTED)


def test_threads_that_ask_at_once_get_one_shelf(engine: Engine) -> None:
    """Of all callers that ask for a name at once one begins the shelf; each puts into it."""
    stores = [engine.open() for _ in range(2)]

    def work(number: int) -> None:
        stores[number % 2].shelf("one").values.put(f"{number}", "v")

    run_together(8, work)
    assert len(list(stores[0].shelf("one").values.items())) == 8
    assert list(stores[0].shelves()) == ["one"]


def test_a_shelf_is_in_no_list(engine: Engine) -> None:
    """No list, total or retention of sessions has a shelf, and its id names no session."""
    store = engine.open()
    session = store.create_session(title="todo", scope="alice")
    shelf = store.shelf("todo")
    shelf.values.put("a", "1")
    assert [info.id for info in store.sessions()] == [session.id]
    assert [info.id for info in store.sessions(text="todo")] == [session.id]
    for scope in (None, "alice", ""):
        page = store.newest_sessions(scope).sessions
        assert [info.id for info in page] == ([] if scope == "" else [session.id])
    assert store.unfinished() == []
    for refused in (store.session, store.info, store.erase):
        with pytest.raises(NotFoundError):
            refused(shelf.id)
    assert store.expire(count=0).erased == (session.id,)
    assert store.expire(age=0, size=0).erased == ()
    assert store.shelf("todo").values.revision("a") == 2


def test_sessions_have_no_ids_of_shelves(engine: Engine) -> None:
    """A session is not given an id that is left to shelves."""
    store = engine.open()
    for id in ("shelf:x", "shelf~1:x"):
        with pytest.raises(CallError):
            store.create_session(id=id)
    assert store.create_session(id="shelf").id == "shelf"


@pytest.mark.promise(11)
def test_heads_and_verify_include_shelves(engine: Engine) -> None:
    """A saved head covers shelves, and `verify` reads them, dropped ones included."""
    store = engine.open()
    shelf = store.shelf("todo")
    shelf.values.put("a", "1" * 5_000)
    kept, head = store.head(), shelf.head()
    assert shelf.id in kept.by_session
    shelf.values.put("a", "2")
    assert verify(store, against=kept, deep=True).sound
    assert head == kept.by_session[shelf.id]
    store.drop_shelf("todo")
    store.shelf("todo").values.put("b", "3")
    report = verify(store, against=kept, deep=True)
    assert report.sound, report


def test_a_dropped_shelf_is_gone_and_its_name_free(engine: Engine) -> None:
    """Dropping erases the values, old handles raise, and the name begins an empty shelf."""
    store = engine.open()
    ids: set[str] = set()
    for number in range(9):
        shelf = store.shelf("todo")
        assert shelf.id not in ids
        ids.add(shelf.id)
        assert list(shelf.values.items()) == []
        shelf.values.put("a", f"{number}")
        store.drop_shelf("todo", reason="a test")
        with pytest.raises(ErasedError):
            shelf.values.get("a")
        with pytest.raises(ErasedError):
            shelf.values.put("a", "x")
        assert list(store.shelves()) == []
        with pytest.raises(NotFoundError):
            store.drop_shelf("todo")
    with pytest.raises(NotFoundError):
        store.drop_shelf("never made")


@pytest.mark.parametrize(
    ("name", "error"),
    [("", LimitError), ("x" * 201, LimitError), ("\ud800", CallError), (1, CallError), (None, CallError)],
)
def test_wrong_names_are_refused(store: Store, name: Any, error: type[Exception]) -> None:
    """A shelf's name is a text of 1 to 200 bytes."""
    for command in (store.shelf, store.drop_shelf):
        with pytest.raises(error):
            command(name)
    assert store.shelf("x" * 200).values.put("a", "b") == 2


@pytest.mark.promise(10)
def test_a_dropped_shelf_takes_its_key_along(tmp_path: Path) -> None:
    """An encrypted shelf has a key of its own, which `drop_shelf` destroys."""
    service = Service()
    with eventlog.open(tmp_path / "store", keys=service) as store:
        session = store.create_session()
        session.values.put("a", "1")
        keys = set(service.keys)
        shelf = store.shelf("the name Rumpelstiltskin")
        shelf.values.put("the key Rumpelstiltskin", "the value Rumpelstiltskin")
        assert len(set(service.keys) - keys) == 1
        assert "Rumpel" not in shelf.id
        store.log.sync()
    assert not files_with(tmp_path, "Rumpelstiltskin")
    with eventlog.open(tmp_path / "store", keys=service) as store:
        store.drop_shelf("the name Rumpelstiltskin")
        assert set(service.keys) == keys
        assert find_shelf(store.log, "the name Rumpelstiltskin")[1] is False


def test_without_keys_no_shelf_shows_up(tmp_path: Path) -> None:
    """Lists of sessions without keys have no shelves; to name or open one says why."""
    with eventlog.open(tmp_path / "store", keys=tmp_path / "keys") as store:
        store.create_session(id="s")
        store.shelf("todo").values.put("a", "1")
    (tmp_path / "keys").unlink()
    with eventlog.open(tmp_path / "store", read_only=True) as store:
        assert [info.id for info in store.sessions()] == ["s"]
        assert [info.id for info in store.newest_sessions().sessions] == ["s"]
        for ask in (lambda: list(store.shelves()), lambda: store.shelf("todo")):
            with pytest.raises(KeyMissingError):
                ask()


def test_a_read_only_store_makes_no_shelf(tmp_path: Path) -> None:
    """A store opened for reading has the shelves that are there, and makes none."""
    with eventlog.open(tmp_path / "store") as store:
        store.shelf("todo").values.put("a", "1")
    with eventlog.open(tmp_path / "store", read_only=True) as store:
        assert store.shelf("todo").values.revision("a") == 2
        with pytest.raises(ReadOnlyError):
            store.shelf("other")


def test_a_backup_has_the_shelves(tmp_path: Path) -> None:
    """A backup and what is restored from it have all shelves and their values."""
    with eventlog.open(tmp_path / "store") as store:
        store.shelf("todo").values.put("a", "x" * 5_000)
        store.open_session(("telegram", "chat 17"))
        assert store.backup(tmp_path / "backup").sessions == 1  # shelves and names are none
    eventlog.restore(tmp_path / "backup", tmp_path / "restored")
    with eventlog.open(tmp_path / "restored") as store:
        assert list(store.shelves()) == ["todo"]
        found = store.shelf("todo").values.get("a")
        assert found is not None
        assert found.value == "x" * 5_000


def test_puts_in_a_pipeline_are_one_append(engine: Engine) -> None:
    """Puts and drops that a pipeline of a shelf collects are one append."""
    store = engine.open()
    shelf = store.shelf("prices")
    shelf.values.put("old", "1")
    before = store.metrics().appends
    with shelf.pipeline():
        shelf.values.put("hotel", "80")
        shelf.values.drop("old")
    assert store.metrics().appends == before + 1
    assert engine.open().shelf("prices").values.keys() == ["hotel"]
