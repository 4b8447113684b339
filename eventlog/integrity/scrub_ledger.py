"""Tamper evidence for emptied appends: hash trees over what a scrub left of them.

The hash of an emptied append covers content that is gone, so it no longer protects what is left:
the other events of the append, times, ids. The writer that empties appends gives each a new salt,
and records a tree for every session that has any:

    leaf: 32 bytes of the append's own leaf  |  bytes of a leaf (`log/merkle.py`) of what is left

The record is an append of a stream that is no conversation (`codec/payload.py`).  So it is part of
the store's head, and heads that are saved after a scrub cover what it left.  Each record stands for
the whole store; the newest one counts.

    payload: REMAINS (`codec/payload.py`), then a MessagePack array
             [1, [session, last version, number of appends, peaks], …]

Nothing in it is secret, so it is never encrypted.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from eventlog.codec.payload import LEDGER, REMAINS
from eventlog.errors import DamagedError
from eventlog.log.append_checks import commit_of
from eventlog.log.commit import Append
from eventlog.log.contract import Log
from eventlog.log.merkle import SALT_BYTES, grow, leaf_data, leaf_hash
from eventlog.log.merkle_check import Mismatch, TreeState, compare_tree

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from eventlog.log.commit import Commit, Head
    from eventlog.log.embedded.bulk_writer import BulkWriter

FORMAT = 1
_encode = msgspec.msgpack.Encoder().encode


class RecordSource(Protocol):
    """Source of the ledger: the log underneath, or the folded part of its files."""

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
    """Hash trees over what is left of emptied appends, while a store is written anew."""

    def __init__(self) -> None:
        self._rows: dict[str, _Row] = {}

    def add(self, commit: Commit) -> Commit:
        """Add an append that a scrub or vacuum emptied, in version order; return the append.

        Appends that lost nothing are left out.
        """
        if commit.emptied and len(commit.salt) == SALT_BYTES:
            self._grow(commit)
        return commit

    def _grow(self, commit: Commit) -> None:
        before = self._rows.get(commit.session) or _Row(commit.session, 0, 0, b"")
        peaks = grow(before.appends, before.peaks, _leaf(commit))
        self._rows[commit.session] = _Row(commit.session, commit.last, before.appends + 1, peaks)

    def rows(self) -> list[_Row]:
        """Return the rows by session id."""
        return [self._rows[name] for name in sorted(self._rows)]


def new_record(
    source: RecordSource, ledger: ScrubLedger, position: int, time: int, salt: bytes
) -> tuple[Commit, Head] | None:
    """Return the append that records the ledger, and its stream's head; None if unchanged.

    `kept` is the store as it was, `position` that of its last event, `time` UTC milliseconds.
    """
    rows = ledger.rows()
    if [*_newest(source).values()] == rows:
        return None
    name, head = next((name, head) for name, head in _names(source) if head is None or head.entry == REMAINS)
    begins = None if head is not None else 0
    payload = REMAINS + _encode((FORMAT, rows))
    entry = REMAINS if head is None else None
    append = Append(session=name, payload=payload, count=1, time=time, entry=entry, creates_at=begins)
    return commit_of(head, append, position + 1, salt)


def write_record(copy: BulkWriter, ledger: ScrubLedger, time: int, salt: bytes) -> None:
    """Record the ledger at the end of a store that is being written, unless it is unchanged."""
    left = new_record(copy, ledger, copy.position, time, salt)
    if left is not None:
        commit, head = left
        copy.add([commit], {commit.session: head}, {}, {}, position=copy.position + 1)


def read_ledger(source: RecordSource) -> dict[str, TreeState]:
    """Return the newest ledger by session, {} if there is none; `DamagedError` if damaged."""
    return {name: TreeState(row.version, row.appends, row.peaks) for name, row in _newest(source).items()}


def scrub_fault(known: TreeState | None, emptied: Sequence[Commit]) -> Mismatch | None:
    """Return the first emptied append that differs from the ledger, or None.

    `known` is the ledger's state for the session.
    """
    if known is None:
        return Mismatch("no record says what was left of the append", emptied[0].first) if emptied else None
    for commit in emptied:
        if len(commit.salt) != SALT_BYTES:
            return Mismatch("what was left of the append is not what was recorded", commit.first)
    starts = [*(commit.first for commit in emptied), emptied[-1].last + 1 if emptied else known.version + 1]
    return compare_tree(known, [_leaf(commit) for commit in emptied], starts, "the record of what was left")


def _leaf(commit: Commit) -> bytes:
    return leaf_hash(commit.leaf + leaf_data(commit))


def _names(source: RecordSource) -> Iterator[tuple[str, Head | None]]:
    """Yield the names that the ledger may have with their heads, at last a free name."""
    for number in count(1):
        name = LEDGER if number == 1 else f"{LEDGER}~{number}"
        head = source.head(name)
        yield name, head
        if head is None:
            return


def _newest(source: RecordSource) -> dict[str, _Row]:
    head = next((head for _, head in _names(source) if head is not None and head.entry == REMAINS), None)
    if head is None:
        return {}
    found = (
        source.read(head.session, head.version - 1)  # a log may have several partitions, each with such a position
        if isinstance(source, Log)
        else source.commits_after(head.position - 1, 1)
    )
    payloads = [commit.payload for commit in found if commit.session == head.session]
    try:
        _, rows = _decode(b"".join(payloads).removeprefix(REMAINS))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DamagedError("the record of what was left of emptied appends is damaged", session=head.session) from error
    return {row.session: row for row in rows}
