"""`import`: recorded sessions from files into the store.  What was imported before is not added again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from projections.cli import output
from projections.cli.exits import Exit, FileFault, classify
from projections.cli.options import JSON
from projections.cli.store_option import writing
from projections.reports.wording import counted

if TYPE_CHECKING:
    from eventlog import Store
    from eventlog.importers import Report, Skipped

__all__ = ["register", "report_lines"]

_LINES_SHOWN = 8
"""How many line numbers are shown of records that were skipped for one reason."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("import")(_import)


def _import(
    context: typer.Context,
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files to import.")],
    *,
    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="F",
            help="event_jsonl, opencode, claude_code, codex, anthropic_sse, openai_chat_sse, openai_responses_sse, "
            "anthropic_messages or openai_messages [default: told from each file].",
        ),
    ] = None,
    json: JSON = False,
) -> None:
    """Import recorded sessions and streams; makes the store if there is none.

    A file that cannot be imported is reported and the others are imported all the same; the exit code is then that of
    the first failure.  Records that are skipped are listed with their reason and are no failure.
    """
    entries: list[dict[str, Any]] = []
    worst = Exit.OK
    missing = [path for path in files if not path.exists()]
    if len(missing) == len(files):
        raise FileNotFoundError(2, "", str(missing[0]))
    with writing(context, make=True) as store:
        for path in files:
            try:
                report = _one(store, path, format)
            except Exception as error:  # the other files are imported all the same
                code, text = classify(error)
                if code in {Exit.DEFECT, Exit.STORAGE, Exit.PIPE} or len(files) == 1:
                    raise
                worst = worst or code
                output.note(f"eventlog: {text}")
                entries.append(_failed(path, text))
                continue
            entries.append(_imported(report))
            if not json:
                for line in report_lines(report):
                    output.line(line)
    if json:
        output.document({"files": entries})
    if worst:
        raise typer.Exit(worst)


def _one(store: Store, path: Path, format: str | None) -> Report:
    from eventlog.importers import import_file

    with output.progress(path.name, unit="bytes") as on_progress:
        try:
            return import_file(store, path, format=format, on_progress=on_progress)
        except Exception as error:
            raise FileFault(str(path), error) from error


def _imported(report: Report) -> dict[str, Any]:
    return {
        "path": report.path,
        "format": report.format,
        "sessions": list(report.sessions),
        "events": report.events,
        "messages": report.messages,
        "parts": report.parts,
        "skipped": [{"line": skipped.line, "reason": skipped.reason} for skipped in report.skipped],
    }


def _failed(path: Path, text: str) -> dict[str, Any]:
    return {
        "path": str(path),
        "format": None,
        "sessions": [],
        "events": 0,
        "messages": 0,
        "parts": 0,
        "skipped": [],
        "error": text,
    }


def report_lines(report: Report) -> list[str]:
    """What an import did, for people."""
    known = report.sessions
    sessions = f"session {known[0]}" if len(known) == 1 else counted(len(known), "session")
    added = counted(report.events, "new event") if report.events else "nothing new"
    said = [
        f"{report.path}: {report.format}, {sessions}, {counted(report.messages, 'message')}, {counted(report.parts, 'part')}, {added}"
    ]
    reasons: dict[str, list[Skipped]] = {}
    for skipped in report.skipped:
        reasons.setdefault(skipped.reason, []).append(skipped)
    for reason, found in reasons.items():
        numbers = ", ".join(str(skipped.line) for skipped in found[:_LINES_SHOWN])
        more = ", …" if len(found) > _LINES_SHOWN else ""
        said.append(f"  skipped {len(found)}: {reason} (line {numbers}{more})")
    return said
