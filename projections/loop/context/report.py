"""A report on a window: what fills it, what would go next, what went so far.

Made from a `ContextWindow`, for the command line and for programs that show a window.  The plans in
it are those that the window would carry out now.  It holds ids, names and numbers, never the text
of the conversation, unless the first words of messages and parts are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec.structs import replace

from eventlog import events as ev
from eventlog.validation import require, require_or_none
from eventlog.values import Limits
from projections.conversation.parts import FilePart, Message, ReasoningPart, ToolPart
from projections.loop.context.window import ContextWindow
from projections.loop.decision.next_step import next_step
from projections.loop.decision.steps import Blocked, Step, Stop
from projections.reports.cache_uses import CacheUse, newest_cache_use
from projections.view.opening_words import arguments, opening
from projections.view.selection import visible_messages
from projections.window.sizing.breakdown import MessageSize, PartSize, TokensByKind, ToolSize, break_down, kind_of_part

if TYPE_CHECKING:
    from projections.loop.decision.loop_state import LoopState, UndoableChange
    from projections.loop.decision.situation import Situation
    from projections.view.part_rendering import Resolver
    from projections.window.prune.case import PrunePlan

_A_WINDOW = "a report is on a ContextWindow"


class StepPreview(msgspec.Struct, frozen=True):
    """The next step in a word ("call-model", "request-compaction", "stop" …), and the reason."""

    step: str
    reason: str = ""
    """A word; where the loop is blocked or the answer failed, a sentence with what helps."""


class PrunePreview(msgspec.Struct, frozen=True):
    """A preview of a prune: what it would clear now."""

    enabled: bool
    policy: str
    """Name of the planner."""
    inside: bool
    """Planned as inside a loop (the newest steps are protected), not as after one (the newest
    turns).
    """
    freed: int
    """Tokens, calibrated."""
    parts: tuple[PartSize, ...]
    """Parts to clear, oldest first; `tokens` are calibrated.

    They are those of a call's result alone, or with the kind "arguments" of its arguments.
    """


class CompactionPreview(msgspec.Struct, frozen=True):
    """A preview of a compaction: the messages that it would cover now, in calibrated tokens."""

    messages: int
    """Messages that it would cover, beside an earlier summary."""
    tokens: int
    """Tokens of these, which the summary would stand for."""
    through: str
    """The last covered message."""
    tail: str | None
    """The first message that would stay; None: there is no tail."""
    tail_messages: int
    tail_tokens: int
    kept: tuple[str, ...]
    """Messages before the tail that would stay all the same."""
    updates: bool
    """Whether the summary in force would be brought up to date."""
    pending: str | None
    """The compaction (its part) that was requested and is not done, if there is one."""


class ChangeInForce(msgspec.Struct, frozen=True):
    """A prune or a compaction in force."""

    kind: Literal["prune", "compaction", "provider-compaction"]
    """"provider-compaction": a compaction that the provider made."""
    version: int
    parts: tuple[str, ...]
    """The parts that are cleared, or the compaction's part."""
    policy: str = ""
    """Who chose the parts of a prune."""
    freed: int | None = None
    """Tokens that the prune freed."""
    tokens_after: int | None = None
    """Tokens of the view after the compaction."""
    arguments: tuple[str, ...] = ()
    """The calls whose arguments are cleared."""


class CompactionFailure(msgspec.Struct, frozen=True):
    """A compaction that came to nothing."""

    version: int
    auto: bool
    reason: str


class ModelRatio(msgspec.Struct, frozen=True):
    """The calibration of one model."""

    model: str
    counted: int
    """Tokens of the last request as counted."""
    reported: int
    """Tokens of it as the provider reported them."""
    ratio: float
    """Reported tokens for one counted, at the margin."""


class WindowReport(msgspec.Struct, frozen=True):
    """All of it."""

    session: str
    version: int
    preset: str
    counter: str
    """Who counted: an encoding, or "chars/4"."""
    model: str
    limits: Limits | None
    """The model's limits, None if none are given or recorded; see `usable`."""
    usable: int | None
    """Tokens that a request may have; None: unlimited, or nothing is known of the model."""
    tokens: int
    """Tokens of the next request, calibrated by what the provider reported."""
    counted: int
    """Tokens of the view as counted; `kinds` sum to this."""
    used: int | None
    """Tokens of the newest step, as its provider reported them.

    None after a compaction and before the first step.
    """
    auto: bool
    """Whether a full window is compacted automatically."""
    messages: int
    """Messages of the view."""
    target: str
    """The target that the view is for, "" if no model is known."""
    boundary: str | None
    """Part of the compaction that the view begins with."""
    boundary_for_all: str | None
    """Part of the newest compaction that every target can read."""
    kinds: TokensByKind
    tools: tuple[ToolSize, ...]
    """The largest first, as are the next two."""
    largest_messages: tuple[MessageSize, ...]
    largest_parts: tuple[PartSize, ...]
    next_step: StepPreview
    prune: PrunePreview
    compaction: CompactionPreview | None
    """None: there is nothing to compact."""
    changes: tuple[ChangeInForce, ...]
    """The newest prunes and compactions in force, oldest first."""
    failures: tuple[CompactionFailure, ...]
    """The newest compactions that failed, oldest first."""
    calibration: tuple[ModelRatio, ...]
    cache: CacheUse | None
    """The cache use of the newest turn's step; None: there is none."""

    def as_json(self) -> dict[str, Any]:
        """The report as JSON values; limits by name."""
        limits = self.limits
        named = None if limits is None else {name: getattr(limits, name) for name in limits.__struct_fields__}
        return {**msgspec.to_builtins(self), "limits": named}


def window_report(
    window: ContextWindow,
    *,
    largest: int = 10,
    policy: str | None = None,
    inside: bool = False,
    words: bool = False,
) -> WindowReport:
    """Report on a window as it is now.

    `largest`: how many messages, and parts, are listed. `policy` and `inside` are those of
    `preview_prune`. With `words` messages and parts come with their first words.
    """
    require(ContextWindow, window, _A_WINDOW)
    require(int, largest, "largest is how many are listed")
    state = window.state
    state.catch_up()
    situation = state.situation()
    view = window.view(situation.open_message)
    resolve = window.session.text
    breakdown = break_down(situation.state, view, state.options, resolve, state.new_counter(), words=words)
    loop = situation.loop
    return WindowReport(
        session=window.session.id,
        version=view.version,
        preset=state.policy.preset,
        counter=state.counter.name,
        model=state.model_name,
        limits=state.limits,
        usable=state.usable,
        tokens=state.tokens,
        counted=breakdown.kinds.total,
        used=None if loop.last_step is None else loop.last_step.tokens,
        auto=state.policy.overflow.auto,
        messages=len(view.messages),
        target=view.target,
        boundary=view.boundary,
        boundary_for_all=situation.summarisable.in_force,
        kinds=breakdown.kinds,
        tools=breakdown.tools,
        largest_messages=breakdown.messages[:largest],
        largest_parts=breakdown.parts[:largest],
        next_step=_step_preview(next_step(situation)),
        prune=preview_prune(window, policy=policy, inside=inside, words=words),
        compaction=preview_compaction(window),
        changes=tuple(_change_in_force(window, change) for change in loop.changes),
        failures=tuple(
            CompactionFailure(entry.version, entry.auto, entry.reason) for entry in loop.trail if entry.kind == "failed"
        ),
        calibration=tuple(_ratios(loop)),
        cache=newest_cache_use(window.session),
    )


def preview_prune(
    window: ContextWindow, *, policy: str | None = None, inside: bool = False, words: bool = False
) -> PrunePreview:
    """Preview `window.prune` with the same arguments; `NotFoundError` for an unknown planner.

    With `words` the parts come with the first words of their arguments.
    """
    require(ContextWindow, window, _A_WINDOW)
    require_or_none(str, policy, "a policy is the name of a planner")
    window.state.catch_up()
    now = window.state.situation()
    chosen = now.prune_policy(policy or now.policy.prune.by_hand)
    plan = now.prune_plan(inside=inside, planner=chosen.planner)
    if plan is None:
        return PrunePreview(chosen.enabled, chosen.planner, inside, 0, ())
    return PrunePreview(
        chosen.enabled,
        plan.policy,
        inside,
        plan.freed,
        tuple(_results(now, plan, window.session.text if words else None)),
    )


def preview_compaction(window: ContextWindow) -> CompactionPreview | None:
    """Preview `window.compact`, or the requested compaction; None if there is nothing to do."""
    require(ContextWindow, window, _A_WINDOW)
    window.state.catch_up()
    now = window.state.situation()
    state, measure = now.summarisable, now.measure
    asked = now.pending_compaction()
    marker = None if asked is None else asked.message
    found = now.selection(marker)
    if found is None:
        return None
    names = [message.id for message in visible_messages(state, now.options)]
    start = len(names) if found.tail is None else names.index(found.tail)
    tail = [state.messages[name] for name in names[start:] if name != marker]
    return CompactionPreview(
        messages=len(found.head),
        tokens=measure.messages(found.head),
        through=found.through,
        tail=found.tail,
        tail_messages=len(tail),
        tail_tokens=measure.messages(tail),
        kept=found.kept,
        updates=found.previous is not None,
        pending=None if asked is None else asked.part,
    )


# -- helpers -----------------------------------------------------------------------------------


def _results(now: Situation, plan: PrunePlan, resolve: Resolver | None) -> Iterator[PartSize]:
    for name in plan.parts:
        message, part = now.state.where[name]
        if isinstance(part, ToolPart):
            size = _of_call(message, part, now.measure.counted(part), resolve)
        elif isinstance(part, (ReasoningPart, FilePart)):
            size = PartSize(part.id, message.id, kind_of_part(part), now.measure.counted(part))
        else:
            continue
        yield replace(size, tokens=round(now.measure.ratio * size.tokens))
    for name in plan.arguments:
        message, part = now.state.where[name]
        if isinstance(part, ToolPart):
            tokens = round(now.measure.ratio * now.measure.clearing_arguments(part))
            yield replace(_of_call(message, part, tokens, resolve), kind="arguments")


def _of_call(message: Message, part: ToolPart, tokens: int, resolve: Resolver | None) -> PartSize:
    return PartSize(
        part.id,
        message.id,
        "tool",
        tokens,
        part.tool,
        part.shown_title,
        part.pruned or part.arguments_pruned,
        part.full is not None,
        "" if resolve is None else opening(arguments(resolve(part.input))),
    )


def _step_preview(step: Step) -> StepPreview:
    name = "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in type(step).__name__)[1:]
    tells = isinstance(step, Blocked) or (isinstance(step, Stop) and step.reason == "failed")
    return StepPreview(name, getattr(step, "sentence" if tells else "reason", ""))


def _change_in_force(window: ContextWindow, change: UndoableChange) -> ChangeInForce:
    recorded = next(iter(window.session.events(after=change.version - 1, upto=change.version)))
    event = recorded.event
    if isinstance(event, ev.Pruned):
        return ChangeInForce(
            "prune",
            change.version,
            change.parts,
            policy=event.policy,
            freed=event.freed,
            arguments=change.arguments,
        )
    after = event.tokens_after if isinstance(event, ev.CompactionCompleted) else None
    return ChangeInForce(change.kind, change.version, change.parts, tokens_after=after)


def _ratios(loop: LoopState) -> Iterator[ModelRatio]:
    for model, known in loop.calibration.models.items():
        yield ModelRatio(model, known.counted, known.reported, round(known.ratio, 4))
