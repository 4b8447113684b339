"""Audit: rebuild the request of each model step and compare it with the recorded digest.

A step records the version of its view, how the view was rendered, and what hooks changed; this is
enough to rebuild the request, and its body in the provider's form, if the step names one and this
program has that version of it (`requests/forms.py`). A step without a digest is *unknown*. A step
whose view had a part that was redacted since is *redacted*. Neither is a match nor a mismatch.
`verify` checks the events themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from eventlog.codec.redaction import NO_DIGEST
from eventlog.errors import CallError, DamagedError, NotFoundError
from eventlog.errors.base import brief
from eventlog.session.session import Session
from eventlog.validation import require, require_or_none
from projections.reports.step_requests import StepHistory, StepRequest, StepRequests, render_record
from projections.requests.forms import FORMS, RequestForm, digest, recorded_form
from projections.view.digest import RENDERER, digest_of
from projections.window.compaction.record import SUMMARY_FORM, SUMMARY_RENDERER

if TYPE_CHECKING:
    from eventlog import events as ev
    from projections.reports.step_requests import RecordedStep, RenderRecord

Verdict: TypeAlias = Literal["match", "mismatch", "unknown", "redacted"]
BodyVerdict: TypeAlias = Literal["match", "mismatch", "other-version", ""]


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
    """A mismatch also if only the body does not match."""
    reason: str
    """Why the step does not match, or why its body was not compared; else ""."""
    form: str | None
    """The form of the body as it was recorded: JSON with the version as `name`, and options."""
    body: BodyVerdict
    """The verdict on the body.

    "other-version": this program has another version of the form, and only the view was compared.
    "": no body was recorded, or the view could not be rebuilt.
    """


def audit(session: Session, first: int = 1, last: int | None = None) -> Iterator[AuditedStep]:
    """Yield every step of the session in order, inherited and rolled back steps included.

    Only those numbered `first` to `last`, if these are given. Reads the whole history.
    """
    require(int, first, "a step has a number")
    require_or_none(int, last, "a step has a number")
    history = StepHistory(session)
    builder = _Auditor(session, history)
    for number, step in enumerate(history.steps[:last], 1):
        if number >= first:
            yield builder.audited(number, step)


def audited_step(session: Session, number: int) -> tuple[AuditedStep, StepRequest | None]:
    """Return one step, and its request if that can be rebuilt.

    Raises `NotFoundError` if there is no such step.
    """
    history = StepHistory(session)
    if not 1 <= number <= len(history.steps):
        raise NotFoundError("step", str(number), session=session.id)
    builder = _Auditor(session, history)
    return builder.audited(number, history.steps[number - 1]), builder.request


class _Auditor:
    """Audits the steps of one session in order."""

    def __init__(self, session: Session, history: StepHistory) -> None:
        self._history = history
        self._requests = StepRequests(session, history)
        self.request: StepRequest | None = None

    def audited(self, number: int, step: RecordedStep) -> AuditedStep:
        """Return the verdict on one step; `request` is then its request, or None."""
        event = step.event
        self.request = None
        rendered = render_record(event.render)
        rebuilt: bytes | None = None
        verdict: Verdict = "unknown"
        body: BodyVerdict = ""
        if event.view_digest is None or event.view_version is None:
            reason = "the step was recorded without a digest"
        elif event.view_digest == NO_DIGEST:
            verdict, reason = "redacted", "a part of the view was redacted, and a scrub removed the digest"
        elif rendered is None or rendered.renderer not in {RENDERER, SUMMARY_RENDERER}:
            named = rendered.renderer if rendered is not None else "an unreadable name"
            reason = f"the view was rendered by {named}; this program has {RENDERER} and {SUMMARY_RENDERER}"
        else:
            rebuilt, verdict, reason = self._compared(step, event.view_version, event.view_digest, rendered)
            body, difference = self._compared_body(event)
            if verdict == "match":
                verdict, reason = "mismatch" if body == "mismatch" else "match", difference
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
            event.form,
            body,
        )

    def _compared(
        self, step: RecordedStep, version: int, recorded: bytes, rendered: RenderRecord
    ) -> tuple[bytes | None, Verdict, str]:
        shows = self._requests.shown_by(rendered.begun)
        if shows is None:
            return None, "unknown", "the session that the summary is of is gone"
        redacted = shows.seek(version, rendered)
        if shows.history.forgotten <= version:
            return None, "redacted", "a record of the history that it shows was forgotten since"
        if redacted:
            return None, "redacted", f"part {redacted} was redacted since"
        try:
            self.request = self._requests.rebuilt(step, rendered)
        except DamagedError as error:
            return None, "mismatch", error.message
        sent = self.request
        is_summary = rendered.renderer == SUMMARY_RENDERER
        form, shown = (SUMMARY_FORM, ("", None)) if is_summary else (rendered.renderer, self._requests.shown)
        rebuilt = digest_of(sent.messages, sent.system, sent.tools, form, format=sent.format, shown=shown)
        if rebuilt == recorded:
            return rebuilt, "match", ""
        return rebuilt, "mismatch", "the request rebuilt from the events differs from the recorded one"

    def _compared_body(self, event: ev.StepStarted) -> tuple[BodyVerdict, str]:
        """Return the verdict on the body of the request that was rebuilt, and the reason for it."""
        if self.request is None or event.form is None or event.body_digest is None:
            return "", ""
        form = recorded_form(event.form)
        if form is None:
            versions = ", ".join(RequestForm(name).version for name in FORMS)
            return "other-version", f"the body has the form {brief(event.form)}; this program has {versions}"
        try:
            body = form.body(self.request.messages, self.request.system)
        except CallError as error:
            return "mismatch", f"the body cannot be rebuilt: {error}"
        self.request = self.request._replace(body=body)
        if digest(body) == event.body_digest:
            return "match", ""
        return "mismatch", f"the body rebuilt as {form.version} differs from the recorded one"
