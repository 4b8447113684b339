"""The import of one file: it is read unless its receipt says that it is stored whole.

Of event JSONL ids, times, versions, appends and forks stay as they are. A session of it is looked
for under its own id, because a given session id is an identity, then under `ID~2`, `ID~3` …, which
hold what diverged. An event that the session's rules refuse is reported with its line, and ends
that session. A name that a session brings is reserved for it; if another session has it, the
imported one loses it.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile
from time import time_ns
from typing import BinaryIO, cast
from zipfile import BadZipFile, ZipFile

from msgspec.structs import replace

from eventlog import events as ev
from eventlog.append.backoff import Backoff
from eventlog.errors import ArgumentValueError, CallError, ConflictError, ImportFormatError, NotFoundError
from eventlog.errors.base import brief
from eventlog.importers import receipts
from eventlog.importers.common.candidate import BEGINNING, Place
from eventlog.importers.common.importer import ImportBatch, Report
from eventlog.importers.common.json_lines import read_beginning
from eventlog.importers.common.target import Target, require_scope
from eventlog.importers.event_jsonl.reader import EventJsonl, JsonlAppend
from eventlog.importers.formats import FORMATS, detect_in
from eventlog.importers.opencode.database import OpenCodeDatabase, OpenCodeStorage
from eventlog.importers.opencode.importer import OpenCodeImporter
from eventlog.importers.receipts import stamp_of
from eventlog.importers.reconcile import reconcile
from eventlog.integrity.fork_anchor import portable
from eventlog.session.session_names import keep_told
from eventlog.store import Store
from eventlog.validation import require, require_call, require_or_none

HELD = 8
"""Batches of a file that are held until one has content."""

_DOCUMENTS = (EventJsonl.name, OpenCodeImporter.name, OpenCodeDatabase.name, OpenCodeStorage.name)
"""Formats that state themselves that a session is empty."""
_FRAME = (ev.SessionStarted, ev.SessionForked, ev.SessionRenamed, ev.MetadataSet, ev.ForeignKept)
"""Events of a session without content."""
_BEGINNINGS = (ev.SessionStarted, ev.SessionForked)
ZIP = b"PK\3\4"
"""First bytes of an archive."""
_IN_ZIP = "conversations.json"
_LARGEST = 4 << 30
"""Bytes of a file in an archive, at most."""

Progress = Callable[[int, int | None], None]


def import_file(
    store: Store,
    path: str | os.PathLike[str] | BinaryIO,
    *,
    format: str | None = None,
    scope: str | None = None,
    on_progress: Progress | None = None,
) -> Report:
    """Import a file, or an open binary file that can seek; stored events are not added again.

    `format` is one of `FORMATS`; it is told from the file's beginning by default. `scope` is that
    of the new sessions; `ArgumentValueError` if a session of the file is stored with another
    one; None goes on with any. `on_progress` is called with the bytes read and the size (None if
    unknown) as the work goes on.
    `ImportFormatError` for a file of no known format; damaged records are no error: they are listed
    in the report. `ErasedError` if each session of the file was erased here. `DamagedError` and
    `BusyError` for a database that cannot be read, or not now; `OSError` when the file
    cannot be read. Of imports at once each event is stored once: one that finds another was first
    reads the file again; `ConflictError` if that goes on.
    """
    require(Store, store, "a store is a Store")
    require_or_none(str, format, "a format is named by a str")
    require_or_none(str, scope, "a scope is a str")
    require_call(on_progress, "on_progress is a function that is given the bytes read and the size")
    if isinstance(path, (str, os.PathLike)):
        return _import_path(store, os.fspath(path), format, on_progress, scope=scope)
    require_call(getattr(path, "read", 0), "a file is a path, or an open binary file, and its `read` a function")
    return _import(store, path, str(getattr(path, "name", "<stream>")), format, on_progress, scope=scope)


def _import_path(
    store: Store, path: str, name: str | None, on_progress: Progress | None, *, scope: str | None
) -> Report:
    """Import a file, unless its receipt says that it is stored whole."""
    begun = time_ns()
    stamp = stamp_of(path)
    report = receipts.find(store.log, path, stamp, name)
    if report is None:
        with Path(path).open("rb") as file:
            report = _import(store, file, path, name, on_progress, scope=scope)
        if report.format != OpenCodeStorage.name and not (report.format == EventJsonl.name and report.skipped):
            receipts.save(store.log, report, stamp, begun)  # those read other files, and refuse what the store lacks
        return report
    require_scope(store, report.sessions, scope)
    if on_progress is not None:
        on_progress(stamp.size, stamp.size)
    return report


def _import(
    store: Store, file: BinaryIO, path: str, name: str | None, on_progress: Progress | None, *, scope: str | None
) -> Report:
    begin = file.tell()
    start = read_beginning(file)
    if start.startswith(ZIP):
        file.seek(begin)
        with _unzipped(file, path) as unzipped:
            return _import(store, unzipped, path, name, on_progress, scope=scope)
    file.seek(0, os.SEEK_END)
    size = file.tell() - begin
    file.seek(begin)
    if name is None:
        name = detect_in(file, start, path)
        file.seek(begin)
    elif name not in FORMATS:
        raise ImportFormatError(f"{brief(name)} is no format that can be imported (known: {', '.join(FORMATS)})")
    backoff, events = Backoff(), 0
    while True:
        report = Report(path, name, events=events)
        try:
            _store(store, file, report, size, on_progress, scope=scope)
        except ConflictError:  # another import of the same sessions was first: what it stored is compared as well
            if not backoff.goes_on():
                raise
            events = report.events
            file.seek(begin)
        else:
            return report


def _unzipped(archive: BinaryIO, path: str) -> BinaryIO:
    """Return the conversations in an archive that ChatGPT exported, as a file of their own."""
    try:
        with ZipFile(archive) as opened:
            found = [info for info in opened.infolist() if info.filename.rpartition("/")[2] == _IN_ZIP]
            if len(found) != 1 or found[0].file_size > _LARGEST:
                raise ImportFormatError(
                    f"{path}: a zip archive without one {_IN_ZIP} of at most 4 GiB, as ChatGPT exports it:"
                    " unpack the archive, and import what is in it"
                )
            with ExitStack() as stack:
                file = stack.enter_context(TemporaryFile())
                copyfileobj(opened.open(found[0]), file)
                stack.pop_all()
    except (BadZipFile, EOFError, NotImplementedError, RuntimeError, zlib.error) as error:
        raise ImportFormatError(f"{path}: a zip archive that cannot be read: {error}") from error
    file.seek(0)
    return cast("BinaryIO", file)


def _store(
    store: Store, file: BinaryIO, report: Report, size: int, on_progress: Progress | None, *, scope: str | None
) -> None:
    """Append what is new of a file that is at its beginning."""
    begin = file.tell()

    def told(batches: Iterator[ImportBatch]) -> Iterator[ImportBatch]:
        for batch in batches:
            yield batch
            if on_progress is not None:
                on_progress(file.tell() - begin, size)

    batches = told(with_content(FORMATS[report.format].read(file, report.path, report), report, size))
    if report.format == EventJsonl.name:
        load(store, batches, report, scope)
    else:
        reconcile(store, batches, report, scope)
    if on_progress is not None:
        on_progress(size, size)


def with_content(batches: Iterator[ImportBatch], report: Report, size: int) -> Iterator[ImportBatch]:
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


def load(store: Store, batches: Iterable[ImportBatch], report: Report, scope: str | None) -> None:
    """Append what is new of the batches; `report` gets the sessions and the event count."""
    targets: dict[str, Target] = {}
    try:
        _take(store, batches, report, targets, scope)
    finally:  # an append that is on its way would come between those of the next import
        for target in targets.values():
            target.settle()
    for target in targets.values():
        target.finish()
    stored = [found for target in targets.values() if (found := target.found()) is not None]
    report.sessions = [found.name for found in stored]
    for found in stored:
        if report.events and (name := found.session.info.name) is not None:
            keep_told(store, found.session, name)


def _take(
    store: Store,
    batches: Iterable[ImportBatch],
    report: Report,
    targets: dict[str, Target],
    scope: str | None,
) -> None:
    refused: set[str] = set()
    for batch in batches:
        assert isinstance(batch, JsonlAppend)
        if batch.session in refused:
            continue
        try:
            target = targets.get(batch.session)
            if target is None:
                for other in targets.values():
                    other.finish()  # a fork reads its parent
                target = targets[batch.session] = _begun(store, batch, targets, report, scope)
            target.add_append(batch.items, batch.bodies, batch.request)
        except ArgumentValueError:  # of the import's own scope
            raise
        except CallError as error:
            report.skip(batch.line, f"{error}; the rest of session {brief(batch.session)} is not imported")
            refused.add(batch.session)


def _begun(store: Store, batch: JsonlAppend, targets: dict[str, Target], report: Report, scope: str | None) -> Target:
    """Return the target that begins with this append; a fork gets its parent's id here."""
    time, event = batch.items[0]
    place = BEGINNING
    if isinstance(event, ev.SessionForked):
        if event.at != batch.first - 1:
            raise CallError(f"a fork at version {event.at} that begins at version {batch.first}")
        parent = targets.get(event.parent)
        found = None if parent is None else parent.found()
        if found is not None:
            place = Place(event.at, found.version(event.at), found.version, found.is_shifted)
        elif parent is None:
            place = Place(event.at, event.at)
            store.info(event.parent)  # there must be one
        else:
            raise NotFoundError("session", event.parent)
        name = event.parent if found is None else found.name
        batch.items[0] = time, replace(portable(event), parent=name, at=place.after)
    elif batch.first != 1:
        raise CallError(f"a session that begins at version {batch.first} and is no fork")
    first = batch.items[0][1]
    if scope is not None and isinstance(first, _BEGINNINGS):
        batch.items[0] = time, replace(first, scope=scope)
    target = Target(store, batch.session, report, lambda info: info.version > place.after, _comparable, place=place)
    target.require_scope(scope)
    return target


def _comparable(time: int, event: ev.Event) -> tuple[int, ev.Event]:
    """Return the time and the event, without the scope that an import may replace."""
    event = portable(event)
    return time, replace(event, scope="") if isinstance(event, _BEGINNINGS) else event
