"""Target 1: an answer of 2,000 deltas, stored while it streams.

Measured at full speed, and at the pace of a model.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import count

import eventlog
from benchmarks.engine import opened
from benchmarks.figures import Case, Figure, Measurement, Setting, Target
from benchmarks.history import seasoned
from benchmarks.measure import in_turn, timed, written
from benchmarks.peers.base import Peer, Streamer
from benchmarks.peers.registry import present
from benchmarks.workloads import deltas

__all__ = ["CASES", "STREAMED"]

STREAMED = 2_000
"""Deltas of one answer."""
DURABLE = 50
"""Deltas of an answer where each is a durable commit, in a run that is not patient."""
ANSWERS = 20
"""Answers whose written bytes are counted."""
SESSIONS = 4
"""Sessions that stream at the same time, at a model's pace."""
PACE = 100
"""Deltas a second of each session."""
INTERVAL = 0.1
"""Seconds between flushes."""
FLUSH = 4096
"""Bytes that a flush may write for the store …"""
FLUSH_SESSION = 1024
"""… and for each session in it."""
OPENCODE = 38
"""Bytes that OpenCode writes for each byte of an answer, without storing its deltas."""


def _answer(session: eventlog.Session, texts: Sequence[str]) -> float:
    """Stream one answer; return the seconds until the end of its message is durable."""
    with session.assistant(model="bench/mark") as reply:
        append = reply.stream_text().append
        session.flush()
        start = time.perf_counter()
        for text in texts:
            append(text)
        reply.finish()
        return time.perf_counter() - start


def _streamed(stream: Streamer, texts: Sequence[str]) -> float:
    """Stream one answer to a peer; return the seconds until it is finished."""

    def work() -> None:
        for text in texts:
            stream.append(text)

    seconds = timed(work)
    stream.finish()
    return seconds


def _at_full_speed(setting: Setting) -> dict[str, Measurement]:
    """Measure the engine and every peer that can store deltas, in turn.

    Peers that wait for the disk at each delta are measured once. Their times are per delta.
    """
    texts = deltas(STREAMED)
    peers = [peer for peer in present(setting.notes) if peer.streamer is not None]
    numbers = count()
    counts = {peer.id: _deltas_of(peer, setting) for peer in peers}

    def side(peer: Peer) -> Callable[[], list[float]]:
        def stream() -> list[float]:
            assert peer.streamer is not None
            streamer = peer.streamer(setting.directory / f"{peer.id}-{next(numbers)}")
            return [_streamed(streamer, texts[: counts[peer.id]])]

        return stream

    with opened(setting.directory, "stream") as store:
        session = store.create_session(title="stream")
        with session.lease():
            sides: dict[str, Callable[[], list[float]]] = {"everdelta": lambda: [_answer(session, texts)]}
            quick = {peer.id: side(peer) for peer in peers if not peer.durable}
            samples = in_turn(sides | quick, setting.sizes.rounds)
    samples |= in_turn({peer.id: side(peer) for peer in peers if peer.id not in quick}, 1, warm_up=0)
    titles = {"everdelta": "everdelta"} | {peer.id: peer.title for peer in peers}
    for name, side_samples in samples.items():
        length = counts.get(name, STREAMED)
        setting.notes.curve("stream", titles[name], {STREAMED: side_samples.median / length * 1e6})
    return {"target.1.time": Measurement(samples["everdelta"].median * 1e3, samples["sqlite-normal"].median * 1e3)}


def _deltas_of(peer: Peer, setting: Setting) -> int:
    return DURABLE if peer.durable and not setting.sizes.patient else STREAMED


def _bytes_written(setting: Setting) -> dict[str, Measurement]:
    """Count all bytes written from opening a store in use to closing it.

    For some answers: journal, folding, LMDB pages.
    """
    texts = deltas(STREAMED)
    path = seasoned(setting.directory / "bytes")
    before = written()
    with eventlog.open(path) as store:
        session = store.create_session(title="bytes")
        for _ in range(ANSWERS):
            _answer(session, texts)
    return {"target.1.bytes": Measurement((written() - before) / ANSWERS, len("".join(texts).encode()))}


def _paced(setting: Setting) -> dict[str, Measurement]:
    """Measure sessions that stream side by side, ten deltas to a flush of the store's thread."""
    hurry = setting.sizes.hurry
    texts = deltas(STREAMED)
    path = seasoned(setting.directory / "paced")
    with eventlog.open(path) as store:
        names = [store.create_session(title="paced").id for _ in range(SESSIONS)]
    start = written()
    with eventlog.open(path, flush_interval=INTERVAL / hurry) as store, ExitStack() as stack:
        replies = [stack.enter_context(store.session(name).assistant(model="bench/mark")) for name in names]
        appends = [reply.stream_text().append for reply in replies]
        store.flush()
        before, flushes = written(), store.metrics().flushes
        began = time.monotonic()
        for number, text in enumerate(texts, 1):
            for append in appends:
                append(text)
            time.sleep(max(0.0, began + number / (PACE * hurry) - time.monotonic()))
        streamed, flushes = written() - before, max(store.metrics().flushes - flushes, 1)
        for reply in replies:
            reply.finish()
    text_bytes = len("".join(texts).encode()) * SESSIONS
    return {
        "target.1.paced.flush": Measurement(streamed / flushes, FLUSH + SESSIONS * FLUSH_SESSION),
        "target.1.paced.bytes": Measurement(written() - start, text_bytes),
    }


CASES = (
    Case(
        "target.1.time",
        (
            Figure(
                "target.1.time",
                f"answer of {STREAMED:,} deltas at full speed, until durable",
                "ms",
                "SQLite NORMAL, the part rewritten at each delta",
                Target("<=", 0.02),
            ),
        ),
        _at_full_speed,
    ),
    Case(
        "target.1.bytes",
        (
            Figure(
                "target.1.bytes",
                f"bytes written for an answer of {STREAMED:,} deltas (wchar), folding included",
                "B",
                "its text",
                Target("<=", 5),
            ),
        ),
        _bytes_written,
    ),
    Case(
        "target.1.paced",
        (
            Figure(
                "target.1.paced.flush",
                f"bytes written by a flush, {SESSIONS} sessions at {PACE} deltas/s",
                "B",
                "4 KB and 1 KB for each session",
                Target("<=", 1),
            ),
            Figure(
                "target.1.paced.bytes",
                "bytes written in all, opening and closing the store included",
                "B",
                "the text",
                Target("<=", OPENCODE),
            ),
        ),
        _paced,
    ),
)
