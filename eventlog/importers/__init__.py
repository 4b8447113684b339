"""Foreign transcripts to events: one file per format, one way in (`import_file`).

Importing again is safe: what is stored already is found and only what is new is appended (`reconcile.py`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO

from eventlog.errors import ImportFormatError, brief
from eventlog.importers.anthropic_messages import AnthropicMessages
from eventlog.importers.anthropic_sse import AnthropicStream
from eventlog.importers.base import Importer, Piece, Report, Skipped
from eventlog.importers.claude_code import ClaudeCode
from eventlog.importers.codex import Codex
from eventlog.importers.event_jsonl import EventJsonl
from eventlog.importers.event_streams import place
from eventlog.importers.openai_messages import OpenAIMessages
from eventlog.importers.openai_responses_sse import OpenAIResponsesStream
from eventlog.importers.openai_sse import OpenAIChatStream
from eventlog.importers.opencode import OpenCodeImporter
from eventlog.importers.reconcile import reconcile
from eventlog.importers.sse import kind_of_stream
from eventlog.store import Store

__all__ = ["FORMATS", "Report", "Skipped", "detect", "import_file"]

_IMPORTERS: tuple[Importer, ...] = (
    EventJsonl(),
    OpenCodeImporter(),
    ClaudeCode(),
    Codex(),
    AnthropicStream(),
    OpenAIChatStream(),
    OpenAIResponsesStream(),
    AnthropicMessages(),
    OpenAIMessages(),
)

FORMATS: MappingProxyType[str, Importer] = MappingProxyType({importer.name: importer for importer in _IMPORTERS})
"""The importers by the name of their format."""

START = 64 * 1024
"""How much of a file its format is told from, in bytes."""

Progress = Callable[[int, int | None], None]


def detect(start: bytes, path: str = "") -> str:
    """The format of a file that begins with these bytes; `ImportFormatError` if it is none that can be imported."""
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
    progress: Progress | None = None,
) -> Report:
    """Import a file, or an open binary file that can seek, into the store; what was imported before is not added again.

    `format` is one of `FORMATS`; it is told from the file's beginning by default.  `progress` is called with the bytes read
    and the size (None if unknown) as the work goes on.  `ImportFormatError` for a file of no known format; damaged
    records are no error: they are listed in the report.  `OSError` when the file cannot be read.
    """
    if isinstance(path, (str, os.PathLike)):
        with Path(path).open("rb") as file:
            return _import(store, file, os.fspath(path), format, progress)
    return _import(store, path, str(getattr(path, "name", "<stream>")), format, progress)


def _import(store: Store, file: BinaryIO, path: str, name: str | None, progress: Progress | None) -> Report:
    begin = file.tell()
    start = file.read(START)
    file.seek(0, os.SEEK_END)
    size = file.tell() - begin
    file.seek(begin)
    if name is None:
        name = detect(start, path)
    elif name not in FORMATS:
        raise ImportFormatError(f"{brief(name)} is no format that can be imported (known: {', '.join(FORMATS)})")
    report = Report(path, name)
    pieces = FORMATS[name].read(file, path, report)
    put = place if name == EventJsonl.name else reconcile
    put(store, pieces if progress is None else _watched(pieces, file, begin, size, progress), report)
    if progress is not None:
        progress(size, size)
    return report


def _watched(pieces: Iterator[Piece], file: BinaryIO, begin: int, size: int, progress: Progress) -> Iterator[Piece]:
    for piece in pieces:
        yield piece
        progress(file.tell() - begin, size)
