"""The limits: raw LMDB, and a raw file that grows.

They store bytes and nothing else that a conversation needs. Raw msgspec, the limit of encoding and
decoding, is in `limits.py`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import lmdb

from benchmarks.peers.base import Peer
from benchmarks.workloads import Turn

__all__ = ["PEERS"]


class LmdbChat:
    """One put and one commit for each turn, or for each delta."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._environment = lmdb.open(str(directory), map_size=1 << 34)
        with self._environment.begin() as transaction:
            self._number = int(transaction.stat()["entries"])

    def seed(self, work: Sequence[Turn]) -> None:
        """Put all turns in one commit."""
        self._put([turn.text_bytes() for turn in work])

    def turn(self, turn: Turn) -> None:
        """Put a turn in one durable commit."""
        self._put([turn.text_bytes()])

    def append(self, text: str) -> None:
        """Put a delta in one durable commit."""
        self._put([text.encode()])

    def load(self) -> int:
        """Read every value."""
        with self._environment.begin() as transaction:
            return len(list(transaction.cursor().iternext(keys=False, values=True)))

    def close(self) -> None:
        """Close the environment."""
        self._environment.close()

    finish = close

    def _put(self, values: Sequence[bytes]) -> None:
        with self._environment.begin(write=True) as transaction:
            for value in values:
                self._number += 1
                transaction.put(self._number.to_bytes(8, "big"), value, append=True)


class FileChat:
    """One write and one `fdatasync` for each turn or delta, in a file that grows."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._path = directory / "raw"
        self._file = self._path.open("ab", buffering=0)

    def seed(self, work: Sequence[Turn]) -> None:
        """Write all bytes at once."""
        self._file.write(b"".join(turn.text_bytes() for turn in work))

    def turn(self, turn: Turn) -> None:
        """Write a turn's bytes; durable when it returns."""
        self._write(turn.text_bytes())

    def append(self, text: str) -> None:
        """Write a delta's bytes; durable when it returns."""
        self._write(text.encode())

    def load(self) -> int:
        """Read all bytes; there is nothing to decode."""
        return len(self._path.read_bytes())

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    finish = close

    def _write(self, data: bytes) -> None:
        self._file.write(data)
        os.fdatasync(self._file.fileno())


PEERS = (
    Peer(
        "lmdb",
        "raw LMDB (limit)",
        durable=True,
        note="a value of plain text for each turn, with nothing to find a message by",
        package="lmdb",
        chat=LmdbChat,
        streamer=LmdbChat,
    ),
    Peer(
        "file",
        "raw file append (limit)",
        durable=True,
        note="plain text at the end of a file that grows, so each sync also writes its length; loading decodes nothing",
        chat=FileChat,
        streamer=FileChat,
    ),
)
