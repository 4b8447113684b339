"""Sessions by name: `open_session`, `names.give`, `names.free`, and the list by name."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import eventlog
from eventlog import session_store
from eventlog.codec.payload import NAMED, NAMES
from eventlog.errors import (
    AlreadyExistsError,
    CallError,
    DamagedError,
    ErasedError,
    KeyMissingError,
    LimitError,
    NotFoundError,
    ReadOnlyError,
    TooNewError,
)
from eventlog.history.cursor import cursor_at
from eventlog.history.name_streams import NameState, last_owner, state_append, stream_of
from eventlog.log.commit import Append
from eventlog.maintenance.backup import restore
from eventlog.maintenance.repair import repair
from eventlog.open_store import open_store
from eventlog.store import Store
from eventlog.testing.file_search import files_with
from projections.verify.verify import verify
from tests.support.engines import ENCRYPTED, ENGINES, Engine, places
from tests.support.pages import example
from tests.support.python_process import ROOT, Program, raced

NAME = ("chat", "room 1")
OTHER = ("chat", "room 2")
LONG = "a key of many words " * 40

RACER = """
import sys
import eventlog
path, keys, names = sys.argv[1], sys.argv[2] == "True" or None, int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
with eventlog.open(path, keys=keys) as store:
    for number in range(names):
        session = store.open_session(("race", f"{number}"), title=f"{number}")
        session.set_metadata("one", "1")
        print(session.id, flush=True)
"""

KILLED = """
import os, sys
import eventlog
path, keys, left, command = sys.argv[1], sys.argv[2] == "True" or None, int(sys.argv[3]), sys.argv[4]
store = eventlog.open(path, keys=keys)
submit = store.log.submit

def counted(append):
    global left
    if not left:
        os._exit(9)
    left -= 1
    return submit(append)

store.log.submit = counted
name = ("chat", "room 1")
if command == "open":
    store.open_session(name, title="killed")
elif command == "give":
    store.names.give("old", name)
elif command == "free":
    store.names.free(name)
elif command == "erase":
    store.erase("old")
os._exit(0)
"""


engine = places(*ENGINES, ENCRYPTED)


def keys_of(store: Store, **filters: Any) -> list[str]:
    """The keys that a list by name shows, in its order."""
    return [info.name[1] for info in store.sessions(format="chat", **filters) if info.name is not None]


def test_the_first_call_begins_the_session_and_others_find_it(engine: Engine) -> None:
    """A name gives the same session in every handle; only the first call begins it."""
    with engine.open() as store, engine.open() as second:
        session = store.open_session(NAME, title="first", scope="u", agent="a", time=5)
        positions = store.log.last_positions()
        again = second.open_session(NAME, title="second", scope="v")
        assert again.id == session.id
        assert (again.info.title, again.info.scope, again.info.created) == ("first", "u", 5)
        assert again.info.name == NAME
        assert store.open_session(NAME, create=False) is session
        assert store.log.last_positions() == positions
        with pytest.raises(NotFoundError, match="room 2"):
            store.open_session(OTHER, create=False)
        assert [type(recorded.event).__name__ for recorded in session.events()] == ["SessionStarted", "NameGiven"]
        assert store.open_session(OTHER).id != session.id
        assert verify(store, deep=True).sound


def test_an_id_of_the_callers_own(engine: Engine) -> None:
    """A new session gets the id that was asked for, unless that is taken; then no name is."""
    with engine.open() as store:
        store.create_session(id="old")
        store.create_session(id="gone")
        store.erase("gone")
        for taken, error in (("old", AlreadyExistsError), ("gone", ErasedError)):
            with pytest.raises(error):
                store.open_session(NAME, id=taken)
        assert store.open_session(NAME, id="mine").id == "mine"
        assert store.open_session(NAME, id="other").id == "mine"


def test_a_refused_beginning_reserves_nothing(engine: Engine) -> None:
    """A wrong argument or a missing parent is an error before the name is touched."""
    with engine.open() as store:
        wrong: list[dict[str, Any]] = [{"title": 3}, {"parent": "nobody"}, {"parent": 3}, {"model": 3}, {"id": 3}]
        for given in wrong:
            with pytest.raises(CallError):
                store.open_session(NAME, **given)
        assert sum(store.log.last_positions()) == 0


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("chat:room", CallError),
        (("chat",), CallError),
        (("chat", 3), CallError),
        ((None, "x"), CallError),
        (("", "x"), LimitError),
        (("chat", ""), LimitError),
        (("a:b", "x"), CallError),
        (("f" * 65, "x"), LimitError),
        (("chat", "é" * 513), LimitError),
        (("chat", "\ud800"), CallError),
    ],
)
def test_what_is_no_name(name: Any, error: type[CallError]) -> None:
    """A name is a format without a colon and a key, both text of a bounded length."""
    with eventlog.open("memory:") as store:
        store.create_session(id="s")
        calls: list[Callable[[Any], object]] = [
            store.open_session,
            store.names.free,
            lambda given: store.names.give("s", given),
        ]
        for call in calls:
            with pytest.raises(error):
                call(name)


def test_a_list_by_name(engine: Engine) -> None:
    """A list by name has the keys of a format with a beginning, in order, page by page."""
    with engine.open() as store:
        for key in ("b", "a/2", "a", "a/1", "中", LONG + "2", LONG + "1", "~" + "0" * 32):
            store.open_session(("chat", key), scope=f"u{key[-1]}")
        store.open_session(("chats", "a/3"))
        store.open_session(("cha", "t:a"))
        store.create_session(title="without")
        store.erase(store.open_session(("chat", "a/9")).id)
        store.names.free(("chat", "中"))
        in_order = keys_of(store)
        assert [key for key in in_order if len(key) < 20] == ["a", "a/1", "a/2", "b"]
        assert sorted(key[-1] for key in in_order if len(key) > 50) == ["1", "2"]
        assert keys_of(store, prefix="a/") == ["a/1", "a/2"]
        assert keys_of(store, prefix="a") == [key for key in in_order if key.startswith("a")]
        assert keys_of(store, prefix=LONG + "2") == [LONG + "2"]
        assert keys_of(store, prefix="nothing") == []
        assert keys_of(store, scope="u2") == [key for key in in_order if key.endswith("2")]
        paged: list[str] = []
        while page := keys_of(store, after=paged[-1] if paged else "", limit=2):
            paged += page
        assert paged == in_order
        with pytest.raises(CallError, match="format"):
            store.sessions(prefix="a")


def test_names_are_in_no_other_list(engine: Engine) -> None:
    """A name's stream is no session: not listed, opened, followed, or unfinished."""
    with engine.open() as store:
        session = store.open_session(NAME)
        session.user("hi")
        assert [info.id for info in store.sessions()] == [session.id]
        assert [info.id for info in store.newest_sessions().sessions] == [session.id]
        assert [info.id for info in store.unfinished()] == [session.id]
        stream = stream_of(store.log, NAME)
        with pytest.raises(NotFoundError):
            store.session(stream)
        assert {recorded.session for recorded in store.subscribe(timeout=0)} == {session.id}
        assert stream in store.head().by_session


def test_ids_of_names_fit_and_are_told_apart() -> None:
    """The id of a name's stream has at most 256 bytes, and no two names share one."""
    with eventlog.open("memory:") as store:
        keys = ["x", "x" * 250, "x" * 251, "x" * 1024, "x" * 1023 + "y", "é" * 300, "é" * 299 + "x", "é" * 512]
        keys += [stream_of(store.log, ("f", key)).removeprefix(f"{NAMES}f:") for key in keys]
        ids = {stream_of(store.log, (format, key)) for format in ("f", "f" * 64) for key in keys}
        assert len(ids) == 2 * len(set(keys))
        assert max(len(id.encode()) for id in ids) <= 256


def test_a_conversation_in_the_place_of_a_name(tmp_path: Path) -> None:
    """A session that has the id of a name's stream is neither changed nor taken for one."""
    with open_store(tmp_path / "s") as store:
        store.create_session(id=stream_of(store.log, NAME)).user("mine")
        with pytest.raises(AlreadyExistsError):
            store.open_session(NAME)
        assert keys_of(store) == []
        assert store.open_session(OTHER).info.name == OTHER


def test_damaged_and_newer_names(engine: Engine) -> None:
    """A name that a newer program wrote, or that cannot be read, is a typed error."""
    with engine.open() as store:
        for name, data, error in ((NAME, b"\x93\x02\xc0\xc2", TooNewError), (OTHER, b"\x01", DamagedError)):
            payload = NAMED + data
            append = Append(
                session=stream_of(store.log, name), payload=payload, count=1, time=1, entry=payload, creates_at=0
            )  # fmt: skip
            store.log.submit(append).wait()
            with pytest.raises(error):
                store.open_session(name)


def test_a_read_only_store_finds_and_begins_nothing(tmp_path: Path) -> None:
    """A reader finds a session by its name; what is to be written is `ReadOnlyError`."""
    with open_store(tmp_path / "s") as store:
        session = store.open_session(NAME).id
        stream = stream_of(store.log, OTHER)
        store.log.submit(state_append(stream, None, NameState("reserved", leaving=False), 1)).wait()
    with open_store(tmp_path / "s", read_only=True) as store:
        assert store.open_session(NAME, create=False).id == session
        assert store.open_session(NAME).id == session
        for name in (OTHER, ("chat", "room 3")):
            with pytest.raises(NotFoundError):
                store.open_session(name, create=False)
            with pytest.raises(ReadOnlyError):
                store.open_session(name)
        with pytest.raises(ReadOnlyError):
            store.names.free(NAME)


def test_an_encrypted_store_has_no_name_in_clear(tmp_path: Path) -> None:
    """No file has a name; without keys a name is `KeyMissingError`; with them it is found."""
    path = tmp_path / "s"
    with open_store(path, keys=True) as store:
        session = store.open_session(("secret-format", "secret-key")).id
        store.names.give(store.create_session().id, ("secret-format", "secret-key 2"))
        families = store.log.engine.heads()
        assert sum(head.session.startswith(NAMES) for head in families) == 2
    assert not files_with(path, "secret")
    with open_store(path, keys=True) as store:
        assert store.open_session(("secret-format", "secret-key"), create=False).id == session
        assert [info.name for info in store.sessions(format="secret-format", prefix="secret-key ")] == [
            ("secret-format", "secret-key 2")
        ]
        assert verify(store, deep=True).sound
    with open_store(path, read_only=True) as store:
        with pytest.raises(KeyMissingError):
            store.open_session(("secret-format", "secret-key"), create=False)
        with pytest.raises(KeyMissingError):
            list(store.sessions(format="secret-format"))


@pytest.mark.parametrize("keys", [None, True])
def test_copies_and_rewritings_keep_names(tmp_path: Path, *, keys: bool | None) -> None:
    """Backup, restore, repair, vacuum and scrub keep each name, and note, as it was then."""
    path = tmp_path / "s"
    kept = path.with_name("s.keys") if keys else None
    with open_store(path, keys=keys) as store:
        first = store.open_session(NAME).id
        store.session(first).set_note("note of one")
        early = store.log.last_positions()
        store.names.free(NAME)
        store.create_session(id="two")
        store.names.give("two", NAME)
        store.session("two").set_note("note of two")
        gone = store.open_session(OTHER)
        gone.set_note("note of an erased one")
        store.erase(gone.id)
        store.vacuum()
        store.scrub()
        assert store.open_session(NAME).id == "two"
        assert keys_of(store) == ["room 1"]
        store.backup(tmp_path / "backup")
        assert verify(store, deep=True).sound
        cursor = cursor_at(store.log, early)
    assert not files_with(path, "note of an erased one")
    restore(tmp_path / "backup", tmp_path / "early", cursor=cursor)
    restore(tmp_path / "backup", tmp_path / "late")
    repair(path, tmp_path / "repaired")
    for name, session, note in (("early", first, "one"), ("late", "two", "two"), ("repaired", "two", "two")):
        with open_store(tmp_path / name, keys=kept) as store:
            assert keys_of(store) == ["room 1"]
            assert store.open_session(NAME).id == session
            assert store.info(session).note == f"note of {note}"
            assert store.open_session(OTHER, title="new").info.title == "new"
            assert verify(store, deep=True).sound


def test_a_plain_store_that_becomes_encrypted_keeps_its_names(tmp_path: Path) -> None:
    """An encrypted backup of a plain store finds each name, and has none in clear."""
    path, keys = tmp_path / "s", tmp_path / "keys"
    names = [("secret-format", key) for key in ("secret", "secret " * 60, "secret free", "secret free " * 40)]
    with open_store(path) as store:
        found = {name: store.open_session(name).id for name in names}
        for name in names[2:]:
            store.names.free(name)
        store.backup(tmp_path / "copy" / "encrypted", keys=keys)
    assert not files_with(tmp_path / "copy", "secret")
    with open_store(tmp_path / "copy" / "encrypted", keys=keys) as store:
        for name in names[:2]:
            assert store.open_session(name, create=False).id == found[name]
        for name in names[2:]:
            assert store.open_session(name).id != found[name]
        assert len(list(store.sessions(format="secret-format"))) == 4
        assert verify(store, deep=True).sound


@pytest.mark.parametrize("keys", [None, True])
@pytest.mark.promise(4)
def test_eight_processes_open_the_same_names(tmp_path: Path, *, keys: bool | None) -> None:
    """Of eight processes that open many names at once each gets the same session for each."""
    names = 12
    with eventlog.open(tmp_path / "s", keys=keys):
        pass
    racers = [Program("-c", RACER, tmp_path / "s", keys, names) for _ in range(8)]
    found = [told.split() for told in raced(racers)]
    assert len(found[0]) == names
    assert all(ids == found[0] for ids in found)
    with eventlog.open(tmp_path / "s", keys=keys) as store:
        assert {info.id for info in store.sessions()} == set(found[0])
        assert [info.name for info in store.sessions(format="race")] == [
            ("race", key) for key in sorted(f"{number}" for number in range(names))
        ]
        assert verify(store).sound


@pytest.mark.parametrize("keys", [None, True])
@pytest.mark.parametrize("command", ["open", "give", "free", "erase"])
@pytest.mark.promise(1)
def test_killed_between_any_two_appends(tmp_path: Path, command: str, *, keys: bool | None) -> None:
    """After a kill between any two appends the next caller opens one session by the name."""
    for appends in range(5):
        path = tmp_path / str(appends)
        with eventlog.open(path, keys=keys) as store:
            store.create_session(id="old", title="old")
            if command in {"free", "erase"}:
                store.names.give("old", NAME)
        died = subprocess.run(
            [sys.executable, "-c", KILLED, str(path), str(keys), str(appends), command], cwd=ROOT, check=False
        ).returncode
        with eventlog.open(path, keys=keys) as store, eventlog.open(path, keys=keys) as second:
            session = store.open_session(NAME, title="next")
            assert second.open_session(NAME) is not session
            assert second.open_session(NAME).id == session.id
            assert session.info.name == NAME
            assert keys_of(store) == ["room 1"]
            assert sum(info.name is not None for info in store.sessions()) == 1
            assert verify(store, deep=True).sound
        if died == 0:
            assert appends > 1
            return
        assert died == 9
    raise AssertionError("the program was killed each time")


@pytest.mark.parametrize("id", ["x" * 300, "shelf:a", "shelf~a", "\ud800", "eventlog/name:f:k"])
def test_an_id_that_no_session_can_have_reserves_no_name(id: str) -> None:
    """A name that was asked for with a wrong id is free, and the next caller begins a session."""
    with open_store("memory:") as store:
        with pytest.raises(CallError):
            store.open_session(("f", "k"), id=id)
        session = store.open_session(("f", "k"))
        assert session.info.name == ("f", "k")


def test_lone_surrogates_are_in_no_list_of_names(engine: Engine) -> None:
    """A format, a prefix or a cursor that no name can have is refused in the caller's words."""
    store = engine.open()
    for wrong in ({"format": "\ud800"}, {"prefix": "\ud800"}, {"after": "\ud800"}, {"prefix": None}):
        with pytest.raises(CallError):
            list(store.sessions(**{"format": "f", **wrong}))  # type: ignore[arg-type]


def test_a_fork_begins_with_a_name(engine: Engine) -> None:
    """A fork is found by its name; a name that is taken is refused, and so is no version."""
    store = engine.open()
    parent = store.open_session(NAME)
    parent.user("Hi")
    fork = parent.fork(name=OTHER)
    assert engine.open().open_session(OTHER, create=False).id == fork.id
    assert fork.info.fork_of == parent.id
    for taken in (NAME, OTHER):
        with pytest.raises(AlreadyExistsError):
            parent.fork(name=taken)
    with pytest.raises(NotFoundError):
        store.fork(parent, 99, name=("chat", "room 3"))
    assert {info.id for info in store.sessions()} == {parent.id, fork.id}
    with pytest.raises(NotFoundError):
        store.open_session(("chat", "room 3"), create=False)


def test_last_owner_of_a_name(engine: Engine) -> None:
    """The stream of a name says which session lost it last, and when."""
    now = [1_000_000]
    store = engine.open(clock=lambda: now[0])
    assert last_owner(store.log, NAME) is None
    for number in range(3):
        lost = last_owner(store.log, NAME)
        session = store.open_session(NAME, id=f"s{number}")
        assert last_owner(store.log, NAME) == lost
        now[0] += 1000
        if number == 1:
            store.names.free(NAME)
        else:
            store.erase(session.id)
        assert last_owner(store.log, NAME) == (f"s{number}", now[0])
    store.names.give("s1", NAME)
    assert last_owner(store.log, NAME) == ("s2", now[0])
    assert last_owner(store.log, OTHER) is None


def test_a_named_fork_of_a_session_that_is_erased_meanwhile_is_refused(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fork that its parent's erasure comes before is an error, and its name is free."""
    store, other = engine.open(), engine.open()
    parent = store.open_session(NAME)
    parent.user("Hi")
    begin = session_store.begin_session

    def meanwhile(*args: Any, **options: Any) -> Any:
        monkeypatch.undo()
        other.erase(parent.id, forks="keep")
        return begin(*args, **options)

    monkeypatch.setattr(session_store, "begin_session", meanwhile)
    with pytest.raises(ErasedError):
        parent.fork(name=OTHER)
    assert list(store.sessions()) == []
    assert store.open_session(OTHER).info.fork_of is None


def test_the_documented_tenants_have_chats_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The form that the page of tenants prints takes any name, and tells any two apart."""
    monkeypatch.chdir(tmp_path)
    made: dict[str, Any] = {}
    exec(example("class Tenant").code, made)  # noqa: S102 - the page
    given = [("a", "b c"), ("a b", "c"), ("a:b", "c"), ("ä" * 100, "c"), ('a"', ', "c'), ('a", "', "c")]
    with eventlog.open("memory:") as store:
        chats = {made["Tenant"](store, tenant).chat(key).id for tenant, key in given}
    assert len(chats) == len(given)
