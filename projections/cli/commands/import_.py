"""`import`: import recorded sessions and streams."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from projections.cli import output
from projections.cli.exits import Exit, FileFault, classify
from projections.cli.import_report import report_lines
from projections.cli.options import JSON
from projections.cli.store_option import writing

if TYPE_CHECKING:
    from eventlog import Store
    from eventlog.importers import Report

__all__ = ["run"]


def run(
    context: typer.Context,
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Files to import.")],
    *,
    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="NAME",
            help="event_jsonl, opencode, claude_code, codex, anthropic_sse, openai_chat_sse, openai_responses_sse, "
            "anthropic_messages or openai_messages [default: detected for each file].",
        ),
    ] = None,
    json: JSON = False,
) -> None:
    """Import recorded sessions and streams into the store.

    The store is made if it does not exist. Importing a file again adds only what is new in it.
    Skipped records are listed with the reason. If a file cannot be imported, the others still are,
    and the exit code is that of the first failure.
    """
    results: list[dict[str, Any]] = []
    first_failure = Exit.OK
    missing = [path for path in files if not path.exists()]
    if len(missing) == len(files):
        raise FileNotFoundError(2, "", str(missing[0]))
    with writing(context, make=True) as store:
        for path in files:
            try:
                report = _import(store, path, format)
            except Exception as error:  # the other files are still imported
                code, text = classify(error)
                if code in {Exit.DEFECT, Exit.STORAGE, Exit.PIPE} or len(files) == 1:
                    raise
                first_failure = first_failure or code
                output.note(f"eventlog: {text}")
                results.append(_failure(path, text))
                continue
            results.append(_success(report))
            if not json:
                for line in report_lines(report):
                    output.line(line)
    if json:
        output.document({"files": results})
    if first_failure:
        raise typer.Exit(first_failure)


def _import(store: Store, path: Path, format: str | None) -> Report:
    from eventlog.importers import import_file

    with output.progress(path.name, unit="bytes") as on_progress:
        try:
            return import_file(store, path, format=format, progress=on_progress)
        except Exception as error:
            raise FileFault(str(path), error) from error


def _success(report: Report) -> dict[str, Any]:
    return {
        "path": report.path,
        "format": report.format,
        "sessions": list(report.sessions),
        "events": report.events,
        "messages": report.messages,
        "parts": report.parts,
        "skipped": [{"line": skipped.line, "reason": skipped.reason} for skipped in report.skipped],
    }


def _failure(path: Path, text: str) -> dict[str, Any]:
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
