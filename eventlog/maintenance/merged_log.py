"""A log of several partitions as one of one partition, for copies into a directory."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec.structs import replace

from eventlog.history.ancestry import continued

if TYPE_CHECKING:
    from eventlog.log.append_checks import RequestResult
    from eventlog.log.commit import Commit, Head
    from eventlog.log.postgres.engine import PostgresLog

_BASES = 65_536
"""Sessions of which the number of inherited versions is remembered."""


class MergedLog:
    """A server's log as of now in one order, read once from its beginning (`CopySource`).

    A session's commits keep their order, and a fork comes behind the version that it continues. The
    other commits of two partitions have no order, so any will do.
    """

    def __init__(self, log: PostgresLog) -> None:
        self._log = log
        self._last = log.last_positions()
        self._read = [0] * len(self._last)
        """Position up to which each partition was read from the server."""
        self._given = [0] * len(self._last)
        """Position up to which its commits were returned."""
        self._waiting: list[deque[Commit]] = [deque() for _ in self._last]
        """Commits that were read and not returned."""
        self._turn = 0
        self._position = 0
        self._base = lru_cache(_BASES)(self._base_of)

    @property
    def end(self) -> int:
        """Position of the last event."""
        return sum(self._last)

    def commits_after(self, after: int, limit: int) -> list[Commit]:
        """Return the following commits, those behind the last that were returned."""
        assert after == self._position, "commits are read once, in their order"
        for _ in self._last:
            found = list(self._ready(self._turn, limit))
            if found:
                return found
            self._turn = (self._turn + 1) % len(self._last)
        return []

    def _ready(self, partition: int, limit: int) -> Iterator[Commit]:
        """Yield at most `limit` commits of a partition, up to a fork that has to wait."""
        waiting, last = self._waiting[partition], self._last[partition]
        if not waiting and self._read[partition] < last:
            found = self._log.commits_after(self._read[partition], limit, partition=partition)
            waiting += [commit for commit in found if commit.last_position <= last]
            self._read[partition] = waiting[-1].last_position if waiting else last
        while waiting and self._follows(waiting[0]):
            commit = waiting.popleft()
            self._given[partition] = commit.last_position
            yield replace(commit, position=self._position + 1)
            self._position += commit.count

    def _follows(self, commit: Commit) -> bool:
        """Return whether the version that a commit continues was returned before it."""
        base = self._base(commit.session)
        if commit.first != base + 1 or not base:
            return True
        head = self._log.head(commit.session)
        parent = None if head is None else continued(self._log, head)
        if parent is None:
            return True
        position = next((found.last_position for found in self._log.read(parent.session, base - 1, base)), 0)
        return position <= self._given[self._log.partition_of(parent.session)]

    def _base_of(self, session: str) -> int:
        head = self._log.head(session)
        return 0 if head is None else head.base

    def head(self, session: str) -> Head | None:
        """See `log.contract.Log`."""
        return self._log.head(session)

    def heads(self, after: str = "") -> Iterator[Head]:
        """See `log.contract.Log`."""
        return self._log.heads(after)

    def body(self, digest: bytes) -> bytes | None:
        """See `log.contract.Log`."""
        return self._log.body(digest)

    def request_result(self, session: str, request: str) -> RequestResult | None:
        """Return the result of a request id, with the digest of its content."""
        return self._log.request_result(session, request)
