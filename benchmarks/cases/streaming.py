"""An answer that is stored while it streams, beside peers of the same guarantee.

There are two. All on the disk at the end: `reply.finish`; a file or database that is synced at its
end. Each on the disk before the next: `session.flush` after each delta; a sync for each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count

import eventlog
from benchmarks.engine import seasoned
from benchmarks.figures import Case, Figure, Measurement, Setting, Target
from benchmarks.measure import Samples, in_turn, timed, written
from benchmarks.peers.base import Peer
from benchmarks.peers.registry import present
from benchmarks.workloads import deltas

EACH = 50
"""Deltas of an answer of which each is a durable commit."""
ANSWERS = 20
"""Answers whose written bytes are counted."""


def _answer(session: eventlog.Session, texts: Sequence[str], *, each: bool) -> float:
    """Stream one answer; return the seconds until the end of its message is durable."""
    with session.assistant(model="bench/mark") as reply:
        append = reply.stream_text().append
        session.flush()

        def work() -> None:
            for text in texts:
                append(text)
                if each:
                    session.flush()
            reply.finish()

        return timed(work)


def _measured(setting: Setting, session: eventlog.Session, peers: Sequence[Peer], *, each: bool) -> dict[str, Samples]:
    """Measure the engine and its peers, in turn; add a row for each."""
    texts = deltas(EACH if each else setting.sizes.deltas)
    numbers = count()

    def side(peer: Peer) -> Callable[[], list[float]]:
        def stream() -> list[float]:
            assert peer.streamer is not None
            streamer = peer.streamer(setting.directory / f"{peer.id}-{next(numbers)}")

            def work() -> None:
                for text in texts:
                    streamer.append(text)
                streamer.finish()

            return [timed(work)]

        return stream

    sides: dict[str, Callable[[], list[float]]] = {"everdelta": lambda: [_answer(session, texts, each=each)]}
    sides |= {peer.title: side(peer) for peer in peers if peer.streamer is not None and peer.durable == each}
    samples = in_turn(sides, setting.sizes.rounds)
    guarantee = "each on the disk before the next" if each else "all on the disk at the end"
    for title, found in samples.items():
        cells = {f"µs, {guarantee}": found.median / len(texts) * 1e6}
        setting.notes.row(f"a delta of an answer of {len(texts):,}", title, cells)
    return samples


def _streaming(setting: Setting) -> dict[str, Measurement]:
    peers = present(setting.notes)
    path = seasoned(setting.directory / "stream")
    with eventlog.open(path) as store:
        session = store.create_session(title="stream")
        with session.lease():
            end = _measured(setting, session, peers, each=False)
            each = _measured(setting, session, peers, each=True)
    texts = deltas(setting.sizes.deltas)
    before = written()
    with eventlog.open(path) as store:
        session = store.create_session(title="bytes")
        for _ in range(ANSWERS):
            _answer(session, texts, each=False)
    bytes_written = (written() - before) / ANSWERS
    return {
        "streaming.end": Measurement(end["everdelta"].median * 1e3, end["JSONL"].median * 1e3),
        "streaming.end.sqlite": Measurement(end["everdelta"].median * 1e3, end["SQLite NORMAL"].median * 1e3),
        "streaming.each": Measurement(each["everdelta"].median * 1e3, each["SQLite FULL"].median * 1e3),
        "streaming.bytes": Measurement(bytes_written, len("".join(texts).encode())),
    }


CASE = Case(
    "streaming",
    (
        Figure(
            "streaming.end",
            "answer in deltas, all on the disk at the end",
            "ms",
            "JSONL, one fsync at the end",
            Target("<=", 2),
        ),
        Figure(
            "streaming.end.sqlite",
            "answer in deltas, all on the disk at the end",
            "ms",
            "SQLite, a row a delta, one sync at the end",
            Target("<=", 0.1),
        ),
        Figure(
            "streaming.each",
            f"{EACH} deltas, each on the disk before the next",
            "ms",
            "SQLite FULL, a row a delta",
            Target("<=", 1),
        ),
        Figure(
            "streaming.bytes",
            "bytes written for an answer in deltas, folding included",
            "B",
            "its text",
            Target("<=", 5),
        ),
    ),
    _streaming,
)
