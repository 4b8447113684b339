"""Backup of a store that is being written, and restore.

A backup stops no writer. It is a store directory like any other: it can be opened, verified and
copied again. A second backup into the same place adds only what is new, by position. When the store
was rewritten since (by a scrub or a vacuum), the backup is written anew. A backup that was written
to has a history of its own, and is refused.

While a backup is being written, and after its writing broke off, the directory holds the file
`unfinished` and does not open as a store; the same command continues it.  A restore is the same in
the other direction, up to a cursor.

A restore to an earlier state records again the redactions of parts that were scrubbed later
(`record_later_redactions`), because their content is gone from the backup.  Without such an event a
view would show an empty text, and `verify` an append without content and without reason.  For the
same reason it drops the keys of values that were freed later (`freed.py`).  Nothing can be recorded
for encrypted sessions: a restore has no keys.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING

from msgspec.structs import replace

from eventlog import events as ev
from eventlog.codec.decoded import spans_of
from eventlog.codec.deltas import DeltaRun
from eventlog.codec.payload import is_encrypted, is_foreign
from eventlog.codec.redaction import TITLED, blank, part_of
from eventlog.errors import AlreadyExistsError, CallError
from eventlog.history.ancestry import ancestry
from eventlog.history.catalog import TITLES, CatalogEntry, entry_of
from eventlog.history.cursor import cursor_at, reached_by
from eventlog.integrity.scrub_ledger import ScrubLedger, read_ledger, write_record
from eventlog.log.embedded import generations
from eventlog.log.embedded.bulk_writer import BulkWriter
from eventlog.log.embedded.directory import encryption_of, identity_of, unfinished
from eventlog.log.embedded.options import Options
from eventlog.log.merkle import SALT_BYTES
from eventlog.maintenance.copy_commits import add_events, commits_behind, copy_commits, storage_errors
from eventlog.maintenance.destination import BackupResult, Progress, copy_at, destination, result_of
from eventlog.maintenance.freed import drop_freed
from eventlog.open_log import directory_of, is_server, note_of, server_log

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eventlog.codec.decoded import Span
    from eventlog.encryption.keys import KeySource
    from eventlog.log.commit import Commit
    from eventlog.log.contract import Log
    from eventlog.log.embedded.engine import EmbeddedLog


def backup(
    log: Log, to: str | os.PathLike[str], *, keys: KeySource | None = None, on_progress: Progress | None = None
) -> BackupResult:
    """Copy what is committed by now into the directory `to`, while writers go on.

    With `keys` the copy of a plain store is an encrypted store of its own; `AlreadyExistsError` if
    there is a store at `to`. `CallError` if `to` holds something other than a backup of this store,
    or if this store is in memory, or encrypted and `keys` are given; `BusyError` if another process
    has `to` open; `DamagedError` if the store cannot be read. `on_progress` is called with the
    position reached and the position to reach.
    """
    from eventlog.log.embedded.engine import EmbeddedLog

    engine = log.engine
    on_server = server_log(log)
    if on_server is not None:
        from eventlog.maintenance.server_copies import backup_to_directory

        if keys is not None:
            raise CallError(
                "the copy of a store on a server is as that is: encrypted, or not; back it up without `keys`"
            )
        return backup_to_directory(on_server, directory_of(to), on_progress=on_progress)
    if not isinstance(engine, EmbeddedLog):
        raise CallError("only a store in a directory, or on a server, can be backed up")
    if keys is not None:
        if encryption_of(engine.path):
            raise CallError("the store is encrypted, and its backups are as well: back it up without `keys`")
        return _encrypted(engine, directory_of(to), keys, on_progress=on_progress)
    return _copy(
        engine, directory_of(to), engine.last_position(), "a backup was being written", on_progress=on_progress
    )


def _encrypted(log: EmbeddedLog, to: Path, keys: KeySource, *, on_progress: Progress | None) -> BackupResult:
    """Write an encrypted copy into a new place."""
    from eventlog.encryption.key_ring import KeyRing, keys_from
    from eventlog.log.embedded.engine import open_log
    from eventlog.maintenance.encrypt import copy_encrypted

    _refuse_inside(to, log.path)
    ring = KeyRing(keys_from(keys, to))
    options = Options(io=log.options.io)
    with storage_errors(to), destination(to), generations.rewriting(log.path, shared=True):
        what = "an encrypted copy was being written"
        broken_off = unfinished(to)
        if broken_off != what and (broken_off is not None or (to / "format").exists()):
            raise AlreadyExistsError("store", str(to))
        with copy_at(to, "", what, options) as (copy, store):
            own = ring.make()
            upto, now = log.last_position(), time_ns() // 1_000_000
            events = copy_encrypted(log, copy, ring, own, upto, time=now, on_progress=on_progress)
            copy.finish(store, options.io.random(16).hex(), note_of(own))
    with closing(open_log(to, read_only=True, io=options.io)) as made:
        return result_of(made, cursor_at(made, made.last_positions()), events, whole=True)


def _refuse_inside(to: Path, path: Path) -> None:
    if to.resolve() == path.resolve() or path.resolve() in to.resolve().parents:
        raise CallError(f"{to} is in the store that is to be copied")


def restore(
    source: str | os.PathLike[str],
    into: str | os.PathLike[str],
    *,
    cursor: str | None = None,
    options: Options | None = None,
    on_progress: Progress | None = None,
) -> BackupResult:
    """Make a store at `into` from the backup or store at `source`, as of `cursor`.

    An append that reaches beyond the cursor is left out whole; None takes everything. `CursorError`
    if the cursor is of another store or ahead of this one, `AlreadyExistsError` if there is a store
    at `into`; a restore that broke off is continued. Parts that were scrubbed after the cursor stay
    redacted, by one more event in each session that had them, and values that were freed after it
    are dropped; not in an encrypted store.
    `options` are those of the log at `into`. `on_progress` is called with the events copied and all
    events.
    """
    from eventlog.log.embedded.engine import open_log

    if is_server(into) or is_server(source):
        return _with_server(source, into, cursor=cursor, on_progress=on_progress)
    target = directory_of(into)
    with storage_errors(target):
        if (target / "format").exists() and unfinished(target) is None:
            raise AlreadyExistsError("store", str(target))
    log = open_log(directory_of(source), read_only=True)
    try:
        last = log.last_position()
        upto = last if cursor is None else reached_by(cursor, log)[0][0]
        what = f"a restore to position {upto} was being written"
        return _copy(log, target, upto, what, on_progress=on_progress, options=options, as_store=upto < last)
    finally:
        log.close()


def _with_server(
    source: str | os.PathLike[str], into: str | os.PathLike[str], *, cursor: str | None, on_progress: Progress | None
) -> BackupResult:
    """Restore to a server, or from one."""
    from eventlog.maintenance.server_copies import backup_to_directory, restore_to_server

    if cursor is not None:
        raise CallError("a restore to or from a server takes everything: restore a backup up to the cursor first")
    if is_server(into):
        return restore_to_server(source, str(into), on_progress=on_progress)
    target = directory_of(into)
    if (target / "format").exists() and unfinished(target) is None:
        raise AlreadyExistsError("store", str(target))
    from eventlog.log.postgres.opening import open_log

    with closing(open_log(str(source), read_only=True)) as log:
        return backup_to_directory(log, target, on_progress=on_progress)


def _copy(
    log: EmbeddedLog,
    to: Path,
    upto: int,
    what: str,
    *,
    on_progress: Progress | None,
    options: Options | None = None,
    as_store: bool = False,
) -> BackupResult:
    """Bring the copy at `to` up to a position, or write it anew.

    `as_store`: the copy becomes a store of its own.
    """
    from eventlog.log.embedded.engine import open_log

    path = log.path
    _refuse_inside(to, path)
    chosen = Options(io=log.options.io) if options is None else options
    with storage_errors(to), destination(to), generations.rewriting(path, shared=True):
        generations.discard(to)
        generations.sweep(to, chosen.io)
        copy = _resumable_copy(log, path, to, upto, chosen)
        whole = copy is None
        with copy_at(to, generations.in_force(path).rewriting, what, chosen, copy) as (copy, store):
            events = copy_commits(log, copy, upto, on_progress=on_progress)
            cursor = cursor_at(log, (copy.position,))
            if as_store and read_ledger(log):  # the ledger may be behind the position, and its appends before it
                ledger = ScrubLedger()
                for commit in commits_behind(copy, 0, upto):
                    ledger.add(commit)
                now = time_ns() // 1_000_000
                write_record(copy, ledger, now, chosen.io.random(SALT_BYTES))
                record_later_redactions(log, copy, upto, now, chosen.io.random)
                drop_freed(copy, commits_behind(copy, 0, upto), now, chosen.io.random)
            _add_gone(log, copy, upto)
            copy.finish(store, identity_of(path), encryption_of(path))
    with closing(open_log(to, read_only=True, io=chosen.io)) as made:
        return result_of(made, cursor, events, whole=whole)


def _resumable_copy(log: EmbeddedLog, path: Path, to: Path, upto: int, options: Options) -> BulkWriter | None:
    """Open the copy that is there; None if it must be written anew.

    `CallError` if something else is there.
    """
    broken_off = unfinished(to) is not None
    if not generations.of(to):
        return None
    if not broken_off and not (to / "format").exists():
        raise CallError(f"{to} holds something else than a backup")
    if (to / "format").exists() and identity_of(to) != identity_of(path):
        raise CallError(f"{to} is a backup of another store")
    if generations.in_force(to).rewriting != generations.in_force(path).rewriting:
        return None
    copy = BulkWriter(generations.files_of(to), options)
    try:
        continues = copy.position <= upto and _continues(log, copy)
        if continues is False and not broken_off:
            raise CallError(f"{to} is no earlier state of this store: it was written to, or the store was restored")  # noqa: TRY301 - closed below
    except BaseException:
        copy.close()
        raise
    if continues:
        return copy
    copy.close()
    return None


def _continues(log: EmbeddedLog, copy: BulkWriter) -> bool | None:
    """Whether the source continues what was copied; None if the last commit does not tell."""
    if not copy.position:
        return True
    copied = copy.last_commit()
    if copied is None:
        return None
    found = log.commits_after(copied.position - 1, 1)
    return bool(found) and _is_same_append(found[0], copied)


def _is_same_append(one: Commit, other: Commit) -> bool:
    return one.position == other.position and one.session == other.session and one.leaf == other.leaf


def _add_gone(log: EmbeddedLog, copy: BulkWriter, upto: int) -> None:
    """Add the heads of sessions whose events were erased.

    Also of one erased after the position: its id stays used, and heads of then verify. All are
    marked as gone, for their own positions may be behind the last one of the copy.
    """
    gone = [
        replace(head, gone=True)
        for head in log.heads()
        if (head.gone or head.position <= upto) and copy.head(head.session) is None
    ]
    if gone:
        copy.add([], {}, {}, {}, position=copy.position, gone=gone)


REASON = "redacted and scrubbed after what was restored"


def record_later_redactions(log: Log, copy: BulkWriter, upto: int, time: int, random: Callable[[int], bytes]) -> None:
    """Record in a copy which parts of it were redacted and scrubbed after position `upto`."""
    found: dict[str, dict[str, None]] = {}
    redacted = _redacted(log)
    for commit in commits_behind(copy, 0, upto):
        if commit.emptied and commit.payload and not is_encrypted(commit.payload) and not is_foreign(commit):
            found.setdefault(commit.session, {}).update(
                dict.fromkeys(_gone(commit, redacted.get(commit.session, set())))
            )
    for session in sorted(found):
        head = copy.head(session)
        if head is None or entry_of(head).erased:
            continue
        streams = [copy.head(stream.session) for stream in ancestry(copy, session)]
        known = {part for above in streams if above is not None for part in entry_of(above).redacted}
        events = [_redaction(part, entry_of(head)) for part in found[session] if part not in known]
        if events:
            add_events(copy, head, events, time, random(SALT_BYTES))


def _redaction(part: str, entry: CatalogEntry) -> ev.Event:
    """Return the event that redacts a part in a copy, or the titles of the session."""
    return ev.SessionRenamed(entry.title, TITLES) if part == TITLES else ev.PartRedacted(part, REASON)


def _redacted(log: Log) -> dict[str, set[str]]:
    """Return the redacted parts by session: its own, its ancestors' and its forks'."""
    found: dict[str, set[str]] = {}
    for head in log.heads():
        if is_foreign(head) or is_encrypted(head.entry):
            continue
        entry = entry_of(head)
        found.setdefault(head.session, set()).update(entry.redacted)
        if not entry.erased:
            for stream in ancestry(log, head.session):
                above = log.head(stream.session)
                found[head.session].update(() if above is None else entry_of(above).redacted)
                found.setdefault(stream.session, set()).update(entry.redacted)
    return found


def _gone(commit: Commit, parts: set[str]) -> Iterator[str]:
    """Yield the parts that an append mentions and has no content of any more."""
    spans = spans_of(commit)
    for part in dict.fromkeys(part for span in spans for part in _parts(span)):
        if part in parts and all(blank(span.item, (part,), digests=False) == span.item for span in spans):
            yield part
    if TITLES in parts and any(isinstance(span.item, TITLED) and not span.item.title for span in spans):
        yield TITLES


def _parts(span: Span) -> list[str]:
    if isinstance(span.item, DeltaRun):
        return [part for part, _ in span.item.keys]
    part = part_of(span.item)
    return [] if part is None else [part]
