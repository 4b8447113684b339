"""The stored rows of one session.

They are derived values: readers make them, and any of them may be gone.  They lie under the keys of
checkpoints, so that what drops a session's checkpoints drops its rows, and a fork reads the rows of
its parents.  The log checks the bytes, with a checksum or a key.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

from eventlog.codec.redaction import blank
from eventlog.history.ancestry import forked_from
from eventlog.history.catalog import entry_of
from eventlog.history.checkpoint_store import key_of
from eventlog.history.derived import store
from eventlog.history.effective_history import StreamRange
from eventlog.session.session import Session
from projections.transcript.row_block import RowBlock
from projections.transcript.stretch import Ranges

if TYPE_CHECKING:
    from eventlog.events import Event

KIND = "rows 3"
"""Kind of checkpoint; the number changes when the same events give other rows."""


class RowStore:
    """The rows that a session and its parents have, by the last version of their stretch."""

    def __init__(self, session: Session) -> None:
        self._session = session.id
        self._log = session.store.log
        self._streams: tuple[StreamRange, ...] = session.reader.ancestry()

    @property
    def takes_rows(self) -> bool:
        """Whether rows can be stored."""
        return not self._log.read_only

    def get(self, low: int, high: int, ranges: Ranges) -> RowBlock | None:
        """Return the rows of versions `low + 1 .. high` if they are stored and fit the history.

        `ranges` are the effective ranges among these versions.
        """
        owner = self._owner(low, high, ranges)
        own, key = self._log.of(owner), key_of(KIND, owner, high)
        data = own.get_derived(key)
        if data is None:
            return None
        try:
            block = RowBlock.decode(data)
        except ValueError:
            return None
        if block.low != low or block.ranges != ranges:
            return None
        if block.place(own):
            store(own, [(key, block.encode())])
        return block

    def put(self, high: int, block: RowBlock, replaced: Iterable[int] = (), redacted: Iterable[str] = ()) -> None:
        """Store rows up to version `high`, and delete those up to the versions that they replace.

        `redacted` are parts that they hide. Rows that only some of their readers hide are not
        stored, nor rows of events that were read before a redaction. A log that takes nothing now
        is left alone: the next reader makes the rows again.
        """
        hidden = {part for head, _ in forked_from(self._log, self._session) for part in entry_of(head).redacted}
        if any(part.id in hidden and not part.redacted for row in block.rows for part in row.parts):
            return
        block.deferred = [
            placed._replace(event=cast("Event", blank(placed.event, hidden, digests=False)))
            for placed in block.deferred
        ]
        owner = self._owner(block.low, high, block.ranges)
        if owner != self._session and not set(redacted) <= self._redacted_for_all(owner):
            return
        own = self._log.of(owner)
        block.place(own)
        deleted = [(key_of(KIND, owner, version), None) for version in replaced]
        store(own, [(key_of(KIND, owner, high), block.encode()), *deleted])

    def _redacted_for_all(self, owner: str) -> set[str]:
        """Return the parts that every fork of a session hides: those redacted there or above."""
        names = [stream.session for stream in self._streams]
        heads = (self._log.head(name) for name in names[: names.index(owner) + 1])
        return {part for head in heads if head is not None for part in entry_of(head).redacted}

    def _owner(self, low: int, high: int, ranges: Ranges) -> str:
        """Return the session that these rows are stored with.

        It is the one whose stream holds version `high`, for all its forks read the stretch as it
        does; but rows that a rollback cut are a session's own.
        """
        if ranges != [(low + 1, high)]:
            return self._session
        return next(stream.session for stream in self._streams if stream.first <= high <= stream.last)
