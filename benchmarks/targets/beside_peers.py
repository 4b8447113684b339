"""Targets 2 and 5 beside the peers, at equal lengths.

A durable turn, the load of a whole conversation, and a cold view.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import eventlog
from benchmarks.engine import EngineChat
from benchmarks.figures import Case, Figure, Measurement, Setting, Target
from benchmarks.measure import Samples, disk_bytes, in_turn, timed
from benchmarks.peers.base import Chat, Peer
from benchmarks.peers.registry import LIMITS, present
from benchmarks.targets.opening import cold_view, compact_and_go_on
from benchmarks.workloads import Turn, turns

__all__ = ["CASES"]

WARM_UP = 2
LOADS = 3
"""Loads of each side's conversation."""
ENGINE = Peer("everdelta", "everdelta", durable=True, chat=EngineChat)
VIEW = "everdelta, view after a compaction"


def _beside_peers(setting: Setting) -> dict[str, Measurement]:
    """Measure turns and loads of all sides at each length, in turn; add the curves."""
    everyone = [ENGINE, *(peer for peer in present(setting.notes) if peer.chat is not None)]
    took: dict[str, dict[int, float]] = {peer.id: {} for peer in everyone}
    loaded: dict[str, dict[int, float]] = {VIEW: {}, **{peer.id: {} for peer in everyone}}
    size: dict[str, dict[int, float]] = {peer.id: {} for peer in everyone}
    for length in setting.sizes.peer_lengths:
        here = [peer for peer in everyone if setting.sizes.patient or peer.quick is None or length <= peer.quick]
        places = {peer.id: setting.directory / f"{peer.id}-{length}" for peer in here}
        for name, samples in _turns_of(here, places, length, setting.sizes.peer_turns).items():
            took[name][length] = samples.median * 1e3
        size |= {name: {**size[name], length: disk_bytes(place) / 1e6} for name, place in places.items()}
        for name, samples in in_turn(_loading(here, places, setting.directory, length), LOADS, warm_up=0).items():
            loaded[name][length] = samples.median * 1e3
    for peer in everyone:
        setting.notes.curve("turn", peer.title, took[peer.id])
        setting.notes.curve("load", peer.title, loaded[peer.id])
        setting.notes.curve("kept", peer.title, size[peer.id])
    setting.notes.curve("load", VIEW, loaded[VIEW])
    last = setting.sizes.peer_lengths[-1]
    fastest = min(
        loaded[peer.id][last] for peer in everyone if peer.id not in {*LIMITS, ENGINE.id} and last in loaded[peer.id]
    )
    return {
        "target.2.turn": Measurement(took[ENGINE.id][last], took["sqlite-full"][last]),
        "target.5.cold": Measurement(loaded[VIEW][last], fastest),
        "target.5.load": Measurement(loaded[ENGINE.id][last], fastest),
    }


def _chat(peer: Peer, directory: Path) -> Chat:
    assert peer.chat is not None
    return peer.chat(directory)


def _turns_of(here: Iterable[Peer], places: dict[str, Path], length: int, count: int) -> dict[str, Samples]:
    work = turns(length // 2, seed=4)
    with ExitStack() as stack:
        sides: dict[str, Callable[[], list[float]]] = {}
        for peer in here:
            chat = _chat(peer, places[peer.id])
            stack.callback(chat.close)
            chat.seed(work)
            sides[peer.id] = _turning(iter(turns(count + WARM_UP, seed=5)), chat.turn)
        return in_turn(sides, count, warm_up=WARM_UP)


def _turning(work: Iterator[Turn], write: Callable[[Turn], object]) -> Callable[[], list[float]]:
    def side() -> list[float]:
        turn = next(work)
        return [timed(lambda: write(turn))]

    return side


def _loading(
    here: Iterable[Peer], places: dict[str, Path], directory: Path, length: int
) -> dict[str, Callable[[], list[float]]]:
    """Load from a store that was just opened; opening is not counted."""
    compacted = directory / f"compacted-{length}"
    chat = EngineChat(compacted)
    chat.seed(turns(length // 2, seed=4))
    chat.close()
    with eventlog.open(compacted) as store:
        compact_and_go_on(store.session(next(iter(store.sessions())).id))

    def side(peer: Peer) -> Callable[[], list[float]]:
        def load() -> list[float]:
            chat = _chat(peer, places[peer.id])
            try:
                return [timed(chat.load)]
            finally:
                chat.close()

        return load

    return {VIEW: lambda: [cold_view(compacted)[0]], **{peer.id: side(peer) for peer in here}}


FASTEST = "the fastest peer's load"

CASES = (
    Case(
        "peers",
        (
            Figure(
                "target.2.turn",
                "durable turn in a session of 5,000 messages",
                "ms",
                "SQLite FULL, two rows in one transaction",
                Target("<=", 0.9),
            ),
            Figure(
                "target.5.cold",
                "cold view after a compaction at 5,000 messages",
                "ms",
                FASTEST,
                Target("<=", 0.1),
            ),
            Figure("target.5.load", "load of its whole transcript", "ms", FASTEST, Target("<=", 0.9)),
        ),
        _beside_peers,
    ),
)
