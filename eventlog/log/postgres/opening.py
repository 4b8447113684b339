"""Opening the log at the address of a server: found, made, or filled by a copy."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from msgspec import structs
from psycopg import Error
from psycopg.errors import DuplicateTable, UniqueViolation

from eventlog.errors import (
    CallError,
    NotFoundError,
)
from eventlog.log.contract import partition_of
from eventlog.log.postgres import schema
from eventlog.log.postgres.acknowledged import Acknowledged, acknowledged
from eventlog.log.postgres.address import shown
from eventlog.log.postgres.clock import ServerClock
from eventlog.log.postgres.connections import connect
from eventlog.log.postgres.engine import PostgresLog
from eventlog.log.postgres.faults import typed
from eventlog.log.postgres.options import Options
from eventlog.log.postgres.tables import Tables
from eventlog.logger import logger

if TYPE_CHECKING:
    from collections.abc import Generator

    from eventlog.log.postgres.connections import LogConnection


def open_log(address: str, *, partitions: int = schema.PARTITIONS, encryption: str = "", **options: Any) -> PostgresLog:
    """Open the log at an address, made if it is not there; options as in `Options`.

    A log that is made has this number of partitions and this note of its encryption.
    `NotFoundError` if there is none, and it is opened for reading only.
    """
    try:
        chosen = structs.replace(_DEFAULTS, **options)
    except TypeError as error:
        raise CallError(str(error)) from None
    clock = ServerClock()
    with _connected(address, chosen) as connection:
        settings = schema.read_settings(connection)
        if settings is None and chosen.read_only:
            raise NotFoundError("store", shown(address))
        if settings is None:
            settings = _made(connection, partitions, encryption)
        survives = _asked(connection, clock)
    return PostgresLog(address, settings, survives, clock, chosen)


def _asked(connection: LogConnection, clock: ServerClock) -> Acknowledged:
    """Return what a commit on a server survives, which goes to the log as well.

    The clock learns the time of the server.
    """
    survives = acknowledged(connection)
    if connection.prepare_threshold is None and connection.execute("SHOW lock_timeout").fetchone() == ("0",):
        logger().warning(
            "postgresql: a pooler stands before the server, and the role has no lock_timeout: a wait for a lock has no end"
        )
    sent = clock.local()
    for (now,) in connection.execute("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8"):
        clock.learn(now, sent)
    (logger().info if survives.survives_crash else logger().warning)("postgresql: %s", survives.sentence())
    return survives


def create(address: str, *, partitions: int = schema.PARTITIONS, encryption: str = "") -> None:
    """Make the tables of a log with a number of partitions, unless they are there.

    The role that calls this owns them. `CallError` if there is a log with another number.
    """
    with _connected(address, _DEFAULTS) as connection:
        settings = schema.read_settings(connection) or _made(connection, partitions, encryption)
    if settings.partitions != partitions:
        raise CallError(f"there is a log of {settings.partitions} partitions, not {partitions}: that never changes")


@contextmanager
def filling(address: str, encryption: str) -> Generator[Tables]:
    """Make a log at an address, and write to its tables; it does not open before that is done.

    `AlreadyExistsError` if there is a log with something in it. What a copy that broke off has
    left is removed. Handles that others have open on the empty log are refused from now on, and a
    copy that another process has begun ends with `BusyError`.
    """
    with _connected(address, _DEFAULTS) as connection:
        stored = schema.stored(connection)
        if stored is None:
            schema.create(connection, encryption=encryption)
        settings = schema.empty(connection, encryption)
        count = settings.partitions
        yield Tables(connection, count, lambda session: partition_of(session, count), filling=settings.made)
        schema.finish(connection, settings.made)


def settings_of(address: str) -> schema.Settings | None:
    """Return the settings of the log at an address, None if there is none."""
    with _connected(address, structs.replace(_DEFAULTS, read_only=True)) as connection:
        return schema.read_settings(connection)


@contextmanager
def _connected(address: str, options: Options) -> Generator[LogConnection]:
    """Connect to a server; its errors in the block become those of this package."""
    with connect(address, busy_timeout=options.busy_timeout, read_only=options.read_only) as connection:
        try:
            yield connection
        except Error as error:
            raise typed(error) from error


def _made(connection: Any, partitions: int, encryption: str) -> schema.Settings:
    try:
        schema.create(connection, partitions=partitions, encryption=encryption)
    except (DuplicateTable, UniqueViolation):  # another process makes it, or has made it
        time.sleep(0)
    settings = schema.read_settings(connection)
    assert settings is not None
    return settings


_DEFAULTS = Options()
