"""Turns and views in a store with keys, beside a store without.

Without the library (`everdelta[encryption]`) nothing is measured.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter

import eventlog
from benchmarks.engine import take_turn
from benchmarks.figures import Case, Figure, Measurement, Setting
from benchmarks.measure import disk_bytes, in_turn, timed
from benchmarks.workloads import turns
from projections.view.model_view import ModelView

__all__ = ["CASES"]

WARM_UP = 20
VIEWS = 4
"""Times a view is opened in each round."""


def _sides(setting: Setting) -> dict[str, Measurement]:
    count = setting.sizes.turns
    folder = setting.directory / "encryption"
    folder.mkdir()
    paths = {"plain": folder / "plain", "encrypted": folder / "encrypted"}
    keys = {"plain": None, "encrypted": folder / "keys"}
    stores = {side: eventlog.open(path, keys=keys[side]) for side, path in paths.items()}

    def turning(store: eventlog.Store) -> Callable[[], list[float]]:
        session = store.create_session(id="p")
        session.executor.acquire()
        work = iter(turns(count + WARM_UP))
        return lambda: [timed(lambda: take_turn(session, next(work)))]

    try:
        taken = in_turn({side: turning(store) for side, store in stores.items()}, count, warm_up=WARM_UP)
    finally:
        for store in stores.values():
            store.close()

    def viewing(path: Path, key_file: Path | None) -> Callable[[], list[float]]:
        def view() -> list[float]:
            with eventlog.open(path, keys=key_file) as store:
                start = perf_counter()
                assert ModelView.of(store.session("p")).messages
                return [perf_counter() - start]

        return view

    opened = in_turn({side: viewing(path, keys[side]) for side, path in paths.items()}, setting.sizes.rounds * VIEWS)
    times = {
        name: Measurement(samples["encrypted"].median * 1000, samples["plain"].median * 1000)
        for name, samples in (("encryption.turn", taken), ("encryption.view", opened))
    }
    sizes = {side: disk_bytes(path / "lmdb") / 1e6 for side, path in paths.items()}
    return {**times, "encryption.kept": Measurement(sizes["encrypted"], sizes["plain"])}


_CASES = (
    Case(
        "encryption",
        (
            Figure("encryption.turn", "durable turn, encrypted, median", "ms", "not encrypted"),
            Figure("encryption.view", "view of the session, encrypted, opened cold", "ms", "not encrypted"),
            Figure("encryption.kept", "size after these turns, encrypted, without the journal", "MB", "not encrypted"),
        ),
        _sides,
    ),
)
CASES: tuple[Case, ...] = _CASES if find_spec("cryptography") else ()
