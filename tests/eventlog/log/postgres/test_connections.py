"""Connections of a log: their number, and what is left of one that cannot be used."""

from __future__ import annotations

import time
from contextlib import closing

import psycopg
import pytest

from eventlog.errors import BusyError, ClosedError
from eventlog.history.session_lists import lists_of
from eventlog.log.commit import Append
from eventlog.log.postgres import connections
from eventlog.log.postgres.opening import open_log
from eventlog.store import Store
from tests.support.postgres_server import running


def test_one_connection_is_enough_for_an_erasure(place: str) -> None:
    """A store of one connection is written, listed, erased from, scrubbed and verified."""
    log = open_log(place, connections=1, busy_timeout=5.0, lists_of=lists_of)
    with closing(log), Store(log) as store:
        session, other = store.create_session(title="Tides"), store.create_session()
        session.user("Why two a day?" * 100)
        part = other.user("A secret" * 1000)
        store.erase(session.id)
        assert store.vacuum().erased == 1
        other.redact(next(iter(other.reader.state().messages[part].parts)))
        store.scrub()
        assert store.log.check() == []
        assert [info.id for info in store.newest_sessions().sessions if info.id == other.id] == [other.id]


def test_a_pool_closes_what_cannot_be_configured(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connections that a pool makes and cannot use do not pile up on the server."""
    log = open_log(place, busy_timeout=3.0)
    monkeypatch.setattr(connections, "_SETTINGS", {"no_such_setting": "1"})
    with pytest.raises(BusyError):
        log.submit(Append(session="s", payload=b"p", count=1, time=1, creates_at=0)).wait()
    left = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'everdelta' AND state IS NOT NULL"
    with psycopg.connect(running().address()) as asked:
        deadline = time.monotonic() + 20  # the last attempt goes on for a moment
        while asked.execute(left).fetchone() != (0,):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    log.close()


def test_connections_that_interrupts_lost_are_replaced(place: str) -> None:
    """A handle whose connections an interrupt lost goes on after one refusal."""
    log = open_log(place, connections=2, busy_timeout=0.3)
    log.last_positions()
    for _ in range(2):
        log._connections._pool.getconn(5)  # as if Ctrl-C came before it was noted
    with pytest.raises(BusyError):
        log.last_positions()
    assert len(log.last_positions()) == 4
    log.close()
    with pytest.raises(ClosedError):
        log.last_positions()
