"""What every session handle can do: read, append, hold the lease.  The commands themselves are in `session.py`.

Reading sees the session through its forks and rollbacks (`history/streams.py`, `history/lineage.py`); appending goes through the session's one
writer; the lease is taken, renewed by the store, and given back here, and settling what a dead owner left is the
lease taker's first append.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, repeat
from threading import local
from typing import TYPE_CHECKING

from eventlog import events as ev
from eventlog.append.lease_claim import LeaseStatus
from eventlog.append.own_appends import recent
from eventlog.append.pipeline import Pipeline
from eventlog.append.writer import SessionWriter
from eventlog.codec.decoded import Recorded, Span, Stretch
from eventlog.errors import (
    EventlogError,
    LeaseHeldError,
    NotFoundError,
    ReadOnlyError,
    RefusedError,
    cut,
    giving_way_to,
)
from eventlog.history.catalog import entry_of
from eventlog.history.lineage import Stream, lineage_of
from eventlog.history.streams import head_of, history_spans, stretches, texts
from eventlog.integrity.heads import SessionHead, session_head
from eventlog.log.contract import Committed
from eventlog.session.inputs import require_sound_json
from eventlog.session.lease import A_LEASE, Lease, LeaseKeeper
from eventlog.session.owner import is_live
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

    def __init__(self, host: Host, session: str, writer: SessionWriter) -> None:
        self.host = host
        self.id = session
        self.writer = writer
        self.leases = LeaseKeeper(host, session, writer)
        self._local = local()

    def __repr__(self) -> str:
        return f"<Session {self.id}>"

    # -- reading -----------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """Version of the newest event, this handle's accepted ones included once they are committed."""
        self._see_own()
        return self.writer.newest()

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
        self.writer.catch_up()
        return self.writer.committed.state

    @contextmanager
    def deciding(self) -> Generator[State]:
        """The same facts, held still: no other thread changes them inside the block."""
        with self.writer.lock:
            yield self.state()

    def spans(self, after: int = 0, upto: int | None = None) -> Iterator[Span]:
        """Every event of versions `after + 1 .. upto`, inherited ones included, with runs of deltas whole."""
        return chain.from_iterable(map(Stretch.spans, self.stretches(after, upto)))

    def stretches(self, after: int = 0, upto: int | None = None) -> Iterator[Stretch]:
        """The same append by append, for a caller who takes in many at once."""
        require_version(after)
        if upto is not None:
            require_version(upto)
        own = recent(self.writer, after) if upto is None else None
        if own is not None:
            return iter(own)
        version = self.version
        last = version if upto is None else min(upto, version)
        return stretches(self.host.log, self.writer.ancestry(), after, last)

    def events(self, after: int = 0, upto: int | None = None) -> Iterator[Recorded]:
        """The same one by one."""
        return chain.from_iterable(map(Span.events, self.spans(after, upto)))

    def history(self, at: int | None = None, after: int = 0) -> Iterator[Span]:
        """The effective history right after version `at` (now by default): without what rollbacks hid."""
        require_version(after)
        version = self._known(at)
        return history_spans(self.host.log, self.writer.ancestry(), self._ranges(version), version, after)

    def effective_ranges(self, at: int | None = None) -> list[tuple[int, int]]:
        """The versions that make up the effective history at a version, as closed ascending ranges."""
        return self._ranges(self._known(at))

    def lineage(self, at: int | None = None) -> list[Lineage]:
        """The effective history as ranges of streams, oldest first."""
        ranges = self.effective_ranges(at)
        return lineage_of(self.writer.ancestry(), ranges)

    def ancestry(self) -> tuple[Stream, ...]:
        """The streams whose versions make up this session's history, the eldest first and its own last."""
        return tuple(self.writer.ancestry())

    def wrong_checkpoints(self, upto: int) -> Iterator[int]:
        """Versions up to `upto` whose checkpoint of command state is not what a replay gives."""
        return wrong_checkpoints(self.host.log, self.ancestry(), self.id, upto)

    def inherited_redactions(self) -> tuple[str, ...]:
        """Parts this session inherited that were redacted where they were made, before the fork or since."""
        streams = self.writer.ancestry()
        if len(streams) == 1:
            return ()
        return tuple(
            part
            for stream in streams[:-1]
            if (head := self.host.log.head(stream.session)) is not None
            for part in entry_of(head).redacted
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
        writer = self.writer
        if writer.is_ahead and not writer.is_held_by_others:
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

        Every event must be allowed by the session's state.  Without this handle holding the lease, no other owner may hold
        it either.  `ConflictError` unless the session is at `expected_version`.
        """
        items = each(items, "events are a list of (milliseconds, event)")
        require_or_none(Mapping, bodies, "bodies are a mapping of digests to bytes")
        require_or_none(str, request_id, "a request id is a str")
        if expected_version is not None:
            require_version(expected_version)
        self.host.usable(writing=True)
        lease = self.leases.held
        epoch = 0 if lease is None else lease.epoch
        if lease is None and (request_id is None or self.host.log.request(self.id, request_id) is None):
            self._require_no_owner()
            if expected_version is None:  # it goes in only if nothing comes between the decision and the commit
                self.flush()
                expected_version = self.state().version
        return self.writer.commit(items, bodies, epoch=epoch, expected=expected_version, request=request_id)

    def flush(self) -> None:
        """Make everything accepted so far durable."""
        self.writer.flush()

    def pipeline(self) -> Pipeline:
        """Let the commands inside the `with` return as soon as they are decided; waits for all of them at its end.

        They are one append, committed whole or not at all.  One inside another is the other.
        """
        outer: Pipeline | None = getattr(self._local, "pipeline", None)
        return Pipeline(self.writer, self._local, waits=True) if outer is None or not outer.is_open else outer

    def collecting(self) -> Pipeline:
        """Collect commands as `pipeline` does, for a caller that awaits them: for asyncio.

        The caller may be in any pipeline.
        """
        return Pipeline(self.writer, self._local, waits=False)

    def command(
        self,
        events: Sequence[ev.Event],
        bodies: Mapping[bytes, bytes] | None = None,
        *,
        wait: bool = True,
        request_id: str | None = None,
        lease: Lease | None = None,
        last: bool = False,
    ) -> None:
        """Append events under a lease, or without one if they need none.

        For the handles in this package.
        `lease` is that of the running task by default; with `last` it is given back with this append.  Without `wait`, and inside
        a pipeline, the events are accepted.
        """
        host, writer = self.host, self.writer
        if not host.writable:
            host.usable(writing=True)
        require_sound_json(events)
        items = list(zip(repeat(host.clock()), events))
        epoch = 0
        if lease is not None or (self.leases.current is not None and (lease := self.leases.held) is not None):
            if not lease.live or lease.claim.status is LeaseStatus.LOST:
                lease.require_live()
            epoch = lease.epoch
        if request_id is not None:
            writer.commit(items, bodies, epoch=epoch, request=request_id)
            return
        pipeline: Pipeline | None = getattr(self._local, "pipeline", None)
        if pipeline is not None and not pipeline.is_open:
            pipeline = None
        returns_lease = last and lease is not None and self.leases.ends_with(lease)
        if not wait and pipeline is None and writer.is_crowded:
            writer.flush()
        try:
            command = writer.accept(
                items,
                bodies,
                epoch=epoch,
                owned=wait and pipeline is None,
                unit=None if pipeline is None else pipeline.commands,
                returns_lease=returns_lease,
            )
        except EventlogError as error:
            if isinstance(error, RefusedError) and self.leases.outlived is not None and lease is None:
                self.leases.outlived.require_live()
            raise
        if pipeline is None and wait:
            writer.wait(command)
        elif pipeline is None and not writer.buffer.awake:
            writer.wake()

    def commit_now(
        self, events: Sequence[ev.Event], then: Callable[[State], Sequence[ev.Event]] | None = None
    ) -> Committed:
        """Append events as one append of their own, and what `then` makes of the state after them; durable."""
        self.host.usable(writing=True)
        now = self.host.clock()
        lease = self.leases.held
        epoch = 0 if lease is None else lease.epoch
        return self.writer.commit([(now, event) for event in events], epoch=epoch, then=then)

    def run(self, events: Sequence[ev.Event], bodies: Mapping[bytes, bytes] | None = None) -> None:
        """Append events that need the lease, taking it for this append if need be."""
        lease = self.leases.held
        if lease is not None and not lease.is_returned:
            self.command(events, bodies, lease=lease)
            return
        if (outlived := self.leases.outlived) is not None:
            outlived.require_live()
        try:
            self._run_alone(events, bodies, lazily=True)
        except LeaseHeldError:
            self._run_alone(events, bodies, lazily=False)

    def _run_alone(self, events: Sequence[ev.Event], bodies: Mapping[bytes, bytes] | None, *, lazily: bool) -> None:
        lease = self.leases.acquire(lazily=lazily)
        try:
            self.command(events, bodies, lease=lease, last=True)
        finally:
            self.leases.release(lease)

    def _require_no_owner(self) -> None:
        if self.holds_lease:  # which the log may not know of yet
            raise LeaseHeldError(self.id, "another task of this process", 0)
        head = self.host.log.head(self.id)
        if head is not None and is_live(head.lease, self.host.clock()):
            raise LeaseHeldError(self.id, "another handle", head.lease.until)

    # -- the lease -----------------------------------------------------------------------------

    @property
    def holds_lease(self) -> bool:
        """Whether this handle runs the session."""
        lease = self.leases.current
        return lease is not None and not lease.is_returned

    @contextmanager
    def lease(self, *, wait: float = 0.0) -> Generator[Lease]:
        """Hold the right to run this session.  May be nested.

        It is the running task's, and of what that starts inside the block; to another thread the lease is handed, for a `with` of its own.
        Settles what a dead owner left open.  `LeaseHeldError` if another owner or task holds it after `wait` seconds.
        """
        lease = self.acquire(wait=wait)
        try:
            yield lease
        except BaseException as error:
            with giving_way_to(error, "lease"):
                self.leases.release(lease)
            raise
        else:
            self.leases.release(lease)

    def acquire(self, *, wait: float = 0.0, lazily: bool = False) -> Lease:
        """Take the lease (or nest into it); every `acquire` needs its `release`."""
        if self.host.log.read_only:
            raise ReadOnlyError(f"session {cut(self.id)}: the store was opened for reading only")
        self.host.usable(writing=True)
        return self.leases.acquire(wait, lazily=lazily)

    def release(self, lease: Lease | None = None) -> None:
        """Give back one `acquire`; the lease itself ends with the last."""
        require_or_none(Lease, lease, A_LEASE)
        lease = lease or self.leases.current
        if lease is not None:
            self.leases.release(lease)

    # -- for the store and the handles -----------------------------------------------------------

    def inherited(self, at: int) -> tuple[list[Stream], State]:
        """What a fork at version `at` begins with."""
        streams = [
            Stream(stream.session, stream.first, min(stream.last, at))
            for stream in self.writer.ancestry()
            if stream.first <= at
        ]
        state, _ = restore(self.host.log, streams, at)
        state.started = 0
        state.settle(state.version)
        return streams, state
