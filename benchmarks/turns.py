"""A durable turn: user message, answer in deltas, tool result, one wait at the end, the lease held."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count as count_from

from benchmarks.engine import opened, take_turn, with_history
from benchmarks.figures import Case, Figure, Measured, Setting, Target
from benchmarks.hand_off import HandOff
from benchmarks.history import BEGAN, items_of
from benchmarks.limits import RawFile, SqliteTurns
from benchmarks.measure import Samples, in_turn, timed
from benchmarks.workloads import Turn, turns
from eventlog.codec.batch import encode

__all__ = ["CASES"]

RAW = "pwrite + fdatasync of the turn's bytes into a zero-filled file"
SHORT_HISTORY = 10


WARM_UP = 20


def _against_limits(setting: Setting) -> dict[str, Measured]:
    """One turn of each side, then the next: whatever else the machine does meets all of them alike."""
    count = setting.sizes.turns
    folder = setting.directory / "turns"
    folder.mkdir()
    work = [iter(turns(count + WARM_UP)) for _ in range(5)]
    numbers = count_from(1)
    with (
        opened(folder, "store") as store,
        RawFile(folder / "raw") as raw,
        RawFile(folder / "bare") as file,
        closing(HandOff(lambda records: file.write(b"".join(records)))) as bare,
        SqliteTurns(folder / "full.db", "FULL") as full,
        SqliteTurns(folder / "normal.db", "NORMAL") as normal,
    ):
        session = store.create_session(title="turns")
        with session.lease():
            sides: dict[str, Callable[[], list[float]]] = {
                "engine": lambda: _timed_turn(work[0], lambda turn: take_turn(session, turn)),
                "raw": lambda: _timed_turn(work[1], lambda turn: raw.write(turn.plain())),
                "full": lambda: _timed_turn(work[2], full.turn),
                "normal": lambda: _timed_turn(work[3], normal.turn),
                "bare": lambda: _timed_turn(work[4], lambda turn: bare.wait(_encoded(next(numbers), turn))),
            }
            samples = in_turn(sides, count, warm_up=WARM_UP)
    value = _milliseconds(samples["engine"])
    return {
        "turn.raw": Measured(value, _milliseconds(samples["raw"])),
        "turn.raw.bare": Measured(_milliseconds(samples["bare"]), _milliseconds(samples["raw"])),
        "turn.sqlite-full": Measured(value, _milliseconds(samples["full"])),
        "turn.sqlite-normal": Measured(value, _milliseconds(samples["normal"])),
        "turn.p99": Measured(samples["engine"].percentile(0.99) * 1000, samples["raw"].percentile(0.99) * 1000),
    }


def _by_history(setting: Setting) -> dict[str, Measured]:
    """Turns in a session that is long, and in one that is not, in the same store."""
    count = setting.sizes.turns
    with opened(setting.directory, "history") as store:
        long = with_history(store, setting.sizes.history)
        work = [iter(turns(count + WARM_UP, seed=5 + side)) for side in range(2)]
        short = [with_history(store, SHORT_HISTORY)]
        with long.lease():

            def short_side() -> list[float]:
                if short[0].info.messages >= SHORT_HISTORY * 2:
                    short[0] = with_history(store, SHORT_HISTORY)
                with short[0].lease():
                    return _timed_turn(work[1], lambda turn: take_turn(short[0], turn))

            sides = {
                "long": lambda: _timed_turn(work[0], lambda turn: take_turn(long, turn)),
                "short": short_side,
            }
            samples = in_turn(sides, count, warm_up=WARM_UP)
    return {"turn.history": Measured(_milliseconds(samples["long"]), _milliseconds(samples["short"]))}


def _encoded(number: int, turn: Turn) -> bytes:
    """A turn's events, made and encoded as the engine does it, and nothing else."""
    bodies: dict[bytes, bytes] = {}
    payload = encode(items_of(number, turn, BEGAN, bodies), BEGAN)
    return b"".join((payload, *bodies.values()))


def _timed_turn(work: Iterator[Turn], write: Callable[[Turn], object]) -> list[float]:
    turn = next(work)
    return [timed(lambda: write(turn))]


def _milliseconds(samples: Samples) -> float:
    return samples.median * 1000


CASES = (
    Case(
        "turn",
        (
            Figure("turn.raw", "durable turn, median", "ms", RAW, Target("<=", 1.5)),
            Figure("turn.raw.bare", "its events made, encoded and handed to a thread that writes them", "ms", RAW),
            Figure(
                "turn.sqlite-full",
                "durable turn, median",
                "ms",
                "SQLite FULL, two rows in one transaction",
                Target("<", 1),
            ),
            Figure("turn.sqlite-normal", "durable turn, median", "ms", "SQLite NORMAL, not durable"),
            Figure("turn.p99", "durable turn, 99 of 100 below", "ms", RAW),
        ),
        _against_limits,
    ),
    Case(
        "turn.history",
        (
            Figure(
                "turn.history", "durable turn, long session", "ms", f"at {SHORT_HISTORY} messages", Target("<=", 1.2)
            ),
        ),
        _by_history,
    ),
)
