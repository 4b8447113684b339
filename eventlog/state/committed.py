"""The state of a session: read from the log, and kept up with what others append there.

From time to time it is kept as a checkpoint. A session's writer decides commands against it, and so
takes it ahead of what is committed (`append/writer.py`).
"""

from __future__ import annotations

from contextlib import suppress

from eventlog.errors import ErasedError, EventlogError, StorageError
from eventlog.history.ancestry import ancestry, head_of
from eventlog.history.catalog import CatalogEntry, entry_of
from eventlog.history.effective_history import StreamRange
from eventlog.history.forgotten import forgotten_in
from eventlog.history.tree_heads import EVERY, save_tree_head
from eventlog.log.commit import Head, LeaseState
from eventlog.log.contract import Log
from eventlog.state.loader import apply_spans, load_state, newest_state, save_state
from eventlog.state.state import State

CHECKPOINT_EVENTS = 1_000
"""Events, a run of deltas as one, after which the state is stored: opening stays short."""


class CommittedState:
    """A session's state and catalog entry, and the version up to which they are certain.

    Its caller has the session's lock.
    """

    def __init__(self, log: Log, session: str, checkpoint_events: int) -> None:
        self.log = log
        self.session = session
        self.checkpoint_events = checkpoint_events
        self.entry: CatalogEntry = CatalogEntry()
        self.streams: list[StreamRange] = []
        self.state: State = State()
        self.lease: LeaseState = LeaseState()
        """The lease record as far as it is known."""
        self.certain: int = 0
        """The version up to which everything is known to be committed."""
        self.uncounted: int = 0
        """By how much the log's total of visible messages is too small.

        Not 0 only where an earlier program wrote it, or where records of a fork's parent were
        forgotten since its last append: the next append makes up for it.
        """
        self.loaded: bool = False
        self.keep_at: int = checkpoint_events
        """The version from which on a checkpoint is due, but for deltas applied in one step."""
        self._rests_on = 0
        """Version of the checkpoint that this state came from, or was stored as."""

    def begin(self, streams: list[StreamRange], state: State) -> None:
        """Take over the ancestry and inherited facts of a session that does not exist yet."""
        self.streams = streams
        self.state = state
        self.certain = state.version
        self.loaded = True

    def ancestry(self) -> list[StreamRange]:
        """Return the streams of the session's history, which never change."""
        if not self.streams:
            with self.log.reading() as heads:
                self.streams = ancestry(heads, self.session)
        return self.streams

    def load(self) -> None:
        """Read the state from the newest checkpoint and the log."""
        self.loaded = False
        with self.log.reading():
            head = head_of(self.log, self.session)
            streams = self.ancestry()
            self.state, self._rests_on = load_state(self.log, streams, head.version)
            self.keep_at = self._rests_on + self.checkpoint_events
            self._note(head)
        self.loaded = True
        if not self.log.read_only:
            with suppress(EventlogError):  # the next reader replays as much
                self.keep_if_due()

    def read_on(self) -> bool:
        """Apply what the log has beyond the state; return whether there was anything.

        `StorageError` for a head older than what is certain: nothing is decided on it.
        """
        head = self.log.head(self.session)
        if head is None:
            return False
        if head.version < self.certain:
            raise StorageError(
                f"session {self.session}: the log gave version {head.version} as the newest, older than the committed"
                f" {self.certain}; open the store again"
            )
        self.lease = head.lease
        if head.version == self.state.version:
            return False
        self.entry = entry_of(head)
        if self.entry.erased:
            raise ErasedError(self.session)
        apply_spans(self.log, self.streams, self.state, head.version)
        self._note(head)
        return True

    def _note(self, head: Head) -> None:
        """Note that the state is at the session's head."""
        self.entry = entry_of(head)
        self.lease = head.lease
        self.certain = self.state.version
        self.uncounted = self.state.visible - head.messages
        if self.uncounted and head.base:  # another handle may know of more that was forgotten in a parent
            self.state.forget(forgotten_in(self.log, self.session))
            self.uncounted = self.state.visible - head.messages
        self.state.commit_to(self.certain)

    def note_forgotten(self) -> None:
        """Count without what was forgotten in a fork's parents since it was read."""
        before = self.state.visible
        self.state.forget(forgotten_in(self.log, self.session))
        self.uncounted += self.state.visible - before

    def keep_if_due(self) -> None:
        """Store the state, all of which is committed, if `checkpoint_events` came since the last.

        Where another handle stored it last, its archive is taken over: none writes what is there
        already.
        """
        version = self.state.version
        applied = version - self.state.skipped
        if applied < self.keep_at:  # a replay is short
            return
        saved = newest_state(self.log, self.session, version)
        self.keep_at = saved + self.checkpoint_events
        if applied < self.keep_at:
            return
        if saved > self._rests_on:
            state, self._rests_on = load_state(self.log, self.streams, version)
            state.commit_to(version)
            self.state = state
        save_state(self.log, self.streams, self.state)
        head = self.log.head(self.session)
        if head is not None and version // EVERY > max(saved, head.base) // EVERY:
            save_tree_head(self.log, head)
        self._rests_on = version
        self.state.skipped = 0
        self.keep_at = version + self.checkpoint_events
