"""All sides that write durable turns, by name.

By its name a process of its own can measure one side alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from shutil import copytree
from typing import NamedTuple, Protocol

import eventlog
from benchmarks.engine import WAITS, seasoned, session_turn, take_turn, waiting_turn
from benchmarks.limits import RawFile
from benchmarks.sqlite_turns import SameFacts, TwoRows, Wal
from benchmarks.workloads import Turn


class Side(Protocol):
    """A way to store turns, in the state it has after some use."""

    def turn(self, turn: Turn) -> None:
        """Store a turn; durable when it returns."""
        ...

    def finish_work(self) -> None:
        """Do deferred work: move what was written to where it stays."""
        ...

    def close(self) -> None:
        """Close all that is open."""
        ...


def _used(folder: Path) -> Path:
    """Return a store that has been in use; it is made once for a folder."""
    path = folder / "used"
    return path if path.exists() else seasoned(path)


class EngineSide:
    """The engine, in a store that was in use and was opened again."""

    def __init__(self, directory: Path, take: Callable[[eventlog.Session, Turn], None], *, held: bool) -> None:
        self._path = directory / "store"
        copytree(_used(directory.parent), self._path)
        os.sync()  # so that what was copied is not written while something is measured
        self._take = take
        self._held = held
        self._open = ExitStack()
        with eventlog.open(self._path) as store:
            self._name = store.create_session(title="turns").id
        self._session = self._opened()

    def _opened(self) -> eventlog.Session:
        """Open the store anew and return its session, with the lease taken if it is to be held."""
        session = self._open.enter_context(eventlog.open(self._path)).session(self._name)
        if self._held:
            self._open.enter_context(session.lease())
        return session

    def turn(self, turn: Turn) -> None:
        """Take a turn."""
        self._take(self._session, turn)

    def finish_work(self) -> None:
        """Close the store, which ends its background work, and open it again."""
        self._open.close()
        self._session = self._opened()

    def close(self) -> None:
        """Close the store."""
        self._open.close()


class RawSide:
    """The turn's bytes and nothing else, written into a file filled with zeros."""

    def __init__(self, directory: Path) -> None:
        self.file = RawFile(directory / "raw")

    def turn(self, turn: Turn) -> None:
        """Make one write and one sync."""
        self.file.write(turn.text_bytes())

    def finish_work(self) -> None:
        """Do nothing: no work was deferred."""

    def close(self) -> None:
        """Close the file."""
        self.file.close()


def _filled(database: Callable[[Path], Wal], directory: Path) -> Wal:
    side = database(directory / "turns.db")
    side.fill()
    return side


class Kind(NamedTuple):
    """A side, and the explanation that its figures need."""

    title: str
    note: str
    make: Callable[[Path], Side]
    """Makes the side in an existing directory of its own."""


def _engine(title: str, note: str, take: Callable[[eventlog.Session, Turn], None], *, held: bool = False) -> Kind:
    return Kind(f"everdelta, {title}", note, partial(EngineSide, take=take, held=held))


def _sqlite(title: str, note: str, database: Callable[[Path], Wal]) -> Kind:
    return Kind(f"SQLite FULL, {title}", note, partial(_filled, database))


SIDES: dict[str, Kind] = {
    "turn": _engine(
        "session.turn", f"as in the loop of the pages: a request id, the lease, {WAITS} waits", session_turn
    ),
    "waits": _engine("user and reply", f"as in the Quickstart: {WAITS} waits", waiting_turn),
    "piped": _engine("a pipeline", "the Quickstart's calls in a pipeline: one wait at the end", take_turn),
    "held": _engine("a pipeline, lease held", "the lease is taken once, before all turns", take_turn, held=True),
    "facts": _sqlite(
        "same facts",
        "a row for each event, the run of deltas whole, the body by its hash, the session's row; no hash tree, checksum or lease",
        SameFacts,
    ),
    "facts.waits": _sqlite(
        f"same facts, {WAITS} transactions",
        "a transaction for the question, the call with all before it, the result, and the end",
        partial(SameFacts, each_wait=True),
    ),
    "rows": _sqlite("two rows", "a row of JSON for each message; no deltas, no events", TwoRows),
    "raw": Kind("raw file", "pwrite and fdatasync of the turn's text into a file filled with zeros", RawSide),
}
