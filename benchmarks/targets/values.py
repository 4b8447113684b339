"""A value put and got, among few keys and among many, and what checkpoints then take."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from random import Random

import eventlog
from benchmarks.figures import Case, Figure, Measurement, Setting, Target
from benchmarks.measure import in_turn, timed
from eventlog import events as ev
from eventlog.history import checkpoint_store
from eventlog.state.loader import STATE

__all__ = ["CASES"]

SIZES = {"few": 1_000, "many": 100_000}
"""Keys of the session."""
EVENTS = 500
"""Events after which a checkpoint is due, so that both sessions have one."""
KINDS = 2
"""Keys that are put are others than those that are got."""
ROUNDS = 60
A_ROUND = 20
"""Values put, and got, in each round."""


Work = Callable[[eventlog.Values, str], object]


def fill(session: eventlog.Session, keys: int) -> None:
    """Put a value under each of many keys, each in an append of its own."""
    bulk = session.executor.bulk()
    assert bulk is not None
    for number in range(keys):
        bulk.append([(number, ev.ValuePut(key_of(number), f"value {number}"))], {})
    bulk.wait()


def key_of(number: int) -> str:
    """Return the key of a number."""
    return f"user {number % 97}/item {number}"


def checkpoint_bytes(store: eventlog.Store) -> int:
    """Return the bytes of the newest checkpoint of the session's state."""
    _, state = next(checkpoint_store.valid(store.log, STATE, "s", store.session("s").version))
    return len(state)


def _values(setting: Setting) -> dict[str, Measurement]:
    with ExitStack() as opened:
        stores: dict[str, eventlog.Store] = {}
        for name, keys in SIZES.items():
            path = setting.directory / f"values-{name}"
            with eventlog.open(path) as store:
                fill(store.create_session(id="s"), keys)
            stores[name] = opened.enter_context(eventlog.open(path, checkpoint_events=EVENTS))  # all is folded

        def side(name: str, kind: int, work: Work) -> Callable[[], list[float]]:
            session, chance = stores[name].session("s"), Random(name)

            def some() -> list[float]:
                keys = [key_of(chance.randrange(SIZES[name] // KINDS) * KINDS + kind) for _ in range(A_ROUND)]
                return [timed(partial(work, session.values, key)) for key in keys]

            return some

        works: tuple[tuple[str, Work], ...] = (
            ("put", lambda values, key: values.put(key, "another value")),
            ("get", lambda values, key: values.get(key)),
        )
        sides = {f"{what} {name}": side(name, kind, work) for kind, (what, work) in enumerate(works) for name in SIZES}
        samples = in_turn(sides, ROUNDS, warm_up=5)
        sizes = {name: checkpoint_bytes(store) for name, store in stores.items()}
    medians = {name: times.median * 1e6 for name, times in samples.items()}
    return {
        "values.put": Measurement(medians["put many"], medians["put few"]),
        "values.get": Measurement(medians["get many"], medians["get few"]),
        "values.checkpoint": Measurement(sizes["many"], sizes["few"]),
    }


FEW, MANY = f"{SIZES['few']:,} keys", f"{SIZES['many']:,} keys"

CASES = (
    Case(
        "values",
        (
            Figure(
                "values.put", f"value put, on disk, in a session with {MANY}", "µs", f"with {FEW}", Target("<=", 1.3)
            ),
            Figure("values.get", f"value got, in a session with {MANY}", "µs", f"with {FEW}", Target("<=", 3)),
            Figure(
                "values.checkpoint", f"checkpoint of a session with {MANY}", "bytes", f"with {FEW}", Target("<=", 1.1)
            ),
        ),
        _values,
    ),
)
