"""One store directory in this process: opening, folding, forking and closing it.

`tail.py` recovers the tail and keeps up with other processes; `group_commit.py` writes; `lookup.py`
reads. The tail's `guard` is held briefly around memtable and cursor, `_folding` around a fold, and
the writers' lock between processes by the leader.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING

from eventlog.errors import BusyError, DamagedError, DataError, EventlogError, PoisonedError, StorageError
from eventlog.log.embedded import generations
from eventlog.log.embedded.derived import DerivedBuffer
from eventlog.log.embedded.directory import identity_bytes
from eventlog.log.embedded.group_commit import GroupCommit
from eventlog.log.embedded.journal.journal import Journal
from eventlog.log.embedded.locks import Presence, WriterLock, try_shared
from eventlog.log.embedded.segments.environment import is_archived
from eventlog.log.embedded.segments.fold import fold, make_index, write_address, write_derived
from eventlog.log.embedded.segments.pages import is_whole, page_faults, require_none
from eventlog.log.embedded.segments.segments import Segments
from eventlog.log.embedded.tail import Tail
from eventlog.log.embedded.watchers import Watchers
from eventlog.log.embedded.watermark import Watermark, marked_generation
from eventlog.log.lists import newest_of, require_lists
from eventlog.log.worker import Worker
from eventlog.logger import kind_of, logger

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from eventlog.log.commit import Head
    from eventlog.log.contract import Place
    from eventlog.log.embedded.lookup import Lookup
    from eventlog.log.embedded.options import Options
    from eventlog.log.lists import ListsOf

LOOK_AFTER = 2.0
"""Seconds after which the fold thread looks whether the store was rewritten."""
RETRY_AFTER = 1.0
"""Seconds until a failed fold is tried again, if the worker is not called before."""
_ROOM_POLL = 5e-3
_PATIENCE = 1.0
"""Seconds that a request for a list waits for a fold.

A signal handler may wait for its own thread.
"""


class Partition:
    """The state behind all handles of one directory."""

    def __init__(self, path: Path, options: Options) -> None:
        self.path = path
        self.options = options
        self.failure: EventlogError | None = None
        """Why the last fold, at closing, failed.  Nothing committed is lost by that."""
        self.commits: GroupCommit | None = None
        """None where nothing is written."""
        self._folding = Lock()
        self._fold_error: Exception | None = None
        """Why the last fold failed."""
        self._worker = Worker("eventlog-fold", self._fold_in_background)
        self._sweeping = True
        """Whether there may be earlier generations."""
        self._lock: WriterLock | None = None
        self._still: int | None = None
        """Keeps writers out where this process reads without a lock that they would see."""
        mark: Watermark | None = None
        read_only = options.read_only
        self._presence = Presence(path, read_only=read_only)
        alone = self._presence.alone
        hold = None
        try:
            self.require_generation(1)
            if alone and not read_only:
                generations.discard(path)
                generations.sweep(path, options.io)
            hold = generations.hold(path)
            generation = hold.generation.number
            files = path / str(generation)
            if read_only or marked_generation(path) == generation:
                mark = Watermark(path / "mark", generation, read_only=read_only)
            journal = self._journal_in(files)
            doubted = not is_whole(files / "lmdb") or (alone and not self._closed_in_order(journal, mark))
            if doubted:
                require_none(page_faults(files / "lmdb"))
            if read_only and is_archived(files / "lmdb"):
                self._keep_writers_out()
            segments = self._segments_in(hold)
        except BaseException:
            if mark is not None:
                mark.close()
            if hold is not None:
                hold.close()
            self.release_locks()
            raise
        self.tail: Tail = Tail(journal, segments, mark, options, self._worker.call)
        self.watchers: Watchers = Watchers(self.tail)
        self.tail.moved = self.watchers.wake
        self.tail.is_left, self.tail.open_next = self._is_left, self._open_next
        self.derived: DerivedBuffer = DerivedBuffer(self.tail)
        self.lookup: Lookup = self.tail.lookup
        try:
            if doubted:
                require_none(segments.damaged_rows())
            self._presence.share()
            if read_only:
                self.tail.recover_to_read(path, generation)
            else:
                self._lock = WriterLock(path, options.busy_timeout)
                self.tail.recover_to_write(self._lock, path / "mark")
                self.commits = GroupCommit(
                    self.tail, self._lock, self.wait_for_room, options.queue_bytes, options.busy_timeout
                )
            self._worker.call()
        except BaseException:
            self._release()
            raise

    # --- opening and closing

    @property
    def files(self) -> Path:
        """The directory of journal and segments."""
        return self.path / str(self.tail.segments.generation.number)

    def require_generation(self, known: int) -> None:
        """Raise `DamagedError` for an earlier generation, `PoisonedError` for another store."""
        if not self._presence.stands_in(self.path):
            raise PoisonedError(f"{self.path} was moved, deleted or replaced: open the store again where it is")
        number, least = generations.in_force(self.path).number, max(marked_generation(self.path), known)
        if number < least and number == generations.in_force(self.path).number:
            raise DamagedError(f"{self.path} is of generation {least}; the file that says so is missing or older")

    def _journal_in(self, files: Path) -> Journal:
        options = self.options
        return Journal(files / "journal", options.io, writable=not options.read_only, file_bytes=options.journal_bytes)

    def _segments_in(self, hold: generations.Hold) -> Segments:
        options, lmdb = self.options, self.path / str(hold.generation.number) / "lmdb"
        return Segments(
            lmdb, read_only=options.read_only, map_bytes=options.map_bytes, lists_of=options.lists_of, hold=hold
        )

    def _is_left(self) -> bool:
        return generations.in_force(self.path) != self.tail.segments.generation

    def _open_next(self) -> tuple[Journal, Segments]:
        """Open the generation in force, in place of an earlier one."""
        hold = generations.hold(self.path)
        try:
            self.require_generation(self.tail.segments.generation.number)
            opened = self._journal_in(self.path / str(hold.generation.number)), self._segments_in(hold)
        except BaseException:
            hold.close()
            raise
        finally:
            self._sweeping = True
        self.derived.forget()
        return opened

    def _keep_writers_out(self) -> None:
        with suppress(FileNotFoundError):  # a copy without it
            self._still = try_shared(self.path)
            if self._still is None:
                raise BusyError(f"{self.path} may not be written, and is being written all the same")

    @staticmethod
    def _closed_in_order(journal: Journal, mark: Watermark | None) -> bool:
        """Return whether all was folded at the last closing, and nothing was done since."""
        if mark is None or not (address := mark.get()) or address != mark.closed_at():
            return False
        journal.seek(address, -1)
        try:
            return not journal.continues()
        except DamagedError:
            return False
        finally:
            journal.close()

    @cached_property
    def identity(self) -> bytes:
        """16 bytes that name the store."""
        return identity_bytes(self.path)

    @property
    def closed(self) -> bool:
        """Whether everything is released."""
        return self.tail.closed

    @property
    def finished(self) -> bool:
        """Whether nothing more is written here: it is closed, or a write failed."""
        return self.tail.closed or (self.commits is not None and self.commits.refuses)

    @property
    def commits_here(self) -> bool:
        """Whether the calling thread is in the middle of a commit, and cannot wait for its end."""
        return self.commits is not None and self.commits.leads

    def stands_at(self, path: Path) -> bool:
        """Return whether the directory that is open here is the one that lies at `path`."""
        return self._presence.stands_in(path)

    def close(self) -> None:
        """Commit what is queued, fold, release everything; return when that is done.

        `failure` says why the fold failed.
        """
        if self.commits is not None:
            self.commits.close(self._shut)
        elif not self.closed:
            self._shut()

    def _shut(self) -> None:
        tail = self.tail
        try:
            self._worker.end(wait=True)
            if self.commits is not None and tail.poison is None:
                renewed = self._renew_journal()
                self.fold(recycle=not renewed)
                if tail.mark is not None and not tail.memtable.size:
                    if renewed:
                        with suppress(OSError):  # a file that stays does no harm, and is removed later
                            tail.journal.remove_before(tail.journal.address)
                    tail.mark.set_closed(tail.journal.address)
        except EventlogError as error:  # the journal has it all; it is folded when the store is opened again
            self.failure = error
        except Exception as error:  # noqa: BLE001 - the handle's `close` tells it, and no other closer
            self.failure = PoisonedError(f"the last fold of {self.path} failed: {error!r}")
            self.failure.__cause__ = error
        finally:
            try:
                self._release()
            except BaseException:  # an interrupt: each step may be repeated
                self._release()
                raise
            self.watchers.wake()
            if self._sweeping and not self.options.read_only:
                with suppress(OSError, EventlogError):
                    generations.sweep(self.path, self.options.io)

    def _renew_journal(self) -> bool:
        """End the journal in an empty file, for the others to go; False if it has to stay."""
        if not self.tail.journal.takes_room():
            return False
        try:
            self.tail.lock_to_write(self.lock)
            if not self._presence.alone_again():
                return False
            address = self.tail.journal.renew()
            if not self.tail.end_at(address):
                write_address(self.tail.segments, address)
        except (BusyError, OSError):  # another is at work, so this is not the last; or no room, not even for that
            return False
        finally:
            self.lock.release()
        return True

    def _release(self) -> None:
        self.tail.close()
        self.watchers.close()
        self.tail.journal.close()
        self.release_locks()

    def release_locks(self) -> None:
        """Close the files of all locks; may be repeated."""
        if self._lock is not None:
            self._lock.close()
        still, self._still = self._still, None
        if still is not None:
            os.close(still)
        self._presence.close()

    @property
    def lock(self) -> WriterLock:
        """The writers' lock; only a partition that writes has one."""
        assert self._lock is not None
        return self._lock

    # --- folding

    def fold(self, *, recycle: bool = True) -> None:
        """Move everything committed so far into LMDB, and free journal files for reuse."""
        with self._folding:
            with self.tail.guard:
                segments, journal = self.tail.segments, self.tail.journal
                frozen = list(self.tail.memtable.freeze())
            derived = self.derived.drain()
            folded = None
            try:
                if frozen:
                    folded = fold(segments, frozen, derived, self.options.io)
                elif derived:
                    write_derived(segments, derived)
            except BaseException:
                self.derived.put_back()
                raise
            self.derived.drained()
            if folded is not None:
                with self.tail.guard:
                    self.tail.memtable.drop(folded.address)
                if recycle:
                    journal.recycle(folded.address)

    def newest(self, lists: Sequence[bytes], before: Place | None, limit: int) -> list[Head]:
        """Return `Log.newest` by the index, made if it is not there; else by all heads."""
        lists_of = require_lists(self.options.lists_of)
        if limit <= 0:
            return []
        found = self.lookup.newest(lists_of, lists, before, limit)
        if found is None and self._make_index(lists_of):
            found = self.lookup.newest(lists_of, lists, before, limit)
        return newest_of(self.lookup.heads(""), lists_of, lists, before, limit) if found is None else found

    def _make_index(self, lists_of: ListsOf) -> bool:
        """Make the index of lists; False if it may not be written now."""
        if self.commits is None or self.finished or not self._folding.acquire(timeout=_PATIENCE):
            return False
        try:
            make_index(self.tail.segments, lists_of, self.options.io)
        except BusyError:
            return False
        finally:
            self._folding.release()
        return True

    def fold_derived_if_many(self) -> None:
        """Have derived values written when there are many."""
        if self.derived.full:
            self._worker.call()

    def wait_for_room(self, deadline: float) -> None:
        """Wait while far too much is unfolded; `BusyError` after the deadline."""
        while self.tail.memtable.size >= self.tail.limit:
            if not self._worker.call():
                self._fold_in_background()
            reason = self._fold_error or "LMDB is slow"
            if isinstance(reason, (DataError, StorageError)):  # to wait does not help
                raise reason
            if time.monotonic() > deadline:
                raise BusyError(f"{self.tail.memtable.size} bytes wait to be folded: {reason}")
            time.sleep(_ROOM_POLL)

    def _fold_in_background(self) -> float | None:
        """Fold what is due, fill a journal file ahead, and follow a rewriting to its end.

        Nothing that fails ends the worker: the journal has everything until it is folded, so a
        failure is logged, remembered, and tried again after a while.
        """
        try:
            full = self.tail.memtable.size >= self.options.fold_bytes or self.derived.full
            if (
                full and self.commits is not None and not self.finished
            ):  # else the journal has it all, until it is opened again
                self.fold()
            self._fold_error = None
        except Exception as error:  # noqa: BLE001 - later folds must be tried
            if repr(error) != repr(self._fold_error):  # once, not once a second
                logger().warning("folding failed, and will be tried again: %s", kind_of(error))
            self._fold_error = error
        with suppress(Exception):  # no room: a small file is made in its place when it is needed
            self.make_spare_if_due()
        with suppress(Exception):  # damage is what the next call reports
            if self.tail.mark is not None and self.tail.mark.elsewhere:
                self.tail.refresh()
            if self._sweeping and not self.options.read_only:
                self._sweeping = bool(generations.sweep(self.path, self.options.io))
        return LOOK_AFTER if self._fold_error is None else RETRY_AFTER

    def make_spare_if_due(self) -> None:
        """Fill the next journal file ahead once the second half of this one is being written."""
        journal = self.tail.journal
        if journal.address > journal.middle:
            journal.make_spare()

    def check(self) -> list[str]:
        """Read everything, folded or not; a line for each thing that is wrong."""
        from eventlog.log.embedded.check import check_journal, check_segments, check_trees

        tail = self.tail
        with tail.guard:
            segments, files, until = tail.segments, self.files, tail.journal.address
        wrong = check_segments(segments)
        cursor = Journal(files / "journal", self.options.io, writable=False, file_bytes=0)
        wrong += check_journal(cursor, segments, until)
        with tail.guard:
            heads = list(tail.memtable.heads().values())
        return wrong + check_trees(self.lookup, heads)
