"""What is left of appends that lost what was redacted or erased, kept safe from changes (promise 11).

The hash of such an append covers what is gone, so it cannot be made again of what is left: the other events of the append, times,
ids.  So whoever empties appends gives each a new salt, and records for every session that has any the tree over what is left:

    leaf: 32 bytes that the append's own leaf had  |  the bytes of a leaf (`log/merkle.py`) with what is left and the new salt

The record is an append of a stream that is no conversation (`codec/payload.py`), and so it is in the store's head: heads that are kept after
a scrub cover what it left.  Each record stands for the whole store, and the newest one counts.

    payload: REMAINS (`codec/payload.py`), then a MessagePack array [1, [session, last version, number of appends, peaks], …]

Nothing secret is in it, so it is never encrypted.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from eventlog.codec.payload import REMAINS
from eventlog.errors import DamagedError
from eventlog.log.contract import Append
from eventlog.log.merkle import SALT_BYTES, grow, leaf_data, leaf_hash
from eventlog.log.merkle_check import Mismatch, TreeState, compare_tree
from eventlog.log.rules import commit_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from eventlog.log.contract import Commit, Head
    from eventlog.log.embedded.bulk_writer import BulkWriter

__all__ = ["NAME", "Kept", "ScrubLedger", "is_record", "record", "recorded", "remains_fault", "settle"]

NAME = "eventlog/remains"
FORMAT = 1
_encode = msgspec.msgpack.Encoder().encode


class Kept(Protocol):
    """What keeps the files: the log underneath, or what is folded of it."""

    def head(self, session: str) -> Head | None:
        """See `log.contract.Log`."""
        ...

    def commits_after(self, after: int, limit: int) -> list[Commit]:
        """See `log.contract.Log`."""
        ...


class _Row(NamedTuple):
    session: str
    version: int
    appends: int
    peaks: bytes


_decode = msgspec.msgpack.Decoder(tuple[int, list[_Row]]).decode


class ScrubLedger:
    """The trees over what is left, session by session, while a store is written anew."""

    def __init__(self) -> None:
        self._rows: dict[str, _Row] = {}

    def look(self, commit: Commit) -> Commit:
        """Take in an append if it is an emptied one that can be told of; returns it.  Those of a session come in the order of versions."""
        if commit.emptied and len(commit.salt) == SALT_BYTES:
            self._add(commit)
        return commit

    def _add(self, commit: Commit) -> None:
        before = self._rows.get(commit.session) or _Row(commit.session, 0, 0, b"")
        peaks = grow(before.appends, before.peaks, _leaf(commit))
        self._rows[commit.session] = _Row(commit.session, commit.last, before.appends + 1, peaks)

    def rows(self) -> list[_Row]:
        """By session id."""
        return [self._rows[name] for name in sorted(self._rows)]


def record(kept: Kept, tally: ScrubLedger, position: int, time: int, salt: bytes) -> tuple[Commit, Head] | None:
    """The append that records what is left, and its stream's head after it; None if that is recorded already.

    `kept` is the store as it was, `position` that of its last event, `time` UTC milliseconds.
    """
    rows = tally.rows()
    if [*_newest(kept).values()] == rows:
        return None
    name, head = next((name, head) for name, head in _names(kept) if head is None or head.entry == REMAINS)
    begins = None if head is not None else 0
    payload = REMAINS + _encode((FORMAT, rows))
    entry = REMAINS if head is None else None
    append = Append(session=name, payload=payload, count=1, time=time, entry=entry, creates_at=begins)
    return commit_of(head, append, position + 1, salt)


def settle(copy: BulkWriter, tally: ScrubLedger, time: int, salt: bytes) -> None:
    """Record what is left in a store that is being written, behind all that it holds, unless that is recorded already."""
    left = record(copy, tally, copy.position, time, salt)
    if left is not None:
        commit, head = left
        copy.add([commit], {commit.session: head}, {}, {}, position=copy.position + 1)


def is_record(session: str, data: bytes) -> bool:
    """Whether this is a payload or the catalog entry of the record's stream, which is not encrypted in an encrypted log."""
    return session.startswith(NAME) and data.startswith(REMAINS)


def recorded(kept: Kept) -> dict[str, TreeState]:
    """What the newest record has of each session; nothing if there is none.  `DamagedError` if it cannot be read."""
    return {name: TreeState(row.version, row.appends, row.peaks) for name, row in _newest(kept).items()}


def remains_fault(known: TreeState | None, emptied: Sequence[Commit]) -> Mismatch | None:
    """The first of a session's emptied appends that is not what was left of it, or None; `known` is what the record has of it."""
    if known is None:
        return Mismatch("no record says what was left of the append", emptied[0].first) if emptied else None
    for commit in emptied:
        if len(commit.salt) != SALT_BYTES:
            return Mismatch("what was left of the append is not what was recorded", commit.first)
    starts = [*(commit.first for commit in emptied), emptied[-1].last + 1 if emptied else known.version + 1]
    return compare_tree(known, [_leaf(commit) for commit in emptied], starts, "the record of what was left")


def _leaf(commit: Commit) -> bytes:
    return leaf_hash(commit.leaf + leaf_data(commit))


def _names(kept: Kept) -> Iterator[tuple[str, Head | None]]:
    """The names that the record may have, each with what has it: a conversation, the record, or at last nothing."""
    for number in count(1):
        name = NAME if number == 1 else f"{NAME}~{number}"
        head = kept.head(name)
        yield name, head
        if head is None:
            return


def _newest(kept: Kept) -> dict[str, _Row]:
    head = next((head for _, head in _names(kept) if head is not None and head.entry == REMAINS), None)
    if head is None:
        return {}
    payloads = [commit.payload for commit in kept.commits_after(head.position - 1, 1) if commit.session == head.session]
    try:
        _, rows = _decode(b"".join(payloads).removeprefix(REMAINS))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DamagedError("the record of what was left of emptied appends is damaged", session=head.session) from error
    return {row.session: row for row in rows}
