"""Accepted commands: the events of each, and the terms of its append."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256

import msgspec

from eventlog import events as ev
from eventlog.codec.batch import Item, encode_value
from eventlog.codec.deltas import DeltaRun
from eventlog.errors import ArgumentTypeError, LimitError
from eventlog.log.commit import Committed
from eventlog.state.decide import require_items

MAX_APPEND_BYTES = 256 * 1024 * 1024
"""Largest append, in bytes of its encoded events and packed bodies."""


class Terms(msgspec.Struct, frozen=True):
    """The terms under which a command has an append of its own, as in `commit.Append`.

    `expected` is the caller's: the command is not decided anew where the session is elsewhere.
    """

    request: str | None = None
    digest: bytes = b""
    expected: int | None = None
    creates_at: int | None = None

    @property
    def is_conditional(self) -> bool:
        """Whether the append must not go in behind one that another writer commits meanwhile."""
        return self.expected is not None or self.creates_at is not None


class Unit(msgspec.Struct, eq=False):
    """The commands of one pipeline: all of them go in, or none does."""

    commands: list[Command] = []
    """The commands accepted so far."""
    parts: set[str] = set()
    """The parts they start, whose deltas go in with them."""


class Command(msgspec.Struct, eq=False):
    """The events of one command, appended whole or not at all."""

    items: list[Item]
    bodies: Mapping[bytes, bytes] | None = None
    epoch: int = 0
    weight: int = 0
    """Bytes of its bodies and characters of its deltas."""
    owned: bool = False
    """Whether a caller waits for it, and hears of its outcome."""
    unit: Unit | None = None
    """Its pipeline's commands."""
    terms: Terms | None = None
    returns_lease: bool = False
    """Whether it is the last command under its lease, which goes back with it."""
    messages: int = 0
    """By how much it changes the number of visible messages."""
    outcome: Committed | Exception | None = None
    """The append it went in with, or why it is not committed and will not be."""
    certain: int = 0
    """Version up to which all was committed when it was decided first."""

    @property
    def begins(self) -> bool:
        """Whether it begins the session."""
        return self.terms is not None and self.terms.creates_at is not None

    def deltas(self) -> tuple[int, int]:
        """Return how many deltas it has, and their characters."""
        runs = [item for item in self.items if isinstance(item, DeltaRun)]
        return sum(run.count for run in runs), sum(len(run.text) for run in runs)


def limit_bodies(bodies: Mapping[bytes, bytes]) -> int:
    """Return the size of the bodies in bytes; `LimitError` above what an append may carry."""
    try:
        size = sum(map(len, bodies.values()))
    except (AttributeError, TypeError):
        raise ArgumentTypeError("bodies are a mapping of digests to bytes") from None
    if size > MAX_APPEND_BYTES // 2:
        raise LimitError("bytes of the bodies of one append", size, MAX_APPEND_BYTES // 2)
    return size


def limit_append(payload: bytes, bodies: Mapping[bytes, bytes]) -> None:
    """Raise `LimitError` for an append of too many bytes."""
    size = len(payload) + (sum(map(len, bodies.values())) if bodies else 0)
    if size > MAX_APPEND_BYTES:
        raise LimitError("bytes of an append", size, MAX_APPEND_BYTES)


def content_digest(items: Sequence[tuple[int, ev.Event]]) -> bytes:
    """Return the digest of what a request asks for: its events without their times."""
    try:
        return sha256(b"".join(encode_value(event) for _, event in items)).digest()
    except (TypeError, ValueError, OverflowError, RecursionError):
        require_items(items)
        raise


def count_of(items: Iterable[Item]) -> int:
    """Return the number of events in some items."""
    return sum(item.count if isinstance(item, DeltaRun) else 1 for item in items)
