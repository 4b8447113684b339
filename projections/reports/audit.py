"""Audit: rebuild the request of each model step and compare it with the recorded digest.

A step records the version of its view, how the view was rendered, and what hooks changed; this is
enough to rebuild the request. A step without a digest is *unknown*. A step whose view had a part
that was redacted since is *redacted*. Neither is a match nor a mismatch. `verify` checks the
events themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import msgspec

from eventlog import events as ev
from eventlog.codec.redaction import NO_DIGEST
from eventlog.errors import DamagedError, NotFoundError
from eventlog.history.lineage import END
from eventlog.session.session import Session
from eventlog.validation import require, require_or_none
from projections.conversation.parts import TextPart
from projections.replay.loop import Follower, state_at
from projections.view.assembly import Assembly
from projections.view.followed_view import PROJECTION
from projections.view.model_view import RENDERER, digest_of
from projections.view.offer import offer_of
from projections.view.options import RenderOptions
from projections.view.system_prompt import system_segments
from projections.window.compaction.record import SUMMARY_FORM, SUMMARY_RENDERER, SummaryRecord, request_again
from projections.window.policy.hooks import apply_patch

if TYPE_CHECKING:
    from eventlog.codec.decoded import Span
    from eventlog.values import Content, Model
    from projections.view.neutral import NeutralMessage

__all__ = ["RENDERERS", "AuditedStep", "StepRequest", "Verdict", "audit", "audited_step"]

RENDERERS: dict[str, type[Assembly]] = {RENDERER: Assembly}
"""The builder of views for each renderer that a step may name.

A change of a view's content gives `RENDERER` a new name; the old builder stays here under the old
name, so that earlier steps are rebuilt as they were sent."""

Verdict: TypeAlias = Literal["match", "mismatch", "unknown", "redacted"]


class AuditedStep(msgspec.Struct, frozen=True):
    """One model step and the verdict on its digest.

    Times are UTC milliseconds, digests hexadecimal SHA-256.
    """

    number: int
    """1 for the session's first step; inherited steps count."""
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
    """Why the step does not match; "" if it does."""


class StepRequest(NamedTuple):
    """The exact request of a step in its neutral form."""

    messages: Sequence[NeutralMessage]
    system: tuple[str, ...]
    tools: str | None
    format: str | None
    options: RenderOptions


class _RenderRecord(msgspec.Struct):
    """How a step says that its view was rendered."""

    renderer: str = ""
    options: RenderOptions = RenderOptions()


class _Step(NamedTuple):
    """A recorded step with its version, its time, and the agent and model that took it."""

    version: int
    time: int
    event: ev.StepStarted
    agent: str
    model: Model | None


def audit(session: Session, first: int = 1, last: int | None = None) -> Iterator[AuditedStep]:
    """Yield every step of the session in order, inherited and rolled back steps included.

    Only those numbered `first` to `last`, if these are given. Reads the whole history.
    """
    require(int, first, "a step has a number")
    require_or_none(int, last, "a step has a number")
    history = _AuditHistory(session)
    builder = _RequestBuilder(session, history)
    for number, step in enumerate(history.steps[:last], 1):
        if number >= first:
            yield builder.audited(number, step)


def audited_step(session: Session, number: int) -> tuple[AuditedStep, StepRequest | None]:
    """Return one step, and its request if that can be rebuilt.

    Raises `NotFoundError` if there is no such step.
    """
    history = _AuditHistory(session)
    if not 1 <= number <= len(history.steps):
        raise NotFoundError("step", str(number), session=session.id)
    builder = _RequestBuilder(session, history)
    return builder.audited(number, history.steps[number - 1]), builder.request


class _AuditHistory:
    """The steps, redacted parts and compactions of a whole history."""

    def __init__(self, session: Session) -> None:
        self.steps: list[_Step] = []
        self.redacted = set(session.reader.inherited_redactions())
        self.forgotten = min((first for first, _ in session.reader.forgotten()), default=END)
        """The first version that was forgotten since."""
        self.compactions: dict[str, tuple[str, ev.CompactionStarted]] = {}
        """By summary message: the message that requested the compaction, and the start of it."""
        self._agents: dict[str, tuple[str, Model | None]] = {}
        self._markers: dict[str, str] = {}
        self._begun: dict[str, ev.CompactionStarted] = {}
        for span in session.reader.spans():
            self._add(span)

    def _add(self, span: Span) -> None:
        item = span.item
        match item:
            case ev.AssistantMessageStarted():
                self._agents[item.message] = (item.agent, item.model)
                if item.summary and item.reply_to in self._begun:
                    self.compactions[item.message] = (item.reply_to, self._begun[item.reply_to])
            case ev.StepStarted():
                agent, model = self._agents.get(item.message, ("", None))
                self.steps.append(_Step(span.first, span.time, item, agent, model))
            case ev.PartRedacted():
                self.redacted.add(item.part)
            case ev.CompactionRequested():
                self._markers[item.part] = item.message
            case ev.CompactionStarted() if item.part in self._markers:
                self._begun[self._markers[item.part]] = item
            case _:
                pass


class _RequestBuilder:
    """Rebuilds the requests of one session in order; each view reuses the one before."""

    def __init__(self, session: Session, history: _AuditHistory) -> None:
        self._session = session
        self._history = history
        self._follower = Follower(PROJECTION, session.reader, at=1)
        self._assembly: Assembly | None = None
        self._options: RenderOptions | None = None
        self.request: StepRequest | None = None

    def audited(self, number: int, step: _Step) -> AuditedStep:
        """Return the verdict on one step; `request` is then its request, or None."""
        event = step.event
        self.request = None
        rendered = _render_record(event.render)
        rebuilt: bytes | None = None
        verdict: Verdict = "unknown"
        if event.view_digest is None or event.view_version is None:
            reason = "the step was recorded without a digest"
        elif event.view_digest == NO_DIGEST:
            verdict, reason = "redacted", "a part of the view was redacted, and a scrub removed the digest"
        elif rendered is None or (rendered.renderer not in RENDERERS and rendered.renderer != SUMMARY_RENDERER):
            named = rendered.renderer if rendered is not None else "an unreadable name"
            reason = f"the view was rendered by {named}; this program has {', '.join(RENDERERS)} and {SUMMARY_RENDERER}"
        else:
            rebuilt, verdict, reason = self._compared(step, event.view_version, event.view_digest, rendered)
        return AuditedStep(
            number,
            event.part,
            event.message,
            step.version,
            step.time,
            event.purpose,
            step.agent,
            None if step.model is None else str(step.model),
            event.view_version,
            None if rendered is None else rendered.renderer,
            None if event.view_digest is None else event.view_digest.hex(),
            None if rebuilt is None else rebuilt.hex(),
            verdict,
            reason,
        )

    def _compared(
        self, step: _Step, version: int, recorded: bytes, rendered: _RenderRecord
    ) -> tuple[bytes | None, Verdict, str]:
        redacted = self._seek(version, rendered)
        if self._history.forgotten <= version:
            return None, "redacted", "a record of the history that it shows was forgotten since"
        if redacted:
            return None, "redacted", f"part {redacted} was redacted since"
        try:
            if rendered.renderer == SUMMARY_RENDERER:
                form, self.request = SUMMARY_FORM, self._summary(step)
            else:
                form, self.request = rendered.renderer, self._request(rendered.options, step.event.patch)
        except DamagedError as error:
            return None, "mismatch", error.message
        sent = self.request
        rebuilt = digest_of(sent.messages, sent.system, sent.tools, form, format=sent.format)
        if rebuilt == recorded:
            return rebuilt, "match", ""
        return rebuilt, "mismatch", "the request rebuilt from the events differs from the recorded one"

    def _seek(self, version: int, rendered: _RenderRecord) -> str:
        """Move to the view of a version; return a redacted part of it, "" if there is none."""
        before = self._follower.state
        self._follower.advance(version)
        state = self._follower.state
        build = RENDERERS.get(rendered.renderer, Assembly)
        if type(self._assembly) is not build or state is not before or rendered.options != self._options:
            self._assembly = build(state, rendered.options, self._session.text)
            self._options = rendered.options
        return next((part for part in sorted(self._history.redacted) if part in state.where), "")

    def _request(self, options: RenderOptions, patch: Content | None) -> StepRequest:
        state, resolve = self._follower.state, self._session.text
        if self._assembly is None:
            raise NotFoundError("view", str(self._follower.version), session=self._session.id)
        messages: Sequence[NeutralMessage] = self._assembly.view()
        system = system_segments(state, resolve)
        if patch is not None:
            messages, system = apply_patch(messages, system, resolve(patch))
        return StepRequest(messages, system, *offer_of(state, resolve), options)

    def _summary(self, step: _Step) -> StepRequest:
        """Return the request for a summary."""
        event, resolve = step.event, self._session.text
        compaction = self._history.compactions.get(event.message)
        if compaction is None:
            raise DamagedError(f"no compaction was started for message {event.message}")
        try:
            record = msgspec.json.decode(event.render or "{}", type=SummaryRecord)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise DamagedError(f"the record of the request cannot be read: {error}") from None
        patch = None if event.patch is None else resolve(event.patch)
        marker, began = compaction
        previous = None if record.previous is None else self._text(record.previous, step.version)
        request = request_again(self._follower.state, began, marker, record, resolve, previous=previous, patch=patch)
        return StepRequest(request.conversation(), (request.system,), None, None, record.options)

    def _text(self, part: str, version: int) -> str:
        """Return the text of a part as it was right after a version."""
        place = state_at(self._session, PROJECTION, version).state.where.get(part)
        if place is None or not isinstance(place[1], TextPart):
            raise DamagedError(f"the earlier request left no summary {part}")
        return "".join(map(self._session.text, place[1].pieces))


def _render_record(render: str | None) -> _RenderRecord | None:
    try:
        return msgspec.json.decode(render or "{}", type=_RenderRecord)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
