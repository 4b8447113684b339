"""Looking things up in the tail and in the folded part together.  Decides nothing, and does not look for news.

What is in memory is looked at first, LMDB second: folding moves data from the one to the other, and never the other
way, so nothing is missed between them.  The writer has caught up when it asks; readers refresh the partition first.
Made by `tail.py`, which guards the tail.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from eventlog.errors import DamagedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from eventlog.log.contract import Commit, Head
    from eventlog.log.embedded.memtable import Memtable
    from eventlog.log.embedded.segments.segments import Segments
    from eventlog.log.rules import Seen

__all__ = ["Lookup"]


class Lookup:
    """One partition's tail and segments, as one log."""

    def __init__(
        self, guard: AbstractContextManager[bool], tail: Memtable, segments: Segments, require_open: Callable[[], None]
    ) -> None:
        self._guard = guard
        self._tail = tail
        self._segments = segments
        self._require_open = require_open

    def head_of(self, session: str) -> Head | None:
        """The session's head, or None if there is no such session."""
        for generation in reversed(self._tail.generations):
            if (head := generation.heads.get(session)) is not None:
                return head
        return self._segments.head(session)

    def seen(self, session: str, request: str) -> Seen | None:
        """What became of a request id."""
        seen = self._tail.seen(session, request)
        return seen if seen is not None else self._segments.seen(session, request)

    def commits_after(self, session: str, version: int) -> list[Commit]:
        """The commits that hold versions greater than `version`, oldest first."""
        return list(self.read(session, version, None, reverse=False))

    def has_body(self, digest: bytes) -> bool:
        """Whether a body is stored."""
        return self._tail.body(digest) is not None or self._segments.has_body(digest)

    def body(self, digest: bytes) -> bytes | None:
        """The packed bytes of a body, or None."""
        packed = self._tail.body(digest)
        return packed if packed is not None else self._segments.body(digest)

    def several_bodies(self, digests: Sequence[bytes]) -> list[bytes | None]:
        """The same of each of some bodies, in their order."""
        found = self._tail.several_bodies(digests)
        places = [place for place, packed in enumerate(found) if packed is None]
        for place, packed in zip(places, self._segments.several_bodies([digests[at] for at in places]), strict=True):
            found[place] = packed
        return found

    def bodies(self) -> Iterator[bytes]:
        """The hashes of all bodies, each once."""
        with self._guard:
            recent = set(self._tail.bodies())
        yield from sorted(recent)
        for digest in self._segments.bodies():
            if digest not in recent:
                yield digest

    def heads(self, after: str) -> Iterator[Head]:
        """All heads by session id, from the first id greater than `after`."""
        with self._guard:
            recent = self._tail.heads()
        waiting = sorted((session for session in recent if session > after), reverse=True)
        for head in self._segments.heads(after):
            while waiting and waiting[-1] < head.session:
                yield recent[waiting.pop()]
            if waiting and waiting[-1] == head.session:
                yield recent[waiting.pop()]
            else:
                yield head
        while waiting:
            yield recent[waiting.pop()]

    def read(self, session: str, after: int, upto: int | None, *, reverse: bool) -> Iterator[Commit]:
        """The commits that hold versions `after + 1 .. upto`, as of now."""
        with self._guard:
            head = self._tail.head(session)
            tail = self._tail.commits(session, after, upto) if head is not None else []
        if (head is None and (head := self._segments.head(session)) is None) or head.gone:
            return iter(())
        first = max(after, head.base) + 1
        last = head.version if upto is None else min(upto, head.version)
        return (self._backward if reverse else self._forward)(session, first, last, tail)

    def _forward(self, session: str, first: int, last: int, tail: list[Commit]) -> Iterator[Commit]:
        while first <= last:
            in_tail = tail and tail[0].first <= first <= tail[-1].last
            commits = tail if in_tail else self._chunk(session, first, whole=False)
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

    def _backward(self, session: str, first: int, last: int, tail: list[Commit]) -> Iterator[Commit]:
        while first <= last:
            in_tail = tail and tail[0].first <= last <= tail[-1].last
            commits = tail if in_tail else self._chunk(session, last)
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

    def _chunk(self, session: str, version: int, *, whole: bool = True) -> list[Commit]:
        self._require_open()
        return self._segments.chunk(session, version, whole=whole)

    def follow(self, after: int, limit: int) -> list[Commit]:
        """Commits whose last position is greater than `after`, in position order, at most `limit`."""
        with self._guard:
            start = self._tail.first_position()
            recent = self._tail.order(after, limit)
        if start is not None and after + 1 >= start:
            return recent
        found = self._segments.follow(after, limit)
        last = found[-1].position if found else 0
        found += [commit for commit in recent if commit.position > last]
        return found[:limit]
