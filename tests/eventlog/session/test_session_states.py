"""The state of each session on a page: running, unfinished, waiting or unknown."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from eventlog import events as ev
from eventlog.encryption.log import EncryptedLog
from eventlog.open_store import open_store
from eventlog.session.session import Session
from eventlog.store import Store
from eventlog.values import Origin
from tests.support.engines import ENCRYPTED, ENGINES, Engine, places
from tests.support.python_process import printed

RUNNING = """
import sys
import eventlog
with eventlog.open(sys.argv[1]) as store:
    session = store.session("s")
    with session.assistant() as reply:
        reply.stream_text().append("half")
        session.flush()
        {end}
"""


engine = places(*ENGINES, ENCRYPTED)


def states(store: Store) -> dict[str, str | None]:
    """The state of each session on the first page, which `unfinished` agrees with."""
    found: dict[str, str | None] = {info.id: info.state for info in store.newest_sessions().sessions}
    assert {info.id for info in store.unfinished()} == {id for id, state in found.items() if state == "unfinished"}
    assert all(info.state == "unfinished" for info in store.unfinished())
    assert {info.id: info.state for info in store.newest_sessions().sessions} == found
    return found


def answer(session: Session) -> None:
    """Answer with a whole reply."""
    with session.assistant() as reply:
        reply.finish()


def test_states_change_with_what_is_done(engine: Engine) -> None:
    """A question makes a session unfinished, a lease running, an answer waiting."""
    with engine.open() as store, engine.open() as second:

        def state() -> str | None:
            assert states(store) == states(second)
            return states(store)["s"]

        session = store.create_session(id="s")
        assert state() == "waiting"
        session.user("hi")
        assert state() == "unfinished"
        with session.assistant() as reply:
            assert states(store)["s"] == "running"  # taken lazily: only this handle knows
            reply.add_text("ho")
            assert state() == "running"
            reply.finish()
        assert state() == "waiting"
        session.user("more", delivery="queue")
        assert state() == "unfinished"
        session.context.promote(next(iter(session.reader.state().users.recent[-1][1])))
        answer(session)
        assert state() == "waiting"
        session.rollback(3)
        assert state() == "unfinished"
        session.redo()
        assert state() == "waiting"
        session.set_note("x")
        session.rename("x")
        assert state() == "waiting"
        with suppress(KeyError), session.turn("again", "r"), session.assistant():
            raise KeyError
        assert state() == "waiting"
        with suppress(KeyboardInterrupt), session.turn("and again", "r2"), session.assistant():
            raise KeyboardInterrupt
        assert state() == "unfinished"


def test_forks_and_imports_wait_until_they_are_used(engine: Engine) -> None:
    """A fresh fork and an imported session are waiting, also if their history has a question."""
    with engine.open() as store:
        session = store.create_session(id="s")
        session.user("hi")
        fork = session.fork(id="f")
        assert states(store) == {"s": "unfinished", "f": "waiting"}
        fork.user("more")
        assert states(store) == {"s": "unfinished", "f": "unfinished"}
        bulk = store.create_session(id="i", origin=Origin("format", "1")).executor.bulk()
        assert bulk is not None
        bulk.append([(1, ev.UserMessageAdded("m"))], {})
        bulk.wait()
        assert states(store)["i"] == "waiting"


def test_a_session_of_another_process(tmp_path: Path) -> None:
    """A page follows other processes: a live one runs the session, a dead one left it open."""
    with open_store(tmp_path / "s") as store:
        session = store.create_session(id="s")
        session.user("hi")
        assert states(store) == {"s": "unfinished"}
        printed(RUNNING.format(end="import os; os._exit(0)"), tmp_path / "s")
        assert states(store) == {"s": "unfinished"}
        printed(RUNNING.format(end="reply.finish()"), tmp_path / "s")
        assert states(store) == {"s": "waiting"}


def test_without_a_key_a_state_is_unknown(tmp_path: Path) -> None:
    """A locked session is marked, and its state unknown, unless a task runs it."""
    with open_store(tmp_path / "s", keys=True) as store:
        for name in ("s", "t"):
            store.create_session(id=name).user("hi")
    with open_store(tmp_path / "s", read_only=True) as store:
        assert [(info.locked, info.state) for info in store.newest_sessions().sessions] == [(True, "unknown")] * 2
    with open_store(tmp_path / "s", keys=True) as store:
        log = store.log
        assert isinstance(log, EncryptedLog)
        family = log.family("s")
        assert family is not None
        with store.session("s").lease():
            log._ring.destroy(family.id)
            assert {info.id: (info.locked, info.state) for info in store.newest_sessions().sessions} == {
                "s": (True, "running"),
                "t": (False, "unfinished"),
            }
