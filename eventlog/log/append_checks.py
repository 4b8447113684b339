"""Acceptance of an append, and the session's head after it.  Pure; shared by all engines.

The order of the comparisons is the contract's (`contract.py`): request id, existence, lease epoch
and expected version.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import msgspec

from eventlog.errors import (
    AlreadyExistsError,
    ConflictError,
    FencedError,
    NotFoundError,
    RequestReusedError,
)
from eventlog.log.commit import Append, Commit, Committed, Head, LeaseState, Ticket
from eventlog.log.merkle import TAG_BYTES, grow, new_leaf

_NO_LEASE = LeaseState()


class LeaseChange(msgspec.Struct, frozen=True):
    """A lease record to write if the session's one still equals `replaces`."""

    session: str
    state: LeaseState
    replaces: LeaseState


class RequestResult(NamedTuple):
    """A used request id: the digest of its content, and the versions it was given."""

    digest: bytes
    first: int
    last: int
    position: int

    def repeat(self, session: str) -> Committed:
        """Return the first result again."""
        return Committed(session, self.first, self.last, self.position, repeated=True)


class PriorCommits(Protocol):
    """The commits before an append, the earlier ones of its batch included."""

    def request_result(self, session: str, request: str) -> RequestResult | None:
        """Return the result of a request id, or None."""
        ...

    def has(self, ticket: Ticket) -> bool:
        """Return whether the append of a ticket is one of them."""
        ...


def accept(past: PriorCommits, append: Append, head: Head | None) -> Committed | Head | None:
    """Decide on an append to the session with this head; raise if it is rejected.

    Returns `Committed` if the request id is repeated, else the head, which is None before the
    session begins.
    """
    session = append.session
    if append.request is not None and (first := past.request_result(session, append.request)) is not None:
        if first.digest and first.digest != append.digest:  # without a digest, the request's content was redacted
            raise RequestReusedError(session, append.request)
        return first.repeat(session)
    if append.creates_at is not None:
        if head is not None:
            raise AlreadyExistsError("session", session)
        version, lease = append.creates_at, _NO_LEASE
    else:
        if head is None:
            raise NotFoundError("session", session)
        version, lease = head.version, head.lease
    if append.epoch and (append.epoch != lease.epoch if append.replaces is None else append.replaces != lease):
        raise FencedError(session, append.epoch, lease.epoch)
    if append.expected is not None and append.expected != version:
        raise ConflictError(session, append.expected, version)
    if append.behind is not None and not past.has(append.behind):
        raise ConflictError(session, version if append.expected is None else append.expected, version)
    return head


def was_committed(ticket: Ticket) -> bool:
    """Return whether a ticket has its outcome, and a commit of its own."""
    if not ticket.done():
        return False
    try:
        return not ticket.wait().repeated
    except Exception:  # noqa: BLE001 - any error is that of its own append
        return False


def goes_in(ticket: Ticket, tickets: Sequence[object], outcomes: Sequence[object]) -> bool:
    """Return whether a ticket has a commit of its own, in a batch as far as decided or before."""
    if not ticket.done():
        for place in range(len(outcomes) - 1, -1, -1):  # most often it is the last one
            if tickets[place] is ticket:
                outcome = outcomes[place]
                return isinstance(outcome, Committed) and not outcome.repeated
    return was_committed(ticket)


def commit_of(head: Head | None, append: Append, position: int, salt: bytes) -> tuple[Commit, Head]:
    """Return the commit that an accepted append becomes, and the session's head after it."""
    if head is None:
        base = append.creates_at or 0
        first = base + 1
    else:
        base = head.base
        first = head.version + 1
        if append.quiet:
            append = msgspec.structs.replace(append, time=head.updated)
    leaf = new_leaf(append, first, salt)
    commit = Commit(
        append.session, first, append.count, position, append.epoch, append.time, append.payload, append.request,
        salt, leaf[:TAG_BYTES],
    )  # fmt: skip
    return commit, head_after(
        head, commit, leaf, messages=append.messages, entry=append.entry, base=base, lease=append.lease
    )


def head_after(
    head: Head | None,
    commit: Commit,
    leaf: bytes,
    *,
    messages: int,
    entry: bytes | None,
    base: int,
    lease: LeaseState | None = None,
) -> Head:
    """Return the session's head after `commit`, whose leaf has this hash.

    `base` counts only where there was no head.
    """
    count = commit.count
    last = commit.position + count - 1
    if head is None:
        return Head(
            commit.session, commit.last, last, base, commit.time, commit.time, messages, entry or b"",
            lease or _NO_LEASE, 1, leaf,
        )  # fmt: skip
    appends = head.appends
    return Head(
        head.session,
        commit.first + count - 1,
        last,
        head.base,
        head.created,
        commit.time,
        head.messages + messages,
        head.entry if entry is None else entry,
        lease or head.lease,
        appends + 1,
        grow(appends, head.peaks, leaf),
    )


def may_replace_lease(session: str, head: Head | None, replaces: LeaseState) -> Head | None:
    """Return the session's head if its lease equals `replaces`, else None."""
    if head is None:
        raise NotFoundError("session", session)
    return head if head.lease == replaces else None
