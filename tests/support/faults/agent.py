"""An agent on one session: it streams, calls tools, compacts, and resumes after a break."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from eventlog import events as ev
from eventlog.errors import EventlogError
from eventlog.integrity.heads import StoreHead
from eventlog.log.contract import Log
from eventlog.session.session import Session
from eventlog.store import Store
from eventlog.values import Limits, MessageError, Text
from projections.loop import CallModel, ContextWindow, ModelRequest, Step
from projections.verify.verify import verify
from projections.window import CompactionPolicy, ContextPolicy, PrunePolicy
from tests.support.window_loop import Loop, Reply, asked, results

SESSION = "session"
LIMITS = Limits(context=2_600, output=600)
"""2,000 usable tokens: compacted every other turn."""
PIECE = 40
"""Characters of a delta."""
POLICY = ContextPolicy(compaction=CompactionPolicy(preserve_recent_tokens=500), prune=PrunePolicy(enabled=False))


def model(request: ModelRequest) -> Reply:
    """A model that calls two tools, then answers with a few hundred words."""
    if results(request.messages[-1:]):
        return Reply(f"answer to {asked(request)[:40]} " + "word " * 300)
    number = len(request.messages)
    return Reply(
        "let me see", calls=[("bash", json.dumps({"n": number})), ("read", json.dumps({"path": f"f{number}"}))]
    )


class Agent(Loop):
    """A loop whose answers stream."""

    def call(self, window: ContextWindow, step: CallModel) -> None:
        """Run one step of the model, its words as deltas."""
        reply, request = window.begin(step)
        answer = self.model(request)
        text = reply.stream_text()
        for begin in range(0, len(answer.text), PIECE):
            text.append(answer.text[begin : begin + PIECE])
        text.end()
        for number, (tool, arguments) in enumerate(answer.calls):
            reply.tool(tool, call_id=f"c{number}").stream_input(arguments)
        reply.end_step("tool-calls" if answer.calls else "stop")
        if not answer.calls:
            reply.finish("stop")


def bash(given: dict[str, Any]) -> str:
    """A tool with a large output, stored as a body of its own."""
    return f"{given['n']} " + "line " * 120


def open_agent(log: Log) -> tuple[Store, Session]:
    """Open the store and its session, created if missing; close the store on failure."""
    store = Store(log, flush_interval=0.01, checkpoint_events=25)
    try:
        if any(head.session == SESSION for head in log.heads()):
            return store, store.session(SESSION)
        return store, store.create_session(id=SESSION, title="work")
    except EventlogError:
        with suppress(EventlogError):
            store.close()
        raise


def turn(
    session: Session,
    number: int,
    told: Callable[[StoreHead], None],
    on_step: Callable[[Step], None] | None = None,
) -> None:
    """Ask question `number` unless it was asked, and work until it is answered."""
    session.user(f"question {number}", request_id=f"q{number}")
    told(session.store.head())

    def stepped(step: Step) -> None:
        told(session.store.head())
        if on_step is not None:
            on_step(step)

    agent = Agent(
        session,
        model,
        {"bash": bash, "read": lambda given: f"read {given['path']}"},
        policy=POLICY,
        limits=LIMITS,
        options={"checkpoint_every": 40},
        on_step=stepped,
    )
    agent.run()
    told(session.store.head())


def sound(store: Store, kept: StoreHead | None) -> int:
    """Fail unless the old head is the beginning of today's history and replay equals live."""
    report = verify(store, against=kept, deep=True)
    assert report.sound, report
    assert store.log.check() == []
    return sum(session.events for session in report.sessions)


def finished(session: Session, turns: int, *, failed: int = 0) -> Counter[str]:
    """Fail unless each question was answered once and each compaction ended; count the ends."""
    asked: list[str] = []
    answers = broken_off = 0
    running: set[str] = set()
    found: Counter[str] = Counter()
    for recorded in session.events():
        match recorded.event:
            case ev.PartStarted(kind=Text(text=str() as text)) if text.startswith("question "):
                asked.append(text)
            case ev.MessageFinished(reason="stop"):
                answers += 1
            case ev.MessageFinished(error=MessageError(name="unknown")):
                broken_off += 1
            case ev.CompactionStarted(part=part):
                assert not running, "a compaction began inside another"
                running.add(part)
            case ev.CompactionCompleted(part=part):
                running.remove(part)
                found["completed"] += 1
            case ev.CompactionFailed(part=part, reason=reason):
                running.discard(part)
                found[reason] += 1
            case _:
                pass
    assert asked == [f"question {number}" for number in range(turns)]
    assert broken_off <= failed
    assert answers >= turns - broken_off
    assert not running, "a compaction is neither completed nor failed"
    assert set(found) <= {"completed", "interrupted"}, found
    return found
