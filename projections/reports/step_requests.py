"""The requests of a session's model steps, rebuilt from its events in their order.

A step records the version of its view, how the view was rendered, and what hooks changed. Each
request is rebuilt from the state that the one before it left, so all of them cost one walk forward.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec.structs import replace

from eventlog import events as ev
from eventlog.errors import DamagedError, KeyMissingError, NotFoundError
from eventlog.history.effective_history import END
from eventlog.session.session import Session
from projections.conversation.parts import TextPart
from projections.conversation.state import Conversation
from projections.replay.checkpoints import Checkpoints
from projections.replay.loop import state_at
from projections.view.assembly import Assembly
from projections.view.offer import OfferReader
from projections.view.options import RenderOptions
from projections.view.system_prompt import SystemPrompt
from projections.view.targets import PROJECTION, TargetFollower, addressed, target_named
from projections.window.compaction.record import SUMMARY_RENDERER, Begun, SummaryRecord, request_again
from projections.window.policy.hooks import apply_patch

if TYPE_CHECKING:
    from eventlog.codec.decoded import Span
    from eventlog.values import Model
    from projections.view.neutral import NeutralMessage


class StepRequest(NamedTuple):
    """The exact request of a step in its neutral form."""

    messages: Sequence[NeutralMessage]
    system: tuple[str, ...]
    tools: str | None
    format: str | None
    options: RenderOptions
    body: dict[str, Any] | None = None
    """The body in the recorded form, if this program has that version of it."""


class RenderRecord(msgspec.Struct):
    """How a step says that its view was rendered."""

    renderer: str = ""
    options: RenderOptions = RenderOptions()
    begun: Begun | None = None
    """The compaction of a summary that was written while its session went on."""


class RecordedStep(NamedTuple):
    """A recorded step with its version, its time, and the agent and model that took it."""

    version: int
    time: int
    event: ev.StepStarted
    agent: str
    model: Model | None


class StepHistory:
    """The steps, redacted parts and compactions of a history."""

    def __init__(self, session: Session, after: int = 0) -> None:
        """Read the events behind version `after`, inherited and rolled back ones included."""
        self.steps: list[RecordedStep] = []
        self.redacted: set[str] = set(session.reader.inherited_redactions())
        self.forgotten: int = min((first for first, _ in session.reader.forgotten()), default=END)
        """The first version that was forgotten since."""
        self.compactions: dict[str, tuple[str, ev.CompactionStarted]] = {}
        """By summary message: the message that requested the compaction, and the start of it."""
        self.agents: dict[str, tuple[str, Model | None]] = {}
        """Agent and model by message."""
        self._markers: dict[str, str] = {}
        self._begun: dict[str, ev.CompactionStarted] = {}
        for span in session.reader.spans(after):
            self.add(span)

    def add(self, span: Span) -> None:
        """Take in the events of a span."""
        item = span.item
        match item:
            case ev.AssistantMessageStarted():
                self.agents[item.message] = (item.agent, item.model)
                if item.summary and item.reply_to in self._begun:
                    self.compactions[item.message] = (item.reply_to, self._begun[item.reply_to])
            case ev.StepStarted():
                agent, model = self.agents.get(item.message, ("", None))
                self.steps.append(RecordedStep(span.first, span.time, item, agent, model))
            case ev.PartRedacted():
                self.redacted.add(item.part)
            case ev.CompactionRequested():
                self._markers[item.part] = item.message
            case ev.CompactionStarted() if item.part in self._markers:
                self._begun[self._markers[item.part]] = item
            case _:
                pass


class StepRequests:
    """Rebuilds the requests of one session in order; each view reuses the one before."""

    def __init__(self, session: Session, history: StepHistory, checkpoints: Checkpoints | None = None) -> None:
        """With `checkpoints` the first request does not replay all that was before it."""
        self._session = session
        self.history = history
        self._covered: StepRequests | None = None
        """Those of the session whose summaries this one writes."""
        self._follower = TargetFollower(session.reader, checkpoints)
        self._state: Conversation | None = None
        self._assembly: Assembly | None = None
        self._options: RenderOptions | None = None
        """Options of the assembly."""
        self._system = SystemPrompt(session.text)
        self._offer = OfferReader(session.text)
        self.shown: tuple[str, str | None] = ("", None)
        """Target and boundary of the view."""

    def shown_by(self, begun: Begun | None) -> StepRequests | None:
        """Return the requests of the session that a step shows: another's in a sub-session.

        None if that session is gone.
        """
        if begun is None or begun.session == self._session.id:
            return self
        if self._covered is None:
            try:
                session = self._session.store.session(begun.session)
                self._covered = StepRequests(session, StepHistory(session))
            except (NotFoundError, KeyMissingError):
                return None
        return self._covered

    def seek(self, version: int, rendered: RenderRecord) -> str:
        """Move to the view of a version; return a redacted part of it, "" if there is none."""
        options, before = rendered.options, self._state
        if rendered.renderer == SUMMARY_RENDERER:
            options = replace(options, state_from=END)  # what only its target can read is not summarised
        state = self._state = self._follower.advance(options, version)
        self.shown = target_named(state, options), state.in_force
        options = addressed(state, options)
        if self._assembly is None or state is not before or options != self._options:
            self._assembly = Assembly(state, options, self._session.text)
            self._options = options
        carried = [found.carried for found in state.compactions.values() if found.carried is not None]
        pinned = {pin.part for one in carried for pin in one.pins}
        return next((part for part in sorted(self.history.redacted) if part in state.where or part in pinned), "")

    def rebuilt(self, step: RecordedStep, rendered: RenderRecord) -> StepRequest:
        """Return the request of a step whose view was sought; `DamagedError` for a bad record."""
        if rendered.renderer == SUMMARY_RENDERER:
            return self._summary(step)
        state, patch = self._state, step.event.patch
        if self._assembly is None or state is None:
            raise NotFoundError("view", str(self._follower.version), session=self._session.id)
        messages: Sequence[NeutralMessage] = self._assembly.view()
        system = self._system.of(state)
        if patch is not None:
            messages, system = apply_patch(messages, system, self._session.text(patch))
        return StepRequest(messages, system, *self._offer.of(state), rendered.options)

    def _summary(self, step: RecordedStep) -> StepRequest:
        """Return the request for a summary."""
        event = step.event
        try:
            record = msgspec.json.decode(event.render or "{}", type=SummaryRecord)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise DamagedError(f"the record of the request cannot be read: {error}") from None
        patch = None if event.patch is None else self._session.text(event.patch)
        marker, began = self._began(event.message, record.begun)
        previous = None if record.previous is None else self._text(record.previous, step.version)
        shown = self.shown_by(record.begun)
        if shown is None or shown._state is None:  # noqa: SLF001  # of the same class
            raise NotFoundError("view", str(event.view_version), session=self._session.id)
        state, resolve = shown._state, shown._session.text  # noqa: SLF001
        request = request_again(state, began, marker, record, resolve, previous=previous, patch=patch)
        return StepRequest(request.conversation(), (request.system,), None, None, record.options)

    def _began(self, message: str, begun: Begun | None) -> tuple[str | None, ev.CompactionStarted]:
        """Return the message that asked for a compaction, if one did yet, and its start."""
        if begun is not None:
            model = self.history.agents[message][1]
            return None, ev.CompactionStarted(begun.part, begun.through, begun.tail, model=model, kept=begun.kept)
        compaction = self.history.compactions.get(message)
        if compaction is None:
            raise DamagedError(f"no compaction was started for message {message}")
        return compaction

    def _text(self, part: str, version: int) -> str:
        """Return the text of a part as it was right after a version."""
        place = state_at(self._session, PROJECTION, version).state.where.get(part)
        if place is None or not isinstance(place[1], TextPart):
            raise DamagedError(f"the earlier request left no summary {part}")
        return "".join(map(self._session.text, place[1].pieces))


def render_record(render: str | None) -> RenderRecord | None:
    """Return how a step's view was rendered; None if its record cannot be read."""
    try:
        return msgspec.json.decode(render or "{}", type=RenderRecord)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
