"""The memtable: heads, commits, requests and bodies that are not folded yet.

It is a list of parts, oldest first. Only the newest part grows; the others never change, so another
thread can fold them, and each is dropped as a whole once it is folded, by any process. A part may
hold what is folded already; no part misses anything behind the folded address.

Not thread-safe: the partition guards it.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import attrgetter
from typing import TYPE_CHECKING

import msgspec

from eventlog.errors import DamagedError
from eventlog.log.append_checks import RequestResult, head_after
from eventlog.log.commit import Commit, Head
from eventlog.log.embedded.journal.frames import CommitRecord, Record
from eventlog.log.embedded.part_lists import PartLists
from eventlog.log.merkle import leaf_data, leaf_hash

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from eventlog.log.lists import ListsOf

_first_version: Callable[[Commit], int] = attrgetter("first")
_last_version: Callable[[Commit], int] = attrgetter("last")
_last_position: Callable[[Commit], int] = attrgetter("last_position")


class MemtablePart:
    """The content of a range of the journal, or of one batch before it is committed."""

    __slots__ = ("bodies", "commits", "end", "heads", "lists", "order", "position", "requests", "size")

    def __init__(self) -> None:
        self.heads: dict[str, Head] = {}
        self.commits: dict[str, list[Commit]] = {}
        self.order: list[Commit] = []
        self.requests: dict[tuple[str, str], RequestResult] = {}
        self.bodies: dict[bytes, bytes] = {}
        self.lists: PartLists | None = None
        """The lists of its sessions; None until one is asked for."""
        self.end: int = 0
        """Address behind the last frame."""
        self.position: int = 0
        """Position of the last event."""
        self.size: int = 0
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
        """Add a record that was read from the journal; `head` is the session's head before it.

        Where LMDB has the session folded beyond the record (another process is ahead of this one),
        the head stays as it is; later records do not change it either.
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
    """The parts, and look-ups through them from the newest to the oldest."""

    def __init__(self, part_bytes: int) -> None:
        self._limit = part_bytes
        self.parts: list[MemtablePart] = [MemtablePart()]
        self.size: int = 0

    def extend(self, frame: MemtablePart) -> None:
        """Add one committed frame."""
        newest = self.parts[-1]
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
        """Return the session's newest head, if the memtable has one."""
        for part in reversed(self.parts):
            if (head := part.heads.get(session)) is not None:
                return head
        return None

    def heads(self) -> dict[str, Head]:
        """Return all heads of the memtable, by session."""
        heads: dict[str, Head] = {}
        for part in self.parts:
            heads.update(part.heads)
        return heads

    def lists(self, lists_of: ListsOf) -> list[PartLists]:
        """Return the lists of the sessions of each part, as of now."""
        found: list[PartLists] = []
        for part in self.parts:
            if part.lists is None:
                part.lists = PartLists()
            part.lists.follow(part.order, part.heads, lists_of)
            found.append(part.lists)
        return found

    def request_result(self, session: str, request: str) -> RequestResult | None:
        """Return the result of a request id, if the memtable has it."""
        key = session, request
        for part in reversed(self.parts):
            if (seen := part.requests.get(key)) is not None:
                return seen
        return None

    def body(self, digest: bytes) -> bytes | None:
        """Return the packed bytes of a body, if the memtable has it."""
        for part in reversed(self.parts):
            if (packed := part.bodies.get(digest)) is not None:
                return packed
        return None

    def bodies(self) -> list[bytes]:
        """Return the hashes of the memtable's bodies."""
        return [digest for part in self.parts for digest in part.bodies]

    def commits(self, session: str, after: int, upto: int | None = None) -> list[Commit]:
        """Return the commits of a session that hold versions `after + 1 .. upto`, oldest first."""
        result: list[Commit] = []
        for commits in _lists_after(self.parts, lambda part: part.commits.get(session), after, _last_version):
            stop = len(commits) if upto is None else bisect_right(commits, upto, key=_first_version)
            result += commits[_start(commits, after, _last_version) : stop]
            if stop < len(commits):
                break
        return result

    def order(self, after: int, limit: int) -> list[Commit]:
        """Return at most `limit` commits whose last position is greater than `after`, in order."""
        result: list[Commit] = []
        for commits in _lists_after(self.parts, lambda part: part.order, after, _last_position):
            start = _start(commits, after, _last_position)
            result += commits[start : start + limit - len(result)]
            if len(result) >= limit:
                break
        return result

    def first_position(self) -> int | None:
        """Return the first position that the memtable holds, None if it holds no event."""
        for part in self.parts:
            if part.order:
                return part.order[0].position
        return None

    def freeze(self) -> list[MemtablePart]:
        """Return the content as parts that do not change any more, for folding."""
        if self.parts[-1].size:
            self._cut()
        return self.parts[:-1]

    def end_at(self, address: int) -> bool:
        """Let the last part end at an address; False if there is nothing to fold."""
        last = next((part for part in reversed(self.parts) if part.size), None)
        if last is not None:
            last.end = address
        return last is not None

    def drop(self, folded: int) -> None:
        """Drop the parts that end at or before the folded address."""
        keep = [part for part in self.parts if part.end > folded or not part.size]
        if len(keep) != len(self.parts):
            self.parts = keep if keep and not keep[-1].size else [*keep, MemtablePart()]
            self.size = sum(part.size for part in self.parts)

    def clear(self) -> None:
        """Drop everything."""
        self.parts = [MemtablePart()]
        self.size = 0

    def _cut(self) -> MemtablePart:
        part = MemtablePart()
        self.parts = [*self.parts, part]
        return part


def _lists_after(
    parts: list[MemtablePart],
    select: Callable[[MemtablePart], list[Commit] | None],
    after: int,
    last: Callable[[Commit], int],
) -> Iterator[list[Commit]]:
    """Return the lists with commits later than `after`, oldest first.

    Only the parts that hold such commits are searched.
    """
    pieces: list[list[Commit]] = []
    for part in reversed(parts):
        commits = select(part)
        if commits:
            pieces.append(commits)
            if last(commits[0]) <= after:
                break
    return reversed(pieces)


def _start(commits: list[Commit], after: int, last: Callable[[Commit], int]) -> int:
    return bisect_right(commits, after, key=last) if last(commits[0]) <= after else 0
