"""Long conversations made quickly, through the log's contract; nothing is measured here.

The events of turns are encoded and appended, one append for each turn. The result is what
`engine.take_turn` would leave, without the time to decide each command.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count, cycle, islice
from pathlib import Path

import eventlog
from benchmarks.workloads import Turn, turns
from eventlog import events as ev
from eventlog.codec.batch import Item, encode
from eventlog.codec.bodies import to_content
from eventlog.codec.deltas import DeltaRun
from eventlog.log.contract import Append, Ticket
from eventlog.values import Model, Text, Tool

__all__ = [
    "BEGAN",
    "EVENTS_A_TURN",
    "TURN_TAKES",
    "begun",
    "compacted",
    "extend",
    "items_of",
    "seasoned",
    "small_turns",
]

BEGAN = 1_767_225_600_000
"""2026-01-01, in UTC milliseconds."""
TURN_TAKES = 20_000
"""Milliseconds from one turn to the next."""
DELTA_TAKES = 20
SMALL_OUTPUT = 200
"""Characters of a tool's output in a history that is long but not large."""
AT_ONCE = 200
"""Appends that are pending at the same time."""
SEASON = 64
"""Appends that bring a journal to its full size."""
SEASON_BYTES = 1 << 20
"""Bytes of each of these appends."""
_MODEL = Model("bench", "mark")
EVENTS_A_TURN = 9 + 80
"""Events of a small turn: its deltas and nine others."""


def small_turns(number: int) -> Iterable[Turn]:
    """Return `number` turns with short tool outputs; a hundred different ones, repeated."""
    different = [turn._replace(output=turn.output[:SMALL_OUTPUT]) for turn in turns(100, seed=6)]
    return islice(cycle(different), number)


def begun(store: eventlog.Store, work: Iterable[Turn], title: str = "history") -> str:
    """Create a session with these turns and return its id."""
    session = store.create_session(title=title).id
    extend(store, session, work)
    return session


def extend(store: eventlog.Store, session: str, work: Iterable[Turn], first: int = 0) -> None:
    """Append turns to a session whose lease is free.

    `first` is the number of the first turn, so that ids are new.
    """
    waiting: list[Ticket] = []
    for number, turn in enumerate(work, first):
        bodies: dict[bytes, bytes] = {}
        time = BEGAN + number * TURN_TAKES
        items = items_of(number, turn, time, bodies)
        events = sum(item.count if isinstance(item, DeltaRun) else 1 for item in items)
        waiting.append(
            store.log.submit(
                Append(
                    session=session,
                    payload=encode(items, time),
                    count=events,
                    time=time,
                    messages=2,
                    bodies=list(bodies.items()),
                )
            )
        )
        if len(waiting) == AT_ONCE:
            for ticket in waiting:
                ticket.wait()
            waiting.clear()
    for ticket in waiting:
        ticket.wait()


def seasoned(path: Path) -> Path:
    """Make a store that has been in use, and close it.

    Its journal files have their full size and are used again.
    """
    with eventlog.open(path) as store:
        session = store.create_session(title="what was before").id
        payload = encode([(BEGAN, ev.Custom("benchmark", '"' + "x" * SEASON_BYTES + '"'))], BEGAN)
        for _ in range(SEASON):
            store.log.submit(Append(session=session, payload=payload, count=1, time=BEGAN)).wait()
    return path


def compacted(session: eventlog.Session, summary: str = "What was done so far, in one sentence.") -> None:
    """Compact everything up to now, as a window does, with a given summary."""
    with session.lease():
        part = session.context.request_compaction()
        session.context.start_compaction(part)
        with session.assistant(model="bench/mark", summary=True) as reply:
            reply.add_text(summary)
            reply.finish()
        session.context.complete_compaction(part, reply.id)


def items_of(number: int, turn: Turn, time: int, bodies: dict[bytes, bytes], *, each_delta: bool = False) -> list[Item]:
    """Return the events of a turn, its deltas as one run or as an event each.

    Large texts go into `bodies`.
    """
    user, assistant = f"msg_{number:020d}u", f"msg_{number:020d}v"
    question, answer, tool = (f"prt_{number:020d}{letter}" for letter in "uvw")
    at = time + len(turn.answer) * DELTA_TAKES
    command = f'{{"command":"{turn.command}"}}'
    return [
        (time, ev.UserMessageAdded(user)),
        (time, ev.PartStarted(user, question, Text(turn.question))),
        (time, ev.AssistantMessageStarted(assistant, user, model=_MODEL)),
        (time, ev.PartStarted(assistant, answer, Text(""))),
        *_streamed(answer, turn.answer, time, each_delta=each_delta),
        (at, ev.PartEnded(answer)),
        (at, ev.PartStarted(assistant, tool, Tool("call_1", "bash"))),
        (at, ev.ToolRunning(tool, command)),
        (at, ev.ToolCompleted(tool, to_content(turn.output, bodies))),
        (at, ev.MessageFinished(assistant, "tool-calls")),
    ]


def _streamed(part: str, texts: Iterable[str], time: int, *, each_delta: bool) -> list[Item]:
    """Return the deltas of a part."""
    times = count(time + DELTA_TAKES, DELTA_TAKES)
    if each_delta:
        return [(at, ev.PartDelta(part, "text", text)) for at, text in zip(times, texts, strict=False)]
    key = (part, "text")
    flat: list[object] = []
    for at, text in zip(times, texts, strict=False):
        flat += (key, text, at)
    return [DeltaRun.from_flat(flat, time)]
