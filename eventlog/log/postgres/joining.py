"""Clusters of a log: an empty one joins, and takes partitions when these are moved to it."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from os import urandom
from typing import TYPE_CHECKING

from psycopg import Error
from psycopg.errors import DuplicateTable, UniqueViolation

from eventlog.errors import AlreadyExistsError, CallError, NotFoundError
from eventlog.log.postgres import schema
from eventlog.log.postgres.cluster_state import MARK_BYTES, State, hold, put, read_state
from eventlog.log.postgres.connections import connect
from eventlog.log.postgres.engine import create
from eventlog.log.postgres.faults import typed
from eventlog.log.postgres.move import move_partition

if TYPE_CHECKING:
    from eventlog.log.postgres.connections import LogConnection

__all__ = ["create_clusters", "join"]

_TIMEOUT = 30.0


def create_clusters(addresses: Sequence[str], *, partitions: int = schema.PARTITIONS) -> None:
    """Make a log in several empty clusters, with an equal share of the partitions in each.

    An empty log at the first address is the one that the others join; so an encrypted one can be
    made there before. What broke off is continued. `AlreadyExistsError` if the log has sessions.
    """
    if not addresses:
        raise CallError("a log has one cluster or more: give their addresses")
    create(addresses[0], partitions=partitions)
    with _connected(addresses[0]) as first:
        if schema.has_commits(first):
            raise AlreadyExistsError("store", "in the schema of the first address: have others join it")
    for address in addresses[1:]:
        join(addresses[0], address)
    for partition in range(partitions):
        home = addresses[partition * len(addresses) // partitions]
        if home != addresses[0]:
            move_partition(partition, addresses[0], home)


def join(address: str, new: str) -> None:
    """Have the empty schema at the address `new` become a cluster of the log at `address`.

    That is the log's only cluster, or its first one. The new one has no partition yet. Call this
    while no program is at work that opened the log with the one address: the first cluster refuses
    it from then on. `AlreadyExistsError` if there is another log with sessions at `new`.
    """
    with _connected(address) as first, _connected(new) as second:
        with first.transaction():
            state = _joinable(first)
            number = _numbered(first, second, state)
        if number is not None:
            now = read_state(first)
            assert now is not None
            _make(second, now, number)


def _joinable(first: LogConnection) -> State:
    """Return the state of the first cluster, made one if the log was in one schema alone."""
    state = read_state(first)
    if state is None:
        raise NotFoundError("store", "in the schema of the first address")
    if not state.log:
        first.execute("SELECT position FROM eventlog_counters ORDER BY partition FOR UPDATE")
        put(first, [("log", urandom(MARK_BYTES)), ("cluster", b"0"), ("clusters", b"1"), ("map", b"1")])
        state = read_state(first)
        assert state is not None
    elif state.number:
        raise CallError("the first address is that of another cluster: give that of the one the log began with")
    hold(first)
    return state


def _numbered(first: LogConnection, second: LogConnection, state: State) -> int | None:
    """Return a number for the new cluster; None if it has joined before."""
    there = read_state(second)
    if _has_joined(second, there, state):
        return None
    if there is not None and there.settings.partitions != state.settings.partitions:
        raise CallError(f"the log has {state.settings.partitions} partitions, not {there.settings.partitions}")
    found = first.execute("SELECT value FROM eventlog_settings WHERE partition = 0 AND name = 'clusters'").fetchone()
    assert found is not None
    number = int(bytes(found[0]))
    put(first, [("clusters", b"%d" % (number + 1))])
    return number


def _has_joined(second: LogConnection, there: State | None, first: State) -> bool:
    """Return whether a cluster is one of the log already; False if it is empty.

    `AlreadyExistsError` if another log is there, `CallError` if it is the log's first cluster.
    """
    if there is None:
        return False
    if there.log == first.log:
        if not there.number:
            raise CallError("both addresses are of the log's first cluster")
        return True
    if there.log or schema.has_commits(second):
        raise AlreadyExistsError("store", "in the schema of the address that is to join")
    return False


def _make(second: LogConnection, first: State, number: int) -> None:
    """Make the tables of a cluster that serves no partition yet.

    Of several that do so at once one does it; the others find it joined.
    """
    settings = first.settings
    if schema.stored(second) is None:
        with suppress(DuplicateTable, UniqueViolation):
            schema.create(second, partitions=settings.partitions, encryption=settings.encryption)
    with second.transaction():
        second.execute("SELECT value FROM eventlog_settings WHERE partition = 0 AND name = 'made' FOR UPDATE")
        second.execute("SELECT position FROM eventlog_counters ORDER BY partition FOR UPDATE")
        if _has_joined(second, read_state(second), first):
            return
        second.execute("DELETE FROM eventlog_counters")
        put(
            second,
            [
                ("log", first.log),
                ("cluster", b"%d" % number),
                ("map", b"1"),
                ("identity", settings.identity),
                ("encryption", settings.encryption.encode()),
            ],
        )


@contextmanager
def _connected(address: str) -> Generator[LogConnection]:
    """Connect to a cluster, and turn errors of its server into those of this package."""
    with ExitStack() as stack:
        connection = stack.enter_context(connect(address, busy_timeout=_TIMEOUT, read_only=False))
        try:
            yield connection
        except Error as error:
            raise typed(error) from error
