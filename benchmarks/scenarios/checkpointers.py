"""LangGraph on its checkpointers and on ours: turns, cold loads, and what they keep.

A turn is one run of a graph of two nodes, which stores four checkpoints. Ours is durable at each,
the database of LangGraph's own at SQLite's default, and the one in memory never.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import eventlog
from benchmarks.figures import Case, Measurement, Missing, Setting
from benchmarks.measure import disk_bytes, in_turn, timed
from benchmarks.peers.base import imported
from benchmarks.peers.langgraph import INSTALL, GraphChat
from benchmarks.workloads import Turn, turns

__all__ = ["CASES"]

TABLE = "LangGraph on a checkpointer"
A_TURN = 3
"""Messages."""
KEPT = 1_000
"""Messages of the conversation whose bytes are counted, taken turn by turn."""
AT_ONCE = 30
"""Turns that are added at once before turns are measured: few, as in a real history."""
LOADS = 5
SIDES = {"ours": "everdelta", "sqlite": "LangGraph SqliteSaver", "memory": "LangGraph InMemorySaver"}


@contextmanager
def _saver(side: str, place: Path) -> Generator[Any]:
    place.mkdir(parents=True, exist_ok=True)
    if side == "memory":
        yield imported("langgraph.checkpoint.memory").InMemorySaver()
    elif side == "sqlite":
        connection = sqlite3.connect(place / "chat.db", check_same_thread=False)
        try:
            yield imported("langgraph.checkpoint.sqlite").SqliteSaver(connection)
        finally:
            connection.close()
    else:
        with eventlog.open(place / "store") as store:
            yield imported("eventlog.adapters.langgraph").EverdeltaSaver(store)


def _chat(saver: Any) -> GraphChat:
    return GraphChat(saver, imported("langgraph.graph.message").add_messages, "async")


def _cold(side: str, place: Path) -> float:
    """Return the seconds that a load takes in a store that was just opened."""
    with _saver(side, place) as saver:
        chat = _chat(saver)
        return timed(chat.load)


def _took(setting: Setting, length: int) -> Mapping[str, dict[str, float]]:
    """Return milliseconds of turns and loads of each side, measured in turn."""
    places = {side: setting.directory / f"langgraph-{side}-{length}" for side in SIDES}
    work = iter(turns(length // A_TURN + (setting.sizes.peer_turns + 2) * len(SIDES), seed=7))
    begun = [next(work) for _ in range(length // A_TURN)]

    def some(chat: GraphChat) -> Callable[[], list[float]]:
        return lambda: [timed(partial(chat.turn, next(work)))]

    with ExitStack() as stack:
        chats = {side: _chat(stack.enter_context(_saver(side, place))) for side, place in places.items()}
        for side, chat in chats.items():
            piece = AT_ONCE if side == "ours" else len(begun)  # the others store all that is there each time
            for start in range(0, len(begun), piece):
                chat.seed(begun[start : start + piece])
        taken = in_turn({side: some(chat) for side, chat in chats.items()}, setting.sizes.peer_turns, warm_up=2)
    stored = {side: place for side, place in places.items() if side != "memory"}

    def load(side: str, place: Path) -> Callable[[], list[float]]:
        return lambda: [_cold(side, place)]

    loaded = in_turn({side: load(side, place) for side, place in stored.items()}, LOADS)
    return {
        "turn": {side: samples.median * 1e3 for side, samples in taken.items()},
        "load": {side: samples.median * 1e3 for side, samples in loaded.items()},
    }


def _kept(setting: Setting, work: list[Turn]) -> dict[str, float]:
    """Return megabytes that a conversation takes on the disk, run turn by turn."""
    kept: dict[str, float] = {}
    for side in ("ours", "sqlite"):
        place = setting.directory / f"langgraph-{side}-kept"
        with _saver(side, place) as saver:
            chat = _chat(saver)
            for turn in work:
                chat.turn(turn)
        kept[side] = disk_bytes(place) / 1e6
    return kept


def _checkpointers(setting: Setting) -> dict[str, Measurement]:
    try:
        imported("langgraph.checkpoint.sqlite")
        imported("langgraph.graph")
    except ImportError as error:
        setting.notes.miss(Missing(TABLE, INSTALL, f"{type(error).__name__}: {error}"))
        return {}
    cells: dict[str, dict[str, float | None]] = {side: {} for side in SIDES}
    for length in setting.sizes.peer_lengths:
        for what, found in _took(setting, length).items():
            for side in SIDES:
                cells[side][f"{what} at {length:,}, ms"] = found.get(side)
    for side, megabytes in _kept(setting, turns(KEPT // A_TURN, seed=8)).items():
        cells[side][f"kept at {KEPT:,}, MB"] = megabytes
    for side, title in SIDES.items():
        setting.notes.row(TABLE, title, cells[side])
    return {}


CASES = (Case("checkpointers", (), _checkpointers),)
