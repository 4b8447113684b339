"""Drive a recorded session through a context window to its end."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

import eventlog
from eventlog import Session
from eventlog.importers import import_file
from eventlog.values import Limits, Tokens, Usage
from projections import Transcript, TranscriptMessage
from projections.loop import Blocked, CallModel, ContextWindow, Prune, RunTools
from projections.window.policy.policy import DEFAULT_POLICY

AGENTS = ("claude_code", "codex")
LIMITS = Limits(36_000, 4_000)
"""Limits of a model whose window leaves 32k tokens for requests."""


class RecordedCall(NamedTuple):
    """A tool call and its whole result."""

    tool: str
    input: str
    output: str
    failed: bool


class RecordedStep(NamedTuple):
    """One recorded answer of the model: its text and its calls."""

    reasoning: str
    text: str
    calls: tuple[RecordedCall, ...]


_NOTHING_LEFT = RecordedStep("", "Nothing is left to do.", ())


class RecordedTurn(NamedTuple):
    """A user message and the steps that answered it."""

    text: str
    steps: tuple[RecordedStep, ...]


class DriveResult(NamedTuple):
    """Totals of a session that was driven; tokens are those of o200k."""

    largest: int
    """Tokens of the largest request."""
    usable: int
    compactions: int
    prunes: int
    blocked: str
    """Why the session could not be driven to its end; "" if it was."""


def longest_turns(recorded: Path, place: int) -> list[RecordedTurn]:
    """Return the turns of a recorded session: the one at `place`, the largest first."""
    files = [path for agent in AGENTS for path in recorded.glob(f"entireio_{agent}/*.jsonl")]
    with eventlog.open("memory:") as store:
        import_file(store, sorted(files, key=lambda path: (-path.stat().st_size, path.name))[place])
        longest = max(store.sessions(), key=lambda info: info.messages)
        return recorded_turns(store.session(longest.id))


def recorded_turns(session: Session) -> list[RecordedTurn]:
    """Return the answered turns of an imported session, in order."""
    turns: list[RecordedTurn] = []
    for message in Transcript(session).oldest_first():
        if message.removed or message.summary:
            continue
        if message.role == "user":
            text = "\n".join(part.text for part in message.parts if part.kind == "text" and part.text)
            if text:
                turns.append(RecordedTurn(text, ()))
        elif turns:
            turns[-1] = turns[-1]._replace(steps=(*turns[-1].steps, _step(message)))
    return [turn for turn in turns if turn.steps]


def _step(message: TranscriptMessage) -> RecordedStep:
    texts = {
        kind: "\n".join(part.text for part in message.parts if part.kind == kind) for kind in ("reasoning", "text")
    }
    calls = tuple(
        RecordedCall(part.tool, part.input or "{}", part.error or part.text, part.status == "failed")
        for part in message.parts
        if part.kind == "tool"
    )
    return RecordedStep(texts["reasoning"], texts["text"], calls)


def drive(turns: Iterable[RecordedTurn], planner: str) -> DriveResult:
    """Replay all questions and answers in a new session under a prune policy."""
    with eventlog.open("memory:") as store:
        policy = replace(DEFAULT_POLICY, prune=replace(DEFAULT_POLICY.prune, policy=planner))
        with ContextWindow(store.create_session(), policy, limits=LIMITS, model="recorded/model") as window:
            return _driven(window, turns)


def _driven(window: ContextWindow, turns: Iterable[RecordedTurn]) -> DriveResult:
    largest = compactions = prunes = 0
    for turn in turns:
        window.session.user(turn.text)
        remaining = [*turn.steps]
        playing = _NOTHING_LEFT
        while step := window.next_step(allow_repeats=True):
            if isinstance(step, CallModel):
                playing = remaining.pop(0) if remaining else _NOTHING_LEFT
                largest = max(largest, _call(window, step, playing, goes_on=bool(remaining)))
            elif isinstance(step, RunTools):
                for pending, call in zip(step.calls, playing.calls, strict=True):
                    window.run(pending, partial(_result, call))
                window.finish()
            else:
                result = window.perform(step)
                prunes += isinstance(step, Prune)
                compactions += result is not None and result.completed
        if isinstance(step, Blocked):
            return DriveResult(largest, window.state.usable or 0, compactions, prunes, step.sentence)
    return DriveResult(largest, window.state.usable or 0, compactions, prunes, "")


def _call(window: ContextWindow, step: CallModel, playing: RecordedStep, *, goes_on: bool) -> int:
    """Fill the reply of a step with a recorded answer; return the tokens of its request."""
    reply, request = window.begin(step)
    if playing.reasoning:
        reply.stream_reasoning().append(playing.reasoning)
    if playing.text:
        reply.add_text(playing.text)
    for number, call in enumerate(playing.calls):
        reply.tool(call.tool, call_id=f"{reply.id}_{number}").stream_input(call.input)
    output = len("".join((playing.reasoning, playing.text, *(call.input for call in playing.calls)))) // 4
    used = Usage(Tokens(request.counted, output, 0, 0, 0, request.counted + output))
    reply.end_step("tool-calls" if playing.calls else "stop", usage=used)
    if not playing.calls:
        reply.finish("tool-calls" if goes_on else "stop")
    return request.counted


class _FailedBefore(Exception):  # noqa: N818  # a recorded failure, played again
    """The tool failed when the session was recorded."""


def _result(call: RecordedCall, arguments: dict[str, Any]) -> str:
    """Return a tool's recorded result, regardless of the arguments given now."""
    del arguments
    if call.failed:
        raise _FailedBefore(call.output)
    return call.output
