"""The counters of a store as OpenTelemetry metrics, read when the program's exporter asks.

    import eventlog, eventlog.telemetry

    with eventlog.open("chats") as store:
        eventlog.telemetry.observe(store)

No metric has a label, so none has an id, a scope, a title or an address.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from eventlog.errors import CallError, EventlogError
from eventlog.open_log import server_log

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation

    from eventlog.append.metrics import Metrics
    from eventlog.store import Store

_COUNTERS: dict[str, tuple[str, str, Callable[[Metrics], float]]] = {
    "appends": ("{append}", "Appends handed to the log.", lambda now: now.appends),
    "events": ("{event}", "Events in them.", lambda now: now.events),
    "append.size": ("By", "Bytes of events and large texts in them.", lambda now: now.payload_bytes + now.body_bytes),
    "waits": ("{wait}", "Waits of callers for durable commands.", lambda now: now.waits),
    "wait.duration": ("s", "Time of these waits.", lambda now: now.wait_nanoseconds / 1e9),
    "flushes": ("{flush}", "Background flushes.", lambda now: now.flushes),
    "flush.duration": ("s", "Time of these flushes.", lambda now: now.flush_nanoseconds / 1e9),
    "leases.taken": ("{lease}", "Leases taken.", lambda now: now.leases_taken),
    "leases.lost": ("{append}", "Appends after another owner took the lease.", lambda now: now.leases_lost),
    "failures": ("{append}", "Appends that failed.", lambda now: now.failures),
    "refusals": ("{command}", "Commands that ended with an error.", lambda now: now.refusals),
}
"""Unit, description and value of each counter."""


def observe(store: Store, provider: MeterProvider | None = None) -> None:
    """Report a store's counters, size and lag to `provider`, or to the program's own.

    Call it for one store of a provider. A store that is closed reports no more. `CallError`
    without the extra `metrics`.
    """
    try:
        from opentelemetry import metrics
    except ImportError:
        raise CallError("metrics need opentelemetry-api: pip install '.[metrics]'") from None
    meter = metrics.get_meter("everdelta", meter_provider=provider)
    held = weakref.ref(store)

    def asking(value: Callable[[Store], float]) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def answer(_: CallbackOptions) -> Iterable[Observation]:
            asked = held()
            try:
                return [] if asked is None or asked.closed else [metrics.Observation(value(asked))]
            except EventlogError:  # a server that is away now
                return []

        return answer

    def counter(value: Callable[[Metrics], float]) -> Callable[[Store], float]:
        return lambda store: value(store.host.counted)

    for name, (unit, said, value) in _COUNTERS.items():
        meter.create_observable_counter(f"everdelta.{name}", [asking(counter(value))], unit, said)
    lag = asking(lambda asked: asked.host.follower.behind)
    meter.create_observable_gauge("everdelta.follower.lag", [lag], "{event}", "Events that subscriptions wait for.")
    meter.create_observable_gauge("everdelta.store.size", [asking(_size)], "By", "Bytes of the store.")


def _size(store: Store) -> float:
    from eventlog.log.embedded.directory import bytes_on_disk
    from eventlog.log.embedded.engine import EmbeddedLog

    server, engine = server_log(store.log), store.log.engine
    if server is not None:
        return server.bytes_stored()
    return bytes_on_disk(engine.path) if isinstance(engine, EmbeddedLog) else 0
