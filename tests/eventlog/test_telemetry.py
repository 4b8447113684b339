"""Metrics: numbers of the own work of a store, without labels."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from opentelemetry.metrics import CallbackOptions, MeterProvider, NoOpMeter, Observation

from eventlog import telemetry
from eventlog.append.metrics import Metrics
from eventlog.errors import EventlogError
from tests.support.engines import Engine

SECRET = "Rumpelstiltskin"


class Recording(MeterProvider):
    """A provider whose meter keeps the callbacks of its instruments by name."""

    def __init__(self) -> None:
        self.callbacks: dict[str, Callable[[CallbackOptions], Iterable[Observation]]] = {}

    def get_meter(self, name: str, *_given: Any, **_options: Any) -> NoOpMeter:
        """Return a meter that records what is made."""
        assert name == "everdelta"
        meter, kept = NoOpMeter(name), self.callbacks

        def made(name: str, callbacks: Sequence[Any], unit: str = "", description: str = "") -> None:
            assert unit and description  # noqa: PT018
            (kept[name],) = callbacks

        meter.create_observable_counter = made  # type: ignore[assignment, method-assign]
        meter.create_observable_gauge = made  # type: ignore[assignment, method-assign]
        return meter

    def read(self) -> dict[str, float]:
        """Return the value of each instrument that has one; none has a label."""
        found = {name: list(callback(CallbackOptions())) for name, callback in self.callbacks.items()}
        assert all(not each.attributes for observations in found.values() for each in observations)
        return {name: observations[0].value for name, observations in found.items() if observations}


def test_work_is_counted(engine: Engine) -> None:
    """Appends, waits, flushes, refusals and sizes grow with the work, and stop with the store."""
    seen = Recording()
    with engine.open() as store:
        telemetry.observe(store, seen)
        before = seen.read()
        session = store.create_session(id=SECRET, title=SECRET, scope=SECRET)
        session.user(SECRET)
        with session.assistant("a/b") as reply:
            reply.stream_text().append("hello")
            store.host.flusher.tick()
            reply.finish()
        with pytest.raises(EventlogError):
            session.edit_part("no such part", "x")
        now = seen.read()
    for name in ("appends", "events", "append.size", "waits", "wait.duration", "flushes", "flush.duration"):
        assert now[f"everdelta.{name}"] > before[f"everdelta.{name}"], name
    assert now["everdelta.leases.taken"] >= 1
    assert now["everdelta.refusals"] >= 1
    assert now["everdelta.follower.lag"] == 0
    assert (now["everdelta.store.size"] > 0) == (engine.name in {"embedded", "postgres"})
    assert SECRET not in repr(seen.callbacks)
    assert seen.read() == {}


def test_each_counter_is_explained() -> None:
    """The help of the counters has a line on every one of them, in their order."""
    assert re.findall(r"^ *\* `(\w+)`: \w.+\.$", Metrics.__doc__ or "", re.MULTILINE) == list(Metrics.__struct_fields__)
