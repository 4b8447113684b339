"""Do the workloads with the engine, through its public names only.

`history.py` fills stores beforehand.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

import eventlog
from benchmarks.history import begun
from benchmarks.workloads import Turn, turns
from projections.transcript.transcript import Transcript

__all__ = ["WAITS", "EngineChat", "opened", "stream", "take_turn", "waiting_turn", "with_history"]


@contextmanager
def opened(directory: Path, name: str) -> Generator[eventlog.Store]:
    """Open a new store in a folder of its own."""
    with eventlog.open(directory / name) as store:
        yield store


def stream(session: eventlog.Session, texts: Sequence[str], parts: int) -> tuple[float, float]:
    """Stream deltas into `parts` parts in turn.

    Returns the seconds until all are accepted, and until all are durable.
    """
    with session.assistant(model="bench/mark") as reply:
        streams = [reply.stream_text() for _ in range(parts)]
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


WAITS = 4
"""Waits for the disk in `waiting_turn`.

For the question, the tool that is about to run, its result, and the end.
"""


def waiting_turn(session: eventlog.Session, turn: Turn) -> None:
    """Take a turn as the README writes it, which takes and releases the lease.

    If the caller holds the lease, the turn uses that.
    """
    session.user(turn.question)
    with session.assistant(model="bench/mark") as reply:
        text = reply.stream_text()
        for delta in turn.answer:
            text.append(delta)
        call = reply.tool("bash", call_id="call_1", input={"command": turn.command})
        call.succeed(turn.output)
        reply.finish("tool-calls")


def take_turn(session: eventlog.Session, turn: Turn) -> None:
    """Take a turn with one wait at its end."""
    with session.pipeline():
        waiting_turn(session, turn)


def with_history(store: eventlog.Store, messages: int) -> eventlog.Session:
    """Return a session that has `messages` messages, two for each turn."""
    session = store.create_session(title=f"{messages} messages")
    with session.lease():
        for turn in turns(messages // 2, seed=4):
            take_turn(session, turn)
    return session


class EngineChat:
    """The engine as a peer: one conversation that is seeded, continued and loaded."""

    def __init__(self, directory: Path) -> None:
        self._store = eventlog.open(directory)
        first = next(iter(self._store.sessions()), None)
        self._session = None if first is None else self._store.session(first.id)

    def seed(self, work: Sequence[Turn]) -> None:
        """Append all turns through the log."""
        self._session = self._store.session(begun(self._store, work))

    def turn(self, turn: Turn) -> None:
        """Take a durable turn; the first one takes the lease, which is then held."""
        session = self._begun()
        if not session.holds_lease:
            session.executor.acquire()
        take_turn(session, turn)

    def load(self) -> int:
        """Load the whole transcript."""
        return len(Transcript(self._begun()).oldest_first())

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    def _begun(self) -> eventlog.Session:
        if self._session is None:
            self._session = self._store.create_session(title="chat")
        return self._session
