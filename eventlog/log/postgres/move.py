"""Moving a partition from one cluster to another, while its sessions are in use.

    begin       the destination notes that the partition arrives, with the mark of this copy
    copy        commits in the order of positions, the bodies they name, heads; writers go on
    freeze      the source's counter is held: writers wait; the rest is copied, heads are compared
    hand over   in the same transaction the source stops serving the partition, and notes the mark
    activate    the destination serves it, if the mark is that of its copy
    clear       the source deletes its rows

From the first step to the fourth the source holds one transaction, so no two moves from it are at
work at once; if the mover dies the server ends it, and all goes on as before. A mover that lost it
unknowingly writes nothing more to the destination: a later one has another mark there. After the
fourth step the partition is served by no cluster, until the mover, or another process that finds it
so, activates it. So at no moment two clusters take appends to it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from os import urandom
from typing import TYPE_CHECKING, Any

import msgspec
from psycopg import Error
from psycopg.errors import LockNotAvailable

from eventlog import compression
from eventlog.errors import BusyError, CallError, DamagedError, NotFoundError, StorageError
from eventlog.log.digests import digests_in
from eventlog.log.postgres.batch import CHUNK, body_partition
from eventlog.log.postgres.cluster_state import (
    MARK_BYTES,
    Left,
    State,
    activate,
    arriving,
    confirm,
    hold,
    left,
    put,
    read_state,
    remove,
    serve,
    survive,
    unsure,
)
from eventlog.log.postgres.connections import connect, unhurried
from eventlog.log.postgres.faults import typed

if TYPE_CHECKING:
    from eventlog.log.postgres.connections import LogConnection

__all__ = ["MoveResult", "abandon_move", "move_partition"]

Progress = Callable[[int, int], None]
_TIMEOUT = 30.0
_PAGE = 1000
_PAGE_BYTES = 8 << 20
_ROUNDS = 5
"""How often the source is asked for what was committed meanwhile, before it is frozen."""
_COMMIT = "partition, last_position, session, last, count, epoch, time, request, digest, salt, leaf, payload"
_HEAD = (
    "partition, session, revision, version, position, base, created, updated, messages, entry, lease_epoch,"
    " lease_owner, lease_until, appends, peaks, gone"
)
_COMMITS = f"""
SELECT {_COMMIT} FROM (
    SELECT c.*, sum(octet_length(c.payload)) OVER (ORDER BY c.last_position) - octet_length(c.payload) AS before FROM (
        SELECT * FROM eventlog_commits c WHERE c.partition = %s AND c.last_position > %s ORDER BY c.last_position
        LIMIT {_PAGE}
    ) c
) c WHERE c.before < {_PAGE_BYTES} ORDER BY last_position
"""
_PUT_COMMITS = f"""
INSERT INTO eventlog_commits ({_COMMIT})
SELECT * FROM unnest(%b::int8[], %b::int8[], %b::bytea[], %b::int8[], %b::int8[], %b::int8[], %b::int8[], %b::bytea[],
    %b::bytea[], %b::bytea[], %b::bytea[], %b::bytea[])
"""
_HEADS = f"""
SELECT {_HEAD} FROM unnest(%s::bytea[]) AS w(session) JOIN eventlog_heads h USING (session) WHERE h.partition = %s
"""
_PUT_HEADS = f"""
INSERT INTO eventlog_heads ({_HEAD}, moved)
SELECT w.*, false FROM unnest(%b::int8[], %b::bytea[], %b::int8[], %b::int8[], %b::int8[], %b::int8[], %b::int8[],
    %b::int8[], %b::int8[], %b::bytea[], %b::int8[], %b::bytea[], %b::int8[], %b::int8[], %b::bytea[], %b::bool[]) AS w
ON CONFLICT (partition, session) DO UPDATE SET
    revision = excluded.revision, version = excluded.version, position = excluded.position, base = excluded.base,
    created = excluded.created, updated = excluded.updated, messages = excluded.messages, entry = excluded.entry,
    lease_epoch = excluded.lease_epoch, lease_owner = excluded.lease_owner, lease_until = excluded.lease_until,
    appends = excluded.appends, peaks = excluded.peaks, gone = excluded.gone
"""
_STORED = """
SELECT b.digest FROM unnest(%s::int8[], %s::bytea[]) AS w(partition, digest)
JOIN eventlog_bodies b ON b.partition = w.partition AND b.digest = w.digest
"""
_BODY = "SELECT size, data FROM eventlog_bodies WHERE partition = %s AND digest = %s"
_CHUNK = "SELECT data FROM eventlog_chunks WHERE partition = %s AND digest = %s AND number = %s"
_PUT_BODY = "INSERT INTO eventlog_bodies (partition, digest, size, data) VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING"
_PUT_CHUNK = "INSERT INTO eventlog_chunks (partition, digest, number, data) VALUES (%s, %s, %s, %s)"
_SAME_COMMITS = """
SELECT count(*), md5(string_agg(md5(ROW(session, last_position, last, count, epoch, time, request, digest, salt, leaf,
    md5(payload))::text), '' ORDER BY last_position))
FROM eventlog_commits WHERE partition = %s AND last_position > %s AND last_position <= %s
"""
_SAME_HEADS = f"""
SELECT count(*), md5(string_agg(md5(ROW({_HEAD})::text), '' ORDER BY session)) FROM eventlog_heads WHERE partition = %s
"""


class MoveResult(msgspec.Struct, frozen=True):
    """Counts of a move; all are 0 if it had only to be completed."""

    partition: int
    commits: int = 0
    sessions: int = 0
    copied_frozen: int = 0
    """Of the commits those that were copied while writers waited."""


def move_partition(partition: int, source: str, to: str, *, on_progress: Progress | None = None) -> MoveResult:
    """Move a partition of a log from the cluster at one address to that at another.

    Writers to it wait for the last part of the copy. A move that broke off is continued; one that
    is complete is left as it is. What is left of an earlier one is cleared if the other cluster
    serves the partition. `BusyError` if another move or a rewrite is at work in one of the
    clusters, `CallError` if they are not two clusters of one log, or the source has no such
    partition. `on_progress` is called with the position reached and the last one.
    """
    with _two(partition, source, to) as (here, there):
        state, other = _states(here, there, partition)
        result = MoveResult(partition)
        if partition in state.serves:
            result = _handed_over(here, there, partition, other.number, on_progress)
            state, other = _states(here, there, partition)
        elif partition not in state.left and partition not in other.serves:
            raise CallError(f"neither of these clusters has partition {partition}")
        gone = state.left.get(partition)
        if gone is not None:
            if gone.to == other.number and confirm(here, partition, gone):
                there.warned = ""
                activate(there, partition, gone)
                if there.warned:
                    raise unsure("activation", there)
            _require_served(there, partition, gone, other.number)
            _clear_source(here, partition, gone)
        return result


def abandon_move(partition: int, source: str, to: str) -> bool:
    """End a move that broke off before the handing over; return whether there was one.

    What was copied is deleted. `CallError` if it was handed over: then it goes on at its
    destination, and can be moved back.
    """
    with _two(partition, source, to) as (here, there):
        _states(here, there, partition)
        with here.transaction(), there.transaction():
            hold(here)
            if partition not in _state(here).serves:
                raise CallError(
                    f"the first cluster does not have partition {partition}: it was handed over, or never there"
                )
            mark = _state(there).arriving.get(partition)
            return mark is not None and _clear(there, partition, arriving(partition), mark)


def _handed_over(
    here: LogConnection, there: LogConnection, partition: int, number: int, on_progress: Progress | None
) -> MoveResult:
    """Copy a partition, and have the source hand it over."""
    mark = urandom(MARK_BYTES)
    with here.transaction():
        hold(here)
        _position(here, partition)  # it is served here still
        after = _begin(there, partition, mark)
        copy = _Copy(here, there, partition, mark, after)
        if after:
            copy.require_beginning()
        for _ in range(_ROUNDS):
            last = _position(here, partition)
            if copy.commits_upto(last, on_progress) < _PAGE:
                break
        copy.heads()
        before = copy.commits
        last = _freeze(here, partition)
        copy.commits_upto(last, on_progress)
        copy.heads()
        copy.require_equal(last)
        if there.warned:
            raise BusyError(f"the copy may not be replicated: {there.warned}")
        _hand_over(here, partition, Left(mark, last, number))
        here.warned = ""
    if here.warned:
        raise unsure("handing over", here)
    return MoveResult(partition, copy.commits, copy.sessions, copy.commits - before)


def _begin(there: LogConnection, partition: int, mark: bytes) -> int:
    """Note that a partition arrives; return the position up to which it was copied before."""
    with there.transaction():
        hold(there)
        state = _state(there)
        if partition in state.serves:
            raise DamagedError(f"partition {partition} is served by two clusters")
        if partition in state.left:  # of an earlier move in another direction
            _clear(there, partition, left(partition), state.left[partition].mark)
        put(there, [(arriving(partition), mark)])
        found = there.execute(
            "SELECT coalesce(max(last_position), 0) FROM eventlog_commits WHERE partition = %s", (partition,)
        ).fetchone()
    assert found is not None
    return int(found[0])


def _position(here: LogConnection, partition: int) -> int:
    found = here.execute("SELECT position FROM eventlog_counters WHERE partition = %s", (partition,)).fetchone()
    if found is None:
        raise BusyError(f"partition {partition} was moved meanwhile")
    return int(found[0])


def _freeze(here: LogConnection, partition: int) -> int:
    """Have writers of a partition wait; return its last position."""
    here.execute("SELECT position FROM eventlog_counters WHERE partition = %s FOR UPDATE", (partition,))
    return _position(here, partition)


def _hand_over(here: LogConnection, partition: int, gone: Left) -> None:
    """Stop serving a partition, once the transaction is committed."""
    put(here, [(left(partition), gone.note())])
    here.execute("UPDATE eventlog_heads SET moved = false WHERE partition = %s AND moved", (partition,))
    serve(here, partition, None)


def _require_served(there: LogConnection, partition: int, gone: Left, number: int) -> None:
    """Raise unless a cluster serves a partition for certain, so that its source may delete it.

    `StorageError` if it does not have it, `DamagedError` if not all of it, `UnknownOutcomeError` if
    that may be on no standby.
    """
    there.warned = ""
    found = there.execute(
        "UPDATE eventlog_counters SET position = position WHERE partition = %s RETURNING position", (partition,)
    ).fetchone()
    if there.warned:
        raise unsure("activation", there)
    if found is None and gone.to != number:
        raise CallError(f"partition {partition} was handed over to cluster {gone.to}, not to {number}")
    if found is None:
        raise StorageError(
            f"partition {partition} was handed over to cluster {number}, and is not served there: nothing is deleted;"
            " if it was moved on, give the address of the cluster that serves it"
        )
    if found[0] < gone.position:
        raise DamagedError(
            f"partition {partition} was handed over at a later position than cluster {number} has: nothing is deleted",
            position=gone.position,
        )


def _clear_source(here: LogConnection, partition: int, gone: Left) -> None:
    with here.transaction():
        _clear(here, partition, left(partition), gone.mark)


def _clear(connection: LogConnection, partition: int, note: str, mark: bytes) -> bool:
    """Delete the rows of a partition that is not served here, and the note that says so.

    Only if the note has the mark of that copy; return whether it has.
    """
    found = connection.execute(
        "SELECT value FROM eventlog_settings WHERE partition = 0 AND name = %s FOR UPDATE", (note,)
    ).fetchone()
    if found is None or bytes(found[0])[:MARK_BYTES] != mark:
        return False
    for table in ("commits", "lists", "heads"):
        connection.execute(f"DELETE FROM eventlog_{table} WHERE partition = %s".encode(), (partition,))
    remove(connection, note)
    return True


class _Copy:
    """A copy of one partition, as far as it has come."""

    def __init__(self, here: LogConnection, there: LogConnection, partition: int, mark: bytes, after: int) -> None:
        self.commits = 0
        self.sessions = 0
        self._here = here
        self._there = there
        self._partition = partition
        self._partitions = _state(here).settings.partitions
        self._mark = mark
        self._after = after
        self._known: dict[bytes, int] = dict(self._revisions(there))

    def commits_upto(self, last: int, on_progress: Progress | None) -> int:
        """Copy the commits up to a position that is reached already; return how many."""
        count = 0
        while self._after < last:
            rows = self._here.execute(_COMMITS.encode(), (self._partition, self._after), binary=True).fetchall()
            if not rows:
                break  # the newest commits were erased
            self._put(rows)
            count += len(rows)
            if on_progress is not None:
                on_progress(min(self._after, last), last)
        self.commits += count
        return count

    def _put(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Write some commits and their bodies, and compare what the two clusters have then."""
        upto = rows[-1][1]
        with self._writing() as there:
            for digest in self._missing(rows):
                self._put_body(there, digest)
            there.execute(_PUT_COMMITS.encode(), [[row[column] for row in rows] for column in range(12)])
            self._require_same(_SAME_COMMITS, (self._partition, self._after, upto))
        self._after = upto

    def _missing(self, rows: Sequence[tuple[Any, ...]]) -> list[bytes]:
        """Return the bodies that some commits name, and the destination does not have, in order."""
        named = sorted({digest for row in rows for digest in digests_in(compression.unpack(row[11]))})
        places = [body_partition(digest, self._partitions) for digest in named]
        found = self._there.execute(_STORED, (places, named), binary=True).fetchall()
        return sorted({*named}.difference(digest for (digest,) in found))

    def _put_body(self, there: LogConnection, digest: bytes) -> None:
        """Copy a body in its chunks, if it is at the source."""
        place = body_partition(digest, self._partitions), digest
        for size, data in self._here.execute(_BODY, place, binary=True).fetchall():
            if not there.execute(_PUT_BODY, (*place, size, data), binary=True).rowcount:
                return  # an append has brought it meanwhile
            for number in range(1, -(-size // CHUNK)):
                (chunk,) = self._here.execute(_CHUNK, (*place, number), binary=True).fetchall()
                there.execute(_PUT_CHUNK, (*place, number, chunk[0]), binary=True)

    def heads(self) -> None:
        """Copy the heads that the destination does not have, or has in an earlier revision."""
        changed = [session for session, revision in self._revisions(self._here) if self._known.get(session) != revision]
        for start in range(0, len(changed), _PAGE):
            rows = self._here.execute(_HEADS, (changed[start : start + _PAGE], self._partition), binary=True).fetchall()
            with self._writing() as there:
                there.execute(_PUT_HEADS.encode(), [[row[column] for row in rows] for column in range(16)])
            self._known.update((row[1], row[2]) for row in rows)
        self.sessions = len(self._known)

    def require_beginning(self) -> None:
        """Raise `DamagedError` if commits that were copied before are not those of the source."""
        self._require_same(_SAME_COMMITS, (self._partition, 0, self._after))

    def require_equal(self, last: int) -> None:
        """Raise `DamagedError` if the heads of the two clusters differ, or commits are missing."""
        self._require_same(_SAME_HEADS, (self._partition,))
        self._require_same(
            "SELECT max(last_position), count(*) FROM eventlog_commits WHERE partition = %s AND last_position > %s",
            (self._partition, max(self._after - 1, 0)),
        )
        if self._after > last:
            raise DamagedError(f"partition {self._partition}: the destination is ahead of the source", position=last)

    def _require_same(self, statement: str, parameters: tuple[int, ...]) -> None:
        here, there = (one.execute(statement.encode(), parameters).fetchall() for one in (self._here, self._there))
        if here != there:
            raise DamagedError(
                f"partition {self._partition}: the copy differs from the source; end the move with `eventlog move --abandon`"
            )

    def _revisions(self, connection: LogConnection) -> Iterable[tuple[bytes, int]]:
        rows = connection.execute(
            "SELECT session, revision FROM eventlog_heads WHERE partition = %s", (self._partition,), binary=True
        )
        return [(session, revision) for session, revision in rows.fetchall()]

    @contextmanager
    def _writing(self) -> Generator[LogConnection]:
        """Write to the destination in one transaction, unless another move has begun there."""
        there = self._there
        with there.transaction():
            found = there.execute(
                "SELECT value FROM eventlog_settings WHERE partition = 0 AND name = %s FOR UPDATE",
                (arriving(self._partition),),
            ).fetchone()
            if found is None or bytes(found[0]) != self._mark:
                raise BusyError(f"another move of partition {self._partition} was begun, or this one was ended")
            yield there


def _states(here: LogConnection, there: LogConnection, partition: int) -> tuple[State, State]:
    """Return the states of two clusters; `CallError` if they are none of one log."""
    state, other = _state(here), _state(there)
    if not state.log or state.log != other.log:
        raise CallError("these are not the addresses of two clusters of one log: have the other one join first")
    if state.number == other.number:
        raise CallError("both addresses are of one cluster")
    count = state.settings.partitions
    if type(partition) is not int or not 0 <= partition < count:
        raise CallError(f"the log has partitions 0 to {count - 1}, not {partition!r}")
    return state, other


def _state(connection: LogConnection) -> State:
    found = read_state(connection)
    if found is None:
        raise NotFoundError("store", "in the schema of one of these addresses")
    return found


@contextmanager
def _two(partition: int, source: str, to: str) -> Generator[tuple[LogConnection, LogConnection]]:
    """Connect to two clusters, without limits of time but for locks."""
    with (
        connect(source, busy_timeout=_TIMEOUT, read_only=False) as here,
        connect(to, busy_timeout=_TIMEOUT, read_only=False) as there,
    ):
        try:
            for one in (here, there):
                survive(one)
                unhurried(one, "SESSION")
            yield here, there
        except LockNotAvailable as error:
            raise BusyError(
                f"partition {partition} is not moved: another move, a rewrite or a long statement is at work there"
            ) from error
        except Error as error:
            raise typed(error) from error
