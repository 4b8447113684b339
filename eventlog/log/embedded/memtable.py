"""The unfolded end of the journal, in memory: heads, commits, requests and bodies that LMDB does not have yet.

It is a list of *generations*, oldest first.  Only the newest one grows; the others never change, so they can be
folded by another thread, and dropped as a whole once they are folded, by any process.  A generation may hold
what is folded already; it never misses anything behind the folded address.

Not thread-safe: the partition guards it.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

import msgspec

from eventlog.errors import DamagedError
from eventlog.log.contract import Commit, Head
from eventlog.log.embedded.journal.frames import CommitRecord, Record
from eventlog.log.merkle import leaf_data, leaf_hash
from eventlog.log.rules import RequestResult, head_after

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

__all__ = ["Memtable", "MemtablePart"]


class MemtablePart:
    """What a stretch of the journal says.  Also used for one batch, before it is committed."""

    __slots__ = ("bodies", "commits", "end", "heads", "order", "position", "requests", "size")

    def __init__(self) -> None:
        self.heads: dict[str, Head] = {}
        self.commits: dict[str, list[Commit]] = {}
        self.order: list[Commit] = []
        self.requests: dict[tuple[str, str], RequestResult] = {}
        self.bodies: dict[bytes, bytes] = {}
        self.end = 0
        """Address behind the last frame."""
        self.position = 0
        """Position of the last event."""
        self.size = 0
        """Bytes of journal."""

    def add_commit(
        self,
        commit: Commit,
        head: Head,
        digest: bytes,
        bodies: Iterable[tuple[bytes, bytes]],
    ) -> None:
        """Add a commit and the head that it leads to."""
        session = commit.session
        self.order.append(commit)
        commits = self.commits.get(session)
        if commits is None:
            self.commits[session] = [commit]
        else:
            commits.append(commit)
        self.heads[session] = head
        if commit.request is not None:
            self.requests[session, commit.request] = RequestResult(
                digest, commit.first, commit.first + commit.count - 1, commit.position
            )
        for key, packed in bodies:
            self.bodies.setdefault(key, packed)

    def replay(self, record: Record, head: Head | None) -> None:
        """Add a record that was read back.

        `head` is the session's head before it.  Where LMDB has the session already folded beyond the record
        (another process is ahead of this one), the head stays as it is; later records do not change it either.
        """
        if isinstance(record, CommitRecord):
            if head is None:
                version = record.base
            else:
                version = head.version if head.position < record.position else record.first - 1
            if version is None or record.first != version + 1:
                raise DamagedError(
                    "the journal continues another history",
                    session=record.session,
                    version=record.first,
                    position=record.position,
                )
            commit = record.commit()
            if head is None or head.position < record.position:
                leaf = leaf_hash(leaf_data(commit))
                head = head_after(
                    head, commit, leaf, messages=record.messages, entry=record.entry, base=record.base or 0
                )
            self.add_commit(commit, head, record.digest, record.bodies)
        elif head is not None:
            self.heads[record.session] = msgspec.structs.replace(head, lease=record.lease())


class Memtable:
    """The generations, and look-ups through them from the newest to the oldest."""

    def __init__(self, generation_bytes: int) -> None:
        self._limit = generation_bytes
        self.generations: list[MemtablePart] = [MemtablePart()]
        self.size = 0

    def extend(self, frame: MemtablePart) -> None:
        """Take in one committed frame."""
        newest = self.generations[-1]
        if newest.size >= self._limit:
            newest = self._cut()
        newest.heads.update(frame.heads)
        for session, commits in frame.commits.items():
            mine = newest.commits.get(session)
            if mine is None:
                newest.commits[session] = commits
            else:
                mine.extend(commits)
        newest.order += frame.order
        if frame.requests:
            newest.requests.update(frame.requests)
        if frame.bodies:
            newest.bodies.update(frame.bodies)
        newest.end = frame.end
        newest.position = frame.position
        newest.size += frame.size
        self.size += frame.size

    def head(self, session: str) -> Head | None:
        """The session's newest head, if the tail says anything of it."""
        for generation in reversed(self.generations):
            if (head := generation.heads.get(session)) is not None:
                return head
        return None

    def heads(self) -> dict[str, Head]:
        """All heads the tail has."""
        found: dict[str, Head] = {}
        for generation in self.generations:
            found.update(generation.heads)
        return found

    def request_result(self, session: str, request: str) -> RequestResult | None:
        """What became of a request id, if the tail knows."""
        key = session, request
        for generation in reversed(self.generations):
            if (seen := generation.requests.get(key)) is not None:
                return seen
        return None

    def body(self, digest: bytes) -> bytes | None:
        """The packed bytes of a body, if it is in the tail."""
        for generation in reversed(self.generations):
            if (packed := generation.bodies.get(digest)) is not None:
                return packed
        return None

    def bodies_of(self, digests: Sequence[bytes]) -> list[bytes | None]:
        """The same of each of some bodies, in their order."""
        if not any(generation.bodies for generation in self.generations):  # as in a store that was just opened
            return [None] * len(digests)
        return [self.body(digest) for digest in digests]

    def bodies(self) -> list[bytes]:
        """The hashes of the bodies in the tail."""
        return [digest for generation in self.generations for digest in generation.bodies]

    def commits(self, session: str, after: int, upto: int | None = None) -> list[Commit]:
        """The tail's commits of a session that hold versions `after + 1 .. upto`, oldest first."""
        found: list[Commit] = []
        for commits in _pieces(
            self.generations, lambda generation: generation.commits.get(session), after, _last_version
        ):
            stop = len(commits) if upto is None else bisect_right(commits, upto, key=_first_version)
            found += commits[_start(commits, after, _last_version) : stop]
            if stop < len(commits):
                break
        return found

    def order(self, after: int, limit: int) -> list[Commit]:
        """The tail's commits whose last position is greater than `after`, in position order, at most `limit`."""
        found: list[Commit] = []
        for commits in _pieces(self.generations, lambda generation: generation.order, after, _last_position):
            start = _start(commits, after, _last_position)
            found += commits[start : start + limit - len(found)]
            if len(found) >= limit:
                break
        return found

    def first_position(self) -> int | None:
        """The first position that the tail holds, None if it holds no event."""
        for generation in self.generations:
            if generation.order:
                return generation.order[0].position
        return None

    def freeze(self) -> list[MemtablePart]:
        """Everything so far as generations that do not change any more, for folding."""
        if self.generations[-1].size:
            self._cut()
        return self.generations[:-1]

    def end_at(self, address: int) -> bool:
        """The journal, from which nothing is missing here, goes on at this address; False if there is nothing to fold."""
        last = next((generation for generation in reversed(self.generations) if generation.size), None)
        if last is not None:
            last.end = address
        return last is not None

    def drop(self, folded: int) -> None:
        """Forget the generations that end at or before the folded address."""
        keep = [generation for generation in self.generations if generation.end > folded or not generation.size]
        if len(keep) != len(self.generations):
            self.generations = keep if keep and not keep[-1].size else [*keep, MemtablePart()]
            self.size = sum(generation.size for generation in self.generations)

    def clear(self) -> None:
        """Forget everything."""
        self.generations = [MemtablePart()]
        self.size = 0

    def _cut(self) -> MemtablePart:
        generation = MemtablePart()
        self.generations = [*self.generations, generation]
        return generation


def _first_version(commit: Commit) -> int:
    return commit.first


def _last_version(commit: Commit) -> int:
    return commit.first + commit.count - 1


def _last_position(commit: Commit) -> int:
    return commit.position + commit.count - 1


def _pieces(
    generations: list[MemtablePart],
    select: Callable[[MemtablePart], list[Commit] | None],
    after: int,
    last: Callable[[Commit], int],
) -> Iterator[list[Commit]]:
    """The lists that hold what is later than `after`, oldest first, looking only into as many generations as do."""
    pieces: list[list[Commit]] = []
    for generation in reversed(generations):
        commits = select(generation)
        if commits:
            pieces.append(commits)
            if last(commits[0]) <= after:
                break
    return reversed(pieces)


def _start(commits: list[Commit], after: int, last: Callable[[Commit], int]) -> int:
    return bisect_right(commits, after, key=last) if last(commits[0]) <= after else 0
