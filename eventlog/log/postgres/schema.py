"""The tables of a log, and its settings.

The partition comes first in every key, so that an engine that spreads rows over machines keeps a
session's rows together. A row of `eventlog_counters` has the last position of a partition: what
updates it holds it until its commit, so positions are in commit order. Texts are stored as UTF-8
bytes, because a text of the server can hold no NUL, and is sorted by a locale.

A head's `revision` is another random number after each change of its row: it is what an append is
guarded by. So histories that parted, as after a failover that lost commits, never agree. Indexed
columns of heads never change, except `moved`, so that an update stays within its page.

The tables lie in the first schema of the connection's `search_path`: two logs in one database are
two schemas.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, LiteralString

from eventlog.errors import AlreadyExistsError, BusyError, CallError, TooNewError, UnfinishedError

if TYPE_CHECKING:
    from psycopg import Connection

VERSION = 1
"""Version of the tables."""
PARTITIONS = 256
"""Partitions of a log, unless its maker says otherwise."""
MAX_PARTITIONS = 1 << 14
UNFINISHED = "unfinished"
"""The setting of a log that is being filled."""
_SETTINGS = 0
"""The partition of the rows that belong to the log as a whole."""

_TABLES: tuple[LiteralString, ...] = (
    """
    CREATE TABLE eventlog_settings (
        partition int4 NOT NULL, name text NOT NULL, value bytea NOT NULL,
        PRIMARY KEY (partition, name)
    )
    """,
    """
    CREATE TABLE eventlog_counters (
        partition int4 NOT NULL PRIMARY KEY, position int8 NOT NULL
    ) WITH (fillfactor = 10)
    """,
    """
    CREATE TABLE eventlog_heads (
        partition int4 NOT NULL, session bytea NOT NULL, revision int8 NOT NULL, version int8 NOT NULL,
        position int8 NOT NULL, base int8 NOT NULL, created int8 NOT NULL, updated int8 NOT NULL,
        messages int8 NOT NULL, entry bytea NOT NULL, lease_epoch int8 NOT NULL, lease_owner bytea NOT NULL,
        lease_until int8 NOT NULL, appends int8 NOT NULL, peaks bytea NOT NULL, gone bool NOT NULL,
        moved bool NOT NULL,
        PRIMARY KEY (partition, session)
    ) WITH (fillfactor = 60)
    """,
    "CREATE INDEX eventlog_heads_by_id ON eventlog_heads (session)",
    "CREATE INDEX eventlog_heads_moved ON eventlog_heads (partition) WHERE moved",
    """
    CREATE TABLE eventlog_commits (
        partition int4 NOT NULL, last_position int8 NOT NULL, session bytea NOT NULL, last int8 NOT NULL,
        count int8 NOT NULL, epoch int8 NOT NULL, time int8 NOT NULL, request bytea, digest bytea NOT NULL,
        salt bytea NOT NULL, leaf bytea NOT NULL, payload bytea NOT NULL,
        PRIMARY KEY (partition, last_position)
    )
    """,
    "ALTER TABLE eventlog_commits ALTER payload SET STORAGE EXTERNAL",
    "CREATE UNIQUE INDEX eventlog_commits_by_session ON eventlog_commits (partition, session, last)",
    """
    CREATE UNIQUE INDEX eventlog_commits_by_request ON eventlog_commits (partition, session, request)
        WHERE request IS NOT NULL
    """,
    """
    CREATE TABLE eventlog_bodies (
        partition int4 NOT NULL, digest bytea NOT NULL, size int8 NOT NULL, data bytea NOT NULL,
        PRIMARY KEY (partition, digest)
    )
    """,
    "ALTER TABLE eventlog_bodies ALTER data SET STORAGE EXTERNAL",
    """
    CREATE TABLE eventlog_chunks (
        partition int4 NOT NULL, digest bytea NOT NULL, number int4 NOT NULL, data bytea NOT NULL,
        PRIMARY KEY (partition, digest, number)
    )
    """,
    "ALTER TABLE eventlog_chunks ALTER data SET STORAGE EXTERNAL",
    """
    CREATE TABLE eventlog_derived (
        partition int4 NOT NULL, key bytea NOT NULL, value bytea NOT NULL,
        PRIMARY KEY (partition, key)
    )
    """,
    "ALTER TABLE eventlog_derived ALTER value SET STORAGE EXTERNAL",
    """
    CREATE TABLE eventlog_lists (
        partition int4 NOT NULL, session bytea NOT NULL, list bytea NOT NULL, updated int8 NOT NULL,
        position int8 NOT NULL,
        PRIMARY KEY (partition, session, list)
    )
    """,
    "CREATE INDEX eventlog_lists_newest ON eventlog_lists (partition, list, updated, position)",
)


class Settings:
    """Settings that a log was made with, and its identity."""

    def __init__(self, stored: dict[str, bytes]) -> None:
        self.version: int = int(stored["version"])
        self.partitions: int = int(stored["partitions"])
        self.identity: bytes = stored["identity"]
        self.made: bytes = stored["made"]
        """16 bytes that name the log, from its making or restore on; a rewrite leaves them."""
        self.encryption: str = stored["encryption"].decode()
        """The note of an encrypted log, "" of one that is not (`eventlog/open_log.py`)."""


def create(connection: Connection, *, partitions: int = PARTITIONS, encryption: str = "") -> None:
    """Make the tables of a log in an empty schema, with all rows that it always has."""
    if type(partitions) is not int or not 1 <= partitions <= MAX_PARTITIONS:
        raise CallError(f"a log has 1 to {MAX_PARTITIONS} partitions, not {partitions!r}")
    with connection.transaction():
        for statement in _TABLES:
            connection.execute(statement)
        _add_counters(connection, partitions)
        for name, value in (
            ("version", b"%d" % VERSION),
            ("partitions", b"%d" % partitions),
            ("identity", os.urandom(16)),
            ("made", os.urandom(16)),
            ("encryption", encryption.encode()),
        ):
            connection.execute("INSERT INTO eventlog_settings VALUES (%s, %s, %s)", (_SETTINGS, name, value))


def _add_counters(connection: Connection, partitions: int) -> None:
    connection.execute(
        "INSERT INTO eventlog_counters SELECT number, 0 FROM generate_series(0, %s - 1) AS number", (partitions,)
    )


def read_settings(connection: Connection) -> Settings | None:
    """Return the settings of the log in this schema, None if there is no log yet.

    `TooNewError` for tables of a later version.
    """
    found = stored(connection)
    if found is None:
        return None
    version = int(found["version"])
    if version > VERSION:
        raise TooNewError(f"the tables are of version {version}, this program knows {VERSION}")
    if UNFINISHED in found:
        raise UnfinishedError("the schema of this address", "a restore was being written")
    return Settings(found)


def has_commits(connection: Connection) -> bool:
    """Return whether anything was ever written to a log."""
    return bool(connection.execute("SELECT 1 FROM eventlog_heads LIMIT 1").fetchone())


def empty(connection: Connection, encryption: str) -> Settings:
    """Remove everything from a log that is to be filled, and keep it from being opened.

    It is another log from then on. `AlreadyExistsError`, and nothing is changed, if it has commits
    that no unfinished copy has left. The rows of the counters are made anew: an append of a handle
    that is open on the log waits for the old ones, and finds none.
    """
    made = os.urandom(16)
    with connection.transaction():
        connection.execute(  # first: another copy waits here
            "SELECT 1 FROM eventlog_settings WHERE partition = %s AND name = 'made' FOR UPDATE", (_SETTINGS,)
        )
        connection.execute("SELECT 1 FROM eventlog_counters ORDER BY partition FOR UPDATE")
        found = stored(connection) or {}
        if UNFINISHED not in found and has_commits(connection):
            raise AlreadyExistsError("store", "in the schema of this address")
        for table in ("heads", "commits", "bodies", "chunks", "derived", "lists", "counters"):
            connection.execute(f"DELETE FROM eventlog_{table}".encode())
        _add_counters(connection, int(found["partitions"]))
        for name, value in (
            ("made", made),
            ("identity", os.urandom(16)),
            ("encryption", encryption.encode()),
            (UNFINISHED, b"1"),
        ):
            connection.execute(
                "INSERT INTO eventlog_settings VALUES (%s, %s, %s)"
                " ON CONFLICT (partition, name) DO UPDATE SET value = excluded.value",
                (_SETTINGS, name, value),
            )
        return Settings(stored(connection) or {})


def require_filling(connection: Connection, made: bytes) -> None:
    """Raise `BusyError` if another copy has made the log anew since it was made as `made`."""
    mine = connection.execute(
        "SELECT 1 FROM eventlog_settings WHERE partition = %s AND name = 'made' AND value = %s FOR SHARE",
        (_SETTINGS, made),
    )
    if not mine.fetchone():
        raise BusyError("another process restores into the schema of this address")


def finish(connection: Connection, made: bytes) -> None:
    """Let a log that was filled be opened."""
    with connection.transaction():
        require_filling(connection, made)
        connection.execute("DELETE FROM eventlog_settings WHERE partition = %s AND name = %s", (_SETTINGS, UNFINISHED))


def stored(connection: Connection) -> dict[str, bytes] | None:
    """Return the settings of a log by name, None if there is none."""
    found = connection.execute(
        "SELECT to_regclass(quote_ident(current_schema()) || '.eventlog_settings') IS NOT NULL"
    ).fetchone()
    if found is None or not found[0]:
        return None
    rows = connection.execute("SELECT name, value FROM eventlog_settings WHERE partition = %s", (_SETTINGS,))
    return {name: bytes(value) for name, value in rows}
