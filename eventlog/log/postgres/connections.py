"""Connections to the server: a pool that replaces lost ones, and retries of statements.

libpq reads the address, so credentials, TLS and several hosts work as they do everywhere. A
connection that the server has closed while it was idle is found out before it is used, without a
round trip. A connection notes each warning: a commit that comes with one may not be replicated.
"""

from __future__ import annotations

import random
import select
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from threading import Lock, local
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

from psycopg import Connection, Error
from psycopg.errors import Diagnostic
from psycopg.types.array import ListBinaryDumper
from psycopg.types.numeric import Int8BinaryDumper
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from eventlog.errors import BusyError, ClosedError
from eventlog.log.postgres.address import conninfo
from eventlog.log.postgres.faults import is_lost, is_passing, typed

if TYPE_CHECKING:
    from eventlog.log.postgres.options import Options

R = TypeVar("R")
_SETTINGS = {
    "idle_in_transaction_session_timeout": "60000",
    "default_transaction_isolation": "read committed",
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_seqscan": "off",
}
"""Settings that the statements of this package are planned with."""
_UNHURRIED = {
    "statement_timeout": 0,
    "idle_in_transaction_session_timeout": 0,
    "tcp_keepalives_idle": 10,
    "tcp_keepalives_interval": 5,
    "tcp_keepalives_count": 3,
    "tcp_user_timeout": 20000,
}
"""The server waits for its client, and notices in seconds that the host of it is gone."""
_IDLE = 60.0
"""Seconds after which a connection that is not needed is closed."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5


class LogConnection(Connection[tuple[Any, ...]]):
    """A connection that notes whether the server warned of something."""

    warned: str = ""
    """The newest warning; its user empties it before a statement."""

    def note(self, diagnostic: Diagnostic) -> None:
        """Note a message of the server if it is a warning."""
        if diagnostic.severity_nonlocalized == "WARNING":
            self.warned = diagnostic.message_primary or "a warning"


def connect(address: str, *, busy_timeout: float, read_only: bool) -> LogConnection:
    """Open one connection as the pool's are; raise the error of this package."""
    try:
        made = LogConnection.connect(conninfo(address, read_only=read_only), autocommit=True)
        _configure(made, busy_timeout, read_only=read_only)
    except Error as error:
        raise typed(error) from error
    return made


def unhurried(connection: LogConnection) -> None:
    """Have a transaction last as long as its client needs.

    Where the host of the client is gone, the server ends it and what it holds.
    """
    statement = "; ".join(f"SET LOCAL {name} = {value}" for name, value in _UNHURRIED.items())
    connection.execute(statement.encode())


class Connections:
    """The connections of one log, made as they are needed."""

    def __init__(self, address: str, options: Options) -> None:
        self._timeout = options.busy_timeout
        self._address = conninfo(address, read_only=options.read_only)
        self._options = options
        self._renewing = Lock()
        self._lent: WeakSet[LogConnection] = WeakSet()
        """Connections in use; one that an interrupt lost is collected, and is in it no more."""
        self._pool = self._new_pool()
        self._of_thread = local()

    def _new_pool(self) -> ConnectionPool[LogConnection]:
        options = self._options
        return ConnectionPool(
            self._address,
            connection_class=LogConnection,
            kwargs={"autocommit": True},
            min_size=0,
            max_size=options.connections,
            max_idle=_IDLE,
            reconnect_timeout=2.0,  # then it begins anew, with the shortest pause
            reconnect_failed=_go_on,
            configure=lambda made: _configure(made, options.busy_timeout, read_only=options.read_only),
            num_workers=1,
            open=True,
        )

    @contextmanager
    def pinned(self) -> Generator[LogConnection]:
        """Lend a connection, and have this thread use no other one inside the block."""
        with self.one() as lent:
            self._of_thread.pinned = lent
            try:
                yield lent
            finally:
                self._of_thread.pinned = None

    @contextmanager
    def one(self, timeout: float | None = None) -> Generator[LogConnection]:
        """Lend a connection; `BusyError` if none is free in time."""
        pinned: LogConnection | None = getattr(self._of_thread, "pinned", None)
        if pinned is not None:
            yield pinned
            return
        pool, lent = self._take(time.monotonic() + (self._timeout if timeout is None else timeout))
        self._lent.add(lent)
        try:
            yield lent
        finally:
            self._lent.discard(lent)
            pool.putconn(lent)

    def _take(self, deadline: float) -> tuple[ConnectionPool[LogConnection], LogConnection]:
        """Take a connection that the server has not closed, with the pool that it goes back to."""
        while True:
            pool = self._pool
            try:
                lent = pool.getconn(max(deadline - time.monotonic(), 0.001))
            except PoolTimeout:
                self._renew(pool)
                raise BusyError(
                    f"no connection was to be had in time: all {pool.max_size} are in use, or the server is away"
                ) from None
            except PoolClosed:
                if pool is self._pool:
                    raise ClosedError("the store is closed") from None
                continue  # another caller has renewed it
            if _is_open(lent):  # where the pool asks, it waits after each that is not, ever longer
                return pool, lent
            lent.close()
            pool.putconn(lent)

    def _renew(self, pool: ConnectionPool[LogConnection]) -> None:
        """Take a new pool in the place of one that has lost connections to interrupts."""
        with self._renewing:
            has_lost = len(self._lent) < pool.max_size <= pool.get_stats()["pool_size"]
            if has_lost and self._pool is pool and not pool.closed:
                self._pool = self._new_pool()
                pool.close(timeout=1)

    def run(self, work: Callable[[LogConnection], R]) -> R:
        """Return the result of a work that changes nothing, or may be done twice.

        Where the connection is lost, or the server says so, it is tried again until the timeout.
        """
        deadline = time.monotonic() + self._timeout
        pause = _FIRST_PAUSE
        while True:
            try:
                with self.one(max(deadline - time.monotonic(), 0.001)) as connection:
                    return work(connection)
            except Error as error:
                if not (is_lost(error) or is_passing(error)) or time.monotonic() + pause > deadline:
                    raise typed(error) from error
            time.sleep(random.uniform(pause / 2, pause))
            pause = min(pause * 2, _LONGEST_PAUSE)

    def rows(self, statement: Any, parameters: Any = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a statement that only reads."""

        def fetch(connection: LogConnection) -> list[tuple[Any, ...]]:
            return connection.execute(statement, parameters, binary=True).fetchall()

        return self.run(fetch)

    def close(self) -> None:
        """Close the connections that are not lent; the others once they come back."""
        with self._renewing:
            self._pool.close()


def _configure(made: LogConnection, busy_timeout: float, *, read_only: bool) -> None:
    """Make a connection ready in one round trip; close it if that fails.

    Behind a pooler, which the server's process number tells, the connection of the next statement
    may be another one: nothing is set or prepared there, and the role has the settings.
    """
    made.add_notice_handler(made.note)
    made.adapters.register_dumper(int, Int8BinaryDumper)  # one type for numbers of all sizes: one plan
    made.adapters.register_dumper(list, ListBinaryDumper)  # as bytes, which need no escapes
    milliseconds = f"{max(int(busy_timeout * 1000), 1)}"
    timeouts = {"statement_timeout": milliseconds, "lock_timeout": milliseconds}
    settings = {**_SETTINGS, **timeouts, "default_transaction_read_only": "on" if read_only else "off"}
    rows = ", ".join(f"('{name}', '{value}')" for name, value in settings.items())
    statement = (
        f"SELECT set_config(name, value, false) FROM (VALUES {rows}) AS settings(name, value)"
        f" WHERE pg_backend_pid() = {made.info.backend_pid}"
    )
    try:
        if not made.execute(statement.encode()).fetchall():
            made.prepare_threshold = None
    except BaseException:
        made.close()
        raise


def _go_on(pool: ConnectionPool[Any]) -> None:
    """Try to connect again, where callers wait for a connection."""
    if pool.get_stats()["requests_waiting"]:
        pool.check()


def _is_open(lent: LogConnection) -> bool:
    """Return whether the server has left an idle connection open; costs a system call."""
    watch = select.poll()
    with suppress(Error):
        watch.register(lent.fileno(), select.POLLIN)
        while lent.pgconn.status == 0:
            if not watch.poll(0):
                return True
            lent.pgconn.consume_input()
    return False
