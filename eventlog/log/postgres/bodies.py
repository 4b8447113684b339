"""Bodies by their hash, in chunks of at most one megabyte."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from eventlog.errors import DamagedError
from eventlog.log.postgres.batch import CHUNK, body_partition

if TYPE_CHECKING:
    from eventlog.log.postgres.connections import Connections

_PAGE = 10_000


class Bodies:
    """The bodies of one log.  They are written with the append that names them."""

    def __init__(self, connections: Connections, partitions: int) -> None:
        self._connections = connections
        self._partitions = partitions

    def get(self, digests: Sequence[bytes]) -> list[bytes | None]:
        """Return the packed bytes of some bodies in their order.

        `DamagedError` if a chunk is missing.
        """
        wanted = list(dict.fromkeys(digests))
        if not wanted:
            return []
        partitions = [body_partition(digest, self._partitions) for digest in wanted]
        rows = self._connections.rows(
            "SELECT b.digest, b.size, b.data FROM unnest(%s::int8[], %s::bytea[]) AS w(partition, digest)"
            " JOIN eventlog_bodies b ON b.partition = w.partition AND b.digest = w.digest",
            (partitions, wanted),
        )
        found: dict[bytes, bytes] = {}
        for digest, size, data in rows:
            found[digest] = data if size <= CHUNK else self._whole(digest, size, data)
            if len(found[digest]) != size:
                raise DamagedError(f"body {digest.hex()} has {len(found[digest])} bytes of {size}")
        return [found.get(digest) for digest in digests]

    def _whole(self, digest: bytes, size: int, first: bytes) -> bytes:
        rows = self._connections.rows(
            "SELECT data FROM eventlog_chunks WHERE partition = %s AND digest = %s ORDER BY number",
            (body_partition(digest, self._partitions), digest),
        )
        if len(rows) != -(-size // CHUNK) - 1:
            raise DamagedError(f"body {digest.hex()} has {len(rows) + 1} chunks, which are not all")
        return b"".join([first, *(data for (data,) in rows)])

    def hashes(self) -> Iterator[bytes]:
        """Yield the hashes of all bodies."""
        for partition in range(self._partitions):
            below = b""
            while True:
                rows = self._connections.rows(
                    "SELECT digest FROM eventlog_bodies WHERE partition = %s AND digest > %s ORDER BY digest LIMIT %s",
                    (partition, below, _PAGE),
                )
                yield from (digest for (digest,) in rows)
                if len(rows) < _PAGE:
                    break
                below = rows[-1][0]
