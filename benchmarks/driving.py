"""Drive a recorded session through a context window to its end.

The model's recorded answers are replayed, regardless of the requests. `window.py` makes figures of
the results. A provider's bill is modelled: the prefix that a request shares with the one before,
message by message, is read from the cache; the rest is written to it; answers are output; requests
for summaries are not cached.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple

from eventlog.session.session import Session
from eventlog.values import Limits, Model, Tokens, Usage
from projections.loop.context.window import ContextWindow
from projections.loop.context.window_state import ModelRequest
from projections.loop.decision.steps import Blocked, CallModel, Compact, Prune, RunTools
from projections.tokens import TokenCounter
from projections.transcript.transcript import Transcript, TranscriptMessage
from projections.view.neutral import NeutralMessage
from projections.view.token_count import ViewCounter
from projections.window.compaction.offline import summarize_offline
from projections.window.compaction.request import SummaryRequest
from projections.window.compaction.summarizer import pieces
from projections.window.policy.policy import DEFAULT_POLICY, ContextPolicy, Prices

__all__ = ["DriveResult", "RecordedTurn", "drive", "recorded_turns"]


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

    steps: int
    largest: int
    """Tokens of the largest request."""
    usable: int
    compactions: int
    prunes: int
    freed_by_prune: int
    freed_by_compaction: int
    common_prefix: float
    """Mean share of a request that the request before begins with, too."""
    cost: Decimal
    """US dollars."""
    cost_uncached: Decimal
    """US dollars if nothing were cached."""
    blocked: str
    """Why the session could not be driven to its end; "" if it was."""


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


class _Bill:
    """A provider's bill, request by request."""

    def __init__(self, prices: Prices) -> None:
        self._prices = prices
        self._counter = ViewCounter(TokenCounter.for_model(""))
        self._before: list[NeutralMessage] = []
        self.tokens = Tokens()
        self.cost = self.uncached = Decimal(0)
        self.shares: list[float] = []
        self.largest = 0

    def request(self, request: ModelRequest, answer: str) -> Usage:
        """Charge one step: its cached and new input, and its output."""
        sent = [*request.messages]
        shared = next(
            (place for place, (one, two) in enumerate(zip(self._before, sent, strict=False)) if one != two),
            min(len(self._before), len(sent)),
        )
        whole = request.counted
        read = min(self._counter.count(sent[:shared]), whole) if shared else 0
        output = TokenCounter.for_model("").count(answer)
        if self._before:
            self.shares.append(read / whole)
        self._before = sent
        self.largest = max(self.largest, whole)
        return self._charge(Tokens(0, output, 0, read, whole - read, whole + output))

    def summary(self, request: SummaryRequest) -> Iterator[str]:
        """Write a summary offline, charged as if a model had written it."""
        text = "".join(piece for piece in pieces(summarize_offline, request) if isinstance(piece, str))
        self._charge(Tokens(request.tokens, TokenCounter.for_model("").count(text)))
        yield text

    def _charge(self, tokens: Tokens) -> Usage:
        prices = self._prices
        input_price = tokens.input * prices.input + tokens.cache_read * prices.cache_read
        cost = (input_price + tokens.cache_write * prices.cache_write + tokens.output * prices.output) / 1_000_000
        whole = tokens.input + tokens.cache_read + tokens.cache_write
        self.cost += cost
        self.uncached += (whole * prices.input + tokens.output * prices.output) / 1_000_000
        return Usage(tokens, cost)


def drive(
    session: Session,
    turns: Iterable[RecordedTurn],
    policy: ContextPolicy = DEFAULT_POLICY,
    limits: Limits = LIMITS,
) -> DriveResult:
    """Replay all questions and answers in a new session, inside a window of `limits`."""
    bill = _Bill(policy.prune.prices or Prices())
    steps = compactions = prunes = pruned = compacted = 0
    blocked = ""
    with ContextWindow(
        session, policy, limits=limits, model=Model("recorded", "model"), summarizer=bill.summary
    ) as window:
        for turn in turns:
            if blocked:
                break
            session.user(turn.text)
            remaining = [*turn.steps]
            playing = _NOTHING_LEFT
            while step := window.next_step(allow_repeats=True):
                if isinstance(step, CallModel):
                    playing = remaining.pop(0) if remaining else _NOTHING_LEFT
                    reply, request = window.begin(step)
                    steps += 1
                    if playing.reasoning:
                        reply.stream_reasoning().append(playing.reasoning)
                    if playing.text:
                        reply.add_text(playing.text)
                    for number, call in enumerate(playing.calls):
                        reply.tool(call.tool, call_id=f"call_{steps}_{number}").stream_input(call.input)
                    output = "".join((playing.reasoning, playing.text, *(call.input for call in playing.calls)))
                    usage = bill.request(request, output)
                    reply.end_step("tool-calls" if playing.calls else "stop", usage=usage)
                    if not playing.calls:
                        reply.finish("tool-calls" if remaining else "stop")
                elif isinstance(step, RunTools):
                    for pending, call in zip(step.calls, playing.calls, strict=True):
                        window.run(pending, partial(_result, call))
                    window.finish()
                else:
                    result = window.perform(step)
                    if isinstance(step, Prune):
                        prunes += 1
                        pruned += step.plan.freed
                    elif isinstance(step, Compact) and result is not None and result.completed:
                        compactions += 1
                        compacted += result.tokens_before - result.tokens_after
            if isinstance(step, Blocked):
                blocked = step.sentence
        usable = window.state.usable or 0
    shares = bill.shares
    return DriveResult(
        steps,
        bill.largest,
        usable,
        compactions,
        prunes,
        pruned,
        compacted,
        sum(shares) / len(shares) if shares else 1.0,
        bill.cost,
        bill.uncached,
        blocked,
    )


class _FailedBefore(Exception):  # noqa: N818  # a recorded failure, played again
    """The tool failed when the session was recorded."""


def _result(call: RecordedCall, arguments: dict[str, Any]) -> str:
    """Return a tool's recorded result, regardless of the arguments given now."""
    del arguments
    if call.failed:
        raise _FailedBefore(call.output)
    return call.output
