"""One turn: a user message that is answered once, however often and wherever it is asked.

    with session.turn("Fix the tests", request_id="r1") as turn:
        if turn.mine:
            ...                    # the loop, which ends with the answer
    turn.state, turn.answer

The message is added, or found by its request id. Whether it is answered is decided under the
session's lease, so of all that ask at once exactly one begins. The others are told so, and follow:
with `Store.subscribe`, or by asking again with a `wait`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, TypeAlias

from msgspec.structs import replace

from eventlog import events as ev
from eventlog.append.backoff import Backoff
from eventlog.append.lease_claim import LeaseStatus
from eventlog.errors import ConflictError, FencedError, LeaseHeldError, RefusedError
from eventlog.errors.base import giving_way_to
from eventlog.session.failure import CRASHED
from eventlog.session.held_lease import POLL, Block, Lease, unless_held
from eventlog.session.outcome import Outcome, broken_before, has_earlier_question, outcome_of
from eventlog.validation import require, require_or_none, require_wait
from eventlog.values import MessageError, Retry

if TYPE_CHECKING:
    from eventlog.session.executor import Executor

MARGIN = 0.25
"""Seconds beyond the flush interval for which a turn waits for a lease that may rest."""
LONGEST_REST = 3.25
"""Seconds for which a turn waits so at most."""

TurnState: TypeAlias = Literal["new", "resumed", "running", "queued", "asked", "done", "failed", "stopped", "withdrawn"]
"""The caller answers (new, resumed), follows (running, queued), or has nothing to do."""


class Turn:
    """A user message and its answer; inside its `with` the caller may have to answer it."""

    message: str
    """The user message."""
    state: TurnState
    """Who answers, or how the turn ended.

    new: added now. resumed: asked before, and no task answers. running: another task answers.
    queued: another task runs the session, and comes to it later. asked: it goes on once a person
    has answered for the calls that `Session.asked_calls` lists. done: `answer` has it. failed:
    `retry` begins again. stopped: a user interrupted it. withdrawn: rolled back or removed.
    """
    answer: tuple[str, ...] = ()
    """The replies so far, in order; the last one of a done turn ends its answer."""
    error: MessageError | None = None
    """Why the newest reply failed or broke off."""
    lease: Lease | None = None
    """The right to answer, if the caller has it."""

    def __init__(
        self,
        executor: Executor,
        ask: Callable[[], str],
        request: str | None,
        *,
        wait: float = 0.0,
        take_over: bool = False,
    ) -> None:
        require_or_none(str, request, "a request id is a str")
        require_wait(wait)
        require(bool, take_over, "take_over is True or False")
        self.wait = wait
        self._take_over = take_over
        self._executor = executor
        self._ask = ask
        self._request = request
        self._began: Literal["new", "resumed"] = "new"
        self._found = Outcome("withdrawn")
        self._block: Block | None = None
        """Keeps the lease that `with` took."""
        self._claimed: Lease | None = None
        """The lease that was taken with the user message, until `decide`."""

    @property
    def mine(self) -> bool:
        """Whether the caller is to answer: it holds the lease."""
        return self.lease is not None

    def __enter__(self) -> Self:
        until = self.begin()
        while until is not None:
            time.sleep(POLL)
            is_last = time.monotonic() >= until
            if self.decide(is_last=is_last) or is_last:
                break
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        block, self._block = self._block, None  # held by this call alone: should it break off, the lease is over
        with giving_way_to(error, "turn"):
            try:
                if self.lease is not None and kind is None:
                    self._see(outcome_of(self._executor.reader, self.message))
            finally:
                self.release()
                del block

    def retry(self) -> None:
        """Begin a failed turn again: its state is "resumed" then, and the caller answers.

        The failed reply stays in the log and leaves the view, with its calls. A later question that
        waits is answered with it; if a later reply has seen both, the turn is as that reply ended,
        "done" as a rule. If another task was quicker, the state says so. `LeaseHeldError` if one
        runs the session for longer than the turn waits.
        """
        unless_held(self.begin_again, self.patience())

    # -- for `with` ----------------------------------------------------------------------------

    def begin(self) -> float | None:
        """Ask, and decide at once; returns the time until which to try again.

        None: there is no more to do. Broken off, it leaves no lease behind.
        """
        try:
            self.ask()
            until = time.monotonic() + self.patience()
            is_last = time.monotonic() >= until
            return None if self.decide(is_last=is_last) or is_last else until
        except BaseException:
            claimed, self._claimed, self._block = self._claimed, None, None
            if claimed is not None:
                self._executor.release(claimed)
            self.release()
            raise

    def ask(self) -> None:
        """Add the user message, or find it."""
        self._block = Block()
        request = self._request
        is_new = request is not None and self._executor.host.log.request(self._executor.id, request) is None
        self._began = "new" if is_new else "resumed"
        executor = self._executor
        may_claim = is_new and executor.host.writable and not executor.in_pipeline
        claimed = executor.leases.claim(self._block) if may_claim else None
        if claimed is None:
            self.message = self._ask()
            return
        claimed.share()
        try:
            self.message = self._ask()
        except (FencedError, LeaseHeldError):  # another owner was quicker; the message needs no lease
            executor.release(claimed)
            self.message = self._ask()
        except BaseException:
            executor.release(claimed)
            raise
        else:
            claimed.unshare()  # `decide` may run in another thread
            self._claimed = claimed

    def decide(self, *, is_last: bool = False) -> bool:
        """Take the lease if the message waits for its answer; False while another task runs it.

        The last try takes it over, if that was asked for. `is_last` says that no further try
        follows.
        """
        require(bool, is_last, "is_last is True or False")
        claimed, self._claimed = self._claimed, None
        if claimed is not None:
            claimed.share()
            if claimed.claim.status is LeaseStatus.HELD:
                return self._begin(claimed, "pending", self._began)
            self._executor.release(claimed)  # another process had asked the same
        found = outcome_of(self._executor.reader, self.message)
        if found.final or found.state == "asked":
            self._see(found)
            return True
        try:
            lease = self._executor.acquire(block=self._block, take_over=self._take_over and is_last)
        except LeaseHeldError:
            self._see(found)
            self.state = _awaited(self._executor, self.message, found)
            return False
        return self._begin(lease, "pending", self._began)

    def begin_again(self) -> None:
        """Begin a failed turn again, at once or not at all; see `retry`."""
        if self.state != "failed" or self._block is None:
            expected = "a failed turn, inside its `with`"
            raise RefusedError(f"the turn is {self.state}", expected=expected, session=self._executor.id)
        self._begin(self._executor.acquire(block=self._block), "failed", "resumed")

    def patience(self) -> float:
        """Seconds to try for: a lease of another process may rest, where no reply is open.

        It is given back within the flush interval, which is taken to be the same there.
        """
        rest = min(1.5 * self._executor.host.flusher.interval + MARGIN, LONGEST_REST)
        if self.wait >= rest or self._claimed is not None or not self._executor.leases.is_elsewhere():
            return self.wait
        return self.wait if outcome_of(self._executor.reader, self.message).is_open else rest

    def release(self) -> None:
        """Give the lease back, if the caller has it."""
        lease, self.lease = self.lease, None
        if lease is not None:
            lease.turns.pop(self.message, None)
            lease.leave_turn()
            self._executor.release(lease, rests=True)

    def _begin(self, lease: Lease, due: str, began: Literal["new", "resumed"]) -> bool:
        """Keep the lease if the message is still due, and no task that shares the lease answers.

        What broke off leaves the view, so that the model says it once. False in the latter case.
        """
        kept = shared = False
        try:
            kept = self._executor.leases.begin_turn(
                lease, self.message
            )  # first: the task that has it may end meanwhile
            found, attempt = self._let_go(due) if kept else (outcome_of(self._executor.reader, self.message), None)
            self._see(found)
            if kept and (found.state != "pending" or found.is_open):
                lease.turns.pop(self.message, None)
                kept = False
            shared = found.state == "pending" and not kept
            if kept:
                lease.retry = attempt or lease.retry
                with self._executor.writer.lock:
                    lease.turns[self.message] = self._executor.writer.known_state().version
        except BaseException:
            if kept:
                lease.turns.pop(self.message, None)
            self._executor.release(lease)
            raise
        if kept:
            lease.share_turn(self.message)
            self.lease, self.state = lease, began
            return True
        self._executor.release(lease)
        if shared:
            self.state = "running"
        return not shared

    def _let_go(self, due: str) -> tuple[Outcome, Retry | None]:
        """Read the outcome; if the message is due, take what broke off out of the view.

        Also what broke off of earlier questions, which the loop goes on with. Returns the attempt
        that was taken out, too. A result that comes late meanwhile is not lost with it: then the
        outcome is read again.
        """
        executor, backoff = self._executor, Backoff()
        attempt: Retry | None = None
        error: MessageError | None = None
        while True:
            with executor.reader.at_once():
                version = executor.reader.version
                found = outcome_of(executor.reader, self.message)
                found = replace(found, error=found.error or error)
                if found.state not in {due, "pending"} or found.is_open:
                    return found, attempt
                gone = found if found.broken else broken_before(executor.reader, self.message)
            if gone is None or not gone.broken:
                return found, attempt
            try:
                executor.commit([ev.MessageRemoved(reply) for reply in gone.broken], expected=version)
            except ConflictError:
                if not backoff.goes_on():
                    raise
            else:
                error = found.error
                attempt = Retry(gone.removed + len(gone.broken), gone.error or CRASHED)

    def _see(self, found: Outcome) -> None:
        self._found, self.answer, self.error = found, found.replies, found.error
        if found.state != "pending":
            self.state = found.state


def state_of_turn(executor: Executor, message: str) -> TurnState | Literal["pending"]:
    """Return the state of a turn for one who does not answer it; see `Session.turn_state`."""
    try:
        executor.require_no_owner()  # first: an answer that ends meanwhile is seen
    except LeaseHeldError:
        is_run = True
    else:
        is_run = False
    found = outcome_of(executor.reader, message)
    if not is_run or found.final or found.state == "asked":
        return found.state
    return _awaited(executor, message, found)


def _awaited(executor: Executor, message: str, found: Outcome) -> Literal["queued", "running"]:
    """Return "queued" if the task that runs the session has an earlier question to answer."""
    is_queued = found.waiting or (not found.replies and has_earlier_question(executor.reader, message))
    return "queued" if is_queued else "running"
