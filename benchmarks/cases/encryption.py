"""Turns and views in a store with keys, beside a store without."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from time import perf_counter

import eventlog
from benchmarks.engine import session_turn
from benchmarks.figures import Case, Figure, Measurement, Setting, Target
from benchmarks.measure import disk_bytes, in_turn, timed
from benchmarks.workloads import turns
from projections import ModelView

WARM_UP = 20


def _encrypted(setting: Setting) -> dict[str, Measurement]:
    import_module("cryptography")
    count = setting.sizes.turns
    paths = {side: setting.directory / side for side in ("plain", "encrypted")}
    keys = {"plain": None, "encrypted": setting.directory / "keys"}

    @contextmanager
    def session_of(side: str) -> Generator[eventlog.Session]:
        with eventlog.open(paths[side], keys=keys[side]) as store:
            yield store.session("p")

    for side, path in paths.items():
        with eventlog.open(path, keys=keys[side]) as store:
            store.create_session(id="p")

    def turning(session: eventlog.Session) -> Callable[[], list[float]]:
        work = iter(turns(count + WARM_UP))
        return lambda: [timed(partial(session_turn, session, next(work)))]

    with session_of("plain") as plain, session_of("encrypted") as encrypted:
        sides = {"plain": turning(plain), "encrypted": turning(encrypted)}
        taken = in_turn(sides, count, warm_up=WARM_UP)

    def viewing(side: str) -> Callable[[], list[float]]:
        def view() -> list[float]:
            with session_of(side) as session:
                start = perf_counter()
                assert ModelView.of(session).messages
                return [perf_counter() - start]

        return view

    viewed = in_turn({side: viewing(side) for side in paths}, setting.sizes.rounds)
    sizes = {side: disk_bytes(Path(path) / "1" / "lmdb") / 1e6 for side, path in paths.items()}
    return {
        "encryption.turn": Measurement(taken["encrypted"].median * 1e3, taken["plain"].median * 1e3),
        "encryption.view": Measurement(viewed["encrypted"].median * 1e3, viewed["plain"].median * 1e3),
        "encryption.kept": Measurement(sizes["encrypted"], sizes["plain"]),
    }


PLAIN = "not encrypted"

CASE = Case(
    "encryption",
    (
        Figure("encryption.turn", "turn by session.turn, encrypted", "ms", PLAIN, Target("<=", 1.5)),
        Figure("encryption.view", "first view of a store just opened, encrypted", "ms", PLAIN),
        Figure("encryption.kept", "size after these turns, encrypted, without the journal", "MB", PLAIN),
    ),
    _encrypted,
    install="pip install '.[encryption]'",
)
