"""One store directory in this process: journal, tail and folded part, and what is read from them together.

At any moment the log is: what is folded (LMDB), then what the journal holds beyond that, which is also in memory
(`memtable.py`).  What others append is seen by comparing the mark (`watermark.py`); `lookup.py` finds things in both parts.

Two locks inside the process: `_guard` around tail and cursor, held briefly; `_folding` around a fold.  The writers'
lock between processes is held by the leader (`group_commit.py`).

An interrupt may come anywhere, and a signal handler may read while its own thread is catching up.  So what changes tail and cursor says
so first (`_changing`): what was broken off is read again, from where LMDB ends, by the next to come; a handler sees what was there before.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from threading import Lock, RLock
from typing import TYPE_CHECKING, Any, NoReturn

from eventlog.errors import (
    BusyError,
    ClosedError,
    DamagedError,
    DataError,
    EventlogError,
    PoisonedError,
    StorageError,
)
from eventlog.log.embedded import swap
from eventlog.log.embedded.check import check_segments, check_trees
from eventlog.log.embedded.derived import DerivedBuffer
from eventlog.log.embedded.fold_worker import FoldWorker
from eventlog.log.embedded.group_commit import GroupCommit
from eventlog.log.embedded.journal import frames
from eventlog.log.embedded.journal.journal import Journal
from eventlog.log.embedded.locks import Presence, WriterLock, try_shared
from eventlog.log.embedded.lookup import Lookup
from eventlog.log.embedded.memtable import Memtable, MemtablePart
from eventlog.log.embedded.salvage.probe import require_structure
from eventlog.log.embedded.segments.environment import is_archived, is_whole
from eventlog.log.embedded.segments.fold import fold, write_address, write_derived
from eventlog.log.embedded.segments.segments import Segments
from eventlog.log.embedded.watermark import MARK_BYTES, Watermark
from eventlog.log.merkle import SALT_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from eventlog.log.embedded.journal.frames import Frame
    from eventlog.log.embedded.options import Options
    from eventlog.log.embedded.segments.layout import FoldState

__all__ = ["Partition"]

_TAIL_LIMIT = 16
"""Times `fold_bytes`."""
_GENERATIONS = 4
_SHORTEST_POLL = 1e-3
_LONGEST_POLL = 50e-3
_ROOM_POLL = 5e-3
_SALTS = 64
"""How many are asked for at a time: asking takes longer than hashing, and hands the interpreter to another thread."""


class Partition:
    """The state behind all handles of one directory."""

    def __init__(self, path: Path, options: Options) -> None:
        self.path = path
        self.options = options
        self.closed = False
        self.failure: EventlogError | None = None
        """Why the last fold, at closing, failed.  Nothing committed is lost by that."""
        self._guard = RLock()  # a signal handler may read, or fork, in the middle of anything
        self._folding = Lock()
        self._watchers: list[Any] = []
        self._txnid = -1
        self._unfinished = False
        """Whether a change of tail and cursor was begun, and has not come to its end."""
        self._changing = False
        """Whether that is going on right now."""
        self._spare_at = 0
        self.salts: list[bytes] = []
        """For the next commits; for the leader only."""
        self._housekeeper = FoldWorker(self._fold_if_due, self._prepare)
        self.tail = Memtable(max(options.fold_bytes // _GENERATIONS, 1))
        self.tail_limit = options.fold_bytes * _TAIL_LIMIT
        """Bytes that writers wait for a fold at."""
        self.position = 0
        """Position of the last event that is committed and known here."""
        self._forks_inside = self._held = False
        self.commits: GroupCommit | None = None
        """None where nothing is written."""
        self._mark: Watermark | None = None
        self._lock: WriterLock | None = None
        self._still: int | None = None
        """Keeps writers out where this process reads without a lock that they would see."""
        read_only = options.read_only
        self.journal = Journal(path / "journal", options.io, writable=not read_only, file_bytes=options.journal_bytes)
        self._presence = Presence(path, read_only=read_only)
        try:
            if self._presence.alone:
                swap.finish(path, options.io, read_only=read_only)
            if read_only or self._is_marked():
                self._mark = Watermark(path / "mark", read_only=read_only)
            if not is_whole(path / "lmdb") or (self._presence.alone and not self._closed_in_order()):
                require_structure(path / "lmdb", writing=self._presence.alone and not read_only)
            if read_only and is_archived(path / "lmdb"):
                self._keep_writers_out()
            self._segments = Segments(path / "lmdb", read_only=read_only, map_bytes=options.map_bytes)
        except BaseException:
            self._release_files()
            raise
        self.lookup = Lookup(self._guard, self.tail, self._segments, self._require_open)
        self.derived = DerivedBuffer(self._segments)
        try:
            self._presence.share()
            if read_only:
                self._recover_to_read()
            else:
                self._lock = WriterLock(path, options.busy_timeout)
                self._recover_to_write()
                self.commits = GroupCommit(self, options.queue_bytes, options.busy_timeout)
        except BaseException:
            self._release()
            raise

    # --- opening and closing

    def _keep_writers_out(self) -> None:
        with suppress(FileNotFoundError):  # a copy without it
            self._still = try_shared(self.path)
            if self._still is None:
                raise BusyError(f"{self.path} may not be written, and is being written all the same")

    def _closed_in_order(self) -> bool:
        """Whether everything was folded when the store was last closed, and nothing was done to it since."""
        if self._mark is None or not (address := self._mark.get()) or address != self._mark.closed_at():
            return False
        self.journal.seek(address, -1)
        try:
            return not self.journal.continues()
        except DamagedError:
            return False
        finally:
            self.journal.close()

    def _is_marked(self) -> bool:
        """Whether there is a mark; one that a power failure left too short to be mapped is none."""
        with suppress(FileNotFoundError):
            return (self.path / "mark").stat().st_size >= MARK_BYTES
        return False

    def _recover_to_write(self) -> None:
        """Replay the tail, to its very end, and say how far it goes."""
        try:
            self.lock.acquire()
            self.journal.remove_half_made()
            self._replay(to_the_end=True)
            if self._mark is None:
                self._mark = Watermark(self.path / "mark", read_only=False)
            self._mark.set(self.journal.address)
        finally:
            self.lock.release()

    def _recover_to_read(self) -> None:
        """Replay the tail; beyond the mark only while no writer is at work there."""
        held = None
        for _ in range(100):
            with suppress(FileNotFoundError):
                held = try_shared(self.path)
            if held is not None or self._is_marked():
                break
            time.sleep(0.01)
        try:
            self._replay(to_the_end=held is not None or not self._is_marked())
        finally:
            if held is not None:
                os.close(held)

    def _replay(self, *, to_the_end: bool) -> None:
        until = self._mark.get() if self._mark is not None else 0
        with self._guard:
            self._resync(self._segments.folded())
            self._txnid = self._segments.environment.last_txnid()
            self._read_until(until)
            if to_the_end:
                for frame in self.journal.adopt():
                    self._apply(frame)
                self.journal.verify_end()
            if self._mark is not None:
                self._mark.acknowledge(until)

    @property
    def finished(self) -> bool:
        """Whether nothing more is written here: it is closed, or a write failed."""
        return self.closed or (self.commits is not None and self.commits.refuses)

    def stands_at(self, path: Path) -> bool:
        """Whether what is open here is what lies at `path`: a directory that was deleted may have had the same number."""
        return self._presence.stands_in(path)

    def why_closed(self) -> EventlogError:
        """What to tell those who still use it."""
        poison = None if self.commits is None else self.commits.poison
        return ClosedError("the store is closed") if poison is None else poison

    def _require_open(self) -> None:
        if self.closed:
            raise self.why_closed()

    @property
    def commits_here(self) -> bool:
        """Whether the calling thread is in the middle of a commit.

        Then it cannot wait for the end of one.
        """
        return self.commits is not None and self.commits.leads

    def close(self) -> None:
        """Commit what is queued, fold, release everything; return when that is done.

        `failure` says why the fold failed.
        """
        if self.commits is not None:
            self.commits.close(self._shut)
        elif not self.closed:
            self._shut()

    def _shut(self) -> None:
        try:
            self._housekeeper.stop()
            if self.commits is not None and self.commits.poison is None:
                renewed = self._mark is not None and self._renew_journal(self._mark)
                self.fold(recycle=not renewed)
                if self._mark is not None and not self.tail.size:
                    if renewed:
                        with suppress(OSError):  # what is left is in no one's way, and goes the next time
                            self.journal.remove_before(self.journal.address)
                    self._mark.set_closed(self.journal.address)
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
            self._wake_watchers()

    def _renew_journal(self, mark: Watermark) -> bool:
        """Let the journal end in a file of no size, so that the others can go when all is folded; False if it has to stay as it is."""
        if not self.journal.takes_room():
            return False
        try:
            self.lock.acquire()
            if not self._presence.alone_again():
                return False
            self.catch_up_to_write()
            address = self.journal.renew()
            with self._guard:
                waiting = self.tail.end_at(address)
                mark.set(address)
            if not waiting:
                write_address(self._segments, address)
        except (BusyError, OSError):  # another is at work, so this is not the last; or no room, not even for that
            return False
        finally:
            self.lock.release()
        return True

    def _release(self) -> None:
        with self._guard:
            self.closed = True
            self._segments.close()
            self._release_files()

    def _release_files(self) -> None:
        self.journal.close()
        if self._mark is not None:
            self._mark.close()
        if self._lock is not None:
            self._lock.close()
        still, self._still = self._still, None
        if still is not None:
            os.close(still)
        self._presence.close()

    def hold_still(self) -> None:
        """Let nothing half done be inherited, before a fork.

        Only the thread that forks may be in the middle of something itself.
        """
        self._forks_inside = self.commits is not None and self.commits.hold_still()
        if self._forks_inside:  # a reader may wait for a lock that this thread holds
            self._held = self._guard.acquire(timeout=1.0)
        else:
            self._held = self._guard.acquire()
            self._segments.environment.hold_still()

    def move_on(self) -> None:
        """After a fork, in the parent."""
        if not self._forks_inside:
            self._segments.environment.move_on()
        if self._held:
            self._guard.release()
        if self.commits is not None:
            self.commits.move_on()

    def disown(self) -> None:
        """After a fork, in the child: close what was inherited.

        Above all the files of the writers' lock: they would keep it locked after the parent's death.  Where the child comes back into
        a commit, that has nothing any more to write to.
        """
        self.closed = True
        if self.commits is not None:
            self.commits.disown()
        if not self._forks_inside:
            self._segments.environment.disown()
        self._release_files()

    # --- keeping up with the journal

    @property
    def lock(self) -> WriterLock:
        """The writers' lock; only a partition that writes has one."""
        assert self._lock is not None
        return self._lock

    def is_behind(self) -> bool:
        """Whether others may have committed something that is not known here."""
        mark = self._mark
        return mark is not None and (mark.words[:16] != mark.last or (mark.short and mark.changed()))

    def refresh(self) -> None:
        """See what others have committed."""
        if self._mark is not None and self._mark.changed():
            with self._guard:
                if self.closed:
                    raise self.why_closed()
                if self._changing:
                    return
                before = self.position
                self._change(self._mark, self._catch_up_to_mark)
                moved = self.position != before
            if moved:
                self._wake_watchers()

    def catch_up_to_write(self) -> None:
        """See everything there is, under the writers' lock: also frames whose writer died before it said so."""
        assert self._mark is not None
        with self._guard:  # also for a look: another thread may be in the middle of catching up
            if self.closed or self._changing:
                self._refuse()
            mark = self._mark
            if mark.words[:16] != mark.last or self._unfinished or self.journal.continues():
                self._change(mark, self._catch_up_to_end)

    def publish(self, generation: MemtablePart) -> None:
        """Make a frame that was just flushed visible to all; once more if that was broken off."""
        mark = self._mark
        assert mark is not None
        with self._guard:
            if self.closed or self._changing:
                self._refuse()
            if self._unfinished:
                self._change(mark, self._catch_up_to_end)
            elif self.journal.address < generation.end:
                self._unfinished = True  # as in `_change`: what is broken off is read again from the journal
                mark.last = b""
                try:
                    self._changing = True
                    self.tail.extend(generation)
                    self.position = self.journal.position = generation.position
                    self.journal.address = generation.end
                    mark.set(generation.end)
                    self._unfinished = False
                finally:
                    self._changing = False
        if self._watchers:
            self._wake_watchers()
        if self.tail.size >= self.options.fold_bytes:
            self._housekeeper.call()
        elif generation.end > self.journal.middle != self._spare_at:
            self._spare_at = self.journal.middle
            self._housekeeper.call()

    def more_salts(self) -> None:
        """Have salts for the next commits."""
        random = self.options.io.random(SALT_BYTES * _SALTS)
        self.salts += [random[start : start + SALT_BYTES] for start in range(0, len(random), SALT_BYTES)]

    def _refuse(self) -> NoReturn:
        """Refuse what is closed, or a write while the thread itself is in the middle of reading.

        A signal handler, say, comes between like that.
        """
        if self.closed:
            raise self.why_closed()
        raise BusyError("called while the same thread reads what others have committed; nothing was written")

    def _change(self, mark: Watermark, change: Callable[[Watermark], None]) -> None:
        """Change tail and cursor.

        What fails, or is interrupted, is done again, from where LMDB ends, by the next thread to come.
        Else one error would be reported once, and from then on what it hid would look as if it had never been there.
        """
        again, self._unfinished = self._unfinished, True
        mark.forget()
        try:
            self._changing = True
            if again:
                self._txnid = self._segments.environment.last_txnid()
                self._resync(self._segments.folded())
            change(mark)
            self._unfinished = False
        finally:
            self._changing = False

    def _catch_up_to_end(self, mark: Watermark) -> None:
        self._catch_up(address := mark.get())
        before = self.journal.address
        for frame in self.journal.adopt():
            self._apply(frame)
        if self.journal.address != before:
            mark.set(self.journal.address)
        else:
            mark.acknowledge(address)

    def _catch_up_to_mark(self, mark: Watermark) -> None:
        address = mark.get()
        self._catch_up(address)
        mark.acknowledge(address)

    def _catch_up(self, until: int) -> None:
        txnid = self._segments.environment.last_txnid()
        if txnid != self._txnid:
            folded = self._segments.folded()
            if folded.address > self.journal.address:
                self._resync(folded)
            else:
                self.tail.drop(folded.address)
            self._txnid = txnid
        self._read_until(until)

    def _read_until(self, until: int) -> None:
        """Apply the journal up to an address; if the place was recycled meanwhile, go on where LMDB ends."""
        while self.journal.address < until:
            for frame in self.journal.read(until):
                self._apply(frame)
            if self.journal.address < until:
                folded = self._segments.folded()
                if folded.address <= self.journal.address:
                    address = self.journal.address
                    raise DamagedError(
                        f"the journal is damaged at byte {address & frames.OFFSET_MASK} of file"
                        f" {frames.sequence_of(address)}: what was committed there is gone",
                        position=self.journal.position + 1,
                    )
                self._resync(folded)

    def _resync(self, folded: FoldState) -> None:
        self.tail.clear()
        self.journal.seek(folded.address, folded.position)
        self.position = folded.position

    def _apply(self, frame: Frame) -> None:
        generation = MemtablePart()
        for record in frame.records:
            session = record.session
            head = generation.heads.get(session) or self.tail.head(session) or self._segments.head(session)
            generation.replay(record, head)
        generation.end, generation.size, generation.position = frame.end, frame.size, frame.position
        self.tail.extend(generation)
        self.position = frame.position

    # --- waiting

    def wait_after(self, position: int, timeout: float) -> bool:
        """Block until an event beyond `position` is committed, here or in another process."""
        deadline = time.monotonic() + timeout
        pause = _SHORTEST_POLL
        while True:
            watcher = Lock()
            watcher.acquire()
            self._watchers.append(watcher)
            if self.closed:
                raise self.why_closed()
            self.refresh()
            if self.position > position:
                return True
            left = deadline - time.monotonic()
            if left <= 0:
                with suppress(ValueError):
                    self._watchers.remove(watcher)
                return False
            if not watcher.acquire(timeout=min(pause, left)):
                with suppress(ValueError):
                    self._watchers.remove(watcher)
            pause = min(pause * 1.5, _LONGEST_POLL)

    def _wake_watchers(self) -> None:
        watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            watcher.release()

    # --- folding

    def fold(self, *, recycle: bool = True) -> None:
        """Move everything committed so far into LMDB, and set journal files free, to be used again."""
        with self._folding:
            with self._guard:
                generations = list(self.tail.freeze())
            derived = self.derived.drain()
            folded = None
            try:
                if generations:
                    folded = fold(self._segments, generations, derived, self.options.io)
                elif derived:
                    write_derived(self._segments, derived)
            except BaseException:
                self.derived.put_back()
                raise
            self.derived.drained()
            if folded is not None:
                with self._guard:
                    self.tail.drop(folded.address)
                if recycle:
                    self.journal.recycle(folded.address)

    def call_housekeeper_if_full(self) -> None:
        """Have derived values written when there are many."""
        if self.derived.full:
            self._housekeeper.call()

    def wait_for_room(self) -> None:
        """Wait while far more is unfolded than folding should leave; `BusyError` after the timeout, or why it cannot be."""
        deadline = time.monotonic() + self.options.busy_timeout
        while self.tail.size >= self.tail_limit:
            self._housekeeper.call()
            reason = self._housekeeper.error or "LMDB is slow"
            if isinstance(reason, (DataError, StorageError)):  # to wait does not help
                raise reason
            if time.monotonic() > deadline:
                raise BusyError(f"{self.tail.size} bytes wait to be folded: {reason}")
            time.sleep(_ROOM_POLL)

    def _fold_if_due(self) -> None:
        if self.finished:
            return  # the journal has it all, and nothing is written until it is opened again
        if self.tail.size >= self.options.fold_bytes or self.derived.full:
            self.fold()

    def _prepare(self) -> None:
        if self.journal.address > self.journal.middle:
            self.journal.make_spare()

    def check(self) -> list[str]:
        """Read everything, folded or not; a line for each thing that is wrong."""
        wrong = check_segments(self._segments)
        cursor = Journal(self.path / "journal", self.options.io, writable=False, file_bytes=0)
        until = (0 if self._mark is None else self._mark.get()) or self.journal.address
        try:
            while True:
                folded = self._segments.folded()
                cursor.seek(folded.address, folded.position)
                for _ in cursor.read(until):
                    pass
                if cursor.address >= until:
                    break
                if self._segments.folded().address <= cursor.address:  # else the files were recycled meanwhile
                    wrong.append(f"the journal is damaged behind position {cursor.position}")
                    break
        except DamagedError as error:
            wrong.append(str(error))
        finally:
            cursor.close()
        with self._guard:
            heads = list(self.tail.heads().values())
        return wrong + check_trees(self.lookup, heads)
