"""Validation of a call's arguments: types, ranges and lengths.  The same for every engine.

A value of a wrong type must not reach the disk: what is acknowledged has to be readable. So types
are compared exactly (a `bool` is no version, an `IntEnum` no time), and sums of accepted numbers
stay below 64 bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast

from msgspec import Meta

from eventlog.errors import CallError, LimitError
from eventlog.log.commit import LeaseState
from eventlog.log.ticket import QueuedTicket

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eventlog.log.commit import Append

MAX_ID_BYTES = 256
"""Longest session id and longest request id, in UTF-8."""
MAX_REQUEST_BYTES = 512 << 20
"""Largest append, bodies and catalog entry included."""
MAX_DERIVED_KEY_BYTES = 200
RESERVED = b"list\0"
"""First bytes of the keys of an engine's index of lists, beside derived values."""
MAX_ADDEND = (1 << 32) - 1
"""Most events, and most messages, of one append."""
MAX_NUMBER = (1 << 63) - 1
"""Largest version and epoch, and end of a lease."""
MAX_TIME = 1 << 62
"""Largest distance of a time from 1970: the difference of two times then has 64 bits."""
MAX_BASE = 1 << 62
"""Largest version that a session may begin after: half of the versions are left for it."""
Count: TypeAlias = Annotated[int, Meta(ge=1, le=MAX_ADDEND)]
"""Events of an append that is read."""
Number: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_NUMBER)]
"""A version, position, epoch or count that is read: any other is no number of a log."""
Signed: TypeAlias = Annotated[int, Meta(ge=-MAX_NUMBER, le=MAX_NUMBER)]
"""A time, or a change, that is read."""
Base: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_BASE)]
"""A version that a session begins after, as it is read."""
HASH_BYTES = 32
_OVERHEAD = 200


def size_of(append: Append) -> int:
    """Return the bytes that an append takes in a queue; `CallError` for a wrong argument.

    The session's state plays no part.
    """
    session, count, messages, time, epoch = append.session, append.count, append.messages, append.time, append.epoch
    # Correct values pass here; only a wrong one is inspected again, for the message.
    if type(session) is not str or not session.isascii() or not 0 < len(session) <= MAX_ID_BYTES:
        _check_id("session id", session)
    if append.request is not None:
        _check_id("request id", append.request)
    if type(count) is not int or not 0 < count <= MAX_ADDEND:
        _check_integer("count", count, 1, MAX_ADDEND)
    if type(messages) is not int or not -MAX_ADDEND <= messages <= MAX_ADDEND:
        _check_integer("messages", messages, -MAX_ADDEND, MAX_ADDEND)
    if type(epoch) is not int or not 0 <= epoch <= MAX_NUMBER:
        _check_integer("epoch", epoch, 0, MAX_NUMBER)
    if type(time) is not int or not -MAX_TIME <= time <= MAX_TIME:
        _check_integer("time", time, -MAX_TIME, MAX_TIME)
    if type(append.quiet) is not bool:
        raise CallError(f"quiet is True or False, not {_name(append.quiet)}")
    if append.creates_at is not None:
        _check_integer("creates_at", append.creates_at, 0, MAX_BASE)
    if append.expected is not None:
        _check_integer("expected", append.expected, 0, MAX_NUMBER)
    if append.behind is not None and not isinstance(append.behind, QueuedTicket):
        raise CallError(f"behind is the ticket of another append of this log, not {_name(append.behind)}")
    owner = 0 if append.lease is None and append.replaces is None else _lease_of(append)
    payload, digest = append.payload, append.digest
    if type(payload) is not bytes or type(digest) is not bytes:
        _length("payload", payload)
        _length("digest", digest)
    size = _OVERHEAD + len(payload) + len(digest) + owner
    entry = append.entry
    if entry is not None:
        size += len(entry) if type(entry) is bytes else _length("catalog entry", entry)
    if append.bodies:
        size += _bodies(append.bodies)
    if size > MAX_REQUEST_BYTES:
        raise LimitError("bytes of one append", size, MAX_REQUEST_BYTES)
    return size


def _lease_of(append: Append) -> int:
    """Return the bytes of the lease that an append acquires, renews or releases."""
    lease, replaces, epoch = append.lease, append.replaces, append.epoch
    if lease is None:
        raise CallError("an append that replaces a lease has a lease to put in its place")
    size = _lease(lease)
    if not epoch or lease.epoch != epoch:
        raise CallError(
            f"the lease of an append has the append's own epoch, from 1: not {lease.epoch} where that is {epoch}"
        )
    if replaces is not None:
        size += _lease(replaces)
        if epoch != replaces.epoch + 1:
            raise CallError(
                f"a lease that is taken has the epoch after the one it replaces: not {epoch} after {replaces.epoch}"
            )
    return size


def _bodies(bodies: Any) -> int:
    if not isinstance(bodies, list | tuple):
        raise CallError("bodies are a list or a tuple")
    size = 0
    for body in cast("Sequence[Any]", bodies):
        try:
            digest, packed = body
        except (TypeError, ValueError):
            raise CallError("a body is a pair of hash and packed bytes") from None
        if type(digest) is not bytes or type(packed) is not bytes:
            _length("a body's hash", digest)
            _length("a body", packed)
        if len(digest) != HASH_BYTES:
            raise CallError(f"a body's hash has {HASH_BYTES} bytes, not {len(digest)}")
        size += len(packed) + HASH_BYTES
    return size


def size_of_lease(session: str, state: LeaseState, replaces: LeaseState) -> int:
    """Return the bytes that a lease record takes in a queue; `CallError` for a wrong argument."""
    _check_id("session id", session)
    size = _OVERHEAD + _lease(state) + _lease(replaces)
    if size > MAX_REQUEST_BYTES:
        raise LimitError("bytes of one lease", size, MAX_REQUEST_BYTES)
    return size


def _lease(lease: Any) -> int:
    if type(lease) is not LeaseState:
        raise CallError(f"a lease is a LeaseState, not {_name(lease)}")
    epoch, until, owner = lease.epoch, lease.until, lease.owner
    if type(epoch) is not int or not 0 <= epoch <= MAX_NUMBER:
        _check_integer("epoch", epoch, 0, MAX_NUMBER)
    if type(until) is not int or not -MAX_NUMBER <= until <= MAX_NUMBER:
        _check_integer("until", until, -MAX_NUMBER, MAX_NUMBER)
    return len(owner) if type(owner) is bytes else _length("owner", owner)


def is_id(value: str) -> bool:
    """Return whether a text can be a session id or a request id."""
    try:
        _check_id("id", value)
    except CallError:
        return False
    return True


def validate_derived_keys(items: Sequence[tuple[bytes, bytes | None]]) -> None:
    """Raise unless every key has 1 to 200 bytes, and every value is bytes or None.

    Keys that begin with `RESERVED` are refused.
    """
    for key, value in items:
        size = _length("a derived key", key)
        if not size:
            raise CallError("a derived key is not empty")
        if key.startswith(RESERVED):
            raise CallError(f"a derived key does not begin with {RESERVED!r}: that is the log's own index")
        if size > MAX_DERIVED_KEY_BYTES:
            raise LimitError("derived key, bytes", size, MAX_DERIVED_KEY_BYTES)
        if value is not None:
            _length("a derived value", value)


def _check_id(what: str, value: Any) -> None:
    if type(value) is not str:
        raise CallError(f"a {what} is text, not {_name(value)}")
    if value.isascii():
        size = len(value)
    else:
        try:
            size = len(value.encode())
        except UnicodeEncodeError:
            raise CallError(f"a {what} is text that UTF-8 can encode") from None
    if not 0 < size <= MAX_ID_BYTES:
        if size:
            raise LimitError(f"{what}, bytes", size, MAX_ID_BYTES)
        raise CallError(f"a {what} is not empty")


def _check_integer(what: str, value: Any, least: int, most: int) -> None:
    if type(value) is not int:
        raise CallError(f"{what} is an integer, not {_name(value)}")
    if not least <= value <= most:
        raise CallError(f"{what} is between {least} and {most}")


def _length(what: str, value: Any) -> int:
    if type(value) is not bytes:
        raise CallError(f"{what} is bytes, not {_name(value)}")
    return len(value)


def _name(value: object) -> str:
    return type(value).__name__
