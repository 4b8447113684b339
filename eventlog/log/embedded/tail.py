"""The tail of a log: the journal beyond LMDB, and how this process keeps up with it.

At any moment the log is what is folded (LMDB), and behind it the journal, which is also in memory
(`memtable.py`). Recovery replays the journal once, when the store is opened; from then on a look at
the mark (`watermark.py`) tells whether others have appended.

An interrupt may come anywhere, and a signal handler may read while its own thread is catching up.
So each change of memtable and cursor says first that it begins. What was broken off is read again,
from where LMDB ends, by the next to come; a handler sees what was there before.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from threading import RLock
from typing import TYPE_CHECKING, NoReturn

from eventlog.errors import BusyError, ClosedError, DamagedError, EventlogError
from eventlog.log.embedded.journal import frames
from eventlog.log.embedded.locks import WriterLock, try_shared
from eventlog.log.embedded.lookup import Lookup
from eventlog.log.embedded.memtable import Memtable, MemtablePart
from eventlog.log.embedded.watermark import Watermark, marked_generation
from eventlog.log.merkle import SALT_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from eventlog.log.embedded.journal.frames import Frame
    from eventlog.log.embedded.journal.journal import Journal
    from eventlog.log.embedded.options import Options
    from eventlog.log.embedded.segments.layout import FoldState
    from eventlog.log.embedded.segments.segments import Segments

_LIMIT = 16
"""Times `fold_bytes`."""
_PARTS = 4
_SALTS = 64
"""How many are drawn at a time: drawing hands the interpreter to another thread."""


class Tail:
    """Journal, memtable and mark of one store directory; `grown` is called to fold."""

    def __init__(
        self,
        journal: Journal,
        segments: Segments,
        mark: Watermark | None,
        options: Options,
        grown: Callable[[], object],
    ) -> None:
        self.journal: Journal = journal
        self.segments: Segments = segments
        self.mark = mark
        """None until a writer has recovered."""
        self.memtable: Memtable = Memtable(max(options.fold_bytes // _PARTS, 1))
        self.limit: int = options.fold_bytes * _LIMIT
        """Bytes that writers wait for a fold at."""
        self.position: int = 0
        """Position of the last event that is committed and known here."""
        self.salts: list[bytes] = []
        """Random bytes for the leaves of the next commits; for the leader only."""
        self.closed: bool = False
        self.poison: EventlogError | None = None
        """Why nothing more is written."""
        self.guard: RLock = RLock()  # a signal handler may read, or fork, in the middle of anything
        self.lookup: Lookup = Lookup(self.guard, self.memtable, segments, self.require_open)
        self._options = options
        self._grown = grown
        self.is_left: Callable[[], bool] = lambda: False
        """Whether another generation is in force than the one that is open."""
        self.open_next: Callable[[], tuple[Journal, Segments]]
        """Opens the files of the generation in force."""
        self._spare_at = 0
        self._txnid = -1
        self._unfinished = False
        """Whether a change of memtable and cursor was begun, and has not come to its end."""
        self._changing = False
        """Whether one is going on right now."""
        self.moved: Callable[[], object] = lambda: None
        """Called when commits have become visible."""

    # --- recovery

    def recover_to_write(self, lock: WriterLock, mark: Path) -> None:
        """Replay the journal to its very end, and publish how far it goes."""
        try:
            lock.acquire()
            while self._is_left_to_open(lock):
                self._move()
                lock.acquire()
            self.journal.remove_half_made()
            self._replay(to_the_end=True)
            if self.mark is None:
                self.mark = Watermark(mark, self.segments.generation.number, read_only=False)
            self.mark.set(self.journal.address)
        finally:
            lock.release()

    def recover_to_read(self, directory: Path, generation: int) -> None:
        """Replay the journal; beyond the mark only while no writer is at work there."""
        held = None
        for _ in range(100):
            with suppress(FileNotFoundError):
                held = try_shared(directory)
            if held is not None or marked_generation(directory) == generation:
                break
            time.sleep(0.01)
        try:
            self._replay(to_the_end=held is not None or marked_generation(directory) != generation)
        finally:
            if held is not None:
                os.close(held)

    def _replay(self, *, to_the_end: bool) -> None:
        until = self.mark.get() if self.mark is not None else 0
        with self.guard:
            self._restart(self.segments.folded())
            self._txnid = self.segments.environment.last_txnid()
            self._read_until(until)
            if to_the_end or (self.mark is not None and self.mark.elsewhere):  # no writer appends meanwhile
                for frame in self.journal.adopt():
                    self._apply(frame)
                self.journal.verify_end()
            if self.mark is not None:
                self.mark.acknowledge(until)

    # --- keeping up with the journal

    def is_behind(self) -> bool:
        """Return whether others may have committed something that is not known here."""
        mark = self.mark
        return mark is not None and (mark.words[:16] != mark.last or (mark.short and mark.changed()))

    def refresh(self) -> None:
        """Read what others have committed, up to the mark."""
        if self.mark is not None and self.mark.changed():
            with self.guard:
                self.require_open()
                if self._changing:
                    return
                before = self.position
                self._change(self.mark, to_the_end=False)
                moved = self.position != before
            if moved:
                self.moved()

    def lock_to_write(self, lock: WriterLock, deadline: float = 0.0) -> None:
        """Take the writers' lock, and read the journal to its very end; `release` must follow.

        The files of another generation are opened without the lock: that needs LMDB's, which a
        rewriting of that one may have, while it waits for the writers'.
        """
        mark = self.mark
        assert mark is not None
        while True:
            lock.acquire(deadline)
            with self.guard:  # also for a look: another thread may be in the middle of catching up
                if self.closed or self._changing:
                    self.refuse()
                if mark.words[:16] == mark.last and not self._unfinished and not self.journal.continues():
                    return
                if not (mark.elsewhere and self._is_left_to_open(lock)):
                    self._change(mark, to_the_end=True)
                    return
                self._change(mark, to_the_end=False)

    def _is_left_to_open(self, lock: WriterLock) -> bool:
        """Return whether another generation is in force, and if so, release the lock."""
        left = self.is_left()
        if left:
            lock.release()
        return left

    def catch_up(self) -> None:
        """Go over to the generation that was just made, under the writers' lock."""
        assert self.mark is not None
        with self.guard:
            self._change(self.mark, to_the_end=True)

    def publish(self, part: MemtablePart) -> None:
        """Make a frame that was just flushed visible to all; once more if that was broken off."""
        mark = self.mark
        assert mark is not None
        with self.guard:
            if self.closed or self._changing:
                self.refuse()
            if self._unfinished:
                self._change(mark, to_the_end=True)
            elif self.journal.address < part.end:
                self._unfinished = True  # as in `_change`: what is broken off is read again from the journal
                mark.last = b""
                try:
                    self._changing = True
                    self.memtable.extend(part)
                    self.position = self.journal.position = part.position
                    self.journal.address = part.end
                    mark.set(part.end)
                    self._unfinished = False
                finally:
                    self._changing = False
        self.moved()
        if self.memtable.size >= self._options.fold_bytes or part.end > self.journal.middle != self._spare_at:
            self._spare_at = self.journal.middle
            self._grown()

    def end_at(self, address: int) -> bool:
        """Let the tail end at an address; return whether a fold is needed to say so in LMDB."""
        with self.guard:
            waiting = self.memtable.end_at(address)
            if self.mark is not None:
                self.mark.set(address)
            return waiting

    def more_salts(self) -> None:
        """Draw random bytes for the leaves of the next commits."""
        random = self._options.io.random(SALT_BYTES * _SALTS)
        self.salts += [random[start : start + SALT_BYTES] for start in range(0, len(random), SALT_BYTES)]

    def why_closed(self) -> EventlogError:
        """Return why nothing is written or read any more."""
        return self.poison or ClosedError("the store is closed")

    def require_open(self) -> None:
        """Raise why the store is closed, if it is."""
        if self.closed:
            raise self.why_closed()

    def close(self) -> None:
        """Close LMDB and the mark; the journal is closed with the other files."""
        with self.guard:
            self.closed = True
            self.segments.close()
            if self.mark is not None:
                self.mark.close()

    def refuse(self) -> NoReturn:
        """Refuse a write: the log is closed or poisoned, or the thread itself is reading it."""
        if self.closed or self.poison is not None:
            raise self.why_closed()
        raise BusyError("called while the same thread reads what others have committed; nothing was written")

    def _change(self, mark: Watermark, *, to_the_end: bool) -> None:
        """Read the journal up to the mark, or, under the writers' lock, to its very end.

        What fails, or is interrupted, is done again, from where LMDB ends, by the next thread to
        come. Else one error would be reported once, and from then on what it hid would look as if
        it had never been there.
        """
        again, self._unfinished = self._unfinished, True
        mark.forget()
        try:
            self._changing = True
            if again:
                self._txnid = self.segments.environment.last_txnid()
                self._restart(self.segments.folded())
            while mark.elsewhere and self._move():
                pass
            address = mark.get()
            switching = not address and mark.elsewhere  # no writer appends, or not here any more
            self._catch_up(address)
            before = self.journal.address
            for frame in self.journal.adopt() if to_the_end or switching else ():
                self._apply(frame)
            if to_the_end and (switching or self.journal.address != before):
                mark.set(self.journal.address)
            else:
                mark.acknowledge(address)
            self._unfinished = False
        finally:
            self._changing = False

    def _move(self) -> bool:
        """Open the generation in force in place of an earlier one; return whether it is another.

        A thread that still reads the earlier one has it: the last reference closes its files.
        """
        left = self.is_left()
        if left:
            journal, segments = self.open_next()
            self.journal.close()
            self.journal, self.segments = journal, segments
            self.lookup.segments = segments
            self._restart(segments.folded())
            self._txnid = segments.environment.last_txnid()
        if self.mark is not None:
            self.mark.follow(self.segments.generation.number)
        return left

    def _catch_up(self, until: int) -> None:
        txnid = self.segments.environment.last_txnid()
        if txnid != self._txnid:
            folded = self.segments.folded()
            if folded.address > self.journal.address:
                self._restart(folded)
            else:
                self.memtable.drop(folded.address)
            self._txnid = txnid
        self._read_until(until)

    def _read_until(self, until: int) -> None:
        """Apply the journal up to an address, from where LMDB ends if the files were recycled."""
        while self.journal.address < until:
            for frame in self.journal.read(until):
                self._apply(frame)
            if self.journal.address < until:
                folded = self.segments.folded()
                if folded.address <= self.journal.address:
                    address = self.journal.address
                    raise DamagedError(
                        f"the journal is damaged at byte {address & frames.OFFSET_MASK} of file"
                        f" {frames.sequence_of(address)}: what was committed there is gone",
                        position=self.journal.position + 1,
                    )
                self._restart(folded)

    def _restart(self, folded: FoldState) -> None:
        """Forget the tail, and begin to read where LMDB ends."""
        self.memtable.clear()
        self.journal.seek(folded.address, folded.position)
        self.position = folded.position

    def _apply(self, frame: Frame) -> None:
        part = MemtablePart()
        for record in frame.records:
            session = record.session
            part.replay(record, part.heads.get(session) or self.memtable.head(session) or self.segments.head(session))
        part.end, part.size, part.position = frame.end, frame.size, frame.position
        self.memtable.extend(part)
        self.position = frame.position
