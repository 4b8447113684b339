"""State of one cluster of a log: the partitions that it serves, gets and gives up.

A log may be spread over several clusters. Each has all the tables, and the rows of its partitions.
**A cluster serves a partition if it has the partition's row in `eventlog_counters`.** Every append
holds that row, so no cluster takes an append to a partition that it does not serve, even from a
sender with an old map; and no other place says where a partition is.

Settings of a cluster, beside those that every log has:

    log             16 random bytes, equal in all clusters of the log
    cluster         its number; 0 is the cluster that the log began with
    clusters        of the first alone: how many numbers were given
    map             a number that grows whenever the partitions that it serves change
    arriving 17     partition 17 is being copied to it: the mark of that copy
    left 17         partition 17 was handed over: mark, last position, number of its new cluster
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from eventlog.errors import BusyError, UnknownOutcomeError
from eventlog.log.postgres import schema

if TYPE_CHECKING:
    from collections.abc import Iterable

    from psycopg import Connection

    from eventlog.log.postgres.connections import LogConnection

__all__ = [
    "MARK_BYTES",
    "Left",
    "State",
    "activate",
    "arriving",
    "confirm",
    "hold",
    "left",
    "put",
    "read_state",
    "remove",
    "require_settled",
    "serve",
    "survive",
    "unsure",
]

MARK_BYTES = 16

_READ = """
SELECT name, value, -1 AS partition FROM eventlog_settings WHERE partition = 0
UNION ALL SELECT '', ''::bytea, partition FROM eventlog_counters
"""
_ARRIVING, _LEFT = "arriving ", "left "


class Left(NamedTuple):
    """A partition that was handed over."""

    mark: bytes
    """16 random bytes of the copy."""
    position: int
    to: int
    """The number of the cluster that it was handed over to."""

    def note(self) -> bytes:
        """Return the value of the setting that notes it."""
        return self.mark + b"%d %d" % (self.position, self.to)


class State(NamedTuple):
    """The settings and partitions of one cluster, as of one moment."""

    settings: schema.Settings
    log: bytes
    """b"" for a log that has always been in one cluster."""
    number: int
    map: int
    serves: frozenset[int]
    arriving: dict[int, bytes]
    left: dict[int, Left]


def arriving(partition: int) -> str:
    """Return the name of the setting that notes a copy to here."""
    return f"{_ARRIVING}{partition}"


def left(partition: int) -> str:
    """Return the name of the setting that notes a handing over from here."""
    return f"{_LEFT}{partition}"


def read_state(connection: Connection) -> State | None:
    """Return the state of the cluster at a connection, None if there is no log.

    `TooNewError`, `TooOldError` and `UnfinishedError` as in `schema.read_settings`.
    """
    if schema.read_settings(connection) is None:
        return None
    rows = connection.execute(_READ.encode()).fetchall()
    stored = {name: bytes(value) for name, value, partition in rows if partition < 0}
    return State(
        schema.Settings(stored),
        stored.get("log", b""),
        int(stored.get("cluster", b"0")),
        int(stored.get("map", b"0")),
        frozenset(partition for _, _, partition in rows if partition >= 0),
        {int(name[len(_ARRIVING) :]): value for name, value in stored.items() if name.startswith(_ARRIVING)},
        {
            int(name[len(_LEFT) :]): Left(value[:MARK_BYTES], *map(int, value[MARK_BYTES:].split()))
            for name, value in stored.items()
            if name.startswith(_LEFT)
        },
    )


def put(connection: Connection, settings: Iterable[tuple[str, bytes]]) -> None:
    """Write some settings of a cluster."""
    for name, value in settings:
        connection.execute(
            "INSERT INTO eventlog_settings VALUES (0, %s, %s)"
            " ON CONFLICT (partition, name) DO UPDATE SET value = excluded.value",
            (name, value),
        )


def remove(connection: Connection, name: str) -> None:
    """Remove a setting of a cluster."""
    connection.execute("DELETE FROM eventlog_settings WHERE partition = 0 AND name = %s", (name,))


def hold(connection: Connection) -> None:
    """Keep other moves, joins and rewrites away from a cluster, until the transaction ends.

    `BusyError`, as an error of the server, if one is at work there.
    """
    connection.execute("SELECT value FROM eventlog_settings WHERE partition = 0 AND name = 'cluster' FOR UPDATE NOWAIT")


def require_settled(states: Iterable[State]) -> None:
    """Raise `BusyError` if a partition is on its way from or to one of some clusters."""
    for state in states:
        for partition in (*state.arriving, *state.left):
            raise BusyError(
                f"partition {partition} is being moved: complete that with `eventlog move`, or end it with --abandon"
            )


def serve(connection: Connection, partition: int, position: int | None) -> None:
    """Have a cluster serve a partition that ends at a position; None: serve it no more."""
    if position is None:
        connection.execute("DELETE FROM eventlog_counters WHERE partition = %s", (partition,))
    else:
        connection.execute("INSERT INTO eventlog_counters VALUES (%s, %s)", (partition, position))
    connection.execute(
        "UPDATE eventlog_settings SET value = convert_to((convert_from(value, 'UTF8')::int8 + 1)::text, 'UTF8')"
        " WHERE partition = 0 AND name = 'map'"
    )


def confirm(connection: LogConnection, partition: int, gone: Left) -> bool:
    """Write once more at the source of a handing over, so that it survives for certain.

    Return whether its note is there still. `UnknownOutcomeError` if the server warns: it may be on
    no standby, and a promoted one would serve the partition again.
    """
    connection.warned = ""
    with connection.transaction():
        survive(connection, local=True)
        found = connection.execute(
            "UPDATE eventlog_settings SET value = value WHERE partition = 0 AND name = %s AND value = %s",
            (left(partition), gone.note()),
        ).rowcount
    if connection.warned:
        raise unsure("handing over", connection)
    return found > 0


def unsure(step: str, connection: LogConnection) -> UnknownOutcomeError:
    """Return the error for a step of a move whose commit came with a warning."""
    return UnknownOutcomeError(
        f"the {step} may not be replicated: {connection.warned}; move the partition again to complete it"
    )


def activate(connection: Connection, partition: int, gone: Left) -> bool:
    """Have a cluster serve a partition that was copied to it, and handed over to it.

    The handing over is confirmed. Any process may do this, several at once; one of them does it.
    """
    with connection.transaction():
        survive(connection, local=True)
        found = connection.execute(
            "SELECT value FROM eventlog_settings WHERE partition = 0 AND name = %s FOR UPDATE", (arriving(partition),)
        ).fetchone()
        if found is None or bytes(found[0]) != gone.mark:
            return False
        remove(connection, arriving(partition))
        connection.execute("SET LOCAL statement_timeout = 0")  # it touches each head
        connection.execute("UPDATE eventlog_heads SET moved = true WHERE partition = %s", (partition,))
        serve(connection, partition, gone.position)
    return True


def survive(connection: Connection, *, local: bool = False) -> None:
    """Have commits of a connection, or one, survive what the server can have them survive."""
    connection.execute(
        "SELECT set_config('synchronous_commit', 'on', %s)"
        " WHERE current_setting('synchronous_commit') IN ('off', 'local', 'remote_write')",
        (local,),
    )
