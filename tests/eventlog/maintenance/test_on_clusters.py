"""Stores in several clusters: sessions with forks, erasure, scrub, backup and growth."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import eventlog
from eventlog import events as ev
from eventlog.errors import BusyError, CallError, CursorError, EventlogError
from eventlog.log.postgres.cluster_tables import ClusterTables
from eventlog.log.postgres.joining import create_clusters, join
from eventlog.log.postgres.move import move_partition
from eventlog.store import Store
from projections.verify.verify import verify
from projections.view.model_view import ModelView
from tests.eventlog.maintenance.test_on_server import LARGE, SECRET, filled, rows_with, shown
from tests.support.postgres_server import give_back_clusters, new_clusters, running, second
from tests.support.window_loop import texts


@pytest.fixture
def pair() -> Iterator[tuple[str, str]]:
    """Addresses of the two clusters of an empty log."""
    made = new_clusters()
    yield made
    give_back_clusters(made)


def cluster_of(store: Store, session: str) -> int:
    """Number of the cluster that a session is in."""
    log = store.log.engine
    return next(number for number, here in enumerate(log.clusters) if log.partition_of(session) in here)  # type: ignore[attr-defined]


@pytest.mark.promise(13)
def test_a_fork_lands_in_another_cluster(pair: tuple[str, str]) -> None:
    """A fork in another cluster shows what its parent said, and brings bodies of its own."""
    with eventlog.open(pair) as store:
        parent = store.create_session(id="parent", title="Tides")
        parent.user(LARGE)
        parent.user("small")
        forks = [parent.fork(id=f"fork {number}") for number in range(6)]
        places = [cluster_of(store, fork.id) for fork in forks]
        assert {0, 1} == {*places, cluster_of(store, "parent")}
        for fork in forks:
            fork.user(LARGE + fork.id)
            assert texts(ModelView.of(fork).messages) == [LARGE, "small", LARGE + fork.id]
        with eventlog.open(pair[::-1]) as other:
            assert shown_texts(other, "fork 3") == shown_texts(store, "fork 3")
        assert verify(store).sound


def shown_texts(store: Store, session: str) -> list[str]:
    """Texts of a session's view."""
    return texts(ModelView.of(store.session(session)).messages)


@pytest.mark.promise(9, 10)
def test_erasure_and_scrub_reach_every_cluster(pair: tuple[str, str]) -> None:
    """Vacuum and scrub leave no row of what was erased or redacted in any cluster."""
    with eventlog.open(pair) as store, eventlog.open(pair) as other:
        filled(store)
        names = [f"secret {number}" for number in range(6)]
        for name in names:
            session = store.create_session(id=name)
            session.user(SECRET)
            session.user(SECRET * 3000)
        assert {cluster_of(store, name) for name in names} == {0, 1}
        assert all(rows_with(address, SECRET.encode()) for address in pair)
        before, cursor = other.head(), other.cursor()
        for name in names[:3]:
            store.erase(name)
        assert store.vacuum().erased == 4
        for name in names[3:]:
            for item in list(store.session(name).events()):
                if isinstance(item.event, ev.PartStarted):
                    store.session(name).redact(item.event.part, "asked for")
        assert store.scrub().emptied == 6
        assert [rows_with(address, SECRET.encode()) for address in pair] == [0, 0]
        assert verify(other, against=before).problems == []
        other.session("p").user("goes on")
        other.log.last_positions()
        with pytest.raises(CursorError):
            list(other.subscribe(cursor, timeout=0))
        assert store.log.check() == []


def test_a_vacuum_frees_the_bodies_of_what_has_moved_away() -> None:
    """After a move a body is in both clusters until a vacuum, and then where it is named."""
    pair = running().new_schema(), second().new_schema()
    create_clusters(pair, partitions=2)
    with eventlog.open(pair) as store:
        ids = [name for name in map(str, range(20)) if zlib.crc32(name.encode()) % 2 == 0]
        store.create_session(id=ids[0]).user(LARGE)
        move_partition(0, *pair)
        assert [bodies(address) for address in pair] == [1, 1]
        store.vacuum()
        assert [bodies(address) for address in pair] == [0, 1]
        with eventlog.open(pair) as other:  # which has read nothing yet
            assert shown_texts(other, ids[0]) == [LARGE]
            assert other.log.check() == []
        move_partition(0, *pair[::-1])
        assert [bodies(address) for address in pair] == [1, 1]
        store.vacuum()
        assert [bodies(address) for address in pair] == [1, 0]
    drop(pair)


def bodies(address: str) -> int:
    """Bodies that a cluster stores."""
    with psycopg.connect(address) as connection:
        ((count,),) = connection.execute("SELECT count(*) FROM eventlog_bodies").fetchall()
    return int(count)


def drop(pair: tuple[str, str]) -> None:
    """Remove the schemas of both clusters."""
    for server, address in zip((running(), second()), pair, strict=True):
        server.ask(f"DROP SCHEMA {address.rpartition('%3D')[2]} CASCADE")


@pytest.mark.parametrize("encrypted", [False, True])
def test_a_store_grows_and_is_backed_up(tmp_path: Path, *, encrypted: bool) -> None:
    """A store that grew from one cluster into two shows the same, as does its backup."""
    keys = tmp_path / "keys" if encrypted else None
    pair = running().new_schema(), second().new_schema()
    create_clusters(pair[:1], partitions=4) if keys is None else eventlog.open(pair[0], keys=keys).close()
    with eventlog.open(pair[0] if encrypted else pair[:1], keys=keys) as store:
        filled(store)
        before, cursor = shown(store), store.cursor()
        partitions = store.log.partitions
    join(*pair)
    for partition in range(0, partitions, 2 if partitions == 4 else 37):
        move_partition(partition, *pair)
    with eventlog.open(pair, keys=keys) as store:
        assert shown(store) == before
        assert list(store.subscribe(cursor, timeout=0)) == []  # a cursor goes on after moves
        store.session("p").user("later")
        assert len(list(store.subscribe(cursor, timeout=0))) > 0
        after = shown(store)
        assert store.backup(tmp_path / "copy").sessions == 4
        with eventlog.open(tmp_path / "copy", keys=keys) as copy:
            assert shown(copy) == after
            assert verify(copy).sound
        assert verify(store).sound
    with pytest.raises(CallError, match="other clusters join then"):
        eventlog.restore(pair, tmp_path / "third")  # type: ignore[arg-type]
    onto = running().new_schema()
    eventlog.restore(tmp_path / "copy", onto)
    with eventlog.open(onto, keys=keys) as restored:
        assert shown(restored) == after
    with pytest.raises(CallError, match="one cluster of a log"):
        eventlog.restore(tmp_path / "copy", pair[0])
    drop(pair)


def test_a_rewrite_that_broke_off_between_clusters(pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A vacuum that reached one cluster only is done again; until then the edition is another."""
    with eventlog.open(pair) as store:
        filled(store)
        names = [f"secret {number}" for number in range(6)]
        for name in names:
            store.create_session(id=name).user(SECRET)
        assert {cluster_of(store, name) for name in names} == {0, 1}
        for name in names:
            store.erase(name)
        before, cursor = shown(store), store.cursor()

        def broken(self: ClusterTables, name: str, value: bytes) -> None:
            written(self, name, value)
            process = self._all[0]._connection.info.backend_pid  # the other one is committed first
            running().ask(f"SELECT pg_terminate_backend({process}, 5000)")

        written = ClusterTables.set
        with monkeypatch.context() as patch:
            patch.setattr(ClusterTables, "set", broken)
            with pytest.raises(EventlogError):
                store.vacuum()
        left = [rows_with(address, SECRET.encode()) for address in pair]
        assert left[0] > 0
        assert left[1] == 0
        store.log.last_positions()
        with pytest.raises(CursorError):
            list(store.subscribe(cursor, timeout=0))
        with psycopg.connect(pair[1]) as held:
            held.execute("SELECT value FROM eventlog_settings WHERE name = 'cluster' FOR UPDATE")
            with pytest.raises(BusyError):
                store.vacuum()
        store.vacuum()
        assert [rows_with(address, SECRET.encode()) for address in pair] == [0, 0]
        assert shown(store) == before
        assert list(store.subscribe(store.cursor(), timeout=0)) == []
