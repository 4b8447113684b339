"""The contract on a second version of the server, that of a Debian package."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator

import pytest

import eventlog
from eventlog.log.postgres.engine import PostgresLog
from eventlog.log.postgres.opening import create, open_log
from projections.view.model_view import ModelView
from tests.eventlog.log import test_contract as contract
from tests.support.missing import missing
from tests.support.postgres_server import Server, debian_binaries, give_back

CASES: list[Callable[[PostgresLog], None]] = [
    case
    for name, case in inspect.getmembers(contract, inspect.isfunction)
    if name.startswith("test_") and list(inspect.signature(case).parameters) == ["log"]
]
"""The cases of the contract that take a log and nothing else."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server of Debian's newest version on this machine."""
    found = debian_binaries()
    if not found:
        missing("no server of a Debian package is installed")
    server = Server(found[-1])
    yield server
    server.remove()


@pytest.fixture(scope="module")
def place(server: Server) -> str:
    """A log that each case empties."""
    address = server.new_schema()
    create(address, partitions=4)
    return address


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_the_contract_holds_on_the_other_version(case: Callable[[PostgresLog], None], place: str) -> None:
    """Each case of the contract holds on the other version of the server, too."""
    log = open_log(place)
    try:
        case(log)
    finally:
        log.close()
        give_back(place, -1)


def test_a_conversation_on_the_other_version(server: Server) -> None:
    """A session is written, listed, seen, erased and cleared away."""
    with eventlog.open(server.new_schema()) as store:
        session = store.create_session(title="Tides")
        session.user("Why two a day?")
        assert [info.title for info in store.newest_sessions().sessions] == ["Tides"]
        assert len(ModelView.of(session).messages) == 1
        store.erase(session.id)
        assert store.vacuum().erased == 1
        assert store.log.check() == []
