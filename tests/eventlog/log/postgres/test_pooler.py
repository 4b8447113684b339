"""A pooler in transaction mode: each statement may go over another connection."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from threading import Event

import psycopg
import pytest

import eventlog
from eventlog.errors import LeaseHeldError
from eventlog.events import UserMessageAdded
from eventlog.log.postgres.opening import create
from projections import ModelView
from projections.verify.verify import verify
from tests.support.pooler import Pooler
from tests.support.postgres_server import Server
from tests.support.sample_sessions import begin, exchange, run_together

WRITERS, TURNS = 6, 5
ROLE = """
CREATE SCHEMA chats; CREATE ROLE pooled LOGIN SUPERUSER;
ALTER ROLE pooled SET search_path = chats;
ALTER ROLE pooled SET lock_timeout = '30s';
ALTER ROLE pooled SET statement_timeout = '30s';
"""


@pytest.fixture(scope="module")
def pooler() -> Iterator[Pooler]:
    """Two connections of a server of its own, for any number of clients."""
    server = Server()
    server.ask(ROLE)
    create(server.address("chats"), partitions=4)
    made = Pooler(server, "pooled")
    yield made
    made.remove()
    server.remove()


def test_readers_and_writers_share_two_connections(pooler: Pooler) -> None:
    """Stores of writers and readers do not change each other's connections; all is there."""
    stores = [eventlog.open(pooler.address, read_only=number % 2 == 1) for number in range(4)]

    def work(number: int) -> None:
        session = stores[0 if number % 2 else 2].create_session(id=f"s{number}")
        for _ in range(TURNS):
            exchange(session)
            reader = stores[1 if number % 3 else 3]
            assert len(ModelView.of(reader.session(session.id)).messages) >= 2

    run_together(WRITERS, work)
    for number in range(WRITERS):
        assert len(ModelView.of(stores[3].session(f"s{number}")).messages) == 2 * TURNS
    with stores[0].session("s0").lease(), pytest.raises(LeaseHeldError):
        exchange(stores[2].session("s0"))
    assert verify(stores[1]).sound
    with psycopg.connect(pooler.address) as asked:
        for name, value in (("default_transaction_read_only", "off"), ("plan_cache_mode", "auto")):
            assert asked.execute(f"SHOW {name}".encode()).fetchone() == (value,)
    for store in stores:
        store.close()


def test_upkeep_goes_through_it(pooler: Pooler, tmp_path: Path) -> None:
    """Erasure, redaction, vacuum, scrub and backup need no connection of their own."""
    with eventlog.open(pooler.address) as store:
        for name in ("kept", "gone"):
            exchange(store.create_session(id=name, scope=name))
        assert store.erase_scope("gone").erased == ("gone",)
        store.scrub()
        store.backup(tmp_path / "copy")
        head = store.head()
        assert verify(store).sound
    with eventlog.open(tmp_path / "copy", read_only=True) as copy:
        assert copy.head().text() == head.text()


@pytest.mark.promise(1, 4)
def test_writers_go_on_when_it_is_killed(pooler: Pooler) -> None:
    """Promises 1, 4: of the writers through a pooler that is killed each message is in once."""
    with eventlog.open(pooler.address) as store:
        sessions = [store.create_session(id=f"k{number}") for number in range(3)]
        until, begun = Event(), [Event() for _ in sessions]
        said: list[list[str]] = [[] for _ in sessions]

        def write(number: int) -> None:
            while not until.is_set():
                said[number].append(sessions[number].user(f"{len(said[number])}"))
                begun[number].set()

        writers = [begin(partial(write, number)) for number in range(len(sessions))]
        for _ in range(2):
            assert all(each.wait(60) for each in begun)
            pooler.kill()
            for each in begun:
                each.clear()
            pooler.start()
        assert all(each.wait(60) for each in begun)
        until.set()
        for writer in writers:
            writer.result(60)
        for session, messages in zip(sessions, said, strict=True):
            found = [each.event for each in session.events()]
            assert [event.message for event in found if isinstance(event, UserMessageAdded)] == messages
        assert store.log.check() == []


def test_a_role_without_a_lock_timeout_is_warned_of(pooler: Pooler, caplog: pytest.LogCaptureFixture) -> None:
    """The log says that waits have no end where neither this program nor the role bounds them."""
    with eventlog.open(pooler.address):
        assert "lock_timeout" not in caplog.text
    plain = Pooler(pooler.server, "postgres")
    with eventlog.open(plain.address):
        assert "lock_timeout" in caplog.text
    plain.remove()
