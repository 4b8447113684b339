"""Copying a store's commits into another, in the order of their positions: shared by backup, vacuum, scrub and repair.

What a session's head was at any position follows from its commits (`head_at`), so a copy may end anywhere.  A body goes
with the commits that name it: whatever looks in a payload like the hash of a stored body counts as one, so that nothing has
to be known of the events.  Derived values are left behind.  Not here: the bytes of the copy (`log/embedded/bulk_writer.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from eventlog import events as ev
from eventlog.codec.batch import pack
from eventlog.codec.bodies import digests_in
from eventlog.codec.decoded import spans_of
from eventlog.codec.deltas import DeltaRun
from eventlog.codec.payload import is_foreign, is_sealed, mark, sealed_payload, sealed_value
from eventlog.errors import BusyError, DamagedError, StorageError
from eventlog.history.catalog import CatalogEntry, entry_of, evolve_entry
from eventlog.log.contract import Commit, Head
from eventlog.log.embedded.filesystem import NO_ROOM
from eventlog.log.merkle import leaf_of
from eventlog.log.rules import RequestResult, head_after

if TYPE_CHECKING:
    from pathlib import Path

    from eventlog.log.embedded.bulk_writer import BulkWriter

__all__ = ["ReadFrom", "commits_behind", "copy_commits", "head_at", "storage_errors"]

BATCH_COMMITS = 1000
BATCH_BYTES = 16 << 20
"""What one transaction of a copy may hold before it is cut at a commit."""
_FOLLOWED = 1000


class Follows(Protocol):
    """What has commits in the order of positions."""

    def commits_after(self, after: int, limit: int) -> list[Commit]:
        """See `log.contract.Log`."""
        ...


class ReadFrom(Follows, Protocol):
    """The part of a log that is copied from."""

    def head(self, session: str) -> Head | None:
        """See `log.contract.Log`."""
        ...

    def heads(self, after: str = "") -> Iterator[Head]:
        """See `log.contract.Log`."""
        ...

    def body(self, digest: bytes) -> bytes | None:
        """See `log.contract.Log`."""
        ...

    def request_result(self, session: str, request: str) -> RequestResult | None:
        """What became of a request id, with the digest of its content."""
        ...


@contextmanager
def storage_errors(path: Path) -> Generator[None]:
    """What the system refuses as errors of this package: `BusyError` where there is no room, else `StorageError`."""
    try:
        yield
    except OSError as error:
        if error.errno in NO_ROOM:
            raise BusyError(f"no room at {path}: {error.strerror}; make room, and go on") from error
        raise StorageError(f"{path} cannot be written: {error.strerror or error}") from error


def head_at(head: Head | None, commit: Commit, now: Head) -> Head:
    """The head after a commit, from the head before it; `now` is the session's head today.

    The lease is nobody's, with the greatest epoch that was written with.  Of an encrypted commit no key is needed.
    """
    messages, entry = 0, b"" if head is None else head.entry
    if is_sealed(commit.payload):
        sealed = sealed_payload(commit.payload)
        messages, entry = sealed.messages, entry if sealed.entry is None else sealed.entry
    elif is_foreign(commit) or (commit.emptied and not commit.payload):  # what an erased session said is gone
        entry = now.entry or _buried(head, [ev.SessionErased()])
    elif is_sealed(entry):  # the tombstone of an encrypted session, behind which nothing comes
        entry = now.entry or _buried(head, [span.item for span in spans_of(commit)])
    else:
        before = shown = entry_of(head) if head is not None and head.entry else CatalogEntry()
        for span in spans_of(commit):
            if not isinstance(span.item, DeltaRun):
                shown = evolve_entry(shown, span.item)
                messages += isinstance(span.item, (ev.UserMessageAdded, ev.AssistantMessageStarted))
        if shown is not before or head is None:
            entry = pack(shown)
    after = head_after(head, commit, leaf_of(commit), messages=messages, entry=entry, base=commit.first - 1)
    if commit.epoch > after.lease.epoch:
        after = replace(after, lease=replace(after.lease, epoch=commit.epoch))
    return after


def _buried(head: Head | None, items: Sequence[ev.Event | DeltaRun]) -> bytes:
    """The catalog entry of a session that was erased, as far as it is known without its own; of an encrypted one what is in clear."""
    before = b"" if head is None else head.entry
    shown = CatalogEntry() if head is None or not before else entry_of(head)
    for item in items:
        if not isinstance(item, DeltaRun):
            shown = evolve_entry(shown, item)
    return mark(replace(sealed_value(before), clear=pack(shown), data=b"")) if is_sealed(before) else pack(shown)


def copy_commits(
    source: ReadFrom,
    copy: BulkWriter,
    upto: int,
    *,
    change: Callable[[Commit], Commit | None] | None = None,
    heads: Callable[[Head | None, Commit, Head], Head] = head_at,
    told: Callable[[int, int], None] | None = None,
) -> int:
    """Copy the commits behind those that were copied before, up to the position `upto`; returns how many events.

    `change` gives what is copied of a commit, None for nothing.  `told` hears the position reached and `upto`.
    """
    batch = _Batch(source, copy, heads)
    events = 0
    for old in commits_behind(source, copy.position, upto):
        new = old if change is None else change(old)
        if new is not None:
            batch.add(new)
            events += new.count
        batch.position = old.last_position
        batch.count += 1
        if batch.count >= BATCH_COMMITS or batch.size >= BATCH_BYTES:
            batch.write()
            if told is not None:
                told(batch.position, upto)
            batch = _Batch(source, copy, heads)
    if batch.count:
        batch.write()
    return events


def commits_behind(source: Follows, after: int, upto: int) -> Iterator[Commit]:
    """The commits that lie behind one position, up to another, in their order."""
    while after < upto:
        found = source.commits_after(after, _FOLLOWED)
        for commit in found:
            after = commit.last_position
            if after > upto:
                return
            yield commit
        if not found:
            return


class _Batch:
    """What goes into one transaction of a copy."""

    def __init__(self, source: ReadFrom, copy: BulkWriter, heads: Callable[[Head | None, Commit, Head], Head]) -> None:
        self._source = source
        self._copy = copy
        self._head_at = heads
        self._commits: list[Commit] = []
        self._heads: dict[str, Head] = {}
        self._requests: dict[tuple[str, str], RequestResult] = {}
        self._bodies: dict[bytes, bytes] = {}
        self.position = self.count = self.size = 0

    def add(self, commit: Commit) -> None:
        """Take in a commit, its session's head, its request and its bodies."""
        session = commit.session
        now = self._source.head(session)
        if now is None:
            raise DamagedError("commits without a head", session=session, version=commit.first)
        self._heads[session] = self._head_at(self._heads.get(session) or self._copy.head(session), commit, now)
        self._commits.append(commit)
        self.size += len(commit.payload)
        if commit.request is not None and (seen := self._source.request_result(session, commit.request)) is not None:
            self._requests[session, commit.request] = seen._replace(digest=b"") if commit.emptied else seen
        for digest in digests_in(commit.payload):
            if digest not in self._bodies and not self._copy.has_body(digest):
                packed = self._source.body(digest)
                if packed is not None:
                    self._bodies[digest] = packed
                    self.size += len(packed)

    def write(self) -> None:
        """Write it."""
        self._copy.add(self._commits, self._heads, self._requests, self._bodies, position=self.position)
