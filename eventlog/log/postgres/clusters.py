"""The clusters of a log, and which of them serves a partition.

The map is read from the clusters themselves (`cluster_state.py`), and read again when a cluster
refuses what relies on it. A `Map` never changes: what was begun with one ends with it, or is begun
again with the next. A partition that was handed over and is not served yet is activated by the
process that finds it so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from psycopg import Error

from eventlog.errors import BusyError, CallError, DamagedError, NotFoundError, StorageError, UnknownOutcomeError
from eventlog.log.contract import partition_of, place_of
from eventlog.log.postgres.attempt import Target
from eventlog.log.postgres.bodies import Bodies
from eventlog.log.postgres.clock import ServerClock
from eventlog.log.postgres.cluster_state import Left, State, activate, confirm, read_state
from eventlog.log.postgres.connections import Connections, cancelled_after
from eventlog.log.postgres.faults import typed
from eventlog.log.postgres.guard import Guarded, MapChangedError
from eventlog.log.postgres.reader import Reader
from eventlog.log.postgres.seen import Seen
from eventlog.log.postgres.session_lists import SessionLists

if TYPE_CHECKING:
    from eventlog.log.contract import Head, Place
    from eventlog.log.postgres.options import Options

__all__ = ["Cluster", "Clusters", "Map", "Served", "Waiting", "identity_of"]

R = TypeVar("R")
_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 0.25


class Cluster:
    """One cluster, as long as the log is open."""

    def __init__(self, address: str, options: Options) -> None:
        self.connections = Connections(address, options)
        self.clock = ServerClock()

    def state(self) -> State | None:
        """Return what the cluster says of itself now."""
        return self.connections.run(read_state)

    def with_bodies(self, partitions: int) -> Bodies:
        """Return the bodies of the cluster, which are looked for wherever partitions are."""
        return Bodies(self.connections, partitions)


class Served(NamedTuple):
    """One cluster with the partitions that it serves by one map."""

    cluster: Cluster
    state: State
    connections: Guarded
    reader: Reader
    lists: SessionLists
    target: Target

    @property
    def partitions(self) -> frozenset[int]:
        """The partitions that it serves."""
        return self.state.serves


class Map(NamedTuple):
    """All clusters in the order of their numbers, and the one of each partition."""

    members: tuple[Served, ...]
    owners: tuple[Served | None, ...]
    """None for a partition that was handed over and is not served yet."""

    def owner(self, partition: int) -> Served:
        """Return the cluster that serves a partition; `MapChangedError` if none does now."""
        found = self.owners[partition]
        if found is None:
            raise MapChangedError
        return found


class Clusters:
    """All clusters of one log."""

    def __init__(self, addresses: Sequence[str], options: Options) -> None:
        self.options = options
        self.partitions = 0
        self.reached: Callable[[Iterable[tuple[int, int]]], None] = lambda _: None
        """Called with positions that partitions have reached."""
        self.seen = Seen()
        self._refreshing = Lock()
        self._opened = [Cluster(address, options) for address in addresses]
        try:
            self.map = self._settled_map()
        except BaseException:
            self.close()
            raise

    @property
    def first(self) -> Served:
        """The cluster that the log began with: it has what belongs to the log as a whole."""
        return self.map.members[0]

    def _note(self, positions: Iterable[tuple[int, int]]) -> None:
        self.reached(positions)

    def partition_of(self, session: str) -> int:
        """Return the partition of a session."""
        return partition_of(session, self.partitions)

    def _place_of(self, head: Head) -> Place:
        return place_of(head, self.partitions)

    def close(self) -> None:
        """Close the connections to all clusters."""
        for cluster in self._opened:
            cluster.connections.close()

    # --- using the map

    def at(self, partition: int, work: Callable[[Served], R]) -> R:
        """Return the result of a work at the cluster that serves a partition."""
        return self.with_map(lambda known: work(known.owner(partition)))

    def all(self, work: Callable[[Sequence[Served]], R]) -> R:
        """Return the result of a work at all clusters, which together serve all partitions."""

        def of(map: Map) -> R:
            if None in map.owners:
                raise MapChangedError
            return work(map.members)

        return self.with_map(of)

    def with_map(self, work: Callable[[Map], R]) -> R:
        """Return the result of a work that relies on the map; it is done again with a newer one.

        `BusyError` if a partition that it needs is not served within the timeout.
        """
        waiting = Waiting(self)
        while True:
            map = self.map
            try:
                return work(map)
            except MapChangedError as error:
                waiting.pause(map, error)

    def refresh(self, known: Map) -> None:
        """Read the map again, unless another thread has done so since `known`."""
        with self._refreshing:
            if self.map is known:
                self.map = self._settled_map()

    # --- reading the map

    def _settled_map(self) -> Map:
        """Read all clusters until they agree on where each partition is.

        One is read after the other, so a move in between makes them contradict each other. They do
        so at one moment only if two looks in a row find the same numbers.
        """
        before: list[int] = []
        while True:
            known = self._required([cluster.state() for cluster in self._opened])
            if self._activates(known):
                continue
            try:
                return self._map_of(known)
            except (DamagedError, StorageError):
                numbers = [state.map for state in known]
                if numbers == before:
                    raise
                before = numbers
                time.sleep(_FIRST_PAUSE)

    def _required(self, states: Sequence[State | None]) -> list[State]:
        known = [state for state in states if state is not None]
        if len(known) < len(states):
            raise NotFoundError(
                "store", "in the schema of one of these addresses: make it with create_clusters, or join"
            )
        if len({state.log for state in known}) > 1 or (len(known) > 1 and not known[0].log):
            raise CallError("these addresses are of different logs, or one of them has not joined yet")
        if len({state.number for state in known}) < len(known):
            raise CallError("two of these addresses are of one cluster: give each once")
        if 0 not in {state.number for state in known}:
            raise CallError("the address of the log's first cluster is not among these")
        self.partitions = known[0].settings.partitions
        return known

    def _activates(self, states: Sequence[State]) -> bool:
        """Have a partition served that was handed over, if there is one; return whether.

        One whose handing over may be on no standby stays on its way.
        """
        if self.options.read_only:
            return False
        members = list(zip(self._opened, states, strict=True))
        for source, said in members:
            for partition, gone in said.left.items():
                for cluster, state in members:
                    if state.arriving.get(partition) == gone.mark:
                        try:
                            if not self._confirmed(source, partition, gone):
                                continue
                            with cluster.connections.one() as connection:
                                activate(connection, partition, gone)
                        except Error as error:
                            raise typed(error) from error
                        return True
        return False

    def _confirmed(self, source: Cluster, partition: int, gone: Left) -> bool:
        """Return whether a handing over survives what the server can, within the timeout."""
        with source.connections.one() as connection:
            try:
                with cancelled_after(connection, self.options.busy_timeout):
                    return confirm(connection, partition, gone)
            except UnknownOutcomeError:
                return False

    def _map_of(self, states: Sequence[State]) -> Map:
        served = [self._served(cluster, state) for cluster, state in zip(self._opened, states, strict=True)]
        served.sort(key=lambda one: one.state.number)
        owners: list[Served | None] = [None] * self.partitions
        for one in served:
            for partition in one.partitions:
                if owners[partition] is not None:
                    raise DamagedError(
                        f"partition {partition} is served by two clusters: one of them was restored to an earlier state"
                    )
                owners[partition] = one
        on_the_way = {partition for state in states for partition in state.left}
        lost = [number for number, owner in enumerate(owners) if owner is None and number not in on_the_way]
        if lost:
            raise StorageError(
                f"partition {lost[0]} is in none of the {len(states)} clusters: open the log with the addresses of all"
            )
        return Map(tuple(served), tuple(owners))

    def _served(self, cluster: Cluster, state: State) -> Served:
        number = state.map if state.log else None
        guarded = Guarded(cluster.connections, number, None if state.number else cluster.clock)
        reader = Reader(guarded, self.partitions, self.partition_of, state.settings, self.seen)
        lists = SessionLists(
            guarded,
            self.options.lists_of,
            partitions=self.partitions,
            partition_of=self.partition_of,
            place_of=self._place_of,
            read_only=self.options.read_only,
        )
        target = Target(
            guarded,
            reader,
            self.partitions,
            self.partition_of,
            self.options.busy_timeout,
            self._note,
            cluster.clock,
        )
        return Served(cluster, state, guarded, reader, lists, target)


class Waiting:
    """Pauses of one caller that needs a newer map, until its time is over."""

    def __init__(self, clusters: Clusters) -> None:
        self._clusters = clusters
        self._deadline = time.monotonic() + clusters.options.busy_timeout
        self._pause = 0.0

    def pause(self, known: Map, error: MapChangedError) -> None:
        """Read the map again, from the second time on after a pause.

        `BusyError` when the time is over.
        """
        if time.monotonic() + self._pause > self._deadline:
            raise BusyError(
                "partitions of the log are being moved: if no move is at work, complete it with `eventlog move`"
            ) from error
        time.sleep(self._pause)
        self._pause = min(max(self._pause * 2, _FIRST_PAUSE), _LONGEST_PAUSE)
        self._clusters.refresh(known)


def identity_of(identities: Iterable[bytes]) -> bytes:
    """Return the identity of a log, from those of its clusters.

    They are equal, unless a rewrite has reached some of them and broken off.
    """
    distinct = sorted(set(identities))
    return distinct[0] if len(distinct) == 1 else blake2b(b"".join(distinct), digest_size=16).digest()
