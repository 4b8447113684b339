"""Erasing a session of records that forks share."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from eventlog import Feed, LeaseHeldError, NotFoundError
from eventlog.adapters import unshared
from eventlog.adapters.unshared import erase_unshared, fork
from eventlog.history.relatives import heirs_of
from tests.support.engines import Engine
from tests.support.toy_records import ToyMapping, shown


def said(text: str) -> dict[str, str]:
    """Return a record."""
    return {"kind": "user", "text": text}


@pytest.mark.promise(4)
def test_no_fork_begins_while_a_session_is_erased(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fork is there before an erasure looks for forks, or does not begin."""
    store, other = engine.open(), engine.open()
    feed = Feed(store.create_session(id="s"), ToyMapping())
    first, _ = feed.add([said("kept"), said("gone")])
    there = other.session("s")
    early = fork(there, partial(there.fork, first), wait=0)

    def meanwhile(log: Any, session: str, _heirs: Any = heirs_of) -> Any:
        found = _heirs(log, session)
        with pytest.raises(LeaseHeldError):
            fork(there, there.fork, wait=0)
        with pytest.raises(LeaseHeldError):
            Feed(other.session("s"), ToyMapping()).add([said("late")])
        return found

    monkeypatch.setattr(unshared, "heirs_of", meanwhile)
    erase_unshared(feed, wait=0)
    erase_unshared(feed, wait=0)
    with pytest.raises(NotFoundError):
        store.session("s")
    assert [info.id for info in store.sessions()] == [early.id]
    assert shown(early) == [("user", "kept", ())]


def test_holder_of_the_lease_erases(engine: Engine) -> None:
    """The task that holds a session's lease may erase it; what it does later is refused."""
    store = engine.open()
    session = store.create_session(id="s")
    with session.lease():
        with pytest.raises(LeaseHeldError):
            store.erase("s")
        erase_unshared(Feed(session, ToyMapping()), wait=0)
        with pytest.raises(NotFoundError):
            session.user("late")
    assert list(store.sessions()) == []
