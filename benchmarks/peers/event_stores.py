"""Event stores: the SQLite recorder of `eventsourcing`, and the UmaDB server.

A turn is three events of JSON in one append; a streamed answer has one event for each delta. The
recorder opens its connections itself, in WAL mode at SQLite's default, `synchronous=FULL`; UmaDB
flushes each append: both are durable, and there is no other choice. The server is reached over the
loopback interface.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from socket import socket
from typing import Any
from uuid import UUID

import msgspec

from benchmarks.peers.base import Peer, PeerError, imported
from benchmarks.workloads import Turn

__all__ = ["PEERS"]

_SESSION = UUID(int=1)
_PATIENCE = 10.0
"""Seconds within which a server must answer."""
_SERVER = """
import os, sys, threading
def end_with_parent():
    sys.stdin.read()
    os._exit(0)
threading.Thread(target=end_with_parent, daemon=True).start()
import umadb.umadb_server_cli
sys.argv[0] = "umadb"
umadb.umadb_server_cli.main()
"""
"""Runs the server until it is told to end, or the process that started it is gone."""
_SEEDED = 100
"""Turns of one append when a store is seeded."""


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


class UmaChat:
    """A UmaDB server of its own on a free port of 127.0.0.1, stopped with the chat."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._module = imported("umadb")
        with socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{free.getsockname()[1]}"
        self._server = subprocess.Popen(
            [sys.executable, "-c", _SERVER, "--listen", address, "--db-path", str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._client = self._connected(f"http://{address}")

    def seed(self, work: Sequence[Turn]) -> None:
        """Add a hundred turns at a time."""
        for start in range(0, len(work), _SEEDED):
            self._append([event for turn in work[start : start + _SEEDED] for event in _events(turn)])

    def turn(self, turn: Turn) -> None:
        """Add three events in one append."""
        self._append(_events(turn))

    def append(self, text: str) -> None:
        """Add one event in one append."""
        self._append([("delta", msgspec.json.encode({"part": "prt_1", "text": text}))])

    def load(self) -> int:
        """Read every event of the session and decode its data."""
        query = self._module.Query([self._module.QueryItem(tags=["s"])])
        return len([msgspec.json.decode(recorded.event.data) for recorded in self._client.read(query)])

    def close(self) -> None:
        """Stop the server."""
        self._server.terminate()
        self._server.wait()
        if self._server.stdin is not None:
            self._server.stdin.close()

    finish = close

    def _append(self, events: Sequence[tuple[str, bytes]]) -> None:
        make = self._module.Event
        self._client.append([make(kind, data, ["s"]) for kind, data in events])

    def _connected(self, url: str) -> Any:
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                client = self._module.Client(url)
                client.head()
            except Exception as error:
                if self._server.poll() is not None or time.monotonic() > deadline:
                    self.close()
                    raise PeerError(f"no UmaDB server answers at {url}: {error}") from error
                time.sleep(0.05)
            else:
                return client


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
    Peer(
        "umadb",
        "UmaDB server (loopback)",
        durable=True,
        note="a process of its own, asked over the loopback interface; allocates its file in advance, so what is kept is not what was written",
        package="umadb",
        install="pip install 'umadb>=0.7,<0.8'",
        chat=UmaChat,
        streamer=UmaChat,
        server=True,
    ),
)
