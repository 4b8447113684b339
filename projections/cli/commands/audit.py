"""`audit`: rebuild the request of each model step."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from projections.cli import output, times
from projections.cli.exits import Exit
from projections.cli.store_option import reading_session
from projections.cli.words import command, integer
from projections.reports.wording import counted

if TYPE_CHECKING:
    from eventlog import Session
    from projections.reports.audit import AuditedStep

_NO_STEPS = "a reply that names its view, `session.assistant(view=…)`, or one of a window records its step"
_LOOKS = {"match": "green", "mismatch": "red"}


@command(reading_session, pages=True)
@integer("--step", least=1, help="Only step N, with its exact request: neutral, and as `body` in the recorded form.")
def audit(session: Session, *, step: int | None, json: bool) -> Exit:
    """Rebuild the request of each model step and check its digest.

    A step without a recorded digest is unknown, and one whose view had a part that was redacted
    since is redacted; neither is a fault. The body of a step that recorded a provider's form is
    checked, too, if this program has that version of the form. Exit code 1 if any step does not
    match.
    """
    import msgspec

    from projections.reports import audit as auditing

    request: dict[str, Any] | None = None
    if step is None:
        steps = list(auditing.audit(session))
    else:
        audited, rebuilt = auditing.audited_step(session, step)
        steps = [audited]
        if rebuilt is not None:
            request = msgspec.to_builtins({**rebuilt._asdict(), "messages": list(rebuilt.messages)})
    verdicts = Counter(audited.verdict for audited in steps)
    code = Exit.FAULTS if verdicts["mismatch"] else Exit.OK
    with output.verdict(code):
        if json:
            counts = {verdict: verdicts[verdict] for verdict in ("match", "mismatch", "unknown", "redacted")}
            document = {"session": session.id, "version": session.version, "verdicts": counts, "steps": steps}
            output.document(document if step is None else {**document, "request": request})
        else:
            _print_steps(steps)
            told = ", ".join(f"{count} {name}" for name, count in verdicts.items())
            output.line(f"{counted(len(steps), 'step')}: {told or _NO_STEPS}")
            if request is not None:
                output.document(request, indent=2)
    return code


def _print_steps(steps: list[AuditedStep]) -> None:
    rows = [
        [
            step.number,
            times.cell(step.time),
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
    )
