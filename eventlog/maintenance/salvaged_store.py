"""Commits salvaged from a damaged store, and which of them make a sound store again.

A commit counts if its checksums and the hash of its leaf are right.  A session is kept from its
first version to its first hole: what is behind the hole may be sound, but means nothing without
what is missing, so it is listed as a loss.  A fork needs what it inherited.  A lost large text
leaves a note in its place, unless its append is encrypted.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING

import msgspec

from eventlog import events as ev
from eventlog.codec.decoded import Span, spans_of
from eventlog.codec.deltas import DeltaRun
from eventlog.codec.payload import FOREIGN, REMAINS, decode_encrypted_payload, is_encrypted, is_foreign
from eventlog.errors import DamagedError, DataError
from eventlog.history.catalog import CatalogEntry, entry_of
from eventlog.log.append_checks import RequestResult
from eventlog.log.commit import Commit, Head
from eventlog.log.digests import digests_in
from eventlog.log.merkle import TAG_BYTES, leaf_of
from eventlog.maintenance.copy_commits import head_at
from eventlog.maintenance.emptied import emptied_of_bodies

if TYPE_CHECKING:
    from eventlog.log.embedded.segments.layout import FoldState, HeadRow
    from eventlog.log.embedded.segments.segments import Segments


class RepairLoss(msgspec.Struct, frozen=True):
    """Loss that a repair reports."""

    session: str | None
    """None if the session is not known, or the loss is of no session."""
    first: int | None
    """First version that is lost; None if that is not known, or no version is lost."""
    last: int | None
    """Last version that is known to have been there."""
    problem: str


class _SalvagedSession:
    """Salvaged commits of one session."""

    __slots__ = ("base", "commits", "known", "row", "upto")

    def __init__(self) -> None:
        self.row: HeadRow | None = None
        self.commits: dict[int, tuple[int, int, Commit | tuple[int, int]]] = {}
        """By first version: last version, position, and the commit or the place of its chunk."""
        self.known = 0
        """Greatest version that any file mentions."""
        self.base: int | None = None
        self.upto = 0
        """Last version that is kept."""


class SalvagedStore:
    """Salvaged commits, and the sound store that they make (`copy_commits.CopySource`)."""

    def __init__(self, segments: Segments) -> None:
        from eventlog.log.embedded.salvage import chunks_in, rows_in

        self._segments = segments
        self._sessions: dict[str, _SalvagedSession] = {}
        self._requests: dict[tuple[str, str], RequestResult] = {}
        self._bodies: dict[bytes, bytes] = {}
        self._order: list[tuple[int, str, int]] = []
        self._chunk = lru_cache(maxsize=64)(self._read_chunk)
        self.kept: dict[str, Head] = {}
        self.tombstones: dict[str, Head] = {}
        self.position: int = 0
        self.saved_bodies: set[bytes] = set()
        """Digests of the large texts that were saved."""
        self._lost: dict[tuple[str, int], set[bytes]] = {}
        """Digests of the lost large texts of an append, by session and version."""
        for session, row in rows_in(segments):
            found = self._session(session)
            if row is not None and _is_readable(row, session):
                found.row, found.base = row, row.base
                found.known = max(found.known, row.version)
                self.position = max(self.position, row.position)
        for place, commits in chunks_in(segments):
            for commit in commits:
                self._add(commit, place)

    def folded(self) -> FoldState:
        """Return how far the journal was folded; nothing of it, if that is lost."""
        from eventlog.log.embedded.segments.layout import FoldState

        try:
            return self._segments.folded()
        except DamagedError:
            return FoldState(0, 0)

    def _session(self, name: str) -> _SalvagedSession:
        return self._sessions.setdefault(name, _SalvagedSession())

    def _add(self, commit: Commit, place: tuple[int, int] | None) -> None:
        found = self._session(commit.session)
        found.known = max(found.known, commit.last)
        if _is_whole(commit) and commit.first not in found.commits:
            found.commits[commit.first] = commit.last, commit.position, place or commit
            self.position = max(self.position, commit.position + commit.count - 1)
            if commit.request is not None:
                key = commit.session, commit.request
                self._requests[key] = RequestResult(b"", commit.first, commit.last, commit.position)

    def add_journal(self, record: object) -> None:
        """Add a commit of the journal."""
        from eventlog.log.embedded.journal.frames import CommitRecord

        assert isinstance(record, CommitRecord)
        commit = Commit(
            record.session, record.first, record.count, record.position, record.epoch, record.time, record.payload,
            record.request, record.salt, record.leaf,
        )  # fmt: skip
        if record.base is not None:
            self._session(record.session).base = record.base
        self._add(commit, None)
        for digest, packed in record.bodies:
            self._bodies.setdefault(digest, packed)
        if record.request is not None and (known := self._requests.get((record.session, record.request))) is not None:
            self._requests[record.session, record.request] = known._replace(digest=record.digest)

    # -- what can be kept --------------------------------------------------------------------------

    def assemble(self) -> list[RepairLoss]:
        """Decide what is kept of every session; return the losses."""
        losses: list[RepairLoss] = []
        order = sorted(
            (position, name, first)
            for name, found in self._sessions.items()
            for first, (_, position, _) in found.commits.items()
        )
        before = 0
        for position, name, first in order:
            if position > before:
                before = position + self._sessions[name].commits[first][0] - first
            else:  # another append has its position
                del self._sessions[name].commits[first]
        for name in sorted(self._sessions):
            self._keep_to_the_first_hole(name, losses)
        self._drop_orphans(losses)
        self._order = [one for one in order if one[1] in self.kept and one[2] <= self.kept[one[1]].version]
        self._list_missing_bodies(losses)
        return sorted(losses, key=lambda loss: (loss.session or "", loss.first or 0))

    def _keep_to_the_first_hole(self, name: str, losses: list[RepairLoss]) -> None:
        found = self._sessions[name]
        if found.row is not None and not found.row.number:
            self.tombstones[name] = found.row.head(name)
            return
        if found.base is None:
            found.base = self._base_of(name)
        head: Head | None = None
        now = found.row.head(name) if found.row is not None else None
        version, is_tombstone = -1 if found.base is None else found.base, False
        problem = "missing or damaged"
        while version >= 0 and (piece := found.commits.get(version + 1)) is not None:
            commit = self._commit(name, version + 1, piece[2])
            if commit is None:
                break
            if head is not None and commit.position <= head.position:
                problem = "its position is not behind that of the append before it"
                break
            try:
                head = head_at(head, commit, now or _unknown(commit))
            except DataError as error:
                problem = error.message
                break
            version = commit.last
            is_tombstone = commit.emptied and not commit.payload
        if head is not None:
            found.upto = version
            self.kept[name] = head
        if version < found.known or head is None:
            first = version + 1 if version >= 0 else None
            losses.append(RepairLoss(name, first, found.known or None, problem))
        elif is_tombstone and now is None:
            losses.append(RepairLoss(name, None, None, "it was erased, and why, and what it cost, is lost"))

    def _base_of(self, name: str) -> int | None:
        """Return the version before a session's first event, as that event tells it."""
        commits = self._sessions[name].commits
        if not commits:
            return None
        first = min(commits)
        commit = self._commit(name, first, commits[first][2])
        if commit is None:
            return None
        if is_encrypted(commit.payload):
            return decode_encrypted_payload(commit.payload).base
        if is_foreign(commit):
            return 0 if first == 1 else None
        opening = next(_spans(commit), None)
        if opening is not None and isinstance(opening.item, (ev.SessionStarted, ev.SessionForked)):
            return first - 1
        return None

    def _drop_orphans(self, losses: list[RepairLoss]) -> None:
        """Drop forks whose inherited history is lost, and their forks."""
        dropped = True
        while dropped:
            dropped = False
            for name, head in list(self.kept.items()):
                entry = CatalogEntry() if is_foreign(head) else entry_of(head)
                if entry.fork_of is None or entry.erased:
                    continue
                if self._reaches(entry.fork_of, head.base):
                    continue
                del self.kept[name]
                dropped = True
                problem = f"it goes on from version {head.base} of session {entry.fork_of}, which is lost"
                losses.append(RepairLoss(name, head.base + 1, self._sessions[name].known, problem))

    def _reaches(self, name: str | None, version: int) -> bool:
        """Whether the ancestry of a session, itself included, holds a version."""
        seen: set[str] = set()
        while name is not None and name not in seen:
            seen.add(name)
            head = self.kept.get(name) or self.tombstones.get(name)
            if head is None:
                return False
            if version > head.base:
                return head.version >= version and not head.gone
            name = entry_of(head).fork_of
        return False

    def _list_missing_bodies(self, losses: list[RepairLoss]) -> None:
        """List large texts that sessions name and that are missing; the sessions are kept."""
        for _, name, version in self._order:
            commit = self._commit(name, version, self._sessions[name].commits[version][2])
            if commit is None or is_foreign(commit) or not commit.payload:
                continue
            if is_encrypted(commit.payload):
                names = decode_encrypted_payload(commit.payload).names
                if any(self.body(digest) is None for digest in names):
                    losses.append(RepairLoss(name, commit.first, commit.last, "a large text is missing or damaged"))
                continue
            missing = {digest for digest in digests_in(commit.payload) if self.body(digest) is None}
            for span in _spans(commit) if missing else ():
                if not isinstance(span.item, DeltaRun) and (lost := missing.intersection(_bodies_of(span))):
                    losses.append(RepairLoss(name, span.first, span.first, "a large text is missing or damaged"))
                    self._lost.setdefault((name, commit.first), set()).update(lost)

    def without_lost_texts(self, commit: Commit) -> Commit:
        """Return the commit with a note in place of each large text that is lost."""
        lost = self._lost.get((commit.session, commit.first))
        return commit if lost is None else emptied_of_bodies(commit, lost)

    # -- being read from ---------------------------------------------------------------------------

    def commits_after(self, after: int, limit: int = 1000) -> list[Commit]:
        """See `log.contract.Log`."""
        start = bisect_right(self._order, after, key=itemgetter(0))
        found: list[Commit] = []
        for _, name, version in self._order[start : start + limit]:
            commit = self._commit(name, version, self._sessions[name].commits[version][2])
            if commit is None:
                raise DamagedError("a commit that was there is gone", session=name, version=version)
            found.append(commit)
        return found

    def head(self, session: str) -> Head | None:
        """See `log.contract.Log`."""
        return self.kept.get(session)

    def body(self, digest: bytes) -> bytes | None:
        """See `log.contract.Log`."""
        found = self._bodies.get(digest)
        if found is None:
            with suppress(DamagedError):
                found = self._segments.body(digest)
        if found is not None:
            self.saved_bodies.add(digest)
        return found

    def request_result(self, session: str, request: str) -> RequestResult | None:
        """Return the result of a request id, without the digest of its content if that is lost."""
        found = self._requests.get((session, request))
        if found is not None and not found.digest:
            with suppress(DamagedError):
                known = self._segments.request_result(session, request)
                found = found if known is None else found._replace(digest=known.digest)
        return found

    def _commit(self, name: str, first: int, place: Commit | tuple[int, int]) -> Commit | None:
        if isinstance(place, Commit):
            return place
        return next((one for one in self._chunk(place) if one.session == name and one.first == first), None)

    def _read_chunk(self, place: tuple[int, int]) -> list[Commit]:
        from eventlog.log.embedded.salvage import chunk_at

        return chunk_at(self._segments, *place)


def _is_readable(row: HeadRow, session: str) -> bool:
    """Whether the head of a row can be read, and has no events only if its session was erased."""
    try:
        head = row.head(session)
        return is_foreign(head) or entry_of(head).erased or bool(row.number)
    except DataError:
        return False


def _is_whole(commit: Commit) -> bool:
    try:
        return commit.emptied or leaf_of(commit)[:TAG_BYTES] == commit.leaf
    except DataError:
        return False


def _unknown(commit: Commit) -> Head:
    """Return a stand-in for the newest head of a session whose head is lost."""
    entry = next((entry for entry in (REMAINS, FOREIGN) if commit.payload.startswith(entry)), b"")
    return Head(commit.session, commit.last, commit.position, commit.first - 1, commit.time, commit.time, 0, entry)


def _spans(commit: Commit) -> Iterator[Span]:
    with suppress(DataError):
        yield from spans_of(commit)


def _bodies_of(span: Span) -> Iterator[bytes]:
    from eventlog.codec.redaction import contents
    from eventlog.values import Body

    return (content.digest for content in contents(span.item) if isinstance(content, Body))
