"""Reads that are valid only if the cluster still serves what it did when its map was read.

A cluster's map number grows whenever the partitions that it serves change. A guarded read asks for
it behind its own statement, in the same round trip: if it is the expected one, it was so when the
rows were read. So a session that has moved away is never taken for one that does not exist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eventlog.errors import BusyError
from eventlog.log.postgres.connections import Connections

if TYPE_CHECKING:
    from eventlog.log.postgres.connections import LogConnection

__all__ = ["Guarded", "MapChangedError"]

_MAP = b"SELECT value FROM eventlog_settings WHERE partition = 0 AND name = 'map'"


class MapChangedError(BusyError):
    """The cluster serves other partitions than its map said: the map has to be read again."""

    def __init__(self) -> None:
        super().__init__("partitions of the log were moved meanwhile")


class Guarded(Connections):
    """The connections of a cluster, for reads that rely on its map of a number.

    None: on the log being in this cluster alone.
    """

    def __init__(self, connections: Connections, number: int | None) -> None:
        self._timeout = connections.timeout
        self._pool = connections.pool
        self._expected = None if number is None else b"%d" % number

    def rows(self, statement: Any, parameters: Any = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a statement that only reads; `MapChangedError` if they may be wrong."""

        def fetch(connection: LogConnection) -> tuple[list[tuple[Any, ...]], bytes | None]:
            with connection.pipeline():
                found = connection.execute(statement, parameters, binary=True)
                told = connection.execute(_MAP, binary=True)
                rows, number = found.fetchall(), told.fetchone()
            return rows, None if number is None else bytes(number[0])

        rows, number = self.run(fetch)
        if number != self._expected:
            raise MapChangedError
        return rows
