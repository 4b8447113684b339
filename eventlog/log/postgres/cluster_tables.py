"""Writing past the queue to the tables of all clusters, each row where it belongs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from eventlog.log.postgres.tables import Tables

if TYPE_CHECKING:
    from eventlog.log.contract import Commit, Head
    from eventlog.log.rules import RequestResult

__all__ = ["ClusterTables"]


class ClusterTables(Tables):
    """The tables of all clusters; see `Tables`."""

    def __init__(self, all: Sequence[Tables], partition_of: Callable[[str], int]) -> None:
        self._all = all
        self._partition_of = partition_of
        self._of = {partition: tables for tables in all for partition in tables.partitions}

    def _at(self, session: str) -> Tables:
        return self._of[self._partition_of(session)]

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
        """Add commits without bodies in their order; see `Tables.add`."""
        assert not bodies
        for tables in self._all:
            here = [commit for commit in commits if self._at(commit.session) is tables]
            heads_here = {session: head for session, head in heads.items() if self._at(session) is tables}
            gone_here = [head for head in gone if self._at(head.session) is tables]
            tables.add(here, heads_here, requests, {}, position=position, gone=gone_here)

    def replace(self, commit: Commit) -> None:
        """Put another payload, salt and leaf in the place of a commit."""
        self._at(commit.session).replace(commit)

    def remove(self, commits: Iterable[Commit]) -> None:
        """Delete commits."""
        for commit in commits:
            self._at(commit.session).remove([commit])

    def tombstone(self, session: str) -> None:
        """Note that of a session only its head is left."""
        self._at(session).tombstone(session)

    def name_bodies(self, session: str, digests: Iterable[bytes]) -> None:
        """Note bodies that commits of a session name."""
        self._at(session).name_bodies(session, digests)

    def remove_unnamed(self) -> None:
        """Delete the bodies that no commit of their cluster names.

        But one that is named elsewhere, where it is not stored, is kept.
        """
        stored = [set(tables.stored_bodies()) for tables in self._all]
        pairs = list(zip(self._all, stored, strict=True))
        lent = {digest for tables, here in pairs for digest in tables.named - here}
        for tables, here in pairs:
            unnamed = here - tables.named
            tables.remove_bodies(unnamed - lent)
            lent -= unnamed

    def set(self, name: str, value: bytes) -> None:
        """Write a setting of the log, which each cluster has."""
        for tables in self._all:
            tables.set(name, value)
