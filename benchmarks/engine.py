"""Do the workloads with the engine, by the calls that the pages print."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import eventlog
from benchmarks.workloads import Turn
from eventlog.events import Custom
from projections import ModelView
from projections.requests.openai import chat_messages
from projections.transcript.transcript import Transcript

WAITS = 4
"""Waits for the disk in a turn: for question, call, result, and end."""
SEASON = 64
"""Appends that bring a journal to its full size."""
SEASON_BYTES = 1 << 20
"""Bytes of each of these appends."""
_REQUESTS = count()


def _answer(reply: eventlog.Reply, turn: Turn) -> None:
    text = reply.stream_text()
    for delta in turn.answer:
        text.append(delta)
    call = reply.tool("bash", call_id="call_1", input={"command": turn.command})
    call.succeed(turn.output)
    reply.finish("tool-calls")


def waiting_turn(session: eventlog.Session, turn: Turn) -> None:
    """Take a turn as the Quickstart writes it, without a view."""
    session.user(turn.question)
    with session.assistant(model="bench/mark") as reply:
        _answer(reply, turn)


def take_turn(session: eventlog.Session, turn: Turn) -> None:
    """Take a turn in a pipeline, with one wait at its end."""
    with session.pipeline():
        waiting_turn(session, turn)


def session_turn(session: eventlog.Session, turn: Turn) -> None:
    """Take a turn by `session.turn`, with its request id."""
    with session.turn(turn.question, f"request {next(_REQUESTS)}") as asked:
        assert asked.mine
        with session.assistant(model="bench/mark") as reply:
            _answer(reply, turn)


class LoopTook(NamedTuple):
    """Seconds that the views of a turn took, and the forms of its requests."""

    views: float
    forms: float


def loop_turn(session: eventlog.Session, turn: Turn) -> LoopTook:
    """Take a turn of the loop: two model calls, of which the first calls a tool."""
    with session.turn(turn.question, f"request {next(_REQUESTS)}") as asked:
        assert asked.mine
        view, first = _view(session)
        with session.assistant(model="bench/mark", view=view) as reply:
            call = reply.tool("bash", call_id="call_1", input={"command": turn.command})
            call.succeed(turn.output)
            reply.finish("tool-calls")
        view, second = _view(session)
        with session.assistant(model="bench/mark", view=view) as reply:
            text = reply.stream_text()
            for delta in turn.answer:
                text.append(delta)
            reply.finish("stop")
    return LoopTook(first.views + second.views, first.forms + second.forms)


def _view(session: eventlog.Session) -> tuple[ModelView, LoopTook]:
    """Take the view and its form, as before a model call."""
    start = perf_counter()
    view = ModelView.of(session)
    messages = view.messages
    shown = perf_counter()
    chat_messages(messages, view.system)
    return view, LoopTook(shown - start, perf_counter() - shown)


def filled(store: eventlog.Store, work: Iterable[Turn]) -> eventlog.Session:
    """Return a new session with these turns, each taken in a pipeline."""
    session = store.create_session(title="history")
    with session.lease():
        for turn in work:
            take_turn(session, turn)
    return session


def compacted(session: eventlog.Session, summary: str = "What was done so far, in one sentence.") -> None:
    """Compact everything up to now by the commands of `session.context`."""
    with session.lease():
        part = session.context.request_compaction()
        session.context.start_compaction(part, kept=())  # each question waits for more than a call's result
        with session.assistant(model="bench/mark", summary=True) as reply:
            reply.add_text(summary)
            reply.finish()
        session.context.complete_compaction(part, reply.id)


def seasoned(path: Path) -> Path:
    """Make a store that has been in use, and close it.

    Its journal files have their full size and are used again.
    """
    with eventlog.open(path) as store:
        session = store.create_session(title="what was before")
        for _ in range(SEASON):
            session.append([(0, Custom("benchmark", '"' + "x" * SEASON_BYTES + '"'))])
    return path


class EngineChat:
    """The engine as a peer: one conversation that is seeded, continued and loaded."""

    def __init__(self, directory: Path, *, waits: bool) -> None:
        self._store = eventlog.open(directory)
        first = next(iter(self._store.sessions()), None)
        self._session = self._store.create_session() if first is None else self._store.session(first.id)
        self._take = session_turn if waits else take_turn

    def seed(self, work: Sequence[Turn]) -> None:
        """Take all turns, each in a pipeline."""
        with self._session.lease():
            for turn in work:
                take_turn(self._session, turn)

    def turn(self, turn: Turn) -> None:
        """Take a durable turn, its lease included."""
        self._take(self._session, turn)

    def load(self) -> int:
        """Load the whole transcript."""
        return len(Transcript(self._session).oldest_first())

    def close(self) -> None:
        """Close the store."""
        self._store.close()
