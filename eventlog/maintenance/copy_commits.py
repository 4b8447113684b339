"""Copies commits from store to store by position, for backup, vacuum, scrub and repair.

A session's head at any position follows from its commits (`head_at`), so a copy may end anywhere. A
body is copied with the commits that name it: every byte string in a payload that equals the hash of
a stored body counts, so no event needs to be decoded. Derived values are not copied.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from eventlog import events as ev
from eventlog.codec.batch import encode, encode_value
from eventlog.codec.decoded import decode_commit, spans_of
from eventlog.codec.deltas import DeltaRun
from eventlog.codec.payload import (
    REMAINS,
    decode_encrypted_payload,
    decode_encrypted_value,
    encode_encrypted,
    is_clear,
    is_encrypted,
    is_foreign,
)
from eventlog.errors import BusyError, DamagedError, StorageError
from eventlog.history.catalog import CatalogEntry, entry_of, evolve_entry
from eventlog.log.append_checks import RequestResult, commit_of, head_after
from eventlog.log.commit import Append, Commit, Head
from eventlog.log.digests import digests_in
from eventlog.log.embedded.filesystem import NO_ROOM
from eventlog.log.merkle import leaf_of

if TYPE_CHECKING:
    from pathlib import Path

    from eventlog.log.embedded.bulk_writer import BulkWriter
    from eventlog.log.postgres.tables import Tables

BATCH_COMMITS = 1000
BATCH_BYTES = 16 << 20
"""Bytes after which a transaction of a copy ends."""
_FOLLOWED = 1000


class CommitSource(Protocol):
    """Source of commits in the order of positions."""

    def commits_after(self, after: int, limit: int) -> list[Commit]:
        """See `log.contract.Log`."""
        ...


class CopySource(CommitSource, Protocol):
    """Part of a log that a copy reads."""

    def head(self, session: str) -> Head | None:
        """See `log.contract.Log`."""
        ...

    def body(self, digest: bytes) -> bytes | None:
        """See `log.contract.Log`."""
        ...

    def request_result(self, session: str, request: str) -> RequestResult | None:
        """Return the result of a request id, with the digest of its content."""
        ...


@contextmanager
def storage_errors(path: Path) -> Generator[None]:
    """Raise `BusyError` where a disk is full, `StorageError` for other errors of the system."""
    try:
        yield
    except OSError as error:
        if error.errno in NO_ROOM:
            raise BusyError(f"no room at {path}: {error.strerror}; the same call goes on") from error
        raise StorageError(f"{path} cannot be written: {error.strerror or error}") from error


def head_at(head: Head | None, commit: Commit, now: Head) -> Head:
    """Return the head after a commit, from the head before it and today's head `now`.

    Its lease is free, with the greatest epoch of an append.  An encrypted commit needs no key.
    """
    messages, entry = 0, b"" if head is None else head.entry
    if is_encrypted(commit.payload):
        encrypted = decode_encrypted_payload(commit.payload)
        messages, entry = encrypted.messages, entry if encrypted.entry is None else encrypted.entry
    elif is_clear(commit.session, commit.payload):
        entry = REMAINS if commit.payload.startswith(REMAINS) else commit.payload
    elif is_foreign(commit) or (commit.emptied and not commit.payload):  # the content of an erased session is gone
        entry = now.entry or _tombstone_entry(head, [ev.SessionErased()])
    elif is_encrypted(entry):  # the tombstone of an encrypted session is its last commit
        entry = now.entry or _tombstone_entry(head, [span.item for span in spans_of(commit)])
    else:
        before = shown = entry_of(head) if head is not None and head.entry else CatalogEntry()
        decoded = decode_commit(commit)
        if decoded is not None:
            messages = decoded.messages
            for span in decoded.spans():
                if not isinstance(span.item, DeltaRun):
                    shown = evolve_entry(shown, span.item)
        if shown is not before or head is None:
            entry = encode_value(shown)
    after = head_after(head, commit, leaf_of(commit), messages=messages, entry=entry, base=commit.first - 1)
    if commit.epoch > after.lease.epoch:
        after = replace(after, lease=replace(after.lease, epoch=commit.epoch))
    return after


def _tombstone_entry(head: Head | None, items: Sequence[ev.Event | DeltaRun]) -> bytes:
    """Return the catalog entry of an erased session whose own entry is lost.

    Of an encrypted session: the part in clear.
    """
    before = b"" if head is None else head.entry
    shown = CatalogEntry() if head is None or not before else entry_of(head)
    for item in items:
        if not isinstance(item, DeltaRun):
            shown = evolve_entry(shown, item)
    return (
        encode_encrypted(replace(decode_encrypted_value(before), clear=encode_value(shown), data=b""))
        if is_encrypted(before)
        else encode_value(shown)
    )


def copy_commits(
    source: CopySource,
    copy: BulkWriter | Tables,
    upto: int,
    *,
    change: Callable[[Commit], Commit | None] | None = None,
    heads: Callable[[Head | None, Commit, Head], Head] = head_at,
    on_progress: Callable[[int, int], None] | None = None,
) -> Counter[str]:
    """Copy the commits after those copied before, up to `upto`; return the events by session.

    `change` returns what is copied of a commit, None for nothing.  `on_progress` is called with the
    position reached and `upto`.
    """
    batch = _Batch(source, copy, heads)
    events = Counter[str]()
    for old in commits_behind(source, copy.position, upto):
        new = old if change is None else change(old)
        if new is not None:
            batch.add(new)
            events[new.session] += new.count
        batch.position = old.last_position
        batch.count += 1
        if batch.count >= BATCH_COMMITS or batch.size >= BATCH_BYTES:
            batch.write()
            if on_progress is not None:
                on_progress(batch.position, upto)
            batch = _Batch(source, copy, heads)
    if batch.count:
        batch.write()
    return events


def commits_behind(source: CommitSource, after: int, upto: int) -> Iterator[Commit]:
    """Yield the commits after one position, up to another, in order."""
    while after < upto:
        found = source.commits_after(after, _FOLLOWED)
        for commit in found:
            after = commit.last_position
            if after > upto:
                return
            yield commit
        if not found:
            return


def add_events(
    copy: BulkWriter, head: Head, events: Sequence[ev.Event], time: int, salt: bytes, *, quiet: bool = False
) -> None:
    """Append some events to a session of a copy, all behind what was copied."""
    entry = entry_of(head)
    for event in events:
        entry = evolve_entry(entry, event)
    payload = encode([(time, event) for event in events], time)
    append = Append(
        session=head.session, payload=payload, count=len(events), time=time, entry=encode_value(entry), quiet=quiet
    )  # fmt: skip
    commit, after = commit_of(head, append, copy.position + 1, salt)
    copy.add([commit], {head.session: after}, {}, {}, position=copy.position + len(events))


class _Batch:
    """Commits, heads, requests and bodies of one transaction of a copy."""

    def __init__(
        self, source: CopySource, copy: BulkWriter | Tables, heads: Callable[[Head | None, Commit, Head], Head]
    ) -> None:
        self._source = source
        self._copy = copy
        self._head_at = heads
        self._commits: list[Commit] = []
        self._heads: dict[str, Head] = {}
        self._requests: dict[tuple[str, str], RequestResult] = {}
        self._bodies: dict[bytes, bytes] = {}
        self.position = self.count = self.size = 0

    def add(self, commit: Commit) -> None:
        """Add a commit with its session's head, its request and its bodies."""
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
        """Write the transaction."""
        self._copy.add(self._commits, self._heads, self._requests, self._bodies, position=self.position)
