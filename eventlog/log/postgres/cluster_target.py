"""The way of queued requests to the clusters that serve their partitions.

What a cluster refuses because a partition has moved is sent to the one that serves it now, in the
order it was queued in. A commit of unknown outcome is looked for there as well: a move copies what
was committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from eventlog.errors import EventlogError
from eventlog.log.postgres.attempt import Attempt, KnownHeads, Tried, settle
from eventlog.log.postgres.clusters import Waiting
from eventlog.log.postgres.guard import MapChangedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eventlog.log.postgres.batch import AnyTicket
    from eventlog.log.postgres.clusters import Clusters, Map, Served

__all__ = ["ClusterTarget"]


class ClusterTarget:
    """All clusters of a log that is written to."""

    def __init__(self, clusters: Clusters) -> None:
        self._clusters = clusters

    @property
    def timeout(self) -> float:
        """Seconds in which a lost connection is replaced, or a partition is moved."""
        return self._clusters.options.busy_timeout

    def finish(self, heads: KnownHeads, tickets: Sequence[AnyTicket]) -> None:
        """Return when each ticket has its outcome: one cluster's after the other's."""
        tried: Tried = {}
        waiting = Waiting(self._clusters)
        left = [ticket for ticket in tickets if ticket.request is not None]
        while left:
            map = self._clusters.map
            refused: list[AnyTicket] = []
            for owner, part in self._by_cluster(map, left):
                if owner is None:
                    refused += part
                    continue
                attempt = Attempt(owner.target, heads, part, tried)
                try:
                    attempt.finish()
                except MapChangedError:
                    refused += attempt.left
            late = set(refused)
            left = [ticket for ticket in left if ticket in late]
            if left:
                try:
                    waiting.pause(map, MapChangedError())
                except EventlogError as error:
                    Attempt(self._clusters.first.target, heads, left, tried).give_up(error)
                    left = []
        settle([(ticket, None) for ticket in tickets if not ticket.resolved])

    def _by_cluster(self, map: Map, tickets: Sequence[AnyTicket]) -> list[tuple[Served | None, list[AnyTicket]]]:
        found: dict[int | None, tuple[Served | None, list[AnyTicket]]] = {}
        for ticket in tickets:
            request = ticket.request
            assert request is not None
            owner = map.owners[self._clusters.partition_of(request.session)]
            number = None if owner is None else owner.state.number
            found.setdefault(number, (owner, []))[1].append(ticket)
        return list(found.values())
