"""Rows of the tables as heads and commits, and back."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from eventlog import compression
from eventlog.errors import DamagedError
from eventlog.log.commit import Commit, Head, LeaseState

if TYPE_CHECKING:
    from collections.abc import Sequence

HEAD = (
    "h.session, h.revision, h.version, h.position, h.base, h.created, h.updated, h.messages, h.entry, h.lease_epoch,"
    " h.lease_owner, h.lease_until, h.appends, h.peaks, h.gone"
)
"""The columns of a head, for `head_from`."""
COMMIT = "c.session, c.last, c.count, c.last_position, c.epoch, c.time, c.payload, c.request, c.salt, c.leaf"
"""The columns of a commit, for `commit_from`."""
_LEAST, _GAIN = 128, 16
"""Bytes from which on a payload is compressed, and what that has to save."""


class Known(NamedTuple):
    """A session's head as it was read or written, and the revision of its row."""

    head: Head
    revision: int


def head_from(row: Sequence[Any]) -> Known:
    """Return the head that a row has."""
    (
        session, revision, version, position, base, created, updated, messages, entry, epoch, owner, until, appends,
        peaks, gone,
    ) = row  # fmt: skip
    lease = LeaseState(epoch, owner, until)
    head = Head(
        session.decode(), version, position, base, created, updated, messages, entry, lease, appends, peaks, gone
    )
    return Known(head, revision)


def commit_from(row: Sequence[Any]) -> Commit:
    """Return the commit that a row has; `DamagedError` if its payload cannot be read."""
    session, last, count, last_position, epoch, time, payload, request, salt, leaf = row
    name = session.decode()
    try:
        data = compression.unpack(payload)
    except ValueError as error:
        raise DamagedError(f"a payload: {error}", session=name, version=last - count + 1) from error
    return Commit(
        name, last - count + 1, count, last_position - count + 1, epoch, time, data,
        None if request is None else request.decode(), salt, leaf,
    )  # fmt: skip


def new_revision() -> int:
    """Return the revision of a head that is changed: like no other one."""
    return int.from_bytes(os.urandom(8), "big") >> 1 or 1


def packed(payload: bytes) -> bytes:
    """Return a payload as it is stored."""
    return compression.pack(payload, least=_LEAST, gain=_GAIN)


def text_from(text: str) -> bytes | None:
    """Return the bytes of an id, None for a text that cannot be one."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return None
