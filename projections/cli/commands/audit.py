"""`audit`: rebuild the request of each model step."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from projections.cli import output, times
from projections.cli.exits import Exit
from projections.cli.options import JSON, SESSION
from projections.cli.store_option import reading_session
from projections.cli.words import Context, integer, paged_command
from projections.reports.wording import counted, moment

if TYPE_CHECKING:
    from projections.reports.audit import AuditedStep
    from projections.reports.step_requests import StepRequest


@paged_command
@SESSION
@integer("--step", least=1, help="Only step N, with its exact request.")
@JSON
def run(context: Context, session: str, *, step: int | None, json: bool) -> Exit:
    """Rebuild the request of each model step and check its digest.

    A step without a recorded digest is unknown, and one whose view had a part that was redacted
    since is redacted; neither is a fault. The body of a step that recorded a provider's form is
    checked, too, if this program has that version of the form. Exit code 1 if any step does not
    match.
    """
    from projections.reports.audit import audit, audited_step

    with reading_session(context, session) as handle:
        request: StepRequest | None = None
        if step is None:
            steps = list(audit(handle))
        else:
            audited, request = audited_step(handle, step)
            steps = [audited]
        if json:
            document: dict[str, Any] = {"session": handle.id, "version": handle.version, **_steps(steps)}
            if step is not None:
                document["request"] = _request(request)
            output.document(document)
        else:
            _print_steps(steps)
            if request is not None:
                output.document(_request(request), indent=2)
    return Exit.FAULTS if any(audited.verdict == "mismatch" for audited in steps) else Exit.OK


def _steps(steps: list[AuditedStep]) -> dict[str, Any]:
    import msgspec

    counts = Counter(step.verdict for step in steps)
    verdicts = {verdict: counts[verdict] for verdict in ("match", "mismatch", "unknown", "redacted")}
    return {"verdicts": verdicts, "steps": [msgspec.to_builtins(step) for step in steps]}


def _request(request: StepRequest | None) -> dict[str, Any] | None:
    """Return a request in its neutral form; tools and format are JSON text."""
    import msgspec

    if request is None:
        return None
    return {
        "system": list(request.system),
        "messages": [msgspec.to_builtins(message) for message in request.messages],
        "tools": request.tools,
        "format": request.format,
        "options": msgspec.to_builtins(request.options),
        "body": request.body,
    }


_NO_STEPS = "a reply that names its view, `session.assistant(view=…)`, or one of a window records its step"
_LOOKS = {"match": "green", "mismatch": "red"}


def _print_steps(steps: list[AuditedStep]) -> None:
    rows = [
        [
            step.number,
            output.Cell(moment(step.time), times.minute(step.time)),
            step.purpose,
            step.model,
            step.view_version,
            output.Cell(step.verdict, step.verdict, _LOOKS.get(step.verdict, "")),
            output.Cell(step.body, step.body, _LOOKS.get(step.body, "")),
            step.reason,
        ]
        for step in steps
    ]
    output.table(
        ["step", "time", "purpose", "model", "view", "verdict", "body", "why"],
        rows,
        numbers=["step", "view"],
        flexible=["why", "model"],
        optional=["view", "time", "body"],
        styles={"step": "yellow", "time": "dim", "model": "magenta"},
    )
    verdicts = Counter(step.verdict for step in steps)
    told = ", ".join(f"{count} {name}" for name, count in verdicts.items())
    output.line(f"{counted(len(steps), 'step')}: {told or _NO_STEPS}")
