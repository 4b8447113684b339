"""The engine on several clusters: one log whose partitions are spread over servers.

    cluster_state.py    the partitions that one cluster serves
    clusters.py         the map of all of them, read again when a cluster refuses; guard.py
    cluster_target.py   a batch, split by cluster; cluster_reader.py reads
    joining.py, move.py  another cluster, and partitions that are moved to it

Nothing spans clusters in one transaction, and no session lies in two. The first cluster has what
belongs to the log as a whole: the clock that leases end by, and derived values.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from os import urandom
from typing import TYPE_CHECKING, Any

from msgspec import structs
from psycopg import Error

from eventlog.errors import CallError, ReadOnlyError
from eventlog.log.postgres.cluster_reader import ClusterBodies, ClusterLists, ClusterReader
from eventlog.log.postgres.cluster_state import hold, read_state, require_settled
from eventlog.log.postgres.cluster_tables import ClusterTables
from eventlog.log.postgres.cluster_target import ClusterTarget
from eventlog.log.postgres.clusters import Cluster, Clusters, Served
from eventlog.log.postgres.connections import unhurried
from eventlog.log.postgres.derived import Derived
from eventlog.log.postgres.engine import PostgresLog, asked
from eventlog.log.postgres.faults import typed
from eventlog.log.postgres.follower import Follower
from eventlog.log.postgres.group_commit import GroupCommit
from eventlog.log.postgres.guard import MapChangedError
from eventlog.log.postgres.options import Options
from eventlog.log.postgres.tables import SIZE, Tables

if TYPE_CHECKING:
    from eventlog.log.postgres.acknowledged import Acknowledged
    from eventlog.log.postgres.cluster_state import State
    from eventlog.log.postgres.connections import LogConnection

__all__ = ["ClusteredLog", "open_clusters"]

_HELD = "SELECT partition, position FROM eventlog_counters ORDER BY partition FOR SHARE"


class ClusteredLog(PostgresLog):
    """A handle on a log in several clusters; fulfils `contract.Log`."""

    def __init__(self, clusters: Clusters, survives: Sequence[Acknowledged], options: Options) -> None:
        self._clusters = clusters
        self.acknowledged_by = tuple(survives)
        """The durability of an acknowledged commit in each cluster, by their numbers."""
        first = clusters.first
        super().__init__("", first.state.settings, _weakest(survives), first.cluster.clock, options)

    def __repr__(self) -> str:
        return f"<ClusteredLog of {self._count} partitions in {len(self._clusters.map.members)} clusters>"

    def _build(self) -> None:
        options, count, clusters = self.options, self._count, self._clusters
        self._connections = clusters.first.cluster.connections
        self._reader = ClusterReader(clusters)
        self._bodies = ClusterBodies(clusters)
        self._derived = Derived(self._connections, count)
        self._lists = ClusterLists(clusters, self.place_of)
        self._follower = Follower(self._reader.positions, count, options.poll)
        clusters.reached = self._follower.note
        target = ClusterTarget(clusters)
        members = clusters.map.members
        self._lanes = [GroupCommit(target, options.queue_bytes) for _ in range(len(members) * options.lanes)]
        numbers = {id(member): number for number, member in enumerate(members)}
        self._lane_numbers = [
            numbers.get(id(owner), 0) * options.lanes + partition % options.lanes
            for partition, owner in enumerate(clusters.map.owners)
        ]

    def _lane_of(self, partition: int) -> GroupCommit:
        return self._lanes[self._lane_numbers[partition]]

    @property
    def clusters(self) -> tuple[frozenset[int], ...]:
        """The partitions that each cluster serves, as far as this handle knows by now."""
        return tuple(member.partitions for member in self._clusters.map.members)

    def positions_at_once(self) -> tuple[int, ...]:
        """Return the last positions as they are at one moment: no cluster commits meanwhile."""
        self._use()
        if self.options.read_only:
            raise ReadOnlyError("the moment is held for a copy, which takes a store that may be written to")
        return self._clusters.all(self._positions_held)

    def _positions_held(self, members: Sequence[Served]) -> tuple[int, ...]:
        found: dict[int, int] = {}
        try:
            with ExitStack() as stack:
                for member in members:
                    connection = stack.enter_context(member.cluster.connections.one())
                    stack.enter_context(connection.transaction())
                    found.update(connection.execute(_HELD).fetchall())
        except Error as error:
            raise typed(error) from error
        if len(found) < self._count:
            raise MapChangedError
        return tuple(found[partition] for partition in range(self._count))

    @contextmanager
    def held(self) -> Generator[Tables]:
        """Keep all other writers out, and write to the tables, in one transaction of each cluster.

        The transactions end one after the other: if that breaks off, the same is done again.
        `BusyError` while a partition is moved.
        """
        self.sync()
        identity = urandom(16)
        with self._all_held() as held:
            tables = ClusterTables(
                [Tables(connection, self._count, self.partition_of) for connection in held], self.partition_of
            )
            yield tables
            tables.set("identity", identity)
        self._rewritten(identity)

    @contextmanager
    def _all_held(self) -> Generator[list[LogConnection]]:
        """Open a transaction in each cluster, and keep moves away from all of them."""
        if self.options.read_only:
            raise ReadOnlyError("the store was opened for reading only")
        try:
            with ExitStack() as stack:
                held: list[LogConnection] = []
                states: list[State | None] = []
                for member in self._clusters.map.members:
                    connection = stack.enter_context(member.cluster.connections.pinned())
                    stack.enter_context(connection.transaction())
                    unhurried(connection)
                    hold(connection)
                    held.append(connection)
                    states.append(read_state(connection))
                require_settled(state for state in states if state is not None)
                yield held
        except Error as error:
            raise typed(error) from error

    def bytes_stored(self) -> int:
        """Return the bytes of all tables and indexes of all clusters."""
        self._use()
        return sum(int(member.cluster.connections.rows(SIZE)[0][0]) for member in self._clusters.map.members)

    def reclaim(self) -> None:
        """Have the servers use the space of deleted rows again."""
        for member in self._clusters.map.members:
            self._reclaim(member.cluster.connections)

    def close(self) -> None:
        """Commit what is queued, and release the connections."""
        super().close()
        self._clusters.close()


def open_clusters(addresses: Sequence[str], **options: Any) -> ClusteredLog:
    """Open the log whose clusters have these addresses, in any order; options as in `Options`.

    `NotFoundError` if it was not made yet (`joining.create_clusters`), `CallError` if the addresses
    are not those of one log, `StorageError` if one is missing.
    """
    try:
        chosen = structs.replace(Options(), **options)
    except TypeError as error:
        raise CallError(str(error)) from None
    clusters = Clusters(addresses, chosen)
    try:
        survives = [_learned(member.cluster) for member in clusters.map.members]
        return ClusteredLog(clusters, survives, chosen)
    except BaseException:
        clusters.close()
        raise


def _learned(cluster: Cluster) -> Acknowledged:
    """Ask what a commit survives in a cluster, and learn its time."""
    return cluster.connections.run(lambda connection: asked(connection, cluster.clock))


def _weakest(all: Sequence[Acknowledged]) -> Acknowledged:
    return min(all, key=lambda one: (one.survives_crash, one.survives_primary))
