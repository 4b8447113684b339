"""All sides that write durable turns, by name.

By its name a process of its own can measure one side alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path
from shutil import copytree
from typing import NamedTuple, Protocol

import eventlog
from benchmarks.engine import WAITS, take_turn, waiting_turn
from benchmarks.hand_off import HandOff
from benchmarks.history import BEGAN, items_of, seasoned
from benchmarks.limits import RawFile
from benchmarks.sqlite_turns import SameFacts, TwoRows, Wal
from benchmarks.workloads import Turn
from eventlog.codec.batch import encode

__all__ = ["SIDES", "Kind", "Side"]


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

    def __init__(self, directory: Path, *, waits: bool, held: bool) -> None:
        self._path = directory / "store"
        copytree(_used(directory.parent), self._path)
        os.sync()  # so that what was copied is not written while something is measured
        self._take = waiting_turn if waits else take_turn
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


class BareSide(RawSide):
    """The turn's events, encoded as by the engine, written by another thread."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._numbers = count(1)
        self._hand_off = HandOff(lambda records: self.file.write(b"".join(records)))

    def turn(self, turn: Turn) -> None:
        """Make one write and one sync, in the thread."""
        bodies: dict[bytes, bytes] = {}
        payload = encode(items_of(next(self._numbers), turn, BEGAN, bodies), BEGAN)
        self._hand_off.wait(b"".join((payload, *bodies.values())))

    def close(self) -> None:
        """End the thread, and close the file."""
        self._hand_off.close()
        super().close()


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


def _engine(note: str, *, waits: bool, held: bool) -> Kind:
    title = "everdelta, lease held" if held else "everdelta, as in the README"
    ending = f", its {WAITS} waits" if waits else ", pipelined"
    return Kind(title + ending, note, partial(EngineSide, waits=waits, held=held))


def _sqlite(title: str, note: str, database: Callable[[Path], Wal]) -> Kind:
    return Kind(f"SQLite FULL, {title}", note, partial(_filled, database))


SIDES: dict[str, Kind] = {
    "readme": _engine("takes the lease and gives it back in each turn; one wait at the end", waits=False, held=False),
    "readme.waits": _engine("waits for question, call, result and end", waits=True, held=False),
    "held": _engine("the lease is taken once, before all turns", waits=False, held=True),
    "held.waits": _engine("the lease is taken once; waits for question, call, result and end", waits=True, held=True),
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
    "deltas": _sqlite(
        "a row per delta", "the same facts, the run of deltas as a row each", partial(SameFacts, each_delta=True)
    ),
    "rows": _sqlite("two rows", "a row of JSON for each message; no deltas, no events", TwoRows),
    "bare": Kind(
        "bare queue and thread", "the engine's events made and encoded; nothing decided, ordered or indexed", BareSide
    ),
    "raw": Kind("raw file", "pwrite and fdatasync of the turn's text into a file filled with zeros", RawSide),
}
