"""Appends, commits, tickets, heads and leases: the values of the contract of a log."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Protocol

import msgspec

_HASH_BYTES = 32
"""As in `merkle.py`."""


class LeaseState(msgspec.Struct, frozen=True, gc=False):
    """The lease of a session.  `owner` is opaque; `until` is UTC milliseconds, 0 = released."""

    epoch: int = 0
    owner: bytes = b""
    until: int = 0


class Append(msgspec.Struct, frozen=True, kw_only=True):
    """A request to append `count` events to a session, and the conditions it is made under."""

    session: str
    payload: bytes
    count: int
    time: int
    """UTC milliseconds of the last event: the session's last activity."""
    quiet: bool = False
    """Whether it is no activity: its commit gets the time of the session's commit before it.

    The payload has the times of the events.
    """
    messages: int = 0
    """By how much it changes the number of visible messages, the total in `Head`."""
    entry: bytes | None = None
    """The session's new catalog entry, None to leave it."""
    bodies: Sequence[tuple[bytes, bytes]] = ()
    """(32-byte hash, packed bytes) of large values the payload refers to; stored hashes are
    skipped.
    """
    creates_at: int | None = None
    """Begin the session: its first version is `creates_at + 1` (a fork begins after its
    parent's).
    """
    expected: int | None = None
    """Exact version the session must have: that at which the append was decided."""
    behind: Ticket | None = None
    """An earlier append of the same thread without which this one must not go in.

    For a row of appends of which none waits for the one before: where one is rejected, the version
    that the next expects may yet be reached by another writer's events.
    """
    epoch: int = 0
    """Lease epoch of the writer, 0 for a command that needs no lease."""
    lease: LeaseState | None = None
    """The lease to write in the same commit, with the writer's own `epoch`.

    It is acquired if `replaces` is given, else renewed or released. It is written with the append
    or not at all; a repeated request id writes neither.
    """
    replaces: LeaseState | None = None
    """The lease that `lease` replaces, one epoch before it; `FencedError` if another one is
    stored.
    """
    request: str | None = None
    digest: bytes = b""
    """Digest of the request's content, compared when the request id is repeated."""


class Commit(msgspec.Struct, frozen=True, gc=False):
    """One committed append, as it is read."""

    session: str
    first: int
    """Version of the first event."""
    count: int
    position: int
    """Position of the first event in its partition; the others follow without a gap."""
    epoch: int
    time: int
    payload: bytes
    request: str | None = None
    salt: bytes = b""
    """Random bytes hashed into its leaf (`merkle.py`); replaced by others if it was `emptied`."""
    leaf: bytes = b""
    """The first bytes of its leaf's hash as committed; the whole hash if it was `emptied`."""
    stored: bytes = b""
    """The bytes its leaf covers instead of the payload, where an encrypted log stores
    ciphertext.
    """

    @property
    def emptied(self) -> bool:
        """Whether redacted or erased content was removed: only the leaf's hash is left."""
        return len(self.leaf) == _HASH_BYTES

    @property
    def last(self) -> int:
        """Version of the last event."""
        return self.first + self.count - 1

    @property
    def last_position(self) -> int:
        """Position of the last event."""
        return self.position + self.count - 1


class Committed(msgspec.Struct, frozen=True, gc=False):
    """The result of an append: versions `first..last`, `position` of the first event.

    `repeated` is true when the request id was used before and nothing was written now.
    """

    session: str
    first: int
    last: int
    position: int
    repeated: bool = False


class Head(msgspec.Struct, frozen=True, gc=False):
    """The summary of a session: version, totals, catalog entry, lease and hash tree."""

    session: str
    version: int
    position: int
    """Position of the newest event in its partition."""
    base: int
    """Version before the session's own first event: 0, or the fork point."""
    created: int
    updated: int
    """UTC milliseconds of the first append and of the newest activity."""
    messages: int
    """The sum of what its appends say: the messages that are visible now."""
    entry: bytes
    lease: LeaseState = LeaseState()
    appends: int = 0
    """Number of appends of the session: the size of its hash tree."""
    peaks: bytes = b""
    """The peaks of that tree (`merkle.py`)."""
    gone: bool = False
    """Whether the session was erased and its events removed, so that only this head is left."""


class Ticket(Protocol):
    """A submitted append.  Accepted when it exists; `wait()` returns when it is durable."""

    def done(self) -> bool:
        """Return whether the outcome is known, without waiting or committing."""
        ...

    def wait(self, timeout: float | None = None) -> Committed:
        """Block until the outcome is known; raise what the append raised.

        `UnknownOutcomeError` when `timeout` (seconds) runs out first. A wait without a timeout is
        the quicker one: it commits in this thread.
        """
        ...

    def __await__(self) -> Generator[Any, Any, Committed]:
        """Wait in asyncio: `committed = await ticket`.  Cancelling it leaves the append alone."""
        ...
