"""The state of a session as far as it is committed: read from the log, folded on, and kept there from time to time.

The ground an appender stands on: `append/outcomes.py` puts on top of it what is accepted and on its way, `append/appender.py` what is decided.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from threading import RLock
from typing import Concatenate, ParamSpec, TypeVar

from eventlog.errors import ErasedError
from eventlog.history.catalog import Card, card_of
from eventlog.history.lineage import Stream
from eventlog.history.streams import ancestry, head_of
from eventlog.log.contract import Head, Log
from eventlog.state.loader import fold_spans, newest_state, restore, save_state
from eventlog.state.state import State

__all__ = ["CHECKPOINT_EVENTS", "CommittedState", "undivided"]

CHECKPOINT_EVENTS = 2_000
"""Events after which the state of a session that is written is kept, so that opening it stays short."""


S = TypeVar("S", bound="CommittedState")
P = ParamSpec("P")
R = TypeVar("R")


def undivided(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Hold the lock; a state that an interrupt left half changed is read from the log before it is used again.

    An interrupt is what is no `Exception`: after one of those everything is put right on the spot.
    """

    @wraps(method)
    def held(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self.lock:
            try:
                return method(self, *args, **kwargs)
            except Exception:
                raise
            except BaseException:
                self.torn = True
                raise

    return held


class CommittedState:
    """A session's state and card, and the version up to which they are certain.  Safe across threads."""

    def __init__(self, log: Log, session: str) -> None:
        self.log = log
        self.session = session
        self.lock = RLock()
        self.checkpoint_events = CHECKPOINT_EVENTS
        self.card = Card()
        self.streams: list[Stream] = []
        self.state = State()
        self._newest_epoch = 0
        self._certain = 0
        self._saved = 0
        """Version of the newest checkpoint that is known of, whichever handle kept it."""
        self._rests_on = 0
        """Version of the checkpoint that this state came from, or was kept as."""
        self._loaded = False
        self.torn = False
        """Whether an interrupt may have left the state half changed."""

    @property
    def certain(self) -> int:
        """The version up to which everything is known to be committed."""
        return self._certain

    def begin(self, streams: list[Stream], state: State) -> None:
        """Take over what a session that does not exist yet begins with: its ancestry and inherited facts."""
        self.streams = streams
        self.state = state
        self._certain = state.version
        self._loaded = True

    def ancestry(self) -> list[Stream]:
        """The streams of the session's history, which never change; read if they were not yet, and nothing else is looked at."""
        with self.lock:
            if not self.streams:
                self.streams = ancestry(self.log, self.session)
            return self.streams

    def _load(self) -> None:
        self.streams = self.ancestry()
        head = head_of(self.log, self.session)
        self.card = card_of(head)
        self.state, self._rests_on = restore(self.log, self.streams, head.version)
        self._saved = self._rests_on
        self._certain = self.state.version
        self.state.settle(self._certain)
        self._loaded = True

    def _read_on(self, head: Head) -> None:
        """Take in what the log has beyond the state."""
        self.card = card_of(head)
        if self.card.erased:
            raise ErasedError(self.session)
        self._newest_epoch = head.lease.epoch
        fold_spans(self.log, self.streams, self.state, head.version)
        self._certain = self.state.version
        self.state.settle(self._certain)

    def _keep(self) -> None:
        """Keep the state, all of which is committed, if `checkpoint_events` have come since it was kept last.

        Where another handle kept it last, its pieces are taken over: each handle adds one, none writes what is there already.
        """
        version = self.state.version
        if version < self._saved + self.checkpoint_events:
            return
        self._saved = newest_state(self.log, self.session, version)
        if version < self._saved + self.checkpoint_events:
            return
        if self._saved > self._rests_on:
            state, self._rests_on = restore(self.log, self.streams, version)
            state.settle(version)
            self.state = state
        save_state(self.log, self.session, self.state)
        self._saved = self._rests_on = version
