"""Conversations in other libraries' stores and in ours: a turn, a load, bytes kept.

Peers that wait for the disk at each turn are one table, the others another: a turn that is lost
with the power is no rival of one that is not. All conversations are made by the calls of a program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from benchmarks.engine import WAITS, EngineChat
from benchmarks.figures import Case, Figure, Measurement, Setting, Target
from benchmarks.measure import disk_bytes, in_turn, timed
from benchmarks.peers.base import Chat, Peer
from benchmarks.peers.registry import PEERS, present
from benchmarks.workloads import Turn, turns

WARM_UP = 2
LOADS = 3
"""Loads of each side's conversation, each in a store that was just opened."""
ENGINE = Peer(
    "everdelta",
    "everdelta, a pipeline",
    durable=True,
    note="the calls of the Quickstart in a pipeline: one wait, as the others; the lease is taken and given back",
    chat=partial(EngineChat, waits=False),
)
LOOP = Peer(
    "everdelta-turn",
    "everdelta, session.turn",
    durable=True,
    note=f"{WAITS} waits in each turn: what a crash leaves is known at each step",
    chat=partial(EngineChat, waits=True),
)
OURS = (ENGINE, LOOP, *(peer for peer in PEERS if peer.id.endswith("-ours")))
"""The engine, also as the store of a framework."""


def _turning(work: Iterator[Turn], write: Callable[[Turn], object]) -> Callable[[], list[float]]:
    return lambda: [timed(partial(write, next(work)))]


def _chat(peer: Peer, directory: Path) -> Chat:
    assert peer.chat is not None
    return peer.chat(directory)


def _at(setting: Setting, everyone: list[Peer], length: int) -> dict[str, dict[str, float]]:
    """Return milliseconds of a turn and a load, and megabytes, of each peer at a length."""
    here = [peer for peer in everyone if peer.quick is None or length <= peer.quick]
    places = {peer.id: setting.directory / f"{peer.id}-{length}" for peer in here}
    work, count = turns(length // 2, seed=4), setting.sizes.peer_turns
    with ExitStack() as stack:
        sides: dict[str, Callable[[], list[float]]] = {}
        for peer in here:
            chat = _chat(peer, places[peer.id])
            stack.callback(chat.close)
            chat.seed(work)
            sides[peer.id] = _turning(iter(turns(count + WARM_UP, seed=5)), chat.turn)
        taken = in_turn(sides, count, warm_up=WARM_UP)
    kept = {name: disk_bytes(place) / 1e6 for name, place in places.items()}

    def loading(peer: Peer) -> Callable[[], list[float]]:
        def load() -> list[float]:
            chat = _chat(peer, places[peer.id])
            try:
                return [timed(chat.load)]
            finally:
                chat.close()

        return load

    loaded = in_turn({peer.id: loading(peer) for peer in here}, LOADS, warm_up=0)
    return {
        "a turn, ms": {name: samples.median * 1e3 for name, samples in taken.items()},
        "first load, ms": {name: samples.times[0] * 1e3 for name, samples in loaded.items()},
        "load, ms": {name: samples.median * 1e3 for name, samples in loaded.items()},
        "kept, MB": kept,
    }


def _conversations(setting: Setting) -> dict[str, Measurement]:
    everyone = [ENGINE, LOOP, *(peer for peer in present(setting.notes) if peer.chat is not None)]
    setting.notes.remark(ENGINE.title, ENGINE.note)
    setting.notes.remark(LOOP.title, LOOP.note)
    found = {length: _at(setting, everyone, length) for length in setting.sizes.lengths}
    shown = setting.sizes.lengths[min(1, len(setting.sizes.lengths) - 1)]
    for peer in everyone:
        kept = "on the disk at each turn" if peer.durable else "lost with the power"
        title = f"a conversation of {shown:,} messages, {kept}"
        setting.notes.row(title, peer.title, {kind: numbers.get(peer.id) for kind, numbers in found[shown].items()})
    last = found[setting.sizes.lengths[-1]]
    rivals = [peer.id for peer in everyone if peer not in OURS and peer.durable]

    def beside(kind: str, against: Sequence[str]) -> Measurement:
        return Measurement(last[kind][ENGINE.id], min(last[kind][name] for name in against if name in last[kind]))

    return {
        "conversations.turn": beside("a turn, ms", ["sqlite-full"]),
        "conversations.load": beside("first load, ms", rivals),
        "conversations.kept": beside("kept, MB", ["sqlite-full"]),
    }


SQLITE = "SQLite FULL, two rows in one transaction"
FASTEST = "the fastest peer that waits for the disk, too"

CASE = Case(
    "conversations",
    (
        Figure("conversations.turn", "durable turn, longest history", "ms", SQLITE, Target("<=", 0.9)),
        Figure("conversations.load", "first load of the longest conversation", "ms", FASTEST, Target("<=", 0.9)),
        Figure("conversations.kept", "the longest conversation on the disk", "MB", SQLITE, Target("<=", 0.3)),
    ),
    _conversations,
)
