"""`import`: import recorded sessions and streams."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from click import Path, argument, option

from projections.cli import output
from projections.cli.confirm import confirm
from projections.cli.exits import Exit, Fault, FileFault, classify
from projections.cli.import_files import Source, followed, refusal_lines, report_lines, sources
from projections.cli.store_option import Context, writing
from projections.cli.words import command, flag
from projections.reports.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from eventlog import Store
    from eventlog.importers import Folder, FollowedFile, Report


@command()
@argument(
    "files",
    metavar="FILE",
    nargs=-1,
    type=Path(),
    help="Files, directories, patterns in quotes, or - for standard input.",
)
@option(
    "--format",
    metavar="NAME",
    help="event_jsonl, opencode, opencode_db, opencode_storage, claude_code, codex, gemini_cli, qwen_code, pi, cline, aider, "
    "chatgpt, anthropic_sse, openai_chat_sse, openai_responses_sse, gemini_stream, openai_responses, anthropic_messages, "
    "openai_messages or role_list [default: detected for each file].",
)
@option("--scope", metavar="SCOPE", help="Scope of the new sessions: a tenant, a user, a project.")
@flag("--all", help="Import what agents have on this machine, after a question.")
@flag("--follow", "-f", help="Go on with what comes to the files and directories, until Ctrl-C.")
@flag("--yes", help="Do not ask.")
def import_(
    context: Context,
    files: list[str],
    *,
    format: str | None,
    scope: str | None,
    all: bool,
    follow: bool,
    yes: bool,
    json: bool,
) -> Exit:
    """Import recorded sessions and streams into the store.

    The store is made if it does not exist. Importing a file again adds only what is new in it; one
    that did not change is not read. Of a directory all files below it are tried, hidden ones left
    out. --all finds the sessions of Claude Code, Codex, Gemini CLI, Qwen Code and OpenCode. Skipped
    records are listed with the reason, and refused files by reason. If a file cannot be imported,
    the others still are, and the exit code is that of the first failure; a file of no known format
    that was only found in a directory or by a pattern is no failure, nor is one of several files
    whose sessions were erased here: it is left out.

    --scope is that of new sessions. A file whose session is stored with another scope cannot be
    imported with it; without --scope it goes on there.

    With --follow any number of programs may write the files, and follow them; with --json each
    change is an object on a line of its own.
    """
    folders = _agents(yes=yes) if all else []
    if not files and not folders:
        raise Fault("no file is named: name files or directories, or give --all")
    if follow:
        return _follow(
            context, [*followed(files), *folders], _Import(format, scope, alone=False, json=json, follows=True)
        )
    with sources(files, folders) as found:
        if not found:
            raise FileNotFoundError(2, "", files[0] if files else str(folders[0].path))
        missing = [source.path for source in found if source.is_named and not source.path.exists()]
        if len(missing) == len(found):
            raise FileNotFoundError(2, "", str(missing[0]))
        job = _Import(format, scope, alone=len(found) == 1, json=json)
        unit = "bytes" if job.alone else "files"
        with writing(context, make=True) as store, output.progress("import", unit=unit) as on_progress:
            for number, source in enumerate(found):
                job.take(store, source, on_progress)
                if not job.alone:
                    on_progress(number + 1, len(found))
            store.newest_sessions(limit=1)  # makes the index of lists, which `sessions` only reads
    with output.verdict(job.code):
        job.end()
    return job.code


def _agents(*, yes: bool) -> list[Folder]:
    """Return the folders of agents on this machine, once the user agrees."""
    from eventlog.importers import agent_folders

    folders = agent_folders()
    if not folders:
        raise Fault("no agent has sessions on this machine where it keeps them by default: name files")
    lines = [
        f"{folder.agent}: {counted(sum(1 for _ in folder.files()), 'file')} in {folder.path}" for folder in folders
    ]
    if yes:
        for line in lines:
            output.note(line)
    confirm("import the sessions of agents on this machine", *lines, yes=yes, done="imported")
    return folders


def _follow(context: Context, paths: list[str | Folder], job: _Import) -> Exit:
    """Import until Ctrl-C."""
    from eventlog.importers import follow

    for path in paths:
        if isinstance(path, str) and not os.path.exists(path):  # noqa: PTH110
            output.note(f"{path}: there is no such file yet")
    with writing(context, make=True) as store:
        try:
            for found in follow(store, paths, format=job.format, scope=job.scope):
                if found is not None:
                    job.took(found)
                    continue
                if not job.begun:
                    job.end()
                    job.begun = True
                    output.note("following what changes; Ctrl-C ends it")
                sys.stdout.flush()
        except KeyboardInterrupt:  # the way to end it
            return Exit.INTERRUPTED
    return Exit.OK


class _Import:
    """The outcome of an import, file by file."""

    def __init__(
        self, format: str | None, scope: str | None, *, alone: bool, json: bool, follows: bool = False
    ) -> None:
        self.alone = alone
        self.format = format
        self.scope = scope
        self._json = json
        self._follows = follows
        self._told: dict[str, str] = {}
        """The last error of each file that is followed."""
        self.begun = False
        """Whether all files were looked at once that are followed."""
        self._files: list[dict[str, Any]] = []
        self._refused: dict[str, list[str]] = {}
        self._counts = {"imported": 0, "unchanged": 0, "refused": 0, "erased": 0}
        self._failure = Exit.OK

    def take(self, store: Store, source: Source, on_progress: Callable[[int, int | None], None]) -> None:
        """Import a file; one that is refused is noted, unless it is the only one."""
        from msgspec.structs import replace

        from eventlog.errors import ErasedError
        from eventlog.importers import import_file

        try:
            report = import_file(
                store,
                source.path,
                format=self.format,
                scope=self.scope,
                on_progress=on_progress if self.alone else None,
            )
        except Exception as error:  # the other files are still imported
            fault = FileFault(str(source.path), error, source.name)
            if isinstance(error, ErasedError) and not (self.alone and source.is_named):
                self._leave_out(source.name, error)
                return
            code, text = classify(fault)
            if code in {Exit.DEFECT, Exit.STORAGE, Exit.PIPE} or self.alone:
                raise fault from error
            if source.is_named or code is not Exit.USAGE:
                self._failure = self._failure or code
            self._refuse(source.name, text)
            return
        self._tell(replace(report, path=source.name))

    def took(self, found: FollowedFile) -> None:
        """Note what became of a file that is followed; the same error is told once."""
        from eventlog.errors import ErasedError

        if found.report is not None:
            self._told.pop(found.path, None)
            if found.report.events or not self._json:
                self._tell(found.report)
        elif found.error is not None:
            _, text = classify(FileFault(found.path, found.error))
            if self._told.get(found.path) != text:
                self._told[found.path] = text
                if isinstance(found.error, ErasedError):
                    self._leave_out(found.path, found.error)
                else:
                    self._refuse(found.path, text)

    def _leave_out(self, name: str, error: Exception) -> None:
        """Count a file whose sessions were erased."""
        from eventlog.importers import Report

        self._counts["erased"] += 1
        if self.begun:
            output.note(f"{name}: {error}; it is left out")
        self._note({**output.fields(Report(name, "")), "format": None, "error": str(error)})

    def _refuse(self, name: str, text: str) -> None:
        from eventlog.importers import Report

        self._counts["refused"] += 1
        if self.begun:
            output.note(f"eventlog: {text if name in text else f'{name}: {text}'}")
        else:
            self._refused.setdefault(text.removeprefix(f"{name}: "), []).append(name)
        self._note({**output.fields(Report(name, "")), "format": None, "error": text})

    def _tell(self, report: Report) -> None:
        self._counts["imported" if report.events else "unchanged"] += 1
        if self._json:
            self._note({**output.fields(report), "skipped": [skipped._asdict() for skipped in report.skipped]})
        elif report.events or report.skipped or self.alone:
            for line in report_lines(report):
                output.line(line)

    def _note(self, entry: dict[str, Any]) -> None:
        if self._json and self._follows:
            output.document(entry)
        elif self._json:
            self._files.append(entry)

    @property
    def code(self) -> Exit:
        """The exit code of what was imported so far."""
        if not self._failure and self._refused and not self._counts["imported"] + self._counts["unchanged"]:
            return Exit.USAGE
        return self._failure

    def end(self) -> None:
        """Print what is to be said at the end."""
        if self._json and not self._follows:
            output.document({"files": self._files, **self._counts})
        for line in refusal_lines(self._refused):
            output.note(f"eventlog: {line}")
        erased = self._counts["erased"]
        if not self.alone or erased:
            told = [f"{counted(self._counts[what], 'file')} {what}" for what in ("imported", "unchanged", "refused")]
            told += [f"{counted(erased, 'file')} of erased sessions left out"] if erased else []
            output.note(", ".join(told))
