"""Runs the commands of one session: takes the lease if needed, decides, appends, waits.

Deciding and appending are `append/writer.py`; who holds the lease is `lease_keeper.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from importlib import import_module
from itertools import repeat
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from eventlog import events as ev
from eventlog.append.bulk import BulkAppender
from eventlog.append.lease_claim import LeaseStatus
from eventlog.append.pipeline import OpenPipelines, Pipeline
from eventlog.append.transaction import result_of, transact
from eventlog.errors import CallError, EventlogError, LeaseHeldError, RefusedError
from eventlog.errors.base import giving_way_to
from eventlog.log.commit import Committed
from eventlog.session.held_lease import A_LEASE, Block, Lease
from eventlog.session.inputs import require_sound_json
from eventlog.session.lease_keeper import LeaseKeeper
from eventlog.session.owner import is_live, owner_of
from eventlog.session.reader import SessionReader
from eventlog.state.committed import CommittedState
from eventlog.state.settling import denials
from eventlog.state.state import State
from eventlog.validation import each, require, require_or_none, require_version, require_wait

if TYPE_CHECKING:
    from eventlog.append.writer import SessionWriter
    from eventlog.session.host import Host

__all__ = ["Executor"]

T = TypeVar("T")
Request: TypeAlias = tuple[str, bytes]
"""A request id, and the digest of what it asks for."""
_OWN_WORDS = (ev.UserMessageAdded, ev.MessagePromoted, ev.MessageFinished)
"""Events behind which the task that writes them takes a new view."""


class Executor:
    """Runs the commands of one session; the session's handle, replies and streams share it.

    While one of them is in use, neither the executor nor its `store` is collected.
    """

    def __init__(self, host: Host, session: str, writer: SessionWriter, store: object) -> None:
        self.id = session
        self.host = host
        self._store = store
        self.writer = writer
        self.reader: SessionReader = SessionReader(host, session, writer)
        self.leases: LeaseKeeper = LeaseKeeper(host, session, writer)
        self._pipelines = OpenPipelines()
        self.stops_with: Callable[[], bool] | None = None
        """Whether the work that waits for this session's answer was stopped, while it waits."""

    def append(
        self,
        items: Sequence[tuple[int, ev.Event]],
        *,
        bodies: Mapping[bytes, bytes] | None = None,
        expected_version: int | None = None,
        request_id: str | None = None,
    ) -> Committed:
        """Append events as they are, each with its time; see `Session.append`."""
        items = each(items, "events are a list of (milliseconds, event)")
        require_or_none(Mapping, bodies, "bodies are a mapping of digests to bytes")
        require_or_none(str, request_id, "a request id is a str")
        if expected_version is not None:
            require_version(expected_version)
        self.host.require_open(writing=True)
        lease = self.leases.held
        epoch = 0 if lease is None else lease.epoch
        is_new = request_id is None or self.host.log.request(self.id, request_id) is None
        if lease is None and is_new:
            self.require_no_owner()
        committed = transact(
            self.writer,
            items,
            bodies,
            epoch=epoch,
            expected=expected_version,
            unchanged=lease is None and is_new,
            request=request_id,
        )
        events = [event for _, event in items]
        if lease is not None and lease.turns:
            self._note_seen(lease, events)
        self.leave_checkpoint(events)
        return committed

    def leave_checkpoint(self, events: Iterable[ev.Event]) -> None:
        """Store a checkpoint of the view if `events`, which are appended, complete a compaction.

        So the next process opens the session quickly. The view is built by `projections`, above
        this package: it is found by its name, also in a program that imports this package alone.
        Inside a pipeline none is stored; the next reader stores it.
        """
        if self.in_pipeline or not any(type(event) is ev.CompactionCompleted for event in events):
            return
        with suppress(EventlogError):  # the events are in; the next reader replays as much
            import_module("projections.view.kept_view").leave_checkpoint(self.reader, self.host)

    def bulk(self, *, decoded: bool = True) -> BulkAppender | None:
        """Return what appends events in a row; None while this handle holds the lease.

        The types of their fields are checked unless a decoder made them (`decoded`).
        """
        self.host.require_open(writing=True)
        if self.leases.held is not None:
            return None
        self.writer.flush()
        with self.writer.lock:
            if not self.writer.queue.sent and not self.writer.queue.commands:
                self.writer.committed.loaded = False  # it would be far behind: who asks begins at a checkpoint
        committed = CommittedState(self.host.log, self.id, self.host.checkpoint_events)
        return BulkAppender(committed, self.host.counted, self.require_no_owner, decoded=decoded)

    def interrupt_requested(self, asked: str | None = None) -> bool:
        """Whether any process asked for a stop since this user message was added.

        A stop of the work that waits for this session counts, too.
        """
        since = 0 if asked is None else self.reader.state().message(asked).added
        return self.reader.state().interrupt_pending(since) or self.pass_stop_on()

    def interrupt(self, reason: str) -> None:
        """Record a request to stop, and a denial of every call with an ask."""
        requested = [ev.InterruptRequested(reason)]
        with self.reader.deciding() as state:
            denied = denials(state)
        if denied and not self.in_pipeline:
            self.commit(requested, denials)
        else:
            self.command([*requested, *denied])

    def pass_stop_on(self) -> bool:
        """Record a stop of the work that waits for this session here as well; False without one."""
        if self.stops_with is None or not self.stops_with():
            return False
        self.stops_with = None
        self.interrupt("the work that waits for this session was stopped")
        return True

    def pipeline(self) -> Pipeline:
        """Collect the commands of this thread inside a `with`, and commit them at its end.

        A pipeline inside another is the outer one.  See `Session.pipeline`.
        """
        return self._pipelines.current() or Pipeline(self.writer, self._pipelines, waits=True)

    def collecting(self) -> Pipeline:
        """Collect commands as `pipeline` does, and leave the wait to the caller: for asyncio.

        The caller may be inside another pipeline.
        """
        return Pipeline(self.writer, self._pipelines, waits=False)

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

        `lease` is the running task's by default; with `last` this append gives it back. Without
        `wait`, and inside a pipeline, the command returns when its events are accepted. The same
        `request_id` appends once.
        """
        host, writer = self.host, self.writer
        if not host.writable:
            host.require_open(writing=True)
        require_sound_json(events)
        items = list(zip(repeat(host.clock()), events))
        epoch = 0
        if lease is not None or (self.leases.current is not None and (lease := self.leases.held) is not None):
            if not lease.live or lease.claim.status is LeaseStatus.LOST:
                lease.require_live()
            epoch = lease.epoch
        if request_id is not None:
            transact(writer, items, bodies, epoch=epoch, request=request_id)
            if lease is not None and lease.turns:
                self._note_seen(lease, events)
            return
        pipeline = None if self._pipelines.innermost is None else self._pipelines.current()
        returns_lease = last and lease is not None and self.leases.ends_with(lease)
        if not wait and pipeline is None and writer.queue.gate is None and writer.queue.is_crowded:
            writer.flush()
        try:
            command = writer.accept(
                items,
                bodies,
                epoch=epoch,
                owned=wait and pipeline is None,
                unit=None if pipeline is None else pipeline.unit,
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
        if lease is not None and lease.turns:
            self._note_seen(lease, events)

    def _note_seen(self, lease: Lease, events: Sequence[ev.Event]) -> None:
        """Note that a task that answers a turn has seen all up to here.

        It has ended a reply, or said or promoted something itself: it takes its next view behind.
        """
        if any(type(event) in _OWN_WORDS for event in events):
            with self.writer.lock:
                lease.see(self.writer.known_state().version)

    def require_seen(self, version: int) -> None:
        """Refuse a view that cannot be one of this session: it is newer than the session."""
        with self.writer.lock:
            newest = self.writer.known_state().version
        if version > newest and version > (newest := self.reader.state().version):
            allowed = f"session {self.id} is at version {newest}"
            raise CallError(f"view={version} is newer than any: {allowed}; pass the view of this session that is sent")

    @property
    def in_pipeline(self) -> bool:
        """Whether the commands of this thread are collected."""
        return self._pipelines.innermost is not None and self._pipelines.current() is not None

    def commit(
        self,
        events: Sequence[ev.Event],
        then: Callable[[State], Sequence[ev.Event]] | None = None,
        *,
        bodies: Mapping[bytes, bytes] | None = None,
        expected: int | None = None,
        request: Request | None = None,
    ) -> Committed:
        """Commit events in an append of their own; durable when it returns.

        `then` gets the state after them, and returns more events for the same append.
        `ConflictError` unless the session is at version `expected`. `bodies` are long contents by
        their digest. `request` is that of `once`.
        """
        self.host.require_open(writing=True)
        now = self.host.clock()
        lease = self.leases.held
        epoch = 0 if lease is None else lease.epoch
        items = [(now, event) for event in events]
        name, digest = request or (None, b"")
        return transact(
            self.writer, items, bodies, epoch=epoch, expected=expected, then=then, request=name, digest=digest
        )

    def once(
        self,
        asked: str,
        request_id: str | None,
        work: Callable[[Request | None], T],
        first: Callable[[Committed], T],
        *,
        require_due: Callable[[], object] | None = None,
        wait: float = 0.0,
    ) -> T:
        """Work under the lease, once for a request id; later calls have its `first` result.

        `asked` is the request's content, and `work` decides what to append for it. `require_due`
        raises where there is nothing to do: then no lease is taken, which may close a reply. `wait`
        is the seconds to wait for the lease.
        """
        request = known = None
        if request_id is not None:
            require(str, request_id, "a request id is a str")
            self.host.require_open(writing=True)
            request = request_id, sha256(asked.encode("utf-8", "surrogatepass")).digest()
            known = result_of(self.writer, *request)
        if known is None:
            if require_due is not None:
                require_due()
            with self.lease(wait=wait):
                if request is not None:
                    known = result_of(self.writer, *request)  # another process may have had it meanwhile
                if known is None:
                    return work(request)
        return first(known)

    def run(
        self, events: Sequence[ev.Event], bodies: Mapping[bytes, bytes] | None = None, *, wait: float = 0.0
    ) -> None:
        """Append events that need the lease, taken for this append if the caller has none.

        `LeaseHeldError` if another owner or task holds it after `wait` seconds.
        """
        taken = self.leases.held is None
        self.writing(lambda lease: self.command(events, bodies, lease=lease, last=taken), wait=wait, settles=True)

    def writing(
        self, work: Callable[[Lease], T], *, wait: float = 0.0, settles: bool = False, lazily: bool = True
    ) -> T:
        """Append under the running task's lease, or under one taken for this append.

        Unless it `settles`, the append goes on with what a former owner left open. If the append
        finds that another owner was quicker, the lease is waited for, and `work` done again. `wait`
        is the seconds to wait for the lease. If not `lazily`, other owners see it from the
        beginning.
        """
        require_wait(wait)
        lease = self.leases.held
        if lease is not None:
            return work(lease)
        if lazily and (outlived := self.leases.outlived) is not None:
            outlived.require_live()
        self.host.require_open(writing=True)
        block = Block()
        try:
            lease = self.leases.acquire(0.0 if lazily else wait, lazily=lazily, settles=settles, block=block)
            try:
                return work(lease)
            finally:
                self.leases.release(lease)
        except LeaseHeldError:
            if not lazily:
                raise
        return self.writing(work, wait=wait, settles=settles, lazily=False)

    def require_no_owner(self) -> None:
        """Raise `LeaseHeldError` if another owner or task runs the session now."""
        current = self.leases.running
        if current is not None:  # taken lazily, the log may not have it yet
            raise LeaseHeldError(self.id, "another task of this process", current.claim.state.until)
        head = self.host.log.head(self.id)
        if head is not None and is_live(self.id, head.lease, self.host.clock()):
            owner = owner_of(head.lease)
            raise LeaseHeldError(self.id, owner.describe() if owner else "another owner", head.lease.until)

    # -- the lease -----------------------------------------------------------------------------

    @property
    def holds_lease(self) -> bool:
        """Whether this handle runs the session."""
        return self.leases.running is not None

    @contextmanager
    def lease(self, *, wait: float = 0.0, take_over: bool = False) -> Generator[Lease]:
        """Hold the right to run the session inside a `with`; see `Session.lease`."""
        block = Block()
        lease = self.acquire(wait=wait, block=block, take_over=take_over)
        error: BaseException | None = None
        try:
            yield lease
        except BaseException as raised:
            error = raised
            raise
        finally:
            with giving_way_to(error, "lease"):
                self.leases.release(lease)

    def acquire(
        self, *, wait: float = 0.0, lazily: bool = False, block: Block | None = None, take_over: bool = False
    ) -> Lease:
        """Take the lease, or nest into it; every `acquire` needs its `release`.

        `wait`, `take_over` and errors are those of `Session.lease`. `lazily` takes the lease with
        the next append; `block` gives it back when collected.
        """
        self.host.require_open(writing=True)
        return self.leases.acquire(wait, lazily=lazily, block=block, take_over=take_over)

    def release(self, lease: Lease | None = None, *, rests: bool = False) -> None:
        """Undo one `acquire` of a lease, by default the current one.

        The last `release` returns the lease to the log; with `rests` that takes no wait here, and
        is done within the flush interval.
        """
        require_or_none(Lease, lease, A_LEASE)
        lease = lease or self.leases.current
        if lease is not None:
            self.leases.release(lease, rests=rests)
