"""Lists of sessions, newest activity first: an index that its readers bring up to date.

An append marks its session's head as *moved*, and does no more for the index. A reader takes the
newest rows of the index, without those of moved heads, and all moved heads beside them. Where these
are many, it writes their rows and unmarks them. Of two readers that do so at once each takes the
heads that the other has not; one that gets hold of few reads all moved heads as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, LiteralString

from eventlog.log.contract import partition_of
from eventlog.log.lists import newest_of, require_lists
from eventlog.log.postgres.rows import HEAD, head_from

if TYPE_CHECKING:
    from eventlog.log.commit import Head
    from eventlog.log.contract import Place
    from eventlog.log.lists import ListsOf
    from eventlog.log.postgres.connections import Connections
    from eventlog.log.postgres.rows import Known

MANY = 64
"""Moved heads from which on a reader brings the index up to date."""
_AT_ONCE = 2000
"""Heads whose rows are written in one statement."""
_FIRST: Place = ((1 << 63) - 1, (1 << 63) - 1)
_NEWEST: LiteralString = f"""
(SELECT {HEAD}, false FROM eventlog_counters p
CROSS JOIN unnest(%(lists)s::bytea[]) AS w(list) CROSS JOIN LATERAL (
    SELECT l.partition, l.session FROM eventlog_lists l
    JOIN eventlog_heads h ON h.partition = l.partition AND h.session = l.session AND NOT h.moved
    WHERE l.partition = p.partition AND l.list = w.list
        AND (l.updated, l.position) <= (%(time)s, div(%(number)s::numeric - 1 - p.partition, %(partitions)s)::int8)
    ORDER BY l.updated DESC, l.position DESC LIMIT %(limit)s
) l JOIN eventlog_heads h ON h.partition = l.partition AND h.session = l.session)
UNION ALL
(SELECT {HEAD}, true FROM eventlog_heads h WHERE h.moved LIMIT %(moved)s)
"""
_WRITE: LiteralString = """
WITH lazily AS (SELECT set_config('synchronous_commit', 'off', true) AS done
), held AS MATERIALIZED (
    SELECT h.partition, h.session, h.updated, h.position
    FROM unnest(%(partition)s::int8[], %(session)s::bytea[], %(revision)s::int8[]) AS w(partition, session, revision)
    JOIN eventlog_heads h ON h.partition = w.partition AND h.session = w.session
    WHERE h.revision = w.revision AND h.moved AND (SELECT done FROM lazily) = 'off' FOR UPDATE OF h SKIP LOCKED
), named AS MATERIALIZED (
    SELECT n.partition, n.session, n.list, h.updated, h.position
    FROM unnest(%(n_partition)s::int8[], %(n_session)s::bytea[], %(n_list)s::bytea[]) AS n(partition, session, list)
    JOIN held h ON h.partition = n.partition AND h.session = n.session
), dropped AS (
    DELETE FROM eventlog_lists l USING held h WHERE l.partition = h.partition AND l.session = h.session
        AND NOT EXISTS (SELECT 1 FROM named n WHERE n.partition = l.partition AND n.session = l.session AND n.list = l.list)
), listed AS (
    INSERT INTO eventlog_lists (partition, session, list, updated, position)
    SELECT partition, session, list, updated, position FROM named
    ON CONFLICT (partition, session, list) DO UPDATE SET updated = excluded.updated, position = excluded.position
)
UPDATE eventlog_heads h SET moved = false FROM held WHERE h.partition = held.partition AND h.session = held.session
"""


class SessionLists:
    """The index of lists of one log."""

    def __init__(
        self,
        connections: Connections,
        lists_of: ListsOf | None,
        *,
        partitions: int,
        read_only: bool,
    ) -> None:
        self._connections = connections
        self._lists_of = lists_of
        self._partitions = partitions
        self._read_only = read_only

    def newest(self, lists: Sequence[bytes], before: Place | None, limit: int) -> list[Head]:
        """Return heads of the sessions in any of some lists, newest first; see `contract.Log`."""
        lists_of = require_lists(self._lists_of)
        if limit <= 0:
            return []
        time, number = _FIRST if before is None else before
        every = self._read_only
        while True:
            rows = self._connections.rows(
                _NEWEST,
                {
                    "partitions": self._partitions,
                    "lists": list(dict.fromkeys(lists)),
                    "time": time,
                    "number": number,
                    "limit": min(limit, 1 << 31),
                    "moved": 1 << 40 if every else _AT_ONCE,
                },
            )
            moved = [head_from(row[:-1]) for row in rows if row[-1]]
            written = self._write(moved, lists_of) if len(moved) > MANY and not every else 0
            if every or len(moved) < _AT_ONCE:
                break
            every = written < _AT_ONCE // 2  # another reader writes them, or they change: then all are read as they are
        heads = {head.session: head for *row, _ in rows for head in (head_from(row).head,)}
        return newest_of(heads.values(), lists_of, lists, before, limit, partitions=self._partitions)

    def _write(self, moved: Sequence[Known], lists_of: ListsOf) -> int:
        """Write the rows of some heads, unless they have changed since; return of how many."""
        places = [(partition_of(known.head.session, self._partitions), known.head.session.encode()) for known in moved]
        named = [
            (*place, name) for place, known in zip(places, moved, strict=True) for name in lists_of(known.head.entry)
        ]
        parameters: dict[str, Any] = {
            "partition": [partition for partition, _ in places],
            "session": [session for _, session in places],
            "revision": [known.revision for known in moved],
            "n_partition": [partition for partition, _, _ in named],
            "n_session": [session for _, session, _ in named],
            "n_list": [name for _, _, name in named],
        }
        return self._connections.run(lambda connection: connection.execute(_WRITE, parameters, binary=True).rowcount)
