"""What the model was sent, step by step, rebuilt from events and compared with the digest that was recorded then (spec §11).

Not `verify`, which asks whether the events are sound.  A step says which version's view it was sent, how that was rendered, and what hooks
changed of it; nothing else is needed to build the request again.  A step without a digest is *unknown*, one whose view held a part that
was redacted since is *redacted*; neither is a match nor a mismatch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import msgspec

from eventlog import events as ev
from eventlog.codec.redaction import NO_DIGEST
from eventlog.errors import DamagedError, NotFoundError
from eventlog.session.session import Session
from projections.conversation.parts import TextPart
from projections.replay.loop import Walk, state_at
from projections.view.assembly import Assembly
from projections.view.model_view import PROJECTION, RENDERER, digest_of
from projections.view.options import RenderOptions
from projections.view.system_prompt import system_segments
from projections.window.compaction.record import SUMMARY_FORM, SUMMARY_RENDERER, SummaryRecord, request_again
from projections.window.hooks import apply_patch

if TYPE_CHECKING:
    from eventlog.codec.decoded import Span
    from eventlog.values import Content, Model
    from projections.view.neutral import NeutralMessage

__all__ = ["RENDERERS", "AuditedStep", "Sent", "Verdict", "audit", "audited_step"]

RENDERERS: dict[str, type[Assembly]] = {RENDERER: Assembly}
"""What builds the views of each renderer that a step may name.  Whoever changes what a view looks like gives `RENDERER` a new name,
and keeps here what there was under the old one: steps are rebuilt as they were sent."""

Verdict: TypeAlias = Literal["match", "mismatch", "unknown", "redacted"]


class AuditedStep(msgspec.Struct, frozen=True):
    """One model step and what became of its digest.  Times are UTC milliseconds, digests hexadecimal SHA-256."""

    number: int
    """1 for the session's first step; inherited ones count."""
    part: str
    message: str
    version: int
    time: int
    purpose: str
    agent: str
    model: str | None
    view_version: int | None
    renderer: str | None
    recorded: str | None
    rebuilt: str | None
    verdict: Verdict
    reason: str
    """Why there is no match, "" if there is one."""


class Sent(NamedTuple):
    """The exact request of a step in its neutral form."""

    messages: Sequence[NeutralMessage]
    system: tuple[str, ...]
    tools: str | None
    options: RenderOptions


class _Rendered(msgspec.Struct):
    renderer: str = ""
    options: RenderOptions = RenderOptions()


class _Started(NamedTuple):
    """A step in its place, with who took it."""

    version: int
    time: int
    event: ev.StepStarted
    agent: str
    model: Model | None


def audit(session: Session) -> Iterator[AuditedStep]:
    """Every step of the session in order, inherited ones and those that were rolled back included; reads the whole history."""
    told = _Told(session)
    rebuilding = _Rebuilding(session, told)
    for number, started in enumerate(told.steps, 1):
        yield rebuilding.audited(number, started)


def audited_step(session: Session, number: int) -> tuple[AuditedStep, Sent | None]:
    """One step, and the request that it was sent if that can be rebuilt; `NotFoundError` if there is no such step."""
    told = _Told(session)
    if not 1 <= number <= len(told.steps):
        raise NotFoundError("step", str(number), session=session.id)
    rebuilding = _Rebuilding(session, told)
    return rebuilding.audited(number, told.steps[number - 1]), rebuilding.sent


class _Told:
    """What an audit must know of the whole history: its steps, what was redacted, and how each compaction started."""

    def __init__(self, session: Session) -> None:
        self.steps: list[_Started] = []
        self.redacted = set(session.reader.inherited_redactions())
        self.compactions: dict[str, tuple[str, ev.CompactionStarted]] = {}
        """For each summary message, the message that asked for it and how its compaction started."""
        self._agents: dict[str, tuple[str, Model | None]] = {}
        self._markers: dict[str, str] = {}
        self._begun: dict[str, ev.CompactionStarted] = {}
        for span in session.reader.spans():
            self._take(span)

    def _take(self, span: Span) -> None:
        item = span.item
        match item:
            case ev.AssistantMessageStarted():
                self._agents[item.message] = (item.agent, item.model)
                if item.summary and item.reply_to in self._begun:
                    self.compactions[item.message] = (item.reply_to, self._begun[item.reply_to])
            case ev.StepStarted():
                agent, model = self._agents.get(item.message, ("", None))
                self.steps.append(_Started(span.first, span.time, item, agent, model))
            case ev.PartRedacted():
                self.redacted.add(item.part)
            case ev.CompactionRequested():
                self._markers[item.part] = item.message
            case ev.CompactionStarted() if item.part in self._markers:
                self._begun[self._markers[item.part]] = item
            case _:
                pass


class _Rebuilding:
    """Builds the requests of one session again, in order; each view shares what it can with the one before."""

    def __init__(self, session: Session, told: _Told) -> None:
        self._session = session
        self._told = told
        self._walk = Walk(PROJECTION, session.reader)
        self._assembly: Assembly | None = None
        self._options: RenderOptions | None = None
        self.sent: Sent | None = None

    def audited(self, number: int, started: _Started) -> AuditedStep:
        """The verdict on one step; `sent` is then its request, or None."""
        event = started.event
        self.sent = None
        rendered = _rendered(event.render)
        rebuilt: bytes | None = None
        verdict: Verdict = "unknown"
        if event.view_digest is None or event.view_version is None:
            reason = "the step was recorded without a digest"
        elif event.view_digest == NO_DIGEST:
            verdict, reason = "redacted", "something in the view was redacted, and scrubbed with its digest"
        elif rendered is None or (rendered.renderer not in RENDERERS and rendered.renderer != SUMMARY_RENDERER):
            named = rendered.renderer if rendered is not None else "an unreadable one"
            reason = f"it was rendered by {named}; this program has {', '.join(RENDERERS)} and {SUMMARY_RENDERER}"
        else:
            rebuilt, verdict, reason = self._compared(started, event.view_version, event.view_digest, rendered)
        return AuditedStep(
            number,
            event.part,
            event.message,
            started.version,
            started.time,
            event.purpose,
            started.agent,
            None if started.model is None else str(started.model),
            event.view_version,
            None if rendered is None else rendered.renderer,
            None if event.view_digest is None else event.view_digest.hex(),
            None if rebuilt is None else rebuilt.hex(),
            verdict,
            reason,
        )

    def _compared(
        self, started: _Started, version: int, recorded: bytes, rendered: _Rendered
    ) -> tuple[bytes | None, Verdict, str]:
        gone = self._seek(version, rendered)
        if gone:
            return None, "redacted", f"part {gone} was redacted since"
        try:
            if rendered.renderer == SUMMARY_RENDERER:
                form, self.sent = SUMMARY_FORM, self._summary(started)
            else:
                form, self.sent = rendered.renderer, self._request(rendered.options, started.event.patch)
        except DamagedError as error:
            return None, "mismatch", error.message
        rebuilt = digest_of(self.sent.messages, self.sent.system, self.sent.tools, form)
        if rebuilt == recorded:
            return rebuilt, "match", ""
        return rebuilt, "mismatch", "the request that the events tell is another one"

    def _seek(self, version: int, rendered: _Rendered) -> str:
        """Go to the view; returns a part of it that was redacted, "" if none was."""
        before = self._walk.state
        state = self._walk.to(version)
        build = RENDERERS.get(rendered.renderer, Assembly)
        if type(self._assembly) is not build or state is not before or rendered.options != self._options:
            self._assembly = build(state, rendered.options, self._session.text)
            self._options = rendered.options
        return next((part for part in sorted(self._told.redacted) if part in state.where), "")

    def _request(self, options: RenderOptions, patch: Content | None) -> Sent:
        state, resolve = self._walk.state, self._session.text
        if self._assembly is None:
            raise NotFoundError("view", str(self._walk.version), session=self._session.id)
        messages: Sequence[NeutralMessage] = self._assembly.view()
        system = system_segments(state, resolve)
        if patch is not None:
            messages, system = apply_patch(messages, system, resolve(patch))
        return Sent(messages, system, None if state.tools is None else resolve(state.tools), options)

    def _summary(self, started: _Started) -> Sent:
        """The request for a summary."""
        event, resolve = started.event, self._session.text
        compaction = self._told.compactions.get(event.message)
        if compaction is None:
            raise DamagedError(f"no compaction started for message {event.message}")
        try:
            record = msgspec.json.decode(event.render or "{}", type=SummaryRecord)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise DamagedError(f"a record of a request that cannot be read: {error}") from None
        patch = None if event.patch is None else resolve(event.patch)
        marker, began = compaction
        previous = None if record.previous is None else self._text(record.previous, started.version)
        request = request_again(self._walk.state, began, marker, record, resolve, previous=previous, patch=patch)
        return Sent(request.conversation(), (request.system,), None, record.options)

    def _text(self, part: str, version: int) -> str:
        """The text of a part as it was right after a version."""
        found = state_at(self._session, PROJECTION, version).state.where.get(part)
        if found is None or not isinstance(found[1], TextPart):
            raise DamagedError(f"the request before this one left no summary {part}")
        return "".join(map(self._session.text, found[1].pieces))


def _rendered(render: str | None) -> _Rendered | None:
    try:
        return msgspec.json.decode(render or "{}", type=_Rendered)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
