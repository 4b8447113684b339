"""Removed content: emptied appends, and versions of erased sessions that live on."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from eventlog.codec.batch import Item, decode, encode
from eventlog.codec.decoded import spans_of
from eventlog.codec.deltas import DeltaRun
from eventlog.codec.payload import DESTROYED, is_foreign
from eventlog.codec.redaction import bodies_of, without_bodies
from eventlog.history.ancestry import ancestors
from eventlog.history.catalog import entry_of
from eventlog.history.checkpoint_store import PREFIX
from eventlog.history.value_index import PREFIX as VALUES
from eventlog.log.commit import Commit
from eventlog.log.merkle import SALT_BYTES, TAG_BYTES, leaf_of

if TYPE_CHECKING:
    from eventlog.log.contract import Log

Change = Callable[[Commit], Commit]
_fields = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode
_before = msgspec.msgpack.Decoder(tuple[bytes, bytes]).decode
_BEFORE = 5
"""Index of the field of a batch that a repair adds (`codec/batch.py`)."""


class VacuumResult(msgspec.Struct, frozen=True):
    """Result of writing a store anew."""

    bytes_before: int
    """Bytes of the store on disk."""
    bytes_after: int
    erased: int
    """Sessions whose events are gone."""
    emptied: int
    """Appends that lost redacted content, or content that no fork inherits."""
    pending: tuple[int, ...] = ()
    """Processes that still read the old files, which go once these go on or end; 0: unknown."""


def emptied(commit: Commit, payload: bytes = b"") -> Commit:
    """Return the commit with another payload and salt; only the hash of its leaf stays."""
    return replace(commit, payload=payload, salt=os.urandom(SALT_BYTES), leaf=leaf_of(commit))


def emptied_of_bodies(commit: Commit, lost: Collection[bytes]) -> Commit:
    """Return the commit without the texts with these digests.

    Its payload has one more field, the salt and the payload as they were committed: so
    `before_repair` proves that nothing else was changed.
    """
    spans = list(spans_of(commit))
    start = spans[0].time
    items: list[Item] = [
        replace(span.item, start=span.time - start)
        if isinstance(span.item, DeltaRun)
        else (span.time, without_bodies(span.item, lost))
        for span in spans
    ]
    before = before_repair(commit) or commit
    fields = _fields(encode(items, start, decode(commit.payload).messages))
    return emptied(commit, msgspec.msgpack.encode([*fields, (before.salt, before.payload)]))


def before_repair(commit: Commit) -> Commit | None:
    """Return the commit as it was before a repair left out lost texts; None if none did."""
    try:
        salt, payload = _before(_fields(commit.payload)[_BEFORE])
    except (msgspec.MsgspecError, IndexError, RecursionError):
        return None
    return replace(commit, salt=salt, payload=payload, leaf=commit.leaf[:TAG_BYTES])


def left_out(commit: Commit) -> set[bytes]:
    """Return the digests of the texts that a repair left out of a commit."""
    before = before_repair(commit)
    return set() if before is None else _bodies(before) - _bodies(commit)


def _bodies(commit: Commit) -> set[bytes]:
    events = (span.item for span in spans_of(commit) if not isinstance(span.item, DeltaRun))
    return {body.digest for event in events for body in bodies_of(event)}


def rewritten(commit: Commit, last: int | None, changes: Mapping[str, Change]) -> Commit | None:
    """Return what is kept of a commit, None for nothing.

    `last` is the last version that is inherited from its session; None if that was not erased.
    """
    if last == 0:
        return None
    if last is not None and commit.first > last:
        changed = emptied(commit)
    else:
        changed = changes[commit.session](commit) if commit.session in changes else commit
    if changed.emptied and not changed.salt:
        return emptied(changed, changed.payload)
    return commit if commit.emptied and changed.payload == commit.payload else changed


def is_stale(key: bytes, dropped: set[bytes]) -> bool:
    """Return whether a derived value goes with what was removed of the sessions in `dropped`."""
    if not dropped or key.startswith(DESTROYED):
        return False
    return not key.startswith((PREFIX, VALUES)) or any(name in key for name in dropped)


def inherited_versions(log: Log) -> dict[str, int]:
    """Return the erased sessions with the last version that a living session inherited, or 0."""
    needed = {head.session: 0 for head in log.heads() if not is_foreign(head) and entry_of(head).erased}
    # the forks are read after them: an erased session gets no new one
    for head in log.heads() if needed else ():
        if is_foreign(head) or head.session in needed or entry_of(head).fork_of is None:
            continue
        for stream in ancestors(log, head.session):
            if stream.session in needed:
                needed[stream.session] = max(needed[stream.session], stream.last)
    return needed
