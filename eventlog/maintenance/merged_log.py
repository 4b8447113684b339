"""A log of several partitions as one of one partition, for copies into a directory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from eventlog.log.contract import Commit, Head
    from eventlog.log.postgres.engine import PostgresLog
    from eventlog.log.rules import RequestResult

__all__ = ["MergedLog"]


class MergedLog:
    """A server's log as of now, one partition behind the other (`copy_commits.CopySource`).

    A session's commits keep their order. The commits of two partitions have none, so any will do.
    """

    def __init__(self, log: PostgresLog) -> None:
        self._log = log
        self._last = log.positions_at_once()
        self._starts = [0, *accumulate(self._last)]

    @property
    def end(self) -> int:
        """Position of the last event."""
        return self._starts[-1]

    def commits_after(self, after: int, limit: int) -> list[Commit]:
        """See `log.contract.Log`."""
        while after < self.end:
            partition = bisect_right(self._starts, after) - 1
            start = self._starts[partition]
            found = self._log.commits_after(after - start, limit, partition=partition)
            commits = [
                replace(commit, position=commit.position + start)
                for commit in found
                if commit.last_position <= self._last[partition]
            ]
            if commits:
                return commits
            after = self._starts[partition + 1]
        return []

    def head(self, session: str) -> Head | None:
        """See `log.contract.Log`."""
        found = self._log.head(session)
        return None if found is None else self._placed(found)

    def heads(self, after: str = "") -> Iterator[Head]:
        """See `log.contract.Log`."""
        return map(self._placed, self._log.heads(after))

    def _placed(self, head: Head) -> Head:
        partition = self._log.partition_of(head.session)
        place = head.position if head.position <= self._last[partition] else self.end + 1
        return replace(head, position=place + self._starts[partition] if place == head.position else place)

    def body(self, digest: bytes) -> bytes | None:
        """See `log.contract.Log`."""
        return self._log.body(digest)

    def request_result(self, session: str, request: str) -> RequestResult | None:
        """Return the result of a request id, with the digest of its content."""
        return self._log.request_result(session, request)
