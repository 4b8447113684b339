"""Look-ups in the memtable and the segments together, as one log.

The memtable is asked first, LMDB second: folding moves data from the one to the other and never
back, so nothing is missed between them. Nothing here catches up: the writer has caught up when it
asks; readers refresh the partition first. The partition guards the memtable.
"""

from __future__ import annotations

from heapq import merge
from typing import TYPE_CHECKING

from eventlog.errors import DamagedError
from eventlog.log.contract import place_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from eventlog.log.append_checks import RequestResult
    from eventlog.log.commit import Commit, Head
    from eventlog.log.contract import Place
    from eventlog.log.embedded.memtable import Memtable
    from eventlog.log.embedded.part_lists import Row
    from eventlog.log.embedded.segments.segments import Segments
    from eventlog.log.lists import ListsOf


class Lookup:
    """One partition's memtable and segments, as one log."""

    def __init__(
        self, guard: AbstractContextManager[bool], tail: Memtable, segments: Segments, require_open: Callable[[], None]
    ) -> None:
        self._guard = guard
        self._tail = tail
        self.segments = segments
        self._require_open = require_open

    def head_of(self, session: str) -> Head | None:
        """Return the session's head, or None if there is no such session."""
        for part in reversed(self._tail.parts):
            if (head := part.heads.get(session)) is not None:
                return head
        return self.segments.head(session)

    def request_result(self, session: str, request: str) -> RequestResult | None:
        """Return the result of a request id, or None."""
        result = self._tail.request_result(session, request)
        return result if result is not None else self.segments.request_result(session, request)

    def has_body(self, digest: bytes) -> bool:
        """Return whether a body is stored."""
        return self._tail.body(digest) is not None or self.segments.has_body(digest)

    def body(self, digest: bytes) -> bytes | None:
        """Return the packed bytes of a body, or None."""
        packed = self._tail.body(digest)
        return packed if packed is not None else self.segments.body(digest)

    def bodies_of(self, digests: Sequence[bytes]) -> list[bytes | None]:
        """Return `body` of each digest, in order."""
        packed = list(map(self._tail.body, digests))
        if not any(packed):
            return self.segments.bodies_of(digests)
        folded = iter(
            self.segments.bodies_of([digest for digest, body in zip(digests, packed, strict=True) if body is None])
        )
        return [next(folded) if body is None else body for body in packed]

    def bodies(self) -> Iterator[bytes]:
        """Yield the hashes of all bodies, each once."""
        with self._guard:
            recent = set(self._tail.bodies())
        yield from sorted(recent)
        for digest in self.segments.keys("bodies"):
            if digest not in recent:
                yield digest

    def heads(self, after: str) -> Iterator[Head]:
        """Yield all heads by session id, from the first id greater than `after`."""
        with self._guard:
            recent = self._tail.heads()
        waiting = sorted((session for session in recent if session > after), reverse=True)
        for head in self.segments.heads(after):
            while waiting and waiting[-1] < head.session:
                yield recent[waiting.pop()]
            if waiting and waiting[-1] == head.session:
                yield recent[waiting.pop()]
            else:
                yield head
        while waiting:
            yield recent[waiting.pop()]

    def newest(self, lists_of: ListsOf, lists: Sequence[bytes], before: Place | None, limit: int) -> list[Head] | None:
        """Return `Log.newest`; None if the index of lists cannot be used.

        A session that both have is taken from the one that is ahead.
        """
        index = self.segments.lists
        found: list[Head] = []
        with self._guard, self.segments.environment.reading() as txn:
            if not index.reaches(txn, self.segments.folded_in(txn).position):
                return None
            recent = (part.rows(name, before) for part in self._tail.lists(lists_of) for name in lists)
            folded = (index.rows(txn, name, before) for name in lists)
            last: Row | None = None
            try:
                for row in merge(*recent, *folded, reverse=True):
                    if row == last:
                        continue
                    last = row
                    place, session = row
                    head = self._tail.head(session)
                    if head is not None and head.position > place[1]:  # it is further up
                        continue
                    stored = self.segments.row_in(txn, session)
                    if stored is not None and (head is None or head.position < stored.position):
                        head = stored.head(session)
                    if head is not None and place_of(head) == place:
                        found.append(head)
                        if len(found) == limit:
                            break
            except DamagedError:
                return None
        return found

    def read(self, session: str, after: int, upto: int | None, *, reverse: bool) -> Iterator[Commit]:
        """Return the commits that hold versions `after + 1 .. upto`, as of now."""
        with self._guard:
            segments = self.segments  # kept: a rewriting may drop the session before all is read
            head = self._tail.head(session)
            tail = self._tail.commits(session, after, upto) if head is not None else []
        if (head is None and (head := segments.head(session)) is None) or head.gone:
            return iter(())
        first = max(after, head.base) + 1
        last = head.version if upto is None else min(upto, head.version)
        return (self._backward if reverse else self._forward)(segments, session, first, last, tail)

    def _forward(self, segments: Segments, session: str, first: int, last: int, tail: list[Commit]) -> Iterator[Commit]:
        while first <= last:
            in_tail = tail and tail[0].first <= first <= tail[-1].last
            commits = tail if in_tail else self._chunk(segments, session, first, last, whole=False)
            before = first
            for commit in commits:
                following = commit.first + commit.count
                if following > first:
                    if commit.first > first:
                        break
                    yield commit
                    first = following
                    if first > last:
                        return
            if first == before:
                raise DamagedError("a committed version is missing", session=session, version=first)

    def _backward(
        self, segments: Segments, session: str, first: int, last: int, tail: list[Commit]
    ) -> Iterator[Commit]:
        while first <= last:
            in_tail = tail and tail[0].first <= last <= tail[-1].last
            commits = tail if in_tail else self._chunk(segments, session, last)
            before = last
            for commit in reversed(commits):
                if commit.first <= last:
                    if commit.last < last:
                        break
                    yield commit
                    last = commit.first - 1
                    if first > last:
                        return
            if last == before:
                raise DamagedError("a committed version is missing", session=session, version=last)

    def _chunk(
        self, segments: Segments, session: str, version: int, upto: int | None = None, *, whole: bool = True
    ) -> list[Commit]:
        self._require_open()
        return segments.chunk(session, version, upto, whole=whole)

    def commits_after(self, after: int, limit: int) -> list[Commit]:
        """Return at most `limit` commits whose last position is greater than `after`, in order."""
        with self._guard:
            start = self._tail.first_position()
            recent = self._tail.order(after, limit)
        if start is not None and after + 1 >= start:
            return recent
        folded = self.segments.commits_after(after, limit)
        last = folded[-1].position if folded else 0
        folded += [commit for commit in recent if commit.position > last]
        return folded[:limit]
