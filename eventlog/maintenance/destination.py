"""Directory that a backup or a restore is written to, held for one process meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from eventlog.errors import BusyError, CallError
from eventlog.history.catalog import is_session
from eventlog.integrity.heads import session_head
from eventlog.log.contract import Log
from eventlog.log.embedded import generations
from eventlog.log.embedded.bulk_writer import BulkWriter
from eventlog.log.embedded.directory import refuse_inside_store, require_store_files, set_unfinished, unfinished
from eventlog.log.embedded.filesystem import make_directory, refuse_network_filesystem, remove_all
from eventlog.log.embedded.locks import Presence
from eventlog.log.embedded.options import Options

Progress = Callable[[int, int], None]
_NAMES = frozenset({"format", "generation", "lock", "mark", "open", "turn", "unfinished"})


class BackupResult(msgspec.Struct, frozen=True):
    """Result of a backup or a restore."""

    cursor: str
    """The cursor behind the last event that was copied, for `restore` and `subscribe`."""
    sessions: int
    """Sessions in the copy, without erased ones."""
    events: int
    """Events that were copied now, without those of erased sessions."""
    whole: bool
    """Whether everything was copied: there was no earlier copy to go on with."""


def result_of(made: Log, cursor: str, events: Counter[str], *, whole: bool) -> BackupResult:
    """Return the result of a copy that is `made`; `events` were copied now, by session.

    A copy that was made whole has records of its own, too, which no commit was copied for.
    """
    sessions = living = 0
    for head in made.heads():
        if not session_head(head).erased:
            sessions += is_session(head)
            living += head.version - head.base if whole else events[head.session]
    return BackupResult(cursor, sessions, living, whole)


@contextmanager
def copy_at(
    to: Path, word: str, what: str, options: Options, begun: BulkWriter | None = None
) -> Generator[tuple[BulkWriter, Path | None]]:
    """Go on with the copy `begun`, or write one anew under the name `word`.

    An old one stays until the new one is whole; without one `what` is noted as unfinished
    meanwhile. Yields the writer, and the directory for its `finish`.
    """
    beside = begun is None and unfinished(to) is None and (to / "format").exists()
    if not beside:
        set_unfinished(to, what)
        for directory in generations.of(to).values() if begun is None else ():
            remove_all(directory)  # a copy that is written anew uses nothing of an earlier one
    copy = begun or BulkWriter(generations.following(to) if beside else generations.begin(to, word), options)
    try:
        copy.begin()
        yield copy, None if beside else to
    finally:
        copy.close()
    if beside:
        generations.commit(to, word)
        generations.sweep(to, options.io)
    else:
        set_unfinished(to, None)


@contextmanager
def destination(to: Path) -> Generator[None]:
    """Make the directory to copy into if need be, and hold it for this process alone."""
    refuse_network_filesystem(to)
    refuse_inside_store(to)
    if to.exists() and not to.is_dir():
        raise CallError(f"{to} is not a directory")
    make_directory(to)
    require_store_files(to)
    known = _NAMES.union(map(str, generations.of(to)))
    strangers = sorted(entry.name for entry in to.iterdir() if entry.name.removesuffix(".new") not in known)
    if strangers:
        raise CallError(f"{to} holds something else than a backup: {', '.join(strangers[:3])}")
    presence = Presence(to, read_only=False)
    try:
        if not presence.alone:
            raise BusyError(f"another process has {to} open")
        yield
    finally:
        presence.close()
