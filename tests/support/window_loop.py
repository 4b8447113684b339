"""A loop over a `ContextWindow` with a scripted model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from eventlog.session.session import Session
from eventlog.values import Limits, MessageError, Model, Tokens, Usage
from projections.loop import CallModel, ContextWindow, ModelRequest, RunSubtask, RunTools, Step
from projections.view.neutral import Call, NeutralMessage, Result, Text
from projections.window import CompactionPolicy, ContextPolicy, PrunePolicy, SummaryRequest
from projections.window.compaction.template import SECTIONS

MODEL = Model("test", "m")
LIMITS = Limits(context=5_000, output=1_000)
"""4,000 usable tokens."""
SMALL = ContextPolicy(
    compaction=CompactionPolicy(preserve_recent_tokens=600),
    prune=PrunePolicy(enabled=False),
)
"""Nothing is pruned, and the tail is small."""


@dataclass(frozen=True)
class Reply:
    """A model's answer: text, calls as `(tool, arguments)`, usage; or a refusal, or a break."""

    text: str = ""
    calls: Sequence[tuple[str, str]] = ()
    tokens: int | None = None
    refused: bool = False
    reason: str | None = None


Script = Callable[[ModelRequest], Reply]


@dataclass
class Loop:
    """A program's loop over one session, as in the README."""

    session: Session
    model: Script
    tools: dict[str, Callable[[dict[str, Any]], str]] = field(
        default_factory=dict[str, Callable[[dict[str, Any]], str]]
    )
    policy: ContextPolicy | str | None = None
    limits: Limits | None = None
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    requests: list[ModelRequest] = field(default_factory=list[ModelRequest])
    steps: list[Step] = field(default_factory=list[Step])
    on_step: Callable[[Step], None] | None = None

    def window(self) -> ContextWindow:
        """Open a window for this loop; environment switches reach it only if given."""
        options: dict[str, Any] = {"environment": {}, **self.options}
        limits = self.limits or ContextWindow(self.session, environment={}).state.limits or Limits()
        return ContextWindow(self.session, self.policy, model=MODEL, limits=limits, **options)

    def run(self, most: int = 200) -> Step:
        """Run until there is nothing to do; returns the step that ended it."""
        with self.window() as window:
            return self.go(window, most)

    def go(self, window: ContextWindow, most: int = 200) -> Step:
        """Run the loop itself."""
        for _ in range(most):
            step = window.next_step()
            self.steps.append(step)
            if self.on_step is not None:
                self.on_step(step)
            if not step:
                return step
            if isinstance(step, CallModel):
                self.call(window, step)
            elif isinstance(step, RunTools):
                for call in step.calls:
                    window.run(call, self.tools.get(call.tool, _echo))
                window.finish()
            elif isinstance(step, RunSubtask):
                window.run_subtask(step, lambda child: f"{child.id} did it")
            else:
                window.perform(step)
        raise AssertionError(f"no end after {most} steps: {self.steps[-5:]}")

    def call(self, window: ContextWindow, step: CallModel) -> None:
        """Run one step of the model."""
        reply, request = window.begin(step)
        self.requests.append(request)
        answer = self.model(request)
        if answer.refused:
            reply.abort(MessageError("overflow", "too large"))
            return
        if answer.text:
            reply.add_text(answer.text)
        for number, (tool, arguments) in enumerate(answer.calls):
            reply.tool(tool, call_id=f"c{number}").stream_input(arguments)
        usage = None if answer.tokens is None else Usage(Tokens(answer.tokens, 0))
        reply.end_step(answer.reason or ("tool-calls" if answer.calls else "stop"), usage=usage)
        if not answer.calls:
            reply.finish(answer.reason or "stop")

    def kinds(self) -> list[str]:
        """The names of the steps taken."""
        return [type(step).__name__ for step in self.steps]

    def count(self, kind: type[Any]) -> int:
        """How many steps of a kind were taken."""
        return sum(isinstance(step, kind) for step in self.steps)


def _echo(given: dict[str, Any]) -> str:
    return f"ran {given}"


def texts(messages: Sequence[NeutralMessage], role: str = "") -> list[str]:
    """The texts of the messages, of one role if it is given."""
    return [
        part.text
        for message in messages
        if role in {"", message.role}
        for part in message.parts
        if isinstance(part, Text)
    ]


def asked(request: ModelRequest) -> str:
    """The newest text of the user."""
    return texts(request.messages, "user")[-1]


def results(messages: Sequence[NeutralMessage]) -> list[Result]:
    """The results in the messages."""
    return [part for message in messages for part in message.parts if isinstance(part, Result)]


def calls(messages: Sequence[NeutralMessage]) -> list[Call]:
    """The calls in the messages."""
    return [part for message in messages for part in message.parts if isinstance(part, Call)]


def told(messages: Sequence[NeutralMessage]) -> str:
    """All texts of the messages, as one text."""
    return "\n".join([*texts(messages), *(result.output for result in results(messages))])


def sections(text: str = "noted") -> str:
    """A summary with a word in each section."""
    return "\n".join(f"{level} {name}\n- {text}" for level, name, _ in SECTIONS)


def summarized(request: SummaryRequest) -> str:
    """A summariser that says how many messages it got."""
    return sections(f"{len(request.messages)} messages")


def talk(session: Session, turns: int, words: int = 300, *, tokens: int | None = None) -> None:
    """Turns of a question and an answer of so many words, with their reported tokens."""
    for number in range(turns):
        session.user(f"question {number}")
        with session.assistant(MODEL) as reply:
            reply.step()
            reply.add_text(f"answer {number} " + "word " * words)
            usage = None if tokens is None else Usage(Tokens(tokens, 0))
            reply.finish("stop", usage=usage)
