"""The bytes of the journal: file headers, frames and records, as in `FORMAT.md`.

Pure: no file is opened here. A frame that is not whole and valid ends the log.

An *address* is a place in the journal as one number: sequence << 40 | offset.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple
from zlib import crc32

import msgspec

from eventlog.errors import DamagedError, TooNewError
from eventlog.log.commit import Commit, LeaseState
from eventlog.log.validation import Base, Count, Number, Signed

FORMAT_VERSION = 1
FILE_HEADER_BYTES = 64
FRAME_HEADER_BYTES = 32
MAX_PAYLOAD_BYTES = 1 << 30
RECORDS = 1
END = 2
KINDS = frozenset({RECORDS, END})
"""The frame kinds that this program reads."""
OFFSET_BITS = 40
OFFSET_MASK = (1 << OFFSET_BITS) - 1

_MAGIC = b"EVDJRNL1"
_FILE = struct.Struct("<8sIIQ8sQ")
_FRAME = struct.Struct("<8sQIHHII")
_COVERED = struct.Struct("<Q8sQIHHI")
_CRC = struct.Struct("<I")


class CommitRecord(msgspec.Struct, frozen=True, array_like=True, tag=1, gc=False):
    """One append in the journal: all that is needed to rebuild the session."""

    session: str
    first: Number
    count: Count
    position: Number
    time: Signed
    payload: bytes
    salt: bytes
    """Salt and leaf tag, as in `commit.Commit`."""
    leaf: bytes
    epoch: Number = 0
    messages: Signed = 0
    base: Base | None = None
    """Version before the session's first event; in the append that begins the session only."""
    entry: bytes | None = None
    request: str | None = None
    digest: bytes = b""
    bodies: list[tuple[bytes, bytes]] = []

    def commit(self) -> Commit:
        """Return the append as a commit."""
        return Commit(
            self.session, self.first, self.count, self.position, self.epoch, self.time, self.payload, self.request,
            self.salt, self.leaf,
        )  # fmt: skip


class LeaseRecord(msgspec.Struct, frozen=True, array_like=True, tag=2, gc=False):
    """A lease that replaced the session's stored one."""

    session: str
    epoch: Number
    owner: bytes
    until: Signed

    def lease(self) -> LeaseState:
        """Return the lease."""
        return LeaseState(self.epoch, self.owner, self.until)

    @classmethod
    def of(cls, session: str, lease: LeaseState) -> LeaseRecord:
        """Return the record of a session's lease."""
        return cls(session, lease.epoch, lease.owner, lease.until)


Record = CommitRecord | LeaseRecord
_TAGS = frozenset({1, 2})


class FrameHeader(NamedTuple):
    """A frame header with the file's salt; its CRC is still to be compared."""

    position: int
    length: int
    kind: int
    crc: int
    records: int

    @property
    def total(self) -> int:
        """Bytes of the whole frame: header, payload, and zeros up to a multiple of 8."""
        return FRAME_HEADER_BYTES + (self.length + 7 & ~7)


class Frame(NamedTuple):
    """A frame that was read: the address behind it, its bytes, its last position, its records."""

    end: int
    size: int
    position: int
    records: list[Record]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[Record])


def address_of(sequence: int, offset: int) -> int:
    """Return the address of an offset in a journal file."""
    return sequence << OFFSET_BITS | offset


def sequence_of(address: int) -> int:
    """Return the number of the file that holds an address."""
    return address >> OFFSET_BITS


def pack_file_header(sequence: int, salt: bytes, position: int) -> bytes:
    """Encode a file header."""
    fields = _FILE.pack(_MAGIC, FORMAT_VERSION, 0, sequence, salt, position)
    return (fields + _CRC.pack(crc32(fields))).ljust(FILE_HEADER_BYTES, b"\0")


def parse_file_header(data: bytes, sequence: int) -> tuple[bytes, int]:
    """Return the salt and first position of a file; `DamagedError` for another header."""
    if len(data) < FILE_HEADER_BYTES:
        raise DamagedError(f"journal file {sequence} is cut short")
    magic, version, _, number, salt, position = _FILE.unpack_from(data)
    if magic != _MAGIC or _CRC.unpack_from(data, _FILE.size)[0] != crc32(data[: _FILE.size]):
        raise DamagedError(f"the header of journal file {sequence} is damaged")
    if version > FORMAT_VERSION:
        raise TooNewError(f"journal file {sequence} has format {version}, known is {FORMAT_VERSION}")
    if number != sequence:
        raise DamagedError(f"journal file {sequence} says that it is file {number}")
    return salt, position


def parse_frame_header(data: bytes | memoryview, at: int, salt: bytes) -> FrameHeader | None:
    """Return the frame header at `data[at:]`, or None if it cannot be one of this file.

    An unknown kind is accepted: if the CRC is right, a newer program wrote it, and it does not end
    the log.
    """
    frame_salt, position, length, kind, zero, crc, records = _FRAME.unpack_from(data, at)
    if frame_salt != salt or zero or length > MAX_PAYLOAD_BYTES or not kind:
        return None
    return FrameHeader(position, length, kind, crc, records)


def payload_matches(header: FrameHeader, payload: bytes | memoryview, salt: bytes, offset: int) -> bool:
    """Return whether the CRC of a frame that begins at `offset` of its file is right."""
    covered = _COVERED.pack(offset, salt, header.position, header.length, header.kind, 0, header.records)
    return len(payload) == header.length and crc32(payload, crc32(covered)) == header.crc


_encode_into = _encoder.encode_into


def encode_records(records: list[Record], into: bytearray) -> None:
    """Encode the payload of a frame behind room for its header; `finish_frame` completes it."""
    _encode_into(records, into, FRAME_HEADER_BYTES)


def finish_frame(frame: bytearray, salt: bytes, position: int, records: int, offset: int) -> None:
    """Complete a frame that `encode_records` began: padding, CRC and header."""
    length = len(frame) - FRAME_HEADER_BYTES
    covered = crc32(_COVERED.pack(offset, salt, position, length, RECORDS, 0, records))
    crc = crc32(memoryview(frame)[FRAME_HEADER_BYTES:], covered)
    frame += bytes(-length & 7)
    _FRAME.pack_into(frame, 0, salt, position, length, RECORDS, 0, crc, records)


def encode_end(salt: bytes, position: int, offset: int) -> bytes:
    """Return the frame that ends a file: the log continues in the next one."""
    crc = crc32(_COVERED.pack(offset, salt, position, 0, END, 0, 0))
    return _FRAME.pack(salt, position, 0, END, 0, crc, 0)


def decode_records(payload: bytes | memoryview, position: int) -> list[Record]:
    """Decode a payload whose CRC was right."""
    try:
        return _decoder.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if _has_unknown_tags(payload):
            raise TooNewError("a journal frame holds records that are not known", position=position) from error
        raise DamagedError("a journal frame holds no records of this format", position=position) from error


def _has_unknown_tags(payload: bytes | memoryview) -> bool:
    try:
        rows = msgspec.msgpack.decode(payload, type=list[list[Any]])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return any(row and isinstance(row[0], int) and row[0] not in _TAGS for row in rows)
