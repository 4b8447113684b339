"""The statement that commits appends of many sessions, with a verdict for each.

`wanted` has a row for each session: what its head is to become, and the revision that this was
decided on, 0 for a session that begins. The counters of the partitions are held first, in their
order, so that two statements never wait for each other; then the heads whose revision is still the
one. `agreed` are the sessions whose guard holds and whose request ids are new: what belongs to them
is written, and nothing of the others. The caller reads those again and decides anew.

The look for used request ids sees only what was committed before the statement began. That is
enough: a commit in between has changed the revision, and the guard is compared with the newest row.
Two that begin one session at once meet at the key, and the second statement fails as a whole.

A restore makes the counters' rows anew, so what waits for them then finds none; `made` tells the
log from what stood there before.
"""

from __future__ import annotations

import re
from typing import LiteralString, NamedTuple

_APPEND = """
WITH here AS MATERIALIZED (
    SELECT 1 FROM eventlog_settings WHERE partition = 0 AND name = 'made' AND value = %(made)b
), wanted AS MATERIALIZED (
    SELECT * FROM unnest(
        %(n)b::int8[], %(partition)b::int8[], %(session)b::bytea[], %(seen)b::int8[], %(revision)b::int8[],
        %(version)b::int8[], %(base)b::int8[], %(created)b::int8[], %(updated)b::int8[], %(messages)b::int8[], %(entry)b::bytea[],
        %(lease_epoch)b::int8[], %(lease_owner)b::bytea[], %(lease_until)b::int8[], %(appends)b::int8[],
        %(peaks)b::bytea[]
    ) AS w(n, partition, session, seen, revision, version, base, created, updated, messages, entry, lease_epoch,
        lease_owner, lease_until, appends, peaks)
), added AS MATERIALIZED (
    SELECT * FROM unnest(
        %(c_n)b::int8[], %(c_partition)b::int8[], %(c_session)b::bytea[], %(c_last)b::int8[], %(c_count)b::int8[],
        %(c_epoch)b::int8[], %(c_time)b::int8[], %(c_request)b::bytea[], %(c_digest)b::bytea[], %(c_salt)b::bytea[],
        %(c_leaf)b::bytea[], %(c_payload)b::bytea[]
    ) WITH ORDINALITY AS c(n, partition, session, last, count, epoch, time, request, digest, salt, leaf, payload, k)
), counters AS MATERIALIZED (
    SELECT p.partition, p.position FROM eventlog_counters p
    WHERE p.partition = ANY(%(partitions)b::int8[]) AND EXISTS (SELECT 1 FROM here) ORDER BY p.partition FOR UPDATE
), held AS MATERIALIZED (
    SELECT w.n FROM wanted w JOIN eventlog_heads h ON h.partition = w.partition AND h.session = w.session
    WHERE h.revision = w.seen AND w.seen > 0 AND w.partition = ANY(ARRAY(SELECT p.partition FROM counters p))
    FOR UPDATE OF h
), used AS MATERIALIZED (
    SELECT a.n FROM added a JOIN eventlog_commits c
        ON c.partition = a.partition AND c.session = a.session AND c.request = a.request
), agreed AS MATERIALIZED (
    SELECT n FROM held WHERE n NOT IN (SELECT n FROM used)
    UNION ALL
    SELECT w.n FROM wanted w
    WHERE w.seen = 0 AND w.partition = ANY(ARRAY(SELECT p.partition FROM counters p)) AND NOT EXISTS (
        SELECT 1 FROM eventlog_heads h WHERE h.partition = w.partition AND h.session = w.session)
), placed AS MATERIALIZED (
    SELECT a.*, p.position + sum(a.count) OVER (PARTITION BY a.partition ORDER BY a.k) AS last_position
    FROM added a JOIN agreed USING (n) JOIN counters p ON p.partition = a.partition
), tops AS MATERIALIZED (
    SELECT n, max(last_position) AS position FROM placed GROUP BY n
), counted AS (
    UPDATE eventlog_counters p SET position = t.position
    FROM (SELECT partition, max(last_position) AS position FROM placed GROUP BY partition) t
    WHERE p.partition = t.partition
), changed AS (
    UPDATE eventlog_heads h SET
        revision = w.revision, version = w.version, position = coalesce(t.position, h.position),
        updated = w.updated, messages = w.messages, entry = w.entry, lease_epoch = w.lease_epoch,
        lease_owner = w.lease_owner, lease_until = w.lease_until, appends = w.appends, peaks = w.peaks,
        moved = h.moved OR t.position IS NOT NULL
    FROM wanted w JOIN agreed USING (n) LEFT JOIN tops t USING (n)
    WHERE w.seen > 0 AND h.partition = w.partition AND h.session = w.session
), begun AS (
    INSERT INTO eventlog_heads
    SELECT w.partition, w.session, w.revision, w.version, t.position, w.base, w.created, w.updated, w.messages, w.entry,
        w.lease_epoch, w.lease_owner, w.lease_until, w.appends, w.peaks, false, true
    FROM wanted w JOIN agreed USING (n) JOIN tops t USING (n) WHERE w.seen = 0
), written AS (
    INSERT INTO eventlog_commits
    SELECT partition, last_position, session, last, count, epoch, time, request, digest, salt, leaf, payload
    FROM placed
)
SELECT w.n, p.position, (extract(epoch FROM clock_timestamp()) * 1000000)::int8
FROM wanted w JOIN agreed USING (n) JOIN counters p ON p.partition = w.partition
UNION ALL SELECT -1, 0, 0 WHERE NOT EXISTS (SELECT 1 FROM here)
"""

_BODIES = """), owned AS MATERIALIZED (
    SELECT DISTINCT b.i FROM unnest(%(o_body)b::int8[], %(o_n)b::int8[]) AS b(i, n) JOIN agreed USING (n)
), kept AS (
    INSERT INTO eventlog_bodies
    SELECT b.partition, b.digest, b.size, b.data
    FROM unnest(%(b_i)b::int8[], %(b_partition)b::int8[], %(b_digest)b::bytea[], %(b_size)b::int8[],
        %(b_data)b::bytea[]) AS b(i, partition, digest, size, data) JOIN owned USING (i)
    ON CONFLICT DO NOTHING RETURNING partition, digest
), chunks AS (
    INSERT INTO eventlog_chunks
    SELECT k.partition, k.digest, b.number, b.data
    FROM unnest(%(d_digest)b::bytea[], %(d_number)b::int8[], %(d_data)b::bytea[]) AS b(digest, number, data)
    JOIN kept k USING (digest)
"""


class Prepared(NamedTuple):
    """A statement with numbered parameters, and their names in this order."""

    text: bytes
    names: tuple[str, ...]

    @classmethod
    def of(cls, statement: str) -> Prepared:
        """Number the parameters of a statement that names them."""
        names = tuple(dict.fromkeys(re.findall(r"%\((\w+)\)b", statement)))
        for number, name in enumerate(names, start=1):
            statement = statement.replace(f"%({name})b", f"${number}")
        return cls(" ".join(statement.split()).encode(), names)


APPEND = Prepared.of(_APPEND)
"""Result: the sessions that went in, their partition's position before, and the time.

One row of -1 says that this is another log than the one that was opened: a restore made it.
"""
APPEND_WITH_BODIES = Prepared.of(_APPEND.replace(")\nSELECT w.n", _BODIES + ")\nSELECT w.n"))

BARRIER: LiteralString = "UPDATE eventlog_counters SET position = position WHERE partition = %s"
"""A write that changes nothing: once it is durable, so is all that was committed before."""

FIND: LiteralString = """
SELECT a.k, c.last_position FROM unnest(%(partition)b::int8[], %(session)b::bytea[], %(last)b::int8[],
    %(salt)b::bytea[]) WITH ORDINALITY AS a(partition, session, last, salt, k)
JOIN eventlog_commits c ON c.partition = a.partition AND c.session = a.session AND c.last = a.last AND c.salt = a.salt
"""
"""Commits of unknown outcome that are there: each has a salt that no other one has."""
