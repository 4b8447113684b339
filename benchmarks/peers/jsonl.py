"""A line of JSON for each message, or for each delta, at the end of a file.

Claude Code and Codex do so. Measured with `fsync` and without.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks.peers.base import Peer
from benchmarks.workloads import Turn


class JsonlChat:
    """A conversation as a file of lines; also a streamer, with a line for each delta."""

    def __init__(self, directory: Path, *, sync: bool) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._path = directory / "chat.jsonl"
        self._file = self._path.open("ab")
        self._sync = sync
        self._encode = msgspec.json.Encoder().encode
        self._decode = msgspec.json.Decoder().decode

    def seed(self, work: Sequence[Turn]) -> None:
        """Write all lines at once."""
        self._file.write(b"".join(map(self._lines, work)))
        self._file.flush()

    def turn(self, turn: Turn) -> None:
        """Write three lines at once."""
        self._write(self._lines(turn))
        self._file.flush()

    def append(self, text: str) -> None:
        """Write one line."""
        self._write(self._encode({"type": "text-delta", "id": "prt_1", "text": text}) + b"\n")

    def load(self) -> int:
        """Read and decode every line."""
        with self._path.open("rb") as lines:
            return len([self._decode(line) for line in lines])

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def finish(self) -> None:
        """Flush what was written to the disk, and close the file."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self.close()

    def _write(self, data: bytes) -> None:
        self._file.write(data)
        if self._sync:
            self._file.flush()
            os.fsync(self._file.fileno())

    def _lines(self, turn: Turn) -> bytes:
        call = {"type": "tool_use", "id": "call_1", "name": "bash", "input": {"command": turn.command}}
        result = {"type": "tool_result", "tool_use_id": "call_1", "content": turn.output}
        answer = {"type": "text", "text": "".join(turn.answer)}
        messages = (("user", turn.question), ("assistant", [answer, call]), ("user", [result]))
        return b"".join(self._encode({"role": role, "content": content}) + b"\n" for role, content in messages)


def _synced(directory: Path) -> JsonlChat:
    return JsonlChat(directory, sync=True)


def _unsynced(directory: Path) -> JsonlChat:
    return JsonlChat(directory, sync=False)


PEERS = (
    Peer(
        "jsonl",
        "JSONL",
        durable=False,
        note="waits for no disk; a stream's deltas wait in memory for a full block, and its end for the disk; nothing says whether a line is whole",
        chat=_unsynced,
        streamer=_unsynced,
    ),
    Peer(
        "jsonl-fsync",
        "JSONL, each fsynced",
        durable=True,
        note="the file grows, so each sync also writes its length; nothing says where a message lies",
        chat=_synced,
        streamer=_synced,
    ),
)
