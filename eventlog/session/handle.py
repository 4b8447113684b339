"""What every session handle can do: read, append, hold the lease.  The commands themselves are in `session.py`.

Reading sees the session through its forks and rollbacks (`history/streams.py`, `history/lineage.py`); appending goes through the session's one
appender; the lease is taken, renewed by the store, and given back here, and settling what a dead owner left is the
lease taker's first append.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from threading import RLock, local
from typing import TYPE_CHECKING

from eventlog import events as ev
from eventlog.append.appender import Appender
from eventlog.append.outcomes import ATTEMPTS
from eventlog.append.pipeline import Pipeline
from eventlog.codec.decoded import Recorded, Span, Stretch
from eventlog.errors import ConflictError, LeaseHeldError, NotFoundError, ReadOnlyError, RetryError, cut, giving_way_to
from eventlog.history.catalog import card_of
from eventlog.history.lineage import Stream, lineage_of
from eventlog.history.streams import head_of, history_spans, stretches, texts
from eventlog.ids import id_of_request
from eventlog.integrity.heads import SessionHead, session_head
from eventlog.log.contract import Committed, LeaseState
from eventlog.logger import logger
from eventlog.session.inputs import require_sound_json
from eventlog.session.lease import is_live, release_lease, renew_lease, take_lease
from eventlog.state.loader import restore, wrong_checkpoints
from eventlog.state.state import State
from eventlog.validation import each, require, require_or_none, require_version
from eventlog.values import Body, Content, Lineage

if TYPE_CHECKING:
    from eventlog.history.catalog import SessionInfo
    from eventlog.session.host import Host

__all__ = ["Handle"]


class Handle:
    """The ground a `Session` stands on."""

    def __init__(self, host: Host, session: str, appender: Appender) -> None:
        self.host = host
        self.id = session
        self._appender = appender
        self._lease: LeaseState | None = None
        self._lease_depth = 0
        self.lease_lock = RLock()
        self._local = local()

    def __repr__(self) -> str:
        return f"<Session {self.id}>"

    # -- reading -----------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """Version of the newest event, this handle's accepted ones included once they are committed."""
        self._see_own()
        return self._appender.newest()

    @property
    def info(self) -> SessionInfo:
        """What a list of sessions shows of this one."""
        self._see_own()
        return self.host.info(self.id)

    def head(self) -> SessionHead:
        """The root of this session's hash tree and what it stands for: keep it elsewhere, and compare (`integrity/heads.py`)."""
        self._see_own()
        return session_head(head_of(self.host.log, self.id))

    def state(self) -> State:
        """The facts commands are decided against; do not change them."""
        self._appender.catch_up()
        return self._appender.state

    @contextmanager
    def deciding(self) -> Generator[State]:
        """The same facts, held still: no other thread changes them inside the block."""
        with self._appender.lock:
            yield self.state()

    def spans(self, after: int = 0, upto: int | None = None) -> Iterator[Span]:
        """Every event of versions `after + 1 .. upto`, inherited ones included, with runs of deltas whole."""
        return chain.from_iterable(map(Stretch.spans, self.stretches(after, upto)))

    def stretches(self, after: int = 0, upto: int | None = None) -> Iterator[Stretch]:
        """The same append by append, for whoever takes in many at once."""
        require_version(after)
        if upto is not None:
            require_version(upto)
        recent = self._appender.recent(after) if upto is None else None
        if recent is not None:
            return iter(recent)
        version = self.version
        last = version if upto is None else min(upto, version)
        return stretches(self.host.log, self._appender.ancestry(), after, last)

    def events(self, after: int = 0, upto: int | None = None) -> Iterator[Recorded]:
        """The same one by one."""
        return chain.from_iterable(map(Span.events, self.spans(after, upto)))

    def history(self, at: int | None = None, after: int = 0) -> Iterator[Span]:
        """The effective history right after version `at` (now by default): without what rollbacks hid."""
        require_version(after)
        version = self._known(at)
        return history_spans(self.host.log, self._appender.ancestry(), self._ranges(version), version, after)

    def effective_ranges(self, at: int | None = None) -> list[tuple[int, int]]:
        """The versions that make up the effective history at a version, as closed ascending ranges."""
        return self._ranges(self._known(at))

    def lineage(self, at: int | None = None) -> list[Lineage]:
        """The effective history as ranges of streams, oldest first."""
        ranges = self.effective_ranges(at)
        return lineage_of(self._appender.ancestry(), ranges)

    def ancestry(self) -> tuple[Stream, ...]:
        """The streams whose versions make up this session's history, the eldest first and its own last."""
        return tuple(self._appender.ancestry())

    def wrong_checkpoints(self, upto: int) -> Iterator[int]:
        """Versions up to `upto` whose checkpoint of command state is not what a replay gives."""
        return wrong_checkpoints(self.host.log, self.ancestry(), self.id, upto)

    def inherited_redactions(self) -> tuple[str, ...]:
        """Parts this session inherited that were redacted where they were made, before the fork or since."""
        streams = self._appender.ancestry()
        if len(streams) == 1:
            return ()
        return tuple(
            part
            for stream in streams[:-1]
            if (head := self.host.log.head(stream.session)) is not None
            for part in card_of(head).redacted
        )

    def text(self, content: Content) -> str:
        """The text of a content of this session; errors as for `Store.text`."""
        require((str, Body), content, "a content is a str or a Body")
        return content if isinstance(content, str) else self.host.text(content, self.id)

    def texts(self, bodies: Iterable[Body]) -> Iterator[str]:
        """The texts of many bodies of this session, in their order; errors as for `Store.text`.  Quicker than one by one."""
        bodies = each(bodies, "bodies are a list of Body")
        for body in bodies:
            require(Body, body, "a body is a Body")
        return texts(self.host.log, self.id, bodies)

    def find(self, name: str) -> int:
        """The version at which a message, part or pin of this id was added; `NotFoundError` if none was."""
        require(str, name, "an id is a str")
        state = self.state()
        facts = state.messages.get(name) or state.parts.get(name)
        if facts is not None:
            return facts.added
        if name in state.pins:
            return state.pins[name].added
        raise NotFoundError("message, part or pin", name, session=self.id)

    def _ranges(self, version: int) -> list[tuple[int, int]]:
        with self.deciding() as state:
            return state.history.at(version)

    def _known(self, at: int | None) -> int:
        version = self.version
        if at is None:
            return version
        require_version(at)
        if not 1 <= at <= version:
            raise NotFoundError("version", str(at), session=self.id)
        return at

    def _see_own(self) -> None:
        """Accepted events are visible to their own handle: reading commits them first."""
        if self._appender.is_ahead:
            self.flush()

    # -- appending ---------------------------------------------------------------------------

    def append(
        self,
        items: Sequence[tuple[int, ev.Event]],
        *,
        bodies: Mapping[bytes, bytes] | None = None,
        expected_version: int | None = None,
        request_id: str | None = None,
    ) -> Committed:
        """Append events as they are, each with its time in UTC milliseconds; durable when it returns.

        Every event must be allowed by the session's state.  Without this handle holding the lease, somebody else may not
        hold it either.  `ConflictError` unless the session is at `expected_version`.
        """
        items = each(items, "events are a list of (milliseconds, event)")
        require_or_none(Mapping, bodies, "bodies are a mapping of digests to bytes")
        require_or_none(str, request_id, "a request id is a str")
        if expected_version is not None:
            require_version(expected_version)
        free = self._lease is None
        known = request_id is not None and self.host.log.request(self.id, request_id) is not None
        if free and not known:
            self._nobody_runs()
        self.host.usable(writing=True)
        if (free or expected_version is not None) and not known:
            self._appender.settle()  # else `commit` would wait for the disk while it holds the lock
        return self._appender.commit(
            items,
            bodies,
            expected=expected_version,
            request=request_id,
            alone=True,
            unchanged=free and expected_version is None,
        ).wait()

    def flush(self) -> None:
        """Make everything accepted so far durable."""
        self._appender.settle()

    def pipeline(self) -> Pipeline:
        """Let the commands inside the `with` return as soon as they are decided; waits for all of them at its end.

        One inside another is the other.
        """
        outer: Pipeline | None = getattr(self._local, "pipeline", None)
        return Pipeline(self._appender, self._local, waits=True) if outer is None else outer

    def collecting(self) -> Pipeline:
        """As `pipeline`, but the caller waits, whatever pipeline it is in: for asyncio."""
        return Pipeline(self._appender, self._local, waits=False)

    def command(
        self,
        events: Sequence[ev.Event],
        bodies: Mapping[bytes, bytes] | None = None,
        *,
        wait: bool = True,
        request_id: str | None = None,
    ) -> None:
        """Append events under this handle's lease, or without one if they need none.  For the handles in this package.

        Without `wait`, and inside a pipeline, they are accepted.
        """
        host = self.host
        if not host.writable:
            host.usable(writing=True)
        require_sound_json(events)
        now = host.clock()
        items = [(now, event) for event in events]
        if request_id is None:
            pipeline: Pipeline | None = getattr(self._local, "pipeline", None)
            if pipeline is not None:
                pipeline.accept(items, bodies)
                return
            if not wait:
                self._appender.accept(items, bodies)
                return
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self._appender.commit(items, bodies, request=request_id).wait()
            except ConflictError:  # nothing was written: decide anew, on what the others have left
                if attempt == ATTEMPTS:
                    raise
                time.sleep(os.urandom(1)[0] / 128_000 * attempt)  # others do the same: not all at once again
            else:
                return

    def commit_now(
        self, events: Sequence[ev.Event], then: Callable[[State], Sequence[ev.Event]] | None = None
    ) -> Committed:
        """Append events as one append of their own, and what `then` makes of the state after them; durable."""
        self.host.usable(writing=True)
        now = self.host.clock()
        return self._appender.commit([(now, event) for event in events], alone=True, then=then).wait()

    # -- the lease -----------------------------------------------------------------------------

    @property
    def holds_lease(self) -> bool:
        """Whether this handle runs the session."""
        return self._lease is not None

    @contextmanager
    def lease(self, *, wait: float = 0.0) -> Generator[int]:
        """Hold the right to run this session; yields the epoch.  May be nested.

        Settles what a dead owner left open.  `LeaseHeldError` if somebody else holds it after `wait` seconds.
        """
        self.acquire(wait=wait)
        try:
            yield self._appender.epoch
        except BaseException as error:
            with giving_way_to(error, "lease"):
                self.release()
            raise
        else:
            self.release()

    def acquire(self, *, wait: float = 0.0) -> int:
        """Take the lease (or nest into it); every `acquire` needs its `release`.  Returns the epoch."""
        if self.host.log.read_only:
            raise ReadOnlyError(f"session {cut(self.id)}: the store was opened for reading only")
        self.host.usable(writing=True)
        with self.lease_lock:
            if self._lease is None:
                self._appender.catch_up()
                try:
                    self._lease = take_lease(
                        self.host.log,
                        self.id,
                        self.host.owner,
                        ttl=self.host.lease_ttl,
                        wait=wait,
                        clock=self.host.clock,
                    )
                    self._appender.epoch = self._lease.epoch
                    self._appender.buffer.admit()  # what an earlier lease could not write is gone with it
                    self.host.keep(self)
                    self._settle()
                except BaseException:
                    if self._lease is not None:
                        self._let_go()
                    raise
            self._lease_depth += 1
            return self._lease.epoch

    def release(self) -> None:
        """Give back one `acquire`; the lease itself ends with the last."""
        with self.lease_lock:
            if self._lease_depth > 1:
                self._lease_depth -= 1
            elif self._lease is not None:
                try:
                    self.flush()
                    self._appender.checkpoint()
                finally:
                    self._let_go()

    def renew_if_due(self, now: int, ttl: int) -> None:
        """Keep the lease for `ttl` milliseconds from `now` once a third of it is gone; called in the background.

        A handle that is just taking or giving back a lease is left for the next time: the caller must not wait for it.
        """
        if not self.lease_lock.acquire(blocking=False):
            return
        try:
            if self._lease is None or self._lease.until - now > ttl * 2 // 3:
                return
            renewed = renew_lease(self.host.log, self.id, self._lease, now + ttl)
            if renewed is None:
                self.host.forget(self)
            else:
                self._lease = renewed
        finally:
            self.lease_lock.release()

    def abandon(self) -> None:
        """Give the lease back, however often it was acquired: the store is closing."""
        with self.lease_lock:
            if self._lease is not None:
                self._let_go()

    def _let_go(self) -> None:
        state, self._lease, self._lease_depth, self._appender.epoch = self._lease, None, 0, 0
        self._appender.leave()
        self.host.forget(self)
        if state is not None:
            release_lease(self.host.log, self.id, state)

    def _settle(self) -> None:
        """Close what a dead owner left open, as the new owner's first append (spec §9)."""
        closing = self.state().closing("interrupted")
        self.host.counted.leases_taken += 1
        if closing:
            logger().info("session %s: settling what a dead owner left open: %d events", self.id, len(closing))
            self.host.counted.settled += 1
            self.commit_now([*closing, ev.Settled(self._appender.epoch)])

    def _nobody_runs(self) -> None:
        head = self.host.log.head(self.id)
        if head is not None and is_live(head.lease, self.host.clock()):
            raise LeaseHeldError(self.id, "another handle", head.lease.until)

    @contextmanager
    def _leased(self) -> Generator[None]:
        """The lease for one command, whose outcome is its own: not what comes of the others' when the lease is given back."""
        self.acquire()
        try:
            yield
            pipeline: Pipeline | None = getattr(self._local, "pipeline", None)
            if pipeline is not None and self._lease_depth == 1:
                pipeline.wait()
        except BaseException as error:
            with giving_way_to(error, "lease"):
                self.release()
            raise
        try:
            self.release()
        except RetryError as error:  # what others had accepted is kept, or they are told
            logger().warning("session %s: a flush failed: %s", self.id, type(error).__name__)

    def run(self, events: Sequence[ev.Event], bodies: Mapping[bytes, bytes] | None = None) -> None:
        """Append events that need the lease, taking it for this command if need be."""
        with self._leased():
            self.command(events, bodies)

    # -- for the store and the handles -----------------------------------------------------------

    @property
    def appender(self) -> Appender:
        """The one that writes for this handle."""
        return self._appender

    def inherited(self, at: int) -> tuple[list[Stream], State]:
        """What a fork at version `at` begins with."""
        self._appender.catch_up()
        streams = [
            Stream(stream.session, stream.first, min(stream.last, at))
            for stream in self._appender.streams
            if stream.first <= at
        ]
        state, _ = restore(self.host.log, streams, at)
        state.started = 0
        state.settle(state.version)
        return streams, state

    def _id(self, prefix: str, request: str | None) -> str:
        """A new id; under a request id always the same one, so that a retry has the same content."""
        return self.host.new_id(prefix) if request is None else id_of_request(prefix, self.id, request)
