"""Streams of names: for each name a small stream that says which session has it.

A name is a format and a key within it, as ("telegram", "chat 17"). Its stream is no conversation
(`codec/payload.py`); it begins with the first session that is to have the name, and is never
removed:

    id        NAMES, format, ":", key; in an encrypted store NAMES and a keyed hash of both
    payload   NAMED, then a MessagePack array [1, session or nil, leaving]
    entry     the payload of the newest append

`session` is the id of the session that has the name, or is to have it and may not have begun yet.
`leaving` says that it is to lose the name; nil, that the name is free. The newest append counts.
The bytes hold no text but ids, so they are never encrypted. A key that is too long for an id, or
ends as an id of such a key does, is cut, with a hash of the whole behind it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import blake2b
from heapq import merge
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, TypeAlias, cast

import msgspec

from eventlog.codec.payload import NAMED, NAMES, is_encrypted, is_foreign, refused
from eventlog.errors import AlreadyExistsError, CallError, LimitError
from eventlog.errors.base import brief
from eventlog.history.catalog import entry_of
from eventlog.ids import MAX_ID_BYTES, size_of
from eventlog.log.commit import Append
from eventlog.validation import a_kind, require

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from eventlog.log.commit import Head
    from eventlog.log.contract import Log

Name: TypeAlias = tuple[str, str]
"""A format, and a key within it."""
FORMAT = 1
MAX_FORMAT_BYTES = 64
MAX_KEY_BYTES = 1024
_HASH_BYTES = 16
_HASHED = re.compile(rf"~[0-9a-f]{{{2 * _HASH_BYTES}}}\Z")


class NameState(msgspec.Struct, frozen=True, array_like=True, tag=FORMAT):
    """The session that has a name, as the newest append of its stream says."""

    session: str | None
    """The session that has the name, or is to have it; None if the name is free."""
    leaving: bool
    """Whether the session is to lose it."""


FREE = NameState(None, leaving=False)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(NameState).decode


def checked_name(name: object) -> Name:
    """Return a name; `CallError` if it is none, `LimitError` if one of its texts is too long."""
    kind = a_kind(name)
    given = list(cast("Sequence[object]", name)) if isinstance(name, (tuple, list)) else []
    if len(given) != 2:
        raise CallError(f"a name is (format, key), two str, not {kind}")
    format, key = given
    for text in (format, key):
        require(str, text, "the format and the key of a name are str")
    assert isinstance(format, str)
    assert isinstance(key, str)
    for what, text, most in (("format", format, MAX_FORMAT_BYTES), ("key", key, MAX_KEY_BYTES)):
        size = size_of(f"the {what} of a name", text)
        if not 0 < size <= most:
            raise LimitError(f"bytes of a name's {what}", size, most)
    if ":" in format:
        raise CallError(f"the format of a name has no colon: {brief(format)}")
    return format, key


def stream_of(log: Log, name: Name) -> str:
    """Return the id of a name's stream; `KeyMissingError` for an encrypted log without keys."""
    log.require_keys()
    format, key = name
    if log.engine is not log:
        return NAMES + log.scope_name(f"{NAMES}{format}:{key}")
    return _plain_id(format, key)


def _plain_id(format: str, key: str) -> str:
    plain = f"{NAMES}{format}:{key}"
    if len(plain.encode()) <= MAX_ID_BYTES and not _HASHED.search(key):
        return plain
    digest = blake2b(key.encode(), digest_size=_HASH_BYTES).hexdigest()
    return f"{_cut(plain)}~{digest}"


def _cut(plain: str) -> str:
    """Return as much of an id as leaves room for a hash."""
    return plain.encode()[: MAX_ID_BYTES - 1 - 2 * _HASH_BYTES].decode(errors="ignore")


def hashed_stream(log: Log, stream: str, scope_name: Callable[[str], str]) -> str | None:
    """Return the id that a stream of a plain log has where names are hashed.

    None if its name is cut in its id, and no session has it now.
    """
    format, _, key = stream.removeprefix(NAMES).partition(":")
    if _HASHED.search(key):
        head = log.head(stream)
        session = newest_state(head).session
        owner = None if session is None else log.head(session)
        name = None if owner is None or is_foreign(owner) else entry_of(owner).name
        if name is None or _plain_id(*name) != stream:
            return None
        format, key = name
    return NAMES + scope_name(f"{NAMES}{format}:{key}")


def newest_state(head: Head | None) -> NameState:
    """Return what the stream with this head says; a name without a stream is free.

    `AlreadyExistsError` if it is no stream of a name.
    """
    if head is None:
        return FREE
    if not head.entry.startswith(NAMED):
        raise AlreadyExistsError("session", head.session)
    return _state_in(head.entry, head.session)


def last_owner(log: Log, name: Name) -> tuple[str, int] | None:
    """Return the session that lost a name last, and when in UTC ms, or None."""
    stream = stream_of(log, name)
    owner, freed = newest_state(log.head(stream)).session, 0
    for commit in log.read(stream, reverse=True):
        session = _state_in(commit.payload, stream).session
        if session is None:
            freed = commit.time
        elif session != owner:
            return session, freed
    return None


def _state_in(data: bytes, stream: str) -> NameState:
    data = data.removeprefix(NAMED)
    try:
        return _decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise refused(data, FORMAT, "a name", "a name that cannot be read", session=stream) from error


def state_append(stream: str, head: Head | None, state: NameState, time: int) -> Append:
    """Return the append after which a name's stream says `state`, if it is still as in `head`."""
    data = NAMED + _encode(state)
    begins = 0 if head is None else None
    expected = None if head is None else head.version
    return Append(
        session=stream, payload=data, count=1, time=time, entry=data, creates_at=begins, expected=expected
    )  # fmt: skip


def named_heads(log: Log, format: str, prefix: str, after: str) -> Iterator[Head]:
    """Yield the heads of the sessions whose name has a format and a beginning of its key.

    In the order of their keys, long ones by their beginning, from the first behind the key `after`.
    Reads the names that it yields, and those that are free or erased; in an encrypted log all
    sessions.
    """
    log.require_keys()
    for what, text in (("format", format), ("key", prefix), ("key", after)):
        size_of(f"the {what} of a name", text)
    behind = _plain_id(format, after) if after else ""
    found = _scanned(log, format) if log.engine is not log else _ranged(log, format, prefix, behind)
    for place, head in found:
        name = entry_of(head).name
        if name is not None and place > behind and name[1].startswith(prefix):
            yield head


def _ranged(log: Log, format: str, prefix: str, behind: str) -> Iterator[tuple[str, Head]]:
    """Yield the named sessions with the ids of their names' streams, from a range of these."""
    start = _cut(f"{NAMES}{format}:{prefix}")
    exact = log.head(start)
    for stream in merge([] if exact is None else [exact], log.heads(max(start, behind)), key=attrgetter("session")):
        if not stream.session.startswith(start):
            return
        session = newest_state(stream).session if stream.entry.startswith(NAMED) else None
        head = None if session is None else log.head(session)
        if head is not None and _has(head, format) and stream.session == stream_of(log, _name(head)):
            yield stream.session, head


def _scanned(log: Log, format: str) -> Iterator[tuple[str, Head]]:
    """Yield the same of a log whose names are hashed."""
    found = [(_plain_id(*_name(head)), head) for head in log.heads() if _has(head, format)]
    for place, head in sorted(found, key=itemgetter(0)):
        if newest_state(log.head(stream_of(log, _name(head)))).session == head.session:
            yield place, head


def _has(head: Head, format: str) -> bool:
    """Whether a session is there and has a name of this format."""
    if is_foreign(head) or is_encrypted(head.entry):
        return False
    entry = entry_of(head)
    return entry.name is not None and entry.name[0] == format


def _name(head: Head) -> Name:
    name = entry_of(head).name
    assert name is not None
    return name
