"""Writing to the tables past the queue: a copy from another store, or a rewrite in place.

The caller has the log for itself: it is empty and unfinished, or all its counters are held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from eventlog.compression import compressed_body
from eventlog.log.append_checks import RequestResult
from eventlog.log.commit import Commit, Head
from eventlog.log.postgres.batch import CHUNK, body_partition
from eventlog.log.postgres.rows import new_revision, packed
from eventlog.log.postgres.schema import require_filling

if TYPE_CHECKING:
    from eventlog.log.postgres.connections import LogConnection

_HEADS = """
INSERT INTO eventlog_heads (partition, session, revision, version, position, base, created, updated, messages, entry,
    lease_epoch, lease_owner, lease_until, appends, peaks, gone, moved)
SELECT w.*, true FROM unnest(%s::int8[], %s::bytea[], %s::int8[], %s::int8[], %s::int8[], %s::int8[], %s::int8[],
    %s::int8[], %s::int8[], %s::bytea[], %s::int8[], %s::bytea[], %s::int8[], %s::int8[], %s::bytea[], %s::bool[]) AS w
ON CONFLICT (partition, session) DO UPDATE SET
    revision = excluded.revision, version = excluded.version, position = excluded.position,
    updated = excluded.updated, messages = excluded.messages, entry = excluded.entry,
    lease_epoch = excluded.lease_epoch, appends = excluded.appends, peaks = excluded.peaks, gone = excluded.gone,
    moved = true
"""
_COMMITS = """
INSERT INTO eventlog_commits (partition, last_position, session, last, count, epoch, time, request, digest, salt, leaf,
    payload)
SELECT * FROM unnest(%s::int8[], %s::int8[], %s::bytea[], %s::int8[], %s::int8[], %s::int8[], %s::int8[], %s::bytea[],
    %s::bytea[], %s::bytea[], %s::bytea[], %s::bytea[])
"""
_COUNTERS = """
UPDATE eventlog_counters p SET position = w.position FROM unnest(%s::int8[], %s::int8[]) AS w(partition, position)
WHERE p.partition = w.partition
"""
_STORED = b"""
SELECT partition, digest FROM eventlog_bodies WHERE (partition, digest) > (%s, %s) ORDER BY partition, digest LIMIT 10000
"""
SIZE = """
SELECT sum(pg_total_relation_size(quote_ident(current_schema()) || '.eventlog_' || name))::int8
FROM unnest(ARRAY['heads', 'commits', 'bodies', 'chunks', 'derived', 'lists', 'counters', 'settings']) AS name
"""
"""Bytes of all tables and their indexes."""


class Tables:
    """The tables of a log, written by one connection."""

    def __init__(
        self,
        connection: LogConnection,
        partitions: int,
        partition_of: Callable[[str], int],
        *,
        filling: bytes | None = None,
    ) -> None:
        """`filling` names a log that is being filled: `BusyError` once another process fills it."""
        self._filling = filling
        self._connection = connection
        self._partitions = partitions
        self._partition_of = partition_of
        rows = connection.execute("SELECT partition, position FROM eventlog_counters ORDER BY partition FOR UPDATE")
        self._ends: dict[int, int] = dict(rows.fetchall())
        self._heads: dict[str, Head] = {}
        self._bodies: set[bytes] = set()
        self._named: set[bytes] = set()
        """Bodies that commits name, as far as that was noted."""
        self.position: int = 0
        """Position in the source up to which it was copied."""

    def head(self, session: str) -> Head | None:
        """Return the head of a session that was added here."""
        return self._heads.get(session)

    def has_body(self, digest: bytes) -> bool:
        """Return whether a body was added here."""
        return digest in self._bodies

    def add(
        self,
        commits: Sequence[Commit],
        heads: Mapping[str, Head],
        requests: Mapping[tuple[str, str], RequestResult],
        bodies: Mapping[bytes, bytes],
        *,
        position: int,
        gone: Sequence[Head] = (),
    ) -> None:
        """Add commits in their order; see `BulkWriter.add`.  They get positions of this log."""
        with self._connection.transaction():
            if self._filling is not None:
                require_filling(self._connection, self._filling)
            self._add(commits, heads, requests, [*gone])
            self._add_bodies(bodies)
        self.position = position

    def _add(
        self,
        commits: Sequence[Commit],
        heads: Mapping[str, Head],
        requests: Mapping[tuple[str, str], RequestResult],
        gone: Sequence[Head],
    ) -> None:
        rows: list[tuple[Any, ...]] = []
        tops: dict[str, int] = {}
        for commit in commits:
            partition = self._partition_of(commit.session)
            end = self._ends[partition] = self._ends[partition] + commit.count
            tops[commit.session] = end
            request = commit.request
            seen = None if request is None else requests.get((commit.session, request))
            rows.append(
                (
                    partition, end, commit.session.encode(), commit.last, commit.count, commit.epoch, commit.time,
                    None if request is None else request.encode(), b"" if seen is None else seen.digest, commit.salt,
                    commit.leaf, packed(commit.payload),
                )
            )  # fmt: skip
        self._many(_COMMITS, rows, 12)
        written = [
            head if head.session not in tops else replace(head, position=tops[head.session]) for head in heads.values()
        ]
        self._heads.update((head.session, head) for head in written)
        self._many(_HEADS, [self._row(head) for head in (*written, *gone)], 16)
        self._many(_COUNTERS, list(self._ends.items()), 2)

    def _row(self, head: Head) -> tuple[Any, ...]:
        lease = head.lease
        return (
            self._partition_of(head.session), head.session.encode(), new_revision(), head.version, head.position, head.base,
            head.created, head.updated, head.messages, head.entry, lease.epoch, lease.owner, lease.until, head.appends,
            head.peaks, head.gone,
        )  # fmt: skip

    def _add_bodies(self, bodies: Mapping[bytes, bytes]) -> None:
        whole: list[tuple[Any, ...]] = []
        rest: list[tuple[Any, ...]] = []
        for digest, body in bodies.items():
            data, partition = compressed_body(body), body_partition(digest, self._partitions)
            whole.append((partition, digest, len(data), data[:CHUNK]))
            rest += [(partition, digest, at // CHUNK, data[at : at + CHUNK]) for at in range(CHUNK, len(data), CHUNK)]
        self._many(
            "INSERT INTO eventlog_bodies SELECT * FROM unnest(%s::int8[], %s::bytea[], %s::int8[], %s::bytea[])",
            whole,
            4,
        )
        self._many(
            "INSERT INTO eventlog_chunks SELECT * FROM unnest(%s::int8[], %s::bytea[], %s::int8[], %s::bytea[])",
            rest,
            4,
        )
        self._bodies.update(bodies)

    def replace(self, commit: Commit) -> None:
        """Put another payload, salt and leaf in the place of a commit.

        Its request loses its digest.
        """
        self._connection.execute(
            "UPDATE eventlog_commits SET payload = %b, salt = %b, leaf = %b, digest = ''"
            " WHERE partition = %s AND last_position = %s",
            (
                packed(commit.payload),
                commit.salt,
                commit.leaf,
                self._partition_of(commit.session),
                commit.last_position,
            ),
        )

    def remove(self, commits: Iterable[Commit]) -> None:
        """Delete commits."""
        rows = [(self._partition_of(commit.session), commit.last_position) for commit in commits]
        self._many(
            "DELETE FROM eventlog_commits c USING unnest(%s::int8[], %s::int8[]) AS w(partition, position)"
            " WHERE c.partition = w.partition AND c.last_position = w.position",
            rows,
            2,
        )

    def tombstone(self, session: str) -> None:
        """Note that of a session only its head is left."""
        self._connection.execute(
            "UPDATE eventlog_heads SET gone = true, revision = %s, moved = true WHERE partition = %s AND session = %s",
            (new_revision(), self._partition_of(session), session.encode()),
        )

    def name_bodies(self, digests: Iterable[bytes]) -> None:
        """Note bodies that a commit names."""
        self._named.update(digests)

    def remove_unnamed(self) -> None:
        """Delete the bodies that no commit names, and their chunks."""
        rows = [
            (body_partition(digest, self._partitions), digest)
            for digest in self._stored_bodies()
            if digest not in self._named
        ]
        for table in ("bodies", "chunks"):
            self._many(
                f"DELETE FROM eventlog_{table} b USING unnest(%s::int8[], %s::bytea[]) AS w(partition, digest)"
                " WHERE b.partition = w.partition AND b.digest = w.digest",
                rows,
                2,
            )

    def _stored_bodies(self) -> Iterator[bytes]:
        below: tuple[int, bytes] = -1, b""
        while rows := self._connection.execute(_STORED, below, binary=True).fetchall():
            yield from (digest for _, digest in rows)
            below = rows[-1]

    def set(self, name: str, value: bytes) -> None:
        """Write a setting of the log."""
        self._connection.execute(
            "INSERT INTO eventlog_settings VALUES (0, %s, %b)"
            " ON CONFLICT (partition, name) DO UPDATE SET value = excluded.value",
            (name, value),
        )

    def _many(self, statement: str, rows: Sequence[tuple[Any, ...]], columns: int) -> None:
        if rows:
            arrays = [[row[column] for row in rows] for column in range(columns)]
            self._connection.execute(statement.replace("%s", "%b").encode(), arrays)
