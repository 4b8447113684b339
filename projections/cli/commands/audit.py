"""`audit`, `diff` and `timeline`: what the model was sent, what changed between two views, and what happened when."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from projections.cli import output
from projections.cli.exits import Exit
from projections.cli.options import JSON, SESSION
from projections.cli.store_option import reading, session_of
from projections.reports.wording import counted

if TYPE_CHECKING:
    from projections.reports.audit import AuditedStep, Sent
    from projections.reports.timeline import Entry

__all__ = ["register"]

BAR = 20
"""Characters of the picture of a full window."""


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("audit")(_audit)
    app.command("diff")(_diff)
    app.command("timeline")(_timeline)


# -- audit -------------------------------------------------------------------------------------


def _audit(
    context: typer.Context,
    session: SESSION,
    *,
    step: Annotated[
        int | None, typer.Option("--step", min=1, metavar="N", help="Only step N, with the exact request it was sent.")
    ] = None,
    json: JSON = False,
) -> None:
    """Rebuild what every model step was sent, and compare it with the digest that was recorded then.

    Exit code 1 if any step's request is another one.  Steps that were recorded without a digest are unknown, those with a part
    that was redacted since are redacted; neither is a fault.
    """
    from projections.reports.audit import audit, audited_step

    with reading(context) as store:
        handle = session_of(store, session)
        sent: Sent | None = None
        if step is None:
            steps = list(audit(handle))
        else:
            found, sent = audited_step(handle, step)
            steps = [found]
        if json:
            document: dict[str, Any] = {"session": handle.id, "version": handle.version, **_audited(steps)}
            if step is not None:
                document["request"] = _request(sent)
            output.document(document)
        else:
            _print_audit(steps)
            if sent is not None:
                output.document(_request(sent), indent=2)
    if any(found.verdict == "mismatch" for found in steps):
        raise typer.Exit(Exit.FAULTS)


def _audited(steps: list[AuditedStep]) -> dict[str, Any]:
    import msgspec

    counted = Counter(step.verdict for step in steps)
    verdicts = {verdict: counted[verdict] for verdict in ("match", "mismatch", "unknown", "redacted")}
    return {"verdicts": verdicts, "steps": [msgspec.to_builtins(step) for step in steps]}


def _request(sent: Sent | None) -> dict[str, Any] | None:
    """A request in its neutral form; the tools as they were given, a JSON text."""
    import msgspec

    if sent is None:
        return None
    return {
        "system": list(sent.system),
        "messages": [msgspec.to_builtins(message) for message in sent.messages],
        "tools": sent.tools,
        "options": msgspec.to_builtins(sent.options),
    }


def _print_audit(steps: list[AuditedStep]) -> None:
    rows = [
        [
            step.number,
            output.moment(step.time),
            step.purpose,
            step.model,
            step.view_version,
            step.verdict,
            step.reason,
        ]
        for step in steps
    ]
    output.table(
        ["step", "time", "purpose", "model", "view", "verdict", "why"], rows, numbers=["step", "view"], folded=["why"]
    )
    verdicts = Counter(step.verdict for step in steps)
    output.line(
        f"{counted(len(steps), 'step')}: "
        + (", ".join(f"{count} {name}" for name, count in verdicts.items()) or "none")
    )


# -- diff --------------------------------------------------------------------------------------


def _diff(
    context: typer.Context,
    session: SESSION,
    first: Annotated[int, typer.Argument(metavar="A", min=1, help="The view right after this version …")],
    second: Annotated[int, typer.Argument(metavar="B", min=1, help="… against the one right after this.")],
    *,
    json: JSON = False,
) -> None:
    """Show what changed between two views of a session, in words and in tokens: added, pruned, compacted, rolled back."""
    import msgspec

    from projections.reports.view_diff import diff

    with reading(context) as store:
        found = diff(session_of(store, session), first, second)
    if json:
        plain: dict[str, Any] = msgspec.to_builtins(found)
        output.document({**plain, "summary": found.sentences()})
        return
    rows = [
        [change.kind, change.message, change.part, change.what, change.before, change.after] for change in found.changes
    ]
    output.table(["change", "message", "part", "what", "before", "after"], rows, numbers=["before", "after"])
    for sentence in found.sentences():
        output.line(sentence)
    output.line(f"{found.tokens_first:,} tokens at {first}, {found.tokens_second:,} at {second}")


# -- timeline ----------------------------------------------------------------------------------


def _timeline(context: typer.Context, session: SESSION, *, json: JSON = False) -> None:
    """Show what happened in a session and when: messages, steps and the window's fill, prunes, compactions, rollbacks, forks, cost."""
    import msgspec

    from projections.reports.timeline import timeline

    with reading(context) as store:
        found = timeline(session_of(store, session))
    if json:
        entries = [{**msgspec.to_builtins(entry), "cost": _money(entry)} for entry in found.entries]
        kinds = dict(found.kinds)
        output.document(
            {
                "session": found.session,
                "version": found.version,
                "kinds": kinds,
                "forks": list(found.forks),
                "entries": [{name: value for name, value in entry.items() if value is not None} for entry in entries],
            }
        )
        return
    rows = [
        [
            entry.version,
            output.moment(entry.time),
            entry.kind + (" (rolled back)" if entry.hidden else ""),
            entry.what,
            entry.tokens,
            _bar(entry.fill),
            _money(entry),
        ]
        for entry in found.entries
    ]
    output.table(
        ["version", "time", "what", "", "tokens", "window", "cost"],
        rows,
        numbers=["version", "tokens", "cost"],
        folded=[""],
    )
    for fork in found.forks:
        output.line(f"forked as {fork}")
    output.line(", ".join(f"{count} {kind}" for kind, count in found.kinds.items()))


def _bar(fill: float | None) -> str | None:
    if fill is None:
        return None
    full = min(round(fill * BAR), BAR)
    return f"{'#' * full}{'.' * (BAR - full)} {fill:.0%}"


def _money(entry: Entry) -> str | None:
    return None if entry.cost is None else str(entry.cost)
