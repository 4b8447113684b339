"""Importers of foreign transcripts: one for each format, behind `import_file`.

A second import of a file is safe: stored events are found, and only new ones are appended
(`reconcile.py`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO

from eventlog import events as ev
from eventlog.append.backoff import Backoff
from eventlog.errors import ConflictError, ImportFormatError
from eventlog.errors.base import brief
from eventlog.importers.anthropic.blocks import PROVIDER as ANTHROPIC_PROVIDER
from eventlog.importers.anthropic.messages import AnthropicMapping
from eventlog.importers.claude_code.importer import ClaudeCode
from eventlog.importers.codex.importer import Codex
from eventlog.importers.common.importer import ImportBatch, Importer, Report, Skipped
from eventlog.importers.common.json_lines import read_beginning
from eventlog.importers.common.message_reader import MessageList
from eventlog.importers.common.message_shapes import ANTHROPIC, OPENAI, family_of
from eventlog.importers.event_jsonl.load import load
from eventlog.importers.event_jsonl.reader import EventJsonl
from eventlog.importers.event_jsonl.receipt import go_on
from eventlog.importers.openai.messages import OpenAIChatMapping
from eventlog.importers.opencode.importer import OpenCodeImporter
from eventlog.importers.recognized import looks_like
from eventlog.importers.reconcile import reconcile
from eventlog.importers.streams.importer import STREAMS, StreamImporter
from eventlog.importers.streams.sse import kind_of_stream
from eventlog.store import Store
from eventlog.validation import require, require_call, require_or_none

__all__ = ["FORMATS", "Report", "Skipped", "detect", "import_file"]

_IMPORTERS: tuple[Importer, ...] = (
    EventJsonl(),
    OpenCodeImporter(),
    ClaudeCode(),
    Codex(),
    *(StreamImporter(name) for name in STREAMS),
    MessageList(AnthropicMapping.format, ANTHROPIC, ANTHROPIC_PROVIDER, AnthropicMapping()),
    MessageList(OpenAIChatMapping.format, OPENAI, "", OpenAIChatMapping()),
)

FORMATS: MappingProxyType[str, Importer] = MappingProxyType({importer.name: importer for importer in _IMPORTERS})
"""The importers by the name of their format."""

HELD = 8
"""Batches of a file that are held until one has content."""

_DOCUMENTS = (EventJsonl.name, OpenCodeImporter.name)
"""Formats that state themselves that a session is empty."""
_FRAME = (ev.SessionStarted, ev.SessionForked, ev.SessionRenamed, ev.MetadataSet, ev.ForeignKept)
"""Events of a session without content."""

Progress = Callable[[int, int | None], None]


def detect(start: bytes, path: str = "") -> str:
    """Return the format of a file that begins with these bytes.

    `ImportFormatError` if no importer reads it.
    """
    other = looks_like(start)
    if other is not None:
        raise ImportFormatError(f"{path or 'the file'}: looks like {other}; not a format that can be imported")
    for importer in FORMATS.values():
        if importer.detect(start, path):
            return importer.name
    known = ", ".join(FORMATS)
    stream = kind_of_stream(start)
    if stream:
        raise ImportFormatError(
            f"{path or 'the file'}: streams of the format {stream} cannot be imported (known: {known})"
        )
    raise ImportFormatError(f"{path or 'the file'}: the format is not known (known: {known})")


def import_file(
    store: Store,
    path: str | os.PathLike[str] | BinaryIO,
    *,
    format: str | None = None,
    on_progress: Progress | None = None,
) -> Report:
    """Import a file, or an open binary file that can seek; stored events are not added again.

    `format` is one of `FORMATS`; it is told from the file's beginning by default. `on_progress` is
    called with the bytes read and the size (None if unknown) as the work goes on.
    `ImportFormatError` for a file of no known format; damaged records are no error: they are listed
    in the report. `OSError` when the file cannot be read. Of imports at once each event is stored
    once: one that finds another was first reads the file again; `ConflictError` if that goes on.
    """
    require(Store, store, "a store is a Store")
    require_or_none(str, format, "a format is named by a str")
    require_call(on_progress, "on_progress is a function that is given the bytes read and the size")
    if isinstance(path, (str, os.PathLike)):
        with Path(path).open("rb") as file:
            return _import(store, file, os.fspath(path), format, on_progress)
    require_call(getattr(path, "read", 0), "a file is a path, or an open binary file, and its `read` a function")
    return _import(store, path, str(getattr(path, "name", "<stream>")), format, on_progress)


def _import(store: Store, file: BinaryIO, path: str, name: str | None, on_progress: Progress | None) -> Report:
    begin = file.tell()
    start = read_beginning(file)
    file.seek(0, os.SEEK_END)
    size = file.tell() - begin
    file.seek(begin)
    if name is None:
        name = _detect_in(file, start, path)
        file.seek(begin)
    elif name not in FORMATS:
        raise ImportFormatError(f"{brief(name)} is no format that can be imported (known: {', '.join(FORMATS)})")
    backoff, events = Backoff(), 0
    while True:
        report = Report(path, name, events=events)
        try:
            _store(store, file, report, size, on_progress)
        except ConflictError:  # another import of the same sessions was first: what it stored is compared as well
            if not backoff.goes_on():
                raise
            events = report.events
            file.seek(begin)
        else:
            return report


def _store(store: Store, file: BinaryIO, report: Report, size: int, on_progress: Progress | None) -> None:
    """Append what is new of a file that is at its beginning."""
    begin = file.tell()

    def told(batches: Iterator[ImportBatch]) -> Iterator[ImportBatch]:
        return batches if on_progress is None else _reporting(batches, file, begin, size, on_progress)

    importer = FORMATS[report.format]
    if isinstance(importer, EventJsonl):
        reader = importer.begin(file, report)
        known = go_on(store.log, file, reader)
        appends = reader.appends(file)
        load(store, told(appends if known else _with_content(appends, report, size)), report, reader, known)
    else:
        reconcile(store, told(_with_content(importer.read(file, report.path, report), report, size)), report)
    if on_progress is not None:
        on_progress(size, size)


def _detect_in(file: BinaryIO, start: bytes, path: str) -> str:
    """Return the format of a file that is at its beginning.

    A list of messages may begin late in it.
    """
    try:
        return detect(start, path)
    except ImportFormatError:
        family = "" if looks_like(start) or kind_of_stream(start) else family_of(file)
        found = next(
            (name for name, one in FORMATS.items() if isinstance(one, MessageList) and one.family == family), None
        )
        if found is None:
            raise
        return found


def _with_content(batches: Iterator[ImportBatch], report: Report, size: int) -> Iterator[ImportBatch]:
    """Yield the batches; `ImportFormatError`, before any is stored, if none has content."""
    held: list[ImportBatch] = []
    for batch in batches:
        held.append(batch)
        said = any(not isinstance(event, _FRAME) for _, event in batch.items)
        if said or report.format in _DOCUMENTS or len(held) > HELD:
            yield from chain(held, batches)
            return
    if size:
        report.sessions.clear()
        reasons = report.skipped
        why = f"; line {reasons[0].line}: {reasons[0].reason}" if reasons else ""
        more = f", and {len(reasons) - 1} more lines were skipped" if len(reasons) > 1 else ""
        raise ImportFormatError(
            f"{report.path}: no conversation of the format {report.format} is in it{why}{more}", reasons
        )


def _reporting(
    batches: Iterator[ImportBatch], file: BinaryIO, begin: int, size: int, on_progress: Progress
) -> Iterator[ImportBatch]:
    for batch in batches:
        yield batch
        on_progress(file.tell() - begin, size)
