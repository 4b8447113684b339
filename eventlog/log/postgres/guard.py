"""Reads that are valid only if the cluster still serves what it did when its map was read.

A cluster's map number grows whenever the partitions that it serves change. A guarded read asks for
it behind its own statement, in the same round trip: if it is the expected one, it was so when the
rows were read. So a session that has moved away is never taken for one that does not exist.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from eventlog.errors import BusyError
from eventlog.log.postgres.clock import ServerClock
from eventlog.log.postgres.connections import Connections

if TYPE_CHECKING:
    from eventlog.log.postgres.connections import LogConnection

__all__ = ["ELSEWHERE", "Guarded", "MapChangedError"]

ELSEWHERE = "the log is in several clusters by now: close the store, and open it with the addresses of all"
_MAP = (
    b"SELECT value, (extract(epoch FROM clock_timestamp()) * 1000000)::int8"
    b" FROM eventlog_settings WHERE partition = 0 AND name = 'map'"
)


class MapChangedError(BusyError):
    """The cluster serves other partitions than its map said: the map has to be read again."""

    def __init__(self) -> None:
        super().__init__("partitions of the log were moved meanwhile")


class Guarded(Connections):
    """The connections of a cluster, for reads that rely on its map of a number.

    None: on the log being in this cluster alone. Answers tell a `clock` the time of the server.
    """

    def __init__(self, connections: Connections, number: int | None, clock: ServerClock | None = None) -> None:
        self._timeout = connections.timeout
        self._lent_by = connections
        self._expected = None if number is None else b"%d" % number
        self._clock = clock

    @contextmanager
    def one(self, timeout: float | None = None) -> Generator[LogConnection]:
        """Lend a connection of the cluster; see `Connections.one`."""
        with self._lent_by.one(timeout) as lent:
            yield lent

    def rows(self, statement: Any, parameters: Any = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a statement that reads; `MapChangedError` if they may be wrong."""

        def fetch(connection: LogConnection) -> tuple[list[tuple[Any, ...]], bytes | None]:
            sent = ServerClock.local()
            with connection.pipeline():
                found = connection.execute(statement, parameters, binary=True)
                asked = connection.execute(_MAP, binary=True)
                rows, told = found.fetchall(), asked.fetchone()
            if told is None:
                return rows, None
            if self._clock is not None:
                self._clock.learn(told[1], sent)
            return rows, told[0]

        rows, number = self.run(fetch)
        if number != self._expected:
            raise MapChangedError
        return rows
