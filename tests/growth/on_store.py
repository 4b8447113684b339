"""Operations of a store, and functions that open, restore and repair one."""

from __future__ import annotations

import io
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import eventlog
from eventlog import Session, Store
from eventlog.history.name_streams import Name
from tests.growth.operation import Table, constant, history, output
from tests.growth.place import Place

_TOUCHED = "what lies in the files is read and written anew"
_EACH = "looks at a small record of every session"


@contextmanager
def _new_session(at: Place) -> Generator[Session]:
    yield at.store.create_session(id=at.name("new"))


@contextmanager
def _new_scoped(at: Place) -> Generator[Session]:
    yield at.store.create_session(id=at.name("scoped"), scope=at.name("scope"))


@contextmanager
def _opened(at: Place) -> Generator[Store]:
    store = eventlog.open(at.closed.path)
    yield store
    store.close()


@contextmanager
def _held(at: Place) -> Generator[Session]:
    with at.long.lease():
        yield at.long


@contextmanager
def _closing(_: Place) -> Generator[list[Store]]:
    """After the call, close what it opened."""
    opened: list[Store] = []
    yield opened
    for store in opened:
        store.close()


@contextmanager
def _backup(at: Place) -> Generator[Path]:
    at.store.backup(at.directory / "backup")
    yield at.directory / "backup"


def _newest(at: Place, _: object) -> None:
    for _recorded in at.store.subscribe(at.recent, timeout=0.0):
        pass


@contextmanager
def _looked(at: Place) -> Generator[None]:
    """Look at every session once, as the first call has to."""
    at.store.unfinished()
    at.long.rename("a title")
    yield


@contextmanager
def _indexed(at: Place) -> Generator[None]:
    """Bring the index up to date, as the first search has to."""
    at.store.search("answer", limit=1, wait=None)
    yield


@contextmanager
def _said(at: Place) -> Generator[None]:
    """Say something that the index does not have yet."""
    at.store.search("answer", limit=1, wait=None)
    at.store.session("small000002").user("a fresh question")
    yield


@contextmanager
def _changed(at: Place) -> Generator[None]:
    """Append to a long session, whose state the list then looks at."""
    at.long.record_custom("test", "1")
    yield


@contextmanager
def _named_session(at: Place) -> Generator[Name]:
    """A new session with a name, which is taken away by the operation."""
    name = ("growth", at.name("to free"))
    at.store.open_session(name)
    yield name


STORE: Table = {
    "Names.give": constant(lambda at, session: at.store.names.give(session.id, ("growth", session.id)), _new_session),
    "Names.free": constant(lambda at, name: at.store.names.free(name), _named_session),
    "open": constant(lambda at, held: held.append(eventlog.open(at.closed.path)), _closing),
    "open, to read": constant(lambda at, held: held.append(eventlog.open(at.closed.path, read_only=True)), _closing),
    "restore": history(
        lambda at, backup: eventlog.restore(backup, at.directory / "restored"), _TOUCHED, _backup, copied=True
    ),
    "repair": history(
        lambda at, _: eventlog.repair(at.directory / "store", at.directory / "repaired"), _TOUCHED, copied=True
    ),
    "Store.backup, with keys": history(
        lambda at, _: at.store.backup(at.directory / "encrypted", keys=True), _TOUCHED, copied=True
    ),
    "Store.backup": history(lambda at, _: at.store.backup(at.directory / "backup"), _TOUCHED, copied=True),
    "Store.close": constant(lambda _, store: store.close(), _opened),
    "Store.closed": constant(lambda at, _: at.store.closed),
    "Store.create_session": constant(lambda at, _: at.store.create_session(id=at.name("made"))),
    "Store.erase": history(
        lambda at, session: at.store.erase(session.id), f"for forks and sub-sessions it {_EACH}", _new_session
    ),
    "Store.erase, a long one": history(
        lambda at, _: at.store.erase("wide"), "names every large text that the session alone has", copied=True
    ),
    "Store.erase_scope": constant(lambda at, session: at.store.erase_scope(session.info.scope), _new_scoped),
    "Store.unfinished": constant(lambda at, _: at.store.unfinished(), _looked),
    "Store.flush": constant(lambda at, _: at.store.flush()),
    "Store.cursor": constant(lambda at, _: at.store.cursor()),
    "Store.fork": constant(lambda at, _: at.store.fork(at.long, at.long.version, id=at.name("fork"))),
    "Store.head": history(lambda at, _: at.store.head(), _EACH),
    "Store.info": constant(lambda at, _: at.store.info("long")),
    "Store.metrics": constant(lambda at, _: at.store.metrics()),
    "Store.expire": history(lambda at, _: at.store.expire(count=10**9), _EACH),
    "Store.expire, to be seen only": history(lambda at, _: at.store.expire(count=0, dry_run=True), _EACH),
    "Store.names": constant(lambda at, _: at.store.names),
    "Store.newest_sessions": constant(lambda at, _: at.store.newest_sessions(limit=50)),
    "Store.newest_sessions, after an event": constant(lambda at, _: at.store.newest_sessions(limit=50), _changed),
    "Store.open_session": constant(lambda at, _: at.store.open_session(("growth", "000007"))),
    "Store.open_session, a new one": constant(lambda at, _: at.store.open_session(("growth", at.name("named")))),
    "Store.scrub": history(lambda at, _: at.store.scrub(), _TOUCHED, copied=True),
    "Store.search": constant(lambda at, _: at.store.search("answer should", limit=20), _indexed),
    "Store.search, a rare word": constant(lambda at, _: at.store.search("question 7", limit=20), _indexed),
    "Store.search, in a session": constant(lambda at, _: at.store.search("hello", session="small000003"), _indexed),
    "Store.search, after an event": constant(lambda at, _: at.store.search("fresh", limit=20), _said),
    "Store.search, ranked": history(
        lambda at, _: at.store.search("answer", ranked=True), "weighs every text with the words", _indexed
    ),
    "Store.search, the first": history(
        lambda at, _: at.store.search("answer"), "takes in all that was said", copied=True
    ),
    "Store.usage_by_day": history(lambda at, _: at.store.usage_by_day(), "reads a row of each model call", _indexed),
    "Store.session": constant(lambda at, _: at.store.session("long")),
    "Store.sessions": output(lambda at, _: sum(1 for _ in at.store.sessions())),
    "Store.sessions, a page by name": constant(
        lambda at, _: [*at.store.sessions(format="growth", prefix="0000", limit=50)]
    ),
    "Store.sessions, a page": constant(lambda at, _: [*at.store.sessions("m", limit=50)]),
    "Store.subscribe, the newest 50 events": constant(_newest),
    "Store.subscribe, the newest 50 of a session": constant(
        lambda at, _: sum(1 for _ in at.store.subscribe(at.long.version - 50, session="long", timeout=0.0))
    ),
    "Store.subscribe, all": history(lambda at, _: sum(1 for _ in at.store.subscribe(timeout=0.0)), "gives every event"),
    "Store.text": constant(lambda at, _: at.store.text("a text", "long")),
    "Store.vacuum": history(lambda at, _: at.store.vacuum(), _TOUCHED, copied=True),
    "Store.write_text": constant(lambda at, _: at.store.write_text("a text", io.BytesIO(), "long")),
}
