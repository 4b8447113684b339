"""Many appends of one session in a row, of which none waits for the one before.

For imports: the log commits the appends of a stretch together. Each is decided against the state
that the ones before it leave, and goes in only right behind them, so another writer that comes
between ends the work with a `ConflictError`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from msgspec.structs import replace

from eventlog import events as ev
from eventlog.append.command import Command, Terms, content_digest, limit_bodies
from eventlog.append.metrics import Metrics
from eventlog.append.pending import PendingAppend
from eventlog.errors import ConflictError, EventlogError
from eventlog.log.commit import Ticket
from eventlog.state.committed import CommittedState
from eventlog.state.decide import decide

MOST_APPENDS = 256
"""Appends on their way, after which the next one waits for all of them."""
HOT_MESSAGES = 4096
"""Messages whose facts are in memory before older ones are archived."""
MOST_BYTES = 2 << 20
"""Bytes of events and bodies on their way, after which it does."""


class BulkAppender:
    """Appends to one session, with a state of its own.  For one thread, and without the lease."""

    def __init__(
        self, committed: CommittedState, metrics: Metrics, require_free: Callable[[], None], *, decoded: bool = True
    ) -> None:
        """Begin behind the newest event; the types of events that a decoder made need no check."""
        committed.load()
        self._decoded = decoded
        self._committed = committed
        self._metrics = metrics
        self._require_free = require_free
        """Raises if an owner holds the lease."""
        self._tickets: list[Ticket] = []
        self._bytes = 0
        self._before: Ticket | None = None
        """The newest append."""

    @property
    def version(self) -> int:
        """Version of the newest event, whether it is durable yet or not."""
        return self._committed.state.version

    def append(
        self, items: Sequence[tuple[int, ev.Event]], bodies: Mapping[bytes, bytes], request: str | None = None
    ) -> None:
        """Append events, each with its time; `wait` says when they are durable.

        Raises, and appends none, if the state does not allow all of them.
        """
        self._require_free()
        committed, metrics = self._committed, self._metrics
        state = committed.state
        weight = limit_bodies(bodies) if bodies else 0
        digest = b"" if request is None else content_digest(items)
        seen, visible = state.version, state.visible
        terms = Terms(request, digest, seen)
        decided = decide(state, items, decoded=self._decoded)
        messages = state.visible - visible
        pending = PendingAppend([Command(decided, bodies, 0, weight, terms=terms, messages=messages)])
        try:
            append = pending.prepare(committed, state.version, None, None)
            if self._before is not None:
                append = replace(append, behind=self._before)
            self._before = committed.log.submit(append)
        except BaseException:
            state.retract(seen)
            raise
        self._tickets.append(self._before)
        state.facts.archive_at = HOT_MESSAGES  # archiving many at once is quicker
        state.commit_to(state.version)
        committed.entry, committed.uncounted = pending.entry, 0
        metrics.appends += 1
        metrics.events += append.count
        metrics.payload_bytes += len(append.payload)
        metrics.body_bytes += weight
        self._bytes += len(append.payload) + weight
        if len(self._tickets) >= MOST_APPENDS or self._bytes >= MOST_BYTES:
            self._wait()

    def wait(self) -> None:
        """Block until all of it is durable, and store a checkpoint if one is due."""
        self._wait()
        committed = self._committed
        if committed.certain == committed.state.version:  # nothing failed before
            committed.state.facts.archive_at = 0
            committed.keep_if_due()

    def _wait(self) -> None:
        tickets, self._tickets, self._bytes = self._tickets, [], 0
        if not tickets:
            return
        with suppress(EventlogError):  # the first error is the reason for the others
            tickets[-1].wait()  # which commits all of them
        for ticket in tickets:
            done = ticket.wait()
            if done.repeated:
                raise ConflictError(done.session, done.first - 1, done.last)
        self._committed.certain = self._committed.state.version
