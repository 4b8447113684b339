"""Reads of heads, commits and requests, all of the server that the address names.

Each method is one statement and one round trip, but for histories, which are read in pages.

A reader remembers the newest commit that it has seen of a session, and every later head must lie
behind it. Where it does not, the server has lost commits, as after a failover to a standby that did
not have them, or a restore has put another log in this place. What was read and decided here counts
for nothing then: nothing more is read or written until the log is opened again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from eventlog.errors import DamagedError, PoisonedError
from eventlog.log.append_checks import RequestResult
from eventlog.log.merkle import TAG_BYTES
from eventlog.log.postgres.rows import COMMIT, HEAD, Known, commit_from, head_from, text_from

if TYPE_CHECKING:
    from eventlog.errors import EventlogError
    from eventlog.log.commit import Commit, Head
    from eventlog.log.postgres.connections import Connections
    from eventlog.log.postgres.schema import Settings

RESTORED = "another log was restored or made in this place"
LOST = "the server has lost commits that were seen here, as after a failover to a standby without them"
_MOST = 8192
"""Sessions of which the newest commit is remembered."""


class _Commit(NamedTuple):
    """The newest commit of a session that was seen here: its last version, and its leaf's tag."""

    version: int
    tag: bytes


class Seen:
    """The newest commit of each session, as far as it was read or written here."""

    def __init__(self) -> None:
        self.refusal: EventlogError | None = None
        """Why nothing more is read or written."""
        self._commits: OrderedDict[str, _Commit] = OrderedDict()
        self._noting = Lock()

    def get(self, session: str) -> _Commit | None:
        """Return the newest commit of a session that was seen, or None."""
        return self._commits.get(session)

    def note(self, session: str, version: int, leaf: bytes) -> None:
        """Note a commit that ends at a version."""
        with self._noting:
            one = self._commits.get(session)
            if one is None or one.version < version:
                self._commits[session] = _Commit(version, leaf[:TAG_BYTES])
                self._commits.move_to_end(session)
            if len(self._commits) > _MOST:
                self._commits.popitem(last=False)

    def refuse(self, why: str) -> EventlogError:
        """Read and write nothing more; return the error that says so."""
        if self.refusal is None:
            self.refusal = PoisonedError(f"{why}: close the store and open it again")
        return self.refusal


PAGE = 512
"""Most rows of one round trip."""
PAGE_BYTES = 4 << 20
"""About how many bytes of payloads it brings."""
_HEADS = 1000
_NO_END = (1 << 63) - 1


def _page(order: str, where: str) -> str:
    return (
        f"SELECT {COMMIT} FROM ("
        f"SELECT c.*, sum(octet_length(c.payload)) OVER (ORDER BY {order}) - octet_length(c.payload) AS before FROM ("
        f"SELECT * FROM eventlog_commits c WHERE {where} ORDER BY {order} LIMIT %(limit)s"
        f") c) c WHERE c.before < {PAGE_BYTES} ORDER BY {order}"
    )


_OF_SESSION = (
    "c.partition = %(partition)s AND c.session = %(session)s AND c.last > %(after)s AND c.last - c.count < %(upto)s"
    " AND c.last <= coalesce((SELECT e.last FROM eventlog_commits e WHERE e.partition = %(partition)s"
    f" AND e.session = %(session)s AND e.last >= %(upto)s ORDER BY e.last LIMIT 1), {_NO_END})"
)
_FORWARD = _page("c.last", _OF_SESSION)
_BACKWARD = _page("c.last DESC", _OF_SESSION + " AND c.last <= %(below)s")
_FOLLOWING = _page("c.last_position", "c.partition = %(partition)s AND c.last_position > %(after)s")
_AT = f"""
SELECT {COMMIT}, a.k FROM unnest(%s::int8[], %s::int8[]) WITH ORDINALITY AS a(partition, position, k)
CROSS JOIN LATERAL (
    SELECT * FROM eventlog_commits c WHERE c.partition = a.partition AND c.last_position >= a.position
    ORDER BY c.last_position LIMIT 1
) c WHERE c.last_position - c.count < a.position
"""
_KNOWN = f"""
SELECT {HEAD}, n.leaf, s.leaf FROM unnest(%s::int8[], %s::bytea[], %s::int8[]) AS w(partition, session, seen)
JOIN eventlog_heads h ON h.partition = w.partition AND h.session = w.session
LEFT JOIN eventlog_commits n ON n.partition = h.partition AND n.session = h.session AND n.last = h.version
LEFT JOIN eventlog_commits s ON s.partition = h.partition AND s.session = h.session AND s.last = w.seen
"""
"""The newest commit's leaf, and that of the commit that was seen last, come along."""
_POSITIONS = """
SELECT -2 AS partition, NULL::int8, value FROM eventlog_settings WHERE partition = 0 AND name = 'made'
UNION ALL SELECT -1, NULL, value FROM eventlog_settings WHERE partition = 0 AND name = 'identity'
UNION ALL SELECT partition, position, NULL::bytea FROM eventlog_counters ORDER BY partition
"""
_REQUESTS = """
SELECT c.session, c.request, c.digest, c.last, c.count, c.last_position
FROM unnest(%s::int8[], %s::bytea[], %s::bytea[]) AS w(partition, session, request)
JOIN eventlog_commits c ON c.partition = w.partition AND c.session = w.session AND c.request = w.request
"""


class Reader:
    """Reads of the tables of one log."""

    def __init__(
        self,
        connections: Connections,
        partitions: int,
        partition_of: Callable[[str], int],
        settings: Settings,
        seen: Seen,
    ) -> None:
        self.identity: bytes = settings.identity
        """16 bytes that name the store and its edition, as they were last read."""
        self.made: bytes = settings.made
        """16 bytes that name the log, from its making or restore on."""
        self._seen = seen
        self._connections = connections
        self._partitions = partitions
        self._partition_of = partition_of

    def head(self, session: str) -> Head | None:
        """Return the session's head, or None."""
        known = self.known_heads([session]).get(session)
        return None if known is None else known.head

    def known_heads(self, sessions: Sequence[str]) -> dict[str, Known]:
        """Return the heads of some sessions, those that there are."""
        names = {session: name for session in sessions if (name := text_from(session)) is not None}
        if not names:
            return {}
        seen = {session: self._seen.get(session) for session in names}
        rows = self._connections.rows(
            _KNOWN,
            (
                [self._partition_of(session) for session in names],
                list(names.values()),
                [0 if one is None else one.version for one in seen.values()],
            ),
        )
        found: dict[str, Known] = {}
        for *row, newest, before in rows:
            known = head_from(row)
            head = known.head
            found[head.session] = known
            one = seen[head.session]
            if head.gone:
                continue
            if one is not None and (before is None or before[:TAG_BYTES] != one.tag):
                raise self.refuse(LOST)
            if newest is not None:
                self.note(head.session, head.version, newest)
        if any(one is not None and session not in found for session, one in seen.items()):
            raise self.refuse(LOST)
        return found

    @property
    def refusal(self) -> EventlogError | None:
        """Why nothing more is read or written."""
        return self._seen.refusal

    def note(self, session: str, version: int, leaf: bytes) -> None:
        """Note a commit that ends at a version: each head that is read later must lie behind it."""
        self._seen.note(session, version, leaf)

    def refuse(self, why: str) -> EventlogError:
        """Read and write nothing more; return the error that says so."""
        return self._seen.refuse(why)

    def heads(self, after: str) -> Iterator[Head]:
        """Yield all heads by session id."""
        below = after.encode(errors="surrogatepass")
        while True:
            rows = self._connections.rows(
                f"SELECT {HEAD} FROM eventlog_heads h WHERE h.session > %s ORDER BY h.session LIMIT {_HEADS}", (below,)
            )
            yield from (head_from(row).head for row in rows)
            if len(rows) < _HEADS:
                return
            below = rows[-1][0]

    def read(self, session: str, after: int, upto: int | None, *, reverse: bool) -> Iterator[Commit]:
        """Return the commits of a range of versions as of now; the first page is read at once."""
        name = text_from(session)
        if name is None or not name or (upto is not None and upto <= after):
            return iter(())
        parameters: dict[str, Any] = {
            "partition": self._partition_of(session),
            "session": name,
            "after": after,
            "upto": _NO_END if upto is None else upto,
            "below": _NO_END,
            "limit": PAGE,
        }
        rows = self._connections.rows(_BACKWARD if reverse else _FORWARD, parameters)
        if not reverse and upto is None and not _is_last(rows, PAGE):  # later pages end where the session ends now
            head = self.head(session)
            parameters["upto"] = _NO_END if head is None else head.version
        return self._pages(rows, parameters, reverse=reverse)

    def _pages(self, rows: list[tuple[Any, ...]], parameters: dict[str, Any], *, reverse: bool) -> Iterator[Commit]:
        while True:
            yield from map(commit_from, rows)
            if _is_last(rows, PAGE):
                return
            _, last, count, *_ = rows[-1]
            if reverse:
                parameters["below"] = last - count
            else:
                parameters["after"] = last
            rows = self._connections.rows(_BACKWARD if reverse else _FORWARD, parameters)

    def commits_after(self, after: int, limit: int, partition: int) -> list[Commit]:
        """Return at most `limit` commits of a partition that reach beyond a position."""
        found: list[Commit] = []
        while len(found) < limit:
            most = min(limit - len(found), PAGE)
            rows = self._connections.rows(_FOLLOWING, {"partition": partition, "after": after, "limit": most})
            found += map(commit_from, rows)
            if _is_last(rows, most):
                break
            after = rows[-1][3]
        return found

    def commits_at(self, positions: Sequence[int]) -> list[Commit | None]:
        """Return the commit that has the position, of each partition; None where there is none."""
        wanted = [(partition, position) for partition, position in enumerate(positions) if position > 0]
        found: list[Commit | None] = [None] * len(positions)
        if wanted:
            rows = self._connections.rows(_AT, ([partition for partition, _ in wanted], [at for _, at in wanted]))
            for *row, number in rows:
                found[wanted[number - 1][0]] = commit_from(row)
        return found

    def positions(self) -> list[int]:
        """Return the last position of each partition, and note the edition that it is of."""
        rows = self._connections.rows(_POSITIONS)
        (_, _, made), (_, _, identity), *counters = rows
        if made != self.made:
            raise self.refuse(RESTORED)
        self.identity = identity
        if len(counters) != self._partitions:
            raise DamagedError(f"the log has counters of {len(counters)} partitions, not of {self._partitions}")
        return [position for _, position, _ in counters]

    def request_results(self, wanted: Iterable[tuple[str, str]]) -> dict[tuple[str, str], RequestResult]:
        """Return the results of those request ids that were used."""
        known = [
            (self._partition_of(session), name, used)
            for session, request in wanted
            if (name := text_from(session)) is not None and (used := text_from(request)) is not None
        ]
        if not known:
            return {}
        rows = self._connections.rows(
            _REQUESTS, ([one[0] for one in known], [one[1] for one in known], [one[2] for one in known])
        )
        return {
            (session.decode(), request.decode()): RequestResult(
                digest, last - count + 1, last, last_position - count + 1
            )
            for session, request, digest, last, count, last_position in rows
        }


def _is_last(rows: Sequence[tuple[Any, ...]], most: int) -> bool:
    """Return whether a page is the last: shorter than it might be, and not for its size."""
    return len(rows) < most and sum(len(row[6]) for row in rows) < PAGE_BYTES
