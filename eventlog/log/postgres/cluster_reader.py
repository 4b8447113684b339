"""Reads of a log in several clusters, each with the map as it is then.

What concerns one session, or one partition, asks one cluster. Lists, heads, positions and bodies
ask all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from eventlog.log.postgres.batch import body_partition
from eventlog.log.postgres.bodies import Bodies
from eventlog.log.postgres.clusters import Clusters, Map, identity_of
from eventlog.log.postgres.guard import MapChangedError
from eventlog.log.postgres.reader import Reader
from eventlog.log.postgres.session_lists import SessionLists

if TYPE_CHECKING:
    from eventlog.log.contract import Commit, Head, Place
    from eventlog.log.postgres.clusters import Served
    from eventlog.log.postgres.rows import Known
    from eventlog.log.rules import RequestResult

__all__ = ["ClusterBodies", "ClusterLists", "ClusterReader"]

_HEADS = 1000
T = TypeVar("T")


class ClusterReader(Reader):
    """Reads of heads, commits and requests; see `Reader`."""

    def __init__(self, clusters: Clusters) -> None:
        self._clusters = clusters
        self._seen = clusters.seen
        self._partitions = clusters.partitions
        self._partition_of = clusters.partition_of
        self.identity = identity_of(member.state.settings.identity for member in clusters.map.members)

    def known_heads(self, sessions: Sequence[str]) -> dict[str, Known]:
        """Return the heads of some sessions, those that there are."""

        def of(map: Map) -> dict[str, Known]:
            found: dict[str, Known] = {}
            for owner, names in _by_owner(map, [(self._partition_of(name), name) for name in sessions]):
                found.update(owner.reader.known_heads(names))
            return found

        return self._clusters.with_map(of)

    def request_results(self, wanted: Iterable[tuple[str, str]]) -> dict[tuple[str, str], RequestResult]:
        """Return the results of those request ids that were used."""
        asked = [(self._partition_of(session), (session, request)) for session, request in wanted]

        def of(map: Map) -> dict[tuple[str, str], RequestResult]:
            found: dict[tuple[str, str], RequestResult] = {}
            for owner, pairs in _by_owner(map, asked):
                found.update(owner.reader.request_results(pairs))
            return found

        return self._clusters.with_map(of)

    def heads(self, after: str) -> Iterator[Head]:
        """Yield all heads by session id; a page is of one map."""
        while True:
            page = self._clusters.all(partial(_heads, after=after, partition_of=self._partition_of))
            yield from page
            if len(page) < _HEADS:
                return
            after = page[-1].session

    def read(self, session: str, after: int, upto: int | None, *, reverse: bool) -> Iterator[Commit]:
        """Return the commits of a range of versions as of now; the first is read at once."""
        partition = self._partition_of(session)
        if upto is None:
            head = self.head(session)
            if head is None:
                return iter(())
            upto = head.version

        def begin() -> Iterator[Commit]:
            return self._clusters.at(partition, lambda owner: owner.reader.read(session, after, upto, reverse=reverse))

        first = begin()

        def go_on() -> Iterator[Commit]:
            nonlocal after, upto
            commits = first
            while True:
                try:
                    for commit in commits:
                        if reverse:
                            upto = commit.first - 1
                        else:
                            after = commit.last
                        yield commit
                except MapChangedError:  # it moved while pages of it were read
                    commits = begin()
                else:
                    return

        return go_on()

    def commits_after(self, after: int, limit: int, partition: int) -> list[Commit]:
        """Return at most `limit` commits of a partition that reach beyond a position."""
        return self._clusters.at(partition, lambda owner: owner.reader.commits_after(after, limit, partition))

    def commits_at(self, positions: Sequence[int]) -> list[Commit | None]:
        """Return the commit that has the position, of each partition; None where there is none."""
        wanted = [(partition, partition) for partition, position in enumerate(positions) if position > 0]

        def of(map: Map) -> list[Commit | None]:
            found: list[Commit | None] = [None] * len(positions)
            for owner, partitions in _by_owner(map, wanted):
                here = [position if number in owner.partitions else 0 for number, position in enumerate(positions)]
                read = owner.reader.commits_at(here)
                for partition in partitions:
                    found[partition] = read[partition]
            return found

        return self._clusters.with_map(of)

    def positions(self) -> list[int]:
        """Return the last position of each partition, and note the edition that they are of."""

        def of(members: Sequence[Served]) -> list[int]:
            found: dict[int, int] = {}
            for member in members:
                found.update(member.reader.positions_here())
            self.identity = identity_of(member.reader.identity for member in members)
            return [found[partition] for partition in range(self._partitions)]

        return self._clusters.all(of)


class ClusterLists(SessionLists):
    """Lists of sessions: the newest of each cluster's newest."""

    def __init__(self, clusters: Clusters, place_of: Callable[[Head], Place]) -> None:
        self._clusters = clusters
        self._place_of = place_of

    def newest(self, lists: Sequence[bytes], before: Place | None, limit: int) -> list[Head]:
        """Return heads of the sessions in any of some lists, newest first; see `contract.Log`."""

        def of(members: Sequence[Served]) -> list[Head]:
            found = [head for member in members for head in member.lists.newest(lists, before, limit)]
            return sorted(found, key=self._place_of, reverse=True)[: max(limit, 0)]

        return self._clusters.all(of)


class ClusterBodies(Bodies):
    """Bodies by their hash: each lies where an append has brought it."""

    def __init__(self, clusters: Clusters) -> None:
        self._partitions = clusters.partitions
        self._all = [member.cluster.with_bodies(clusters.partitions) for member in clusters.map.members]

    def get(self, digests: Sequence[bytes]) -> list[bytes | None]:
        """Return the packed bytes of some bodies in their order; clusters are asked in turn."""
        found: dict[bytes, bytes] = {}
        for bodies in self._all:
            missing = [digest for digest in digests if digest not in found]
            if not missing:
                break
            found.update(
                (digest, body) for digest, body in zip(missing, bodies.get(missing), strict=True) if body is not None
            )
        return [found.get(digest) for digest in digests]

    def hashes(self) -> Iterator[bytes]:
        """Yield the hashes of all bodies, each once."""
        last = None
        for digest in merge(*(bodies.hashes() for bodies in self._all), key=self._order):
            if digest != last:
                yield digest
            last = digest

    def _order(self, digest: bytes) -> tuple[int, bytes]:
        return body_partition(digest, self._partitions), digest


def _by_owner(map: Map, wanted: Sequence[tuple[int, T]]) -> Iterator[tuple[Served, list[T]]]:
    """Yield what is wanted of some partitions, by the clusters that serve these."""
    found: dict[int, tuple[Served, list[T]]] = {}
    for partition, what in wanted:
        owner = map.owner(partition)
        found.setdefault(owner.state.number, (owner, []))[1].append(what)
    return iter(found.values())


def _heads(members: Sequence[Served], after: str, partition_of: Callable[[str], int]) -> list[Head]:
    """Return one page of the heads of all clusters, without what they do not serve."""

    def of(member: Served) -> Iterator[Head]:
        return (head for head in member.reader.heads(after) if partition_of(head.session) in member.partitions)

    streams = map(of, members)
    return list(islice(merge(*streams, key=lambda head: head.session.encode()), _HEADS))
