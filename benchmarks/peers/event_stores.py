"""The SQLite recorder of `eventsourcing`: three events of JSON in one append for a turn.

It opens its connections itself, in WAL mode at SQLite's default, `synchronous=FULL`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec

from benchmarks.peers.base import Peer, imported
from benchmarks.workloads import Turn

_SESSION = UUID(int=1)


def _events(turn: Turn) -> list[tuple[str, bytes]]:
    call = {"call": "call_1", "name": "bash", "input": turn.command}
    messages = (("user", {"text": turn.question}), ("assistant", {"text": "".join(turn.answer), **call}))
    result = ("result", {"call": "call_1", "output": turn.output})
    return [(kind, msgspec.json.encode(fields)) for kind, fields in (*messages, result)]


class RecorderChat:
    """`SQLiteAggregateRecorder` with one stream."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._stored: Any = imported("eventsourcing.persistence").StoredEvent
        module = imported("eventsourcing.sqlite")
        self._datastore = module.SQLiteDatastore(str(directory / "events.db"))
        self._recorder = module.SQLiteAggregateRecorder(self._datastore)
        self._recorder.create_table()
        self._version = len(self._recorder.select_events(_SESSION))

    def seed(self, work: Sequence[Turn]) -> None:
        """Add all events in one append."""
        self._insert([event for turn in work for event in _events(turn)])

    def turn(self, turn: Turn) -> None:
        """Add three events in one transaction."""
        self._insert(_events(turn))

    def append(self, text: str) -> None:
        """Add one event in one transaction."""
        self._insert([("delta", msgspec.json.encode({"part": "prt_1", "text": text}))])

    def load(self) -> int:
        """Read every event and decode its state."""
        return len([msgspec.json.decode(event.state) for event in self._recorder.select_events(_SESSION)])

    def close(self) -> None:
        """Close the connections."""
        self._datastore.close()

    finish = close

    def _insert(self, events: Sequence[tuple[str, bytes]]) -> None:
        first = self._version
        stored = [self._stored(_SESSION, first + number, kind, state) for number, (kind, state) in enumerate(events)]
        self._recorder.insert_events(stored)
        self._version += len(stored)


PEERS = (
    Peer(
        "eventsourcing",
        "eventsourcing SQLite recorder",
        durable=True,
        note="the recorder alone, without the library's aggregates and transcoders; three events of JSON a turn",
        package="eventsourcing.sqlite",
        install="pip install 'eventsourcing>=9.5.6,<9.6'",
        chat=RecorderChat,
        streamer=RecorderChat,
    ),
)
