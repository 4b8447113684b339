"""The loss of a primary: no acknowledged commit is lost, and unknown ones are settled."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from eventlog.log.postgres.opening import create, open_log
from tests.faults.tally import SLOW, tally
from tests.support.pages import ROOT
from tests.support.pooler import Pooler
from tests.support.postgres_server import Server

PROCESSES = 2
SECONDS = 20.0 if SLOW else 3.0
SYNCHRONOUS = "ANY 1 (one, two)"


@pytest.fixture
def cluster() -> Iterator[list[Server]]:
    """A primary and two synchronous standbys."""
    primary = Server(settings={"synchronous_standby_names": SYNCHRONOUS, "wal_keep_size": "256MB"})
    servers = [primary]
    for name in ("one", "two"):
        settings = {"cluster_name": name, "synchronous_standby_names": SYNCHRONOUS, "wal_keep_size": "256MB"}
        servers.append(Server(settings=settings, copied=primary))
    yield servers
    for server in servers:
        server.remove()


def _follow(server: Server, primary: Server) -> None:
    """Have a standby follow another primary."""
    server.ask(f"ALTER SYSTEM SET primary_conninfo = 'host=127.0.0.1 port={primary.port} user=postgres'")
    server.ask("SELECT pg_reload_conf()")


@pytest.mark.promise(1, 2, 4)
@pytest.mark.parametrize("way", ["all hosts", "a pooler"])
def test_a_primary_that_is_killed_loses_nothing_acknowledged(
    cluster: list[Server], tmp_path: Path, request: pytest.FixtureRequest, way: str
) -> None:
    """Promises 1, 2, 4: after kill -9 the most advanced standby has all that was acknowledged."""
    primary, *standbys = cluster
    create(primary.address(), partitions=4)
    ports = ",".join(str(server.port) for server in cluster)
    hosts = ",".join("127.0.0.1" for _ in cluster)
    address = f"postgresql:///postgres?user=postgres&host={hosts}&port={ports}"
    pooler = Pooler(primary, "postgres") if way == "a pooler" else None
    if pooler is not None:
        request.addfinalizer(pooler.remove)
        address = pooler.address
    said = [tmp_path / f"{number}" for number in range(PROCESSES)]
    writers: list[subprocess.Popen[bytes]] = []
    for number, path in enumerate(said):
        command = [sys.executable, "-m", "tests.support.server_writer", address, f"writer{number}", str(SECONDS)]
        with path.open("wb") as file:
            writers.append(subprocess.Popen(command, stdout=file, stderr=subprocess.DEVNULL, cwd=ROOT))
    deadline = time.monotonic() + 60
    while not all(file.read_bytes() for file in said):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    time.sleep(SECONDS / 2)
    primary.kill()
    best = max(standbys, key=_received)
    other = next(server for server in standbys if server is not best)
    best.ask("SELECT pg_promote()")
    _follow(other, best)
    if pooler is not None:
        pooler.lead_to(best)
    assert [writer.wait(120) for writer in writers] == [0] * PROCESSES
    lines = [line.split() for file in said for line in file.read_text(encoding="ascii").splitlines()]
    acknowledged = [(line[1], int(line[2]), int(line[3])) for line in lines if line[0] == "acknowledged"]
    log = open_log(best.address())
    for head in log.heads():
        commits = list(log.read(head.session))
        assert [commit.first for commit in commits] == list(range(1, len(commits) + 1))
        assert [int(commit.payload) for commit in commits] == list(range(len(commits)))
        versions = {int(commit.payload): commit.first for commit in commits}
        mine = {number: version for session, number, version in acknowledged if session == head.session}
        assert mine == versions
    for partition in range(log.partitions):
        found = log.commits_after(0, 10**6, partition=partition)
        assert all(one.last_position + 1 == other.position for one, other in pairwise(found))
    assert log.check() == []
    log.close()
    tally("acknowledged appends when a primary was killed", len(acknowledged), lost=0)


def _received(server: Server) -> int:
    return int(server.ask("SELECT pg_wal_lsn_diff(pg_last_wal_receive_lsn(), '0/0')")[0][0])
