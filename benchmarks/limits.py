"""Limits that the engine is compared with: bare libraries and system calls.

A raw file written in place, and decoding JSON lines; SQLite is in `sqlite_turns.py`. None of them
promises what the engine does.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import msgspec


def decode_lines(path: Path, prefix: bytes = b"") -> int:
    """Decode a file of JSON lines, each behind `prefix`, and return their number.

    Other lines, and damaged ones, which recorded files have, are skipped.
    """
    decode, decoded = msgspec.json.Decoder().decode, 0
    with path.open("rb") as lines:
        for line in lines:
            if line.startswith(prefix):
                with suppress(msgspec.DecodeError):
                    decode(line[len(prefix) :])
                    decoded += 1
    return decoded


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

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def write(self, data: bytes) -> None:
        """Write a record behind the one before; durable when it returns."""
        if self._at + len(data) > self._size:
            self._at = 0
        os.pwrite(self._fd, data, self._at)
        os.fdatasync(self._fd)
        self._at += len(data)
