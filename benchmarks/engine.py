"""The engine doing the workloads, through its public names only."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

import eventlog
from benchmarks.workloads import Turn, turns

__all__ = ["opened", "stream", "take_turn", "with_history"]


@contextmanager
def opened(directory: Path, name: str) -> Generator[eventlog.Store]:
    """A new store in a folder of its own."""
    with eventlog.open(directory / name) as store:
        yield store


def stream(session: eventlog.Session, texts: Sequence[str], parts: int) -> tuple[float, float]:
    """Stream deltas into `parts` parts in turn; returns the seconds until all are accepted, and until all are durable."""
    with session.assistant(model="bench/mark") as reply:
        streams = [reply.text() for _ in range(parts)]
        session.flush()
        start = perf_counter()
        if parts == 1:
            append = streams[0].append
            for text in texts:
                append(text)
        else:
            first, second = (part.append for part in streams)
            for one, other in zip(texts[::2], texts[1::2], strict=True):
                first(one)
                second(other)
        accepted = perf_counter()
        session.flush()
        durable = perf_counter()
        reply.finish()
    return accepted - start, durable - start


def take_turn(session: eventlog.Session, turn: Turn) -> None:
    """A whole turn with one wait at its end; the caller holds the lease."""
    with session.pipeline():
        session.user(turn.question)
        with session.assistant(model="bench/mark") as reply:
            text = reply.text()
            for delta in turn.answer:
                text.append(delta)
            text.end()
            call = reply.tool("bash", call_id="call_1", input={"command": turn.command})
            call.succeed(turn.output)
            reply.finish("tool-calls")


def with_history(store: eventlog.Store, messages: int) -> eventlog.Session:
    """A session that already has `messages` messages (two for each turn)."""
    session = store.create_session(title=f"{messages} messages")
    with session.lease():
        for turn in turns(messages // 2, seed=4):
            take_turn(session, turn)
    return session
