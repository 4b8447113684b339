"""Deltas: how fast they are accepted and made durable, and what a flush writes."""

from __future__ import annotations

from collections.abc import Callable
from statistics import mean, median

import eventlog
from benchmarks.engine import opened, stream
from benchmarks.figures import Case, Figure, Measurement, Setting, Target
from benchmarks.limits import encode_one_by_one
from benchmarks.measure import in_turn, timed, written
from benchmarks.workloads import deltas

__all__ = ["CASES"]

ONE_BY_ONE = "create and encode them one by one with msgspec"
PER_FLUSH = 10
"""Deltas of one flush: 100 a second, flushed every 100 ms."""


def _throughput(setting: Setting, parts: int) -> tuple[float, float, float]:
    """Return deltas per second: accepted, durable, and encoded one by one."""
    texts = deltas(setting.sizes.deltas)
    names = [f"prt_{number:026d}" for number in range(parts)]
    accepted: list[float] = []
    with opened(setting.directory, f"deltas-{parts}") as store:
        session = store.create_session(title="deltas")

        def engine() -> list[float]:
            until_accepted, until_durable = stream(session, texts, parts)
            accepted.append(until_accepted)
            return [until_durable]

        sides: dict[str, Callable[[], list[float]]] = {
            "engine": engine,
            "limit": lambda: [timed(lambda: encode_one_by_one(texts, names))],
        }
        samples = in_turn(sides, setting.sizes.rounds)
    count = len(texts)
    return count / median(accepted[1:]), count / samples["engine"].median, count / samples["limit"].median


def _one(setting: Setting) -> dict[str, Measurement]:
    accepted, durable, limit = _throughput(setting, 1)
    return {"deltas.one": Measurement(durable, limit), "deltas.one.accepted": Measurement(accepted, limit)}


def _two(setting: Setting) -> dict[str, Measurement]:
    accepted, durable, limit = _throughput(setting, 2)
    return {"deltas.two": Measurement(durable, limit), "deltas.two.accepted": Measurement(accepted, limit)}


def _flush(setting: Setting) -> dict[str, Measurement]:
    """Measure the bytes of each flush of ten deltas.

    A few flushes write for many: the median leaves that out, the mean does not.
    """
    sizes = setting.sizes
    texts = deltas(PER_FLUSH)
    characters = len("".join(texts))
    with opened(setting.directory, "flush") as store:
        session = store.create_session(title="flushes")
        each = _flushes(session, texts, sizes.flushes)
    return {
        "flush.bytes": Measurement(median(each), characters),
        "flush.bytes.all": Measurement(mean(each), characters),
    }


def _flushes(session: eventlog.Session, texts: list[str], count: int) -> list[int]:
    each: list[int] = []
    with session.assistant(model="bench/mark") as reply:
        text = reply.stream_text()
        session.flush()
        before = written()
        for _ in range(count):
            for delta in texts:
                text.append(delta)
            session.flush()
            after = written()
            each.append(after - before)
            before = after
        reply.finish()
    return each


CASES = (
    Case(
        "deltas.one",
        (
            Figure("deltas.one", "deltas of one part, until flushed", "deltas/s", ONE_BY_ONE, Target(">=", 0.15)),
            Figure("deltas.one.accepted", "deltas of one part, until accepted", "deltas/s", ONE_BY_ONE),
        ),
        _one,
    ),
    Case(
        "deltas.two",
        (
            Figure(
                "deltas.two", "deltas of two parts in turn, until flushed", "deltas/s", ONE_BY_ONE, Target(">=", 0.15)
            ),
            Figure("deltas.two.accepted", "deltas of two parts in turn, until accepted", "deltas/s", ONE_BY_ONE),
        ),
        _two,
    ),
    Case(
        "flush.bytes",
        (
            Figure("flush.bytes", "bytes written by a flush of 10 deltas (wchar), median", "B", "their text"),
            Figure("flush.bytes.all", "bytes of a flush, mean, with zero-filled files and folding", "B", "their text"),
        ),
        _flush,
    ),
)
