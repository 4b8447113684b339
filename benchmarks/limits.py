"""Limits that the engine is compared with: bare libraries and system calls.

Raw msgspec, a raw file written in place, plain JSON lines; SQLite is in `sqlite_turns.py`. None of
them promises what the engine does.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from eventlog.events import PartDelta

__all__ = ["RawFile", "decode_lines", "decode_stream", "encode_one_by_one"]


def encode_one_by_one(texts: Sequence[str], parts: Sequence[str]) -> None:
    """Create and encode an event for each delta, the parts in turn; the bytes are dropped."""
    encode = msgspec.msgpack.Encoder().encode
    for part, text in zip(cycle(parts), texts, strict=False):
        encode(PartDelta(part, "text", text))


def decode_lines(path: Path) -> int:
    """Decode a file of JSON lines and return their number.

    Recorded files have damaged lines, which are skipped.
    """
    decode = msgspec.json.Decoder().decode
    decoded = 0
    with path.open("rb") as lines:
        for line in lines:
            with suppress(msgspec.DecodeError):
                decode(line)
                decoded += 1
    return decoded


def decode_stream(path: Path) -> int:
    """Decode the data of a recorded stream of server-sent events and return their number."""
    decode = msgspec.json.Decoder().decode
    with path.open("rb") as lines:
        return sum(1 for line in lines if line.startswith(b"data: {") and decode(line[6:]) is not None)


class RawFile:
    """A file filled with zeros once and then written in place.

    Each record is one `pwrite` and one `fdatasync`.
    """

    def __init__(self, path: Path, size: int = 16 << 20) -> None:
        self._size = size
        self._at = 0
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        zeros = bytes(1 << 20)
        for offset in range(0, size, len(zeros)):
            os.pwrite(self._fd, zeros, offset)
        os.fsync(self._fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def write(self, data: bytes) -> None:
        """Write a record behind the one before; durable when it returns."""
        if self._at + len(data) > self._size:
            self._at = 0
        os.pwrite(self._fd, data, self._at)
        self.fdatasync(self._fd)
        self._at += len(data)

    def fdatasync(self, fd: int) -> None:
        """Flush the file's bytes to the disk."""
        os.fdatasync(fd)
