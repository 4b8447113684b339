"""The right to run a session: one owner at a time, by a side record with an epoch.

No event says who has it; the record is in `owner.py`. Taking a lease raises the epoch, which
is written with every append of the owner; an append with an epoch that is over is refused inside
the commit. A lease ends by release, by expiry, or when its owner is seen to be dead: a process of
this same machine, boot and process namespace that is gone. The holder renews it in the background.
A live one can be taken over: its owner's next call is `FencedError`.

Within its owner a lease belongs to one task: the right to use it travels in a context variable, so
tasks and `to_thread` calls that its holder starts have it, and other tasks and threads do not.

A reply takes its lease *lazily*: on what is known in memory, written and checked with its first
append. It gives it back with its last one. A turn takes it with its user message. When it ends the
lease *rests*: the handle's next work goes on with it, any other store of this process may take it
at once, and the thread that flushes gives it back within the flush interval.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Self, TypeVar

from eventlog.append.lease_claim import LeaseClaim, LeaseStatus
from eventlog.errors import LeaseHeldError
from eventlog.validation import require_wait
from eventlog.values import Retry

T = TypeVar("T")

A_LEASE = "a lease is what `with session.lease() as lease:` gives"
TAKEN_OVER = "taken over"
"""How a new owner says that it closed what a live owner had open."""
POLL = 0.02
"""Seconds between two looks at a lease that another owner or task holds."""

HELD: ContextVar[tuple[Lease, ...]] = ContextVar("leases", default=())
"""The leases that the running task or thread may use."""
_TURNS: ContextVar[tuple[tuple[Lease, str | None], ...]] = ContextVar("turns", default=())
"""The turns that it is in: a user message, `SEVERAL`, or None outside a turn."""
SEVERAL = ""
"""Stands for the turns of a lease that was handed over while more than one ran."""


class Block:
    """Held by a `with` block while it runs: a lease taken for the block is over without it."""

    __slots__ = ("__weakref__",)


class Lease:
    """The right to run a session, until the `with` that took it ends.

    `with lease:` in another thread, which did not inherit it, makes it that thread's as well. It
    does not prolong it: a thread still in that block when the lease ends takes one of its own with
    its next command, or is refused.
    """

    __slots__ = ("block", "claim", "depth", "epoch", "live", "retry", "session", "streams", "successor", "turns")

    def __init__(self, session: str, claim: LeaseClaim, block: Block | None) -> None:
        self.session: str = session
        self.claim: LeaseClaim = claim
        """Its record, and how far the log knows of it."""
        self.epoch: int = claim.state.epoch
        self.depth: int = 1
        self.live: bool = True
        self.block: weakref.ReferenceType[Block] | None = None if block is None else weakref.ref(block)
        """The block that it was taken for, until the block releases it."""
        self.turns: dict[str, int] = {}
        """The user messages that tasks are answering under it, and what each task has seen.

        That is the version of what was committed when the turn became the task's, when its last
        reply ended, or when it added a message itself: its next view has all of it.
        """
        self.retry: Retry | None = None
        """The failed attempt that the next reply repeats, and records."""
        self.streams: weakref.WeakSet[Any] = weakref.WeakSet()
        """The `TextStream`s under it."""
        self.successor: int = self.epoch
        """Epoch of the lease of the task that took it over."""

    def __repr__(self) -> str:
        return f"<Lease of {self.session}, epoch {self.epoch}{'' if self.live else ', over'}>"

    def __enter__(self) -> Self:
        self.require_live()
        self.share()
        turns = list(self.turns)
        self.share_turn(turns[0] if len(turns) == 1 else SEVERAL if turns else None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.unshare()
        self.leave_turn()

    def share(self) -> None:
        """Let the running task or thread, and what it starts from now on, use it."""
        HELD.set((*(held for held in HELD.get() if held.live or held.session != self.session), self))

    def unshare(self) -> None:
        """Take back what `share` did last."""
        held = list(HELD.get())
        if self in held:
            held.reverse()
            held.remove(self)
            HELD.set(tuple(reversed(held)))

    def share_turn(self, message: str | None) -> None:
        """Let what the running task or thread does from now on belong to a turn under it."""
        _TURNS.set((*(turn for turn in _TURNS.get() if turn[0].live), (self, message)))

    def leave_turn(self) -> None:
        """Take back what `share_turn` did last."""
        shared = list(_TURNS.get())
        place = next((place for place in range(len(shared) - 1, -1, -1) if shared[place][0] is self), None)
        if place is not None:
            del shared[place]
            _TURNS.set(tuple(shared))

    def _turn(self) -> str | None:
        """The innermost turn that the running task is in."""
        return next((each for lease, each in reversed(_TURNS.get()) if lease is self and each in self.turns), None)

    def seen(self) -> int | None:
        """Return what the running task has seen if it was given no view; None outside a turn.

        One that was handed the lease of several turns has seen no more than each of them.
        """
        turn = self._turn()
        if turn is not None:
            return self.turns.get(turn)
        return min(self.turns.values(), default=None) if (self, SEVERAL) in _TURNS.get() else None

    def see(self, version: int) -> None:
        """Note that the next view of the running task's turn has all up to a version."""
        turn = self._turn()
        if turn is not None and turn in self.turns:
            self.turns[turn] = max(self.turns[turn], version)

    def require_live(self) -> None:
        """Raise `FencedError` if it is over, `LeaseHeldError` if another owner was quicker."""
        if self.claim.status is LeaseStatus.LOST:
            raise LeaseHeldError(self.session, "another owner", 0)
        if not self.live:
            raise self.claim.fenced(self.session, self.successor)

    @property
    def is_claimed(self) -> bool:
        """Whether it was taken in memory only, so far."""
        return self.claim.status is LeaseStatus.CLAIMED

    @property
    def is_taken_over(self) -> bool:
        """Whether another task of this process has taken it over."""
        return self.successor != self.epoch

    @property
    def is_returned(self) -> bool:
        """Whether the last append has returned the lease to the log."""
        return self.claim.status is LeaseStatus.RETURNED

    @property
    def is_abandoned(self) -> bool:
        """Whether an interrupt ended the block that took it before the block could release it."""
        return self.block is not None and self.block() is None


def unless_held(work: Callable[[], T], wait: float) -> T:
    """Do what another's lease may forbid; try again until `wait` seconds are over."""
    require_wait(wait)
    deadline = time.monotonic() + wait
    while True:
        try:
            return work()
        except LeaseHeldError:
            if time.monotonic() >= deadline:
                raise
        time.sleep(POLL)
