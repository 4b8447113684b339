"""`import`: import recorded sessions and streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from click import Path, argument, option

from projections.cli import output
from projections.cli.exits import Exit, FileFault, classify
from projections.cli.import_report import refusal_lines, report_lines
from projections.cli.import_sources import Source, sources
from projections.cli.options import JSON
from projections.cli.store_option import writing
from projections.cli.words import Context, command
from projections.reports.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from eventlog import Store
    from eventlog.importers import Report

__all__ = ["run"]


@command
@argument(
    "files",
    metavar="FILE",
    nargs=-1,
    type=Path(),
    required=True,
    help="Files, directories, patterns in quotes, or - for standard input.",
)
@option(
    "--format",
    metavar="NAME",
    help="event_jsonl, opencode, claude_code, codex, anthropic_sse, openai_chat_sse, openai_responses_sse, gemini_stream, "
    "anthropic_messages or openai_messages [default: detected for each file].",
)
@JSON
def run(context: Context, files: list[str], *, format: str | None, json: bool) -> Exit:
    """Import recorded sessions and streams into the store.

    The store is made if it does not exist. Importing a file again adds only what is new in it. Of a
    directory all files below it are tried, hidden ones left out. Skipped records are listed with
    the reason, and refused files by reason. If a file cannot be imported, the others still are, and
    the exit code is that of the first failure; a file of no known format that was only found in a
    directory or by a pattern is no failure.
    """
    with sources(files) as found:
        if not found:
            raise FileNotFoundError(2, "", files[0])
        missing = [source.path for source in found if not source.path.exists()]
        if len(missing) == len(found):
            raise FileNotFoundError(2, "", str(missing[0]))
        job = _Import(format, alone=len(found) == 1, json=json)
        with writing(context, make=True) as store, output.progress("import", unit=job.unit) as on_progress:
            for number, source in enumerate(found):
                job.take(store, source, on_progress)
                if not job.alone:
                    on_progress(number + 1, len(found))
    return job.end()


class _Import:
    """The outcome of an import, file by file."""

    def __init__(self, format: str | None, *, alone: bool, json: bool) -> None:
        self.alone = alone
        self.unit = "bytes" if alone else "files"
        self._format = format
        self._json = json
        self._files: list[dict[str, Any]] = []
        self._refused: dict[str, list[str]] = {}
        self._counts = {"imported": 0, "unchanged": 0, "refused": 0}
        self._failure = Exit.OK

    def take(self, store: Store, source: Source, on_progress: Callable[[int, int | None], None]) -> None:
        """Import a file; one that is refused is noted, unless it is the only one."""
        try:
            report = self._report(store, source, on_progress if self.alone else None)
        except Exception as error:  # the other files are still imported
            code, text = classify(error)
            if code in {Exit.DEFECT, Exit.STORAGE, Exit.PIPE} or self.alone:
                raise
            if source.is_named or code is not Exit.USAGE:
                self._failure = self._failure or code
            self._counts["refused"] += 1
            self._refused.setdefault(text.removeprefix(f"{source.name}: "), []).append(source.name)
            self._files.append(_failure(source.name, text))
            return
        self._counts["imported" if report.events else "unchanged"] += 1
        self._files.append(_success(report))
        if not self._json and (report.events or report.skipped or self.alone):
            for line in report_lines(report):
                output.line(line)

    def _report(self, store: Store, source: Source, on_progress: Callable[[int, int | None], None] | None) -> Report:
        from msgspec.structs import replace

        from eventlog.importers import import_file

        try:
            report = import_file(store, source.path, format=self._format, on_progress=on_progress)
        except Exception as error:
            raise FileFault(str(source.path), error, source.name) from error
        return replace(report, path=source.name)

    def end(self) -> Exit:
        """Print what is to be said at the end, and return the exit code."""
        if self._json:
            output.document({"files": self._files, **self._counts})
        for line in refusal_lines(self._refused):
            output.note(f"eventlog: {line}")
        if not self.alone:
            output.note(", ".join(f"{counted(number, 'file')} {what}" for what, number in self._counts.items()))
        if not self._failure and self._refused and not self._counts["imported"] + self._counts["unchanged"]:
            return Exit.USAGE
        return self._failure


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


def _failure(path: str, text: str) -> dict[str, Any]:
    return {
        "path": path,
        "format": None,
        "sessions": [],
        "events": 0,
        "messages": 0,
        "parts": 0,
        "skipped": [],
        "error": text,
    }
