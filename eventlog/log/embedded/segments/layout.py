"""The rows of the segments: tables, keys and values, as `FORMAT.md` describes them.  Pure."""

from __future__ import annotations

import struct
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from zlib import crc32

import msgspec

from eventlog.compression import pack, unpack
from eventlog.errors import DamagedError
from eventlog.log.append_checks import RequestResult
from eventlog.log.commit import Head, LeaseState
from eventlog.log.validation import MAX_ID_BYTES, Base, Number, Signed

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from eventlog.log.contract import BodyPlace

TREES = ("meta", "sessions", "commits", "positions", "bodies", "requests", "derived", "data")
UNPROTECTED = {"data", "derived"}
"""Trees whose values have no checksum, or need none."""
FOLDED_KEY = b"folded"
MAX_KEY_BYTES = 511
"""LMDB's limit."""

NUMBER = struct.Struct(">Q")
PAIR = struct.Struct(">QQ")
_CRC = struct.Struct("<I")
_REQUEST = struct.Struct("<QQQ")
_LEAST = 256
"""Shorter values stay plain: compressing them is not worth the time."""
_GAIN = 64
"""Bytes that compression must save, for the same reason."""

R = TypeVar("R")


class FoldState(msgspec.Struct, frozen=True, array_like=True):
    """How far the journal is folded: up to `address`, whose last event has `position`."""

    address: Number
    position: Number
    next_session: Number = 1
    next_slot: Number = 1


class HeadRow(msgspec.Struct, frozen=True, array_like=True):
    """A head as stored.  `number` is 0 if the session's events were removed (`Head.gone`)."""

    number: Number
    version: Number
    position: Number
    base: Base
    created: Signed
    updated: Signed
    messages: Signed
    entry: bytes
    """Packed by `pack_value`."""
    epoch: Number
    owner: bytes
    until: Signed
    appends: Number
    peaks: bytes

    @classmethod
    def of(cls, number: int, head: Head) -> HeadRow:
        """Return the row of a head."""
        lease = head.lease
        return cls(
            number, head.version, head.position, head.base, head.created, head.updated, head.messages,
            pack_value(head.entry), lease.epoch, lease.owner, lease.until, head.appends, head.peaks,
        )  # fmt: skip

    def head(self, session: str) -> Head:
        """Return the head."""
        return Head(
            session,
            self.version,
            self.position,
            self.base,
            self.created,
            self.updated,
            self.messages,
            self._entry(session),
            LeaseState(self.epoch, self.owner, self.until),
            self.appends,
            self.peaks,
            not self.number,
        )

    def _entry(self, session: str) -> bytes:
        try:
            return unpack_value(self.entry)
        except DamagedError as error:
            raise DamagedError("a catalog entry cannot be decoded", session=session) from error


class PieceLocation(NamedTuple):
    """Where a piece lies: in the block at `offset` of `slot`, `size` plain bytes from `begin`."""

    slot: Number
    offset: Number
    begin: Number
    size: Number


class ChunkRow(msgspec.Struct, frozen=True, array_like=True):
    """A row of `commits`, without the first version, which is in its key."""

    where: PieceLocation
    last: Number
    """The chunk's last version."""
    first_position: Number
    last_position: Number


encode: Callable[[Any], bytes] = msgspec.msgpack.Encoder().encode
_folded = msgspec.msgpack.Decoder(FoldState).decode
_head = msgspec.msgpack.Decoder(HeadRow).decode
_place = msgspec.msgpack.Decoder(tuple[Number, Number, Number, Number]).decode
_chunk_row = msgspec.msgpack.Decoder(ChunkRow).decode
_positions = msgspec.msgpack.Decoder(list[tuple[Number, Number, Number]]).decode


def protect(key: bytes, value: bytes) -> bytes:
    """Put the CRC of key and value in front of a value."""
    return _CRC.pack(crc32(value, crc32(key))) + value


def unprotect(key: bytes, value: memoryview | bytes) -> memoryview | None:
    """Return the value behind the CRC, None if the CRC does not match."""
    if len(value) < _CRC.size:
        return None
    content = memoryview(value)[_CRC.size :]
    return content if _CRC.unpack_from(value)[0] == crc32(content, crc32(key)) else None


def pack_value(value: bytes) -> bytes:
    """Return a catalog entry or derived value in its packed form, compressed if that pays."""
    return pack(value, least=_LEAST, gain=_GAIN)


def unpack_value(packed: bytes | memoryview) -> bytes:
    """Return the value of `pack_value`; `DamagedError` if it cannot be read."""
    try:
        return unpack(packed)
    except ValueError as error:
        raise DamagedError("a compressed value cannot be read") from error


def session_key(session: str) -> bytes:
    """Return the key of a session in `sessions`; at most 256 bytes, where LMDB allows 511."""
    return session.encode()


def key_before(session: str) -> bytes:
    """Return the key from which to list the sessions after any text."""
    return session.encode(errors="surrogatepass")[: MAX_ID_BYTES + 1]


def request_key(session: str, request: str) -> bytes:
    """Return the key of a request id in `requests`."""
    name = session.encode()
    return blake2b(len(name).to_bytes(2, "little") + name + request.encode(), digest_size=16).digest()


def request_value(seen: RequestResult) -> bytes:
    """Return the value of a request id in `requests`."""
    return _REQUEST.pack(seen.first, seen.last, seen.position) + seen.digest


def decode_folded(value: memoryview) -> FoldState:
    """Decode a value of `meta`."""
    return _decoded(_folded, value, "how far the folded part goes")


def decode_head(value: memoryview, session: str) -> HeadRow:
    """Decode a value of `sessions`."""
    return _decoded(_head, value, "a head", session)


def decode_location(value: memoryview, digest: bytes) -> BodyPlace:
    """Decode a value of `bodies`: the fields of a `PieceLocation`."""
    try:
        return _place(value)
    except (msgspec.DecodeError, RecursionError) as error:
        raise DamagedError(f"the place of body {digest.hex()} cannot be decoded") from error


def decode_chunk_row(value: memoryview, session: str | None, first: int) -> ChunkRow:
    """Decode a value of `commits`."""
    return _decoded(_chunk_row, value, "the place of a chunk", session, first)


def decode_positions(value: memoryview) -> list[tuple[int, int, int]]:
    """Decode a value of `positions`."""
    return _decoded(_positions, value, "the order of commits")


def decode_request(value: memoryview, session: str) -> RequestResult:
    """Decode a value of `requests`."""
    if len(value) < _REQUEST.size:
        raise DamagedError("a row of requests cannot be decoded", session=session)
    first, last, position = _REQUEST.unpack_from(value)
    return RequestResult(bytes(value[_REQUEST.size :]), first, last, position)


def _decoded(
    decode: Callable[[memoryview], R],
    value: memoryview,
    what: str,
    session: str | None = None,
    version: int | None = None,
) -> R:
    try:
        return decode(value)
    except (msgspec.DecodeError, RecursionError) as error:
        raise DamagedError(f"{what} cannot be decoded", session=session, version=version) from error
