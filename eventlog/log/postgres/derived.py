"""Derived values: checkpoints, indexes, token counts.

They are disposable, so no caller waits for the disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

from eventlog.log.contract import GROWING, STAMP_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eventlog.log.postgres.connections import Connections, LogConnection

SPREAD = 16
"""Partitions that derived values are spread over, at most: all are asked for a prefix."""
_PUT = f"""
WITH lazily AS (SELECT set_config('synchronous_commit', 'off', true) AS done)
INSERT INTO eventlog_derived AS d (partition, key, value)
SELECT w.partition, w.key, w.value FROM lazily, unnest(%s::int8[], %s::bytea[], %s::bytea[]) AS w(partition, key, value)
WHERE lazily.done = 'off' ORDER BY w.partition, w.key
ON CONFLICT (partition, key) DO UPDATE SET value = excluded.value
WHERE substr(d.key, 1, {len(GROWING)}) <> %s
    OR substr(excluded.value, 1, {STAMP_BYTES}) >= substr(d.value, 1, {STAMP_BYTES})
"""
_DELETE = """
DELETE FROM eventlog_derived d USING unnest(%s::int8[], %s::bytea[]) AS w(partition, key)
WHERE d.partition = w.partition AND d.key = w.key
"""
_SCAN = """
SELECT d.key, {value} FROM generate_series(0, %(last)s) AS p(partition) CROSS JOIN LATERAL (
    SELECT * FROM eventlog_derived d WHERE d.partition = p.partition AND d.key >= %(from)s AND d.key < %(to)s
) d ORDER BY d.key
"""
_OF_LAST = "CASE WHEN row_number() OVER (ORDER BY d.key DESC) = 1 THEN d.value END"
_END = b"\xff" * 201
"""Greater than every key."""


class Derived:
    """The derived values of one log."""

    def __init__(self, connections: Connections, partitions: int) -> None:
        self._connections = connections
        self._spread = min(partitions, SPREAD)

    def get(self, key: bytes) -> bytes | None:
        """Return a value, or None."""
        rows = self._connections.rows(
            "SELECT value FROM eventlog_derived WHERE partition = %s AND key = %s", (self._partition_of(key), key)
        )
        return rows[0][0] if rows else None

    def put(self, items: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Write values, None deletes; one that grows never replaces one of a greater stamp.

        Together, and not waited for: after a crash of the server the newest may be missing.
        """
        chosen = dict(items)
        gone = sorted((self._partition_of(key), key) for key, value in chosen.items() if value is None)
        kept = [(self._partition_of(key), key, value) for key, value in chosen.items() if value is not None]

        def write(connection: LogConnection) -> None:
            with connection.transaction():
                if gone:
                    connection.execute(
                        _DELETE.encode(), ([one for one, _ in gone], [key for _, key in gone]), binary=True
                    )
                if kept:
                    connection.execute(
                        _PUT.encode(),
                        (
                            [one for one, _, _ in kept],
                            [key for _, key, _ in kept],
                            [one for _, _, one in kept],
                            GROWING,
                        ),
                        binary=True,
                    )

        if chosen:
            self._connections.run(write)

    def keys(self, prefix: bytes) -> list[bytes]:
        """Return the keys that begin with a prefix, in order."""
        rows = self._connections.rows(_SCAN.format(value="NULL"), self._range(prefix))
        return [key for key, _ in rows]

    def keys_and_last(self, prefix: bytes) -> tuple[list[bytes], bytes | None]:
        """Return the keys that begin with a prefix, in order, and the value of the last one."""
        rows = self._connections.rows(_SCAN.format(value=_OF_LAST), self._range(prefix))
        return [key for key, _ in rows], rows[-1][1] if rows else None

    def scan(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        """Return the values whose key begins with a prefix, in key order."""
        return [
            (key, value) for key, value in self._connections.rows(_SCAN.format(value="d.value"), self._range(prefix))
        ]

    def _range(self, prefix: bytes) -> dict[str, object]:
        return {"last": self._spread - 1, "from": prefix, "to": _behind(prefix)}

    def _partition_of(self, key: bytes) -> int:
        return crc32(key) % self._spread


def _behind(prefix: bytes) -> bytes:
    """Return the least key that is greater than every key with this prefix."""
    cut = prefix.rstrip(b"\xff")
    return cut[:-1] + bytes((cut[-1] + 1,)) if cut else _END
