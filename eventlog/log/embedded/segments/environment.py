"""One LMDB environment, its trees, and short transactions, with LMDB's traps closed.

* The library version is pinned (`LIB_VERSION`): LMDB 1.0 cannot read what 0.9 wrote, nor the other
  way round.
* Default sync mode, no writable map: a committed transaction is on disk, and a stray pointer cannot
  write to it.
* The map is reserved once, large. A full map grows between transactions and the same job runs
  again; a map that another process has grown is adopted. Both need the map without any transaction
  in this process: readers acquire `_gate` to begin, and the thread that resizes holds it until the
  last one has ended. Locks are not fair, so readers that come while a thread wants the gate for
  itself wait at `_turn`: they might keep it waiting for good.
* Readers that died are cleared when the environment opens, and before each write.
* An environment must not be used by a child process, nor closed there while it has a transaction:
  `end_writing` and `hold_still` before a fork, `disown` in the child.
* `put(append=True)` returns False, and does nothing, when the key is not the last; `put_last`
  raises.

LMDB maps its data file, and a process that reads a page beyond the file's end is killed by the
system; a file that is empty or missing is made anew by LMDB. So `pages.is_whole` looks at the file
before LMDB opens it.
"""

from __future__ import annotations

import errno
import os
import struct
import time
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

import lmdb

from eventlog.errors import (
    BusyError,
    ClosedError,
    DamagedError,
    EventlogError,
    PoisonedError,
    StorageError,
    UnsupportedStorageError,
)
from eventlog.log.embedded.filesystem import DENIED, NO_ROOM, allocate, is_full, is_read_only

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from pathlib import Path
    from typing import Any

LIB_VERSION = 0
"""LMDB 0.9, data format 1."""
MAX_READERS = 254
"""Transactions of all processes that may read at once.

They make a lock file of 16 KiB.  No transaction outlives a call, and a reader without a slot waits.
"""
_PATIENCE = 5.0
"""Seconds to wait for a free reader slot."""
_SMALLEST_MAP = 1 << 20
_LOCK_BYTES = (MAX_READERS + 2) * 64
"""A cache line for each reader, and two for the rest."""
_DAMAGE = (
    lmdb.NotFoundError,
    lmdb.CorruptedError,
    lmdb.PageNotFoundError,
    lmdb.PageFullError,
    lmdb.InvalidError,
    lmdb.VersionMismatchError,
    lmdb.IncompatibleError,
    lmdb.CursorFullError,
    lmdb.BadTxnError,  # after one of the others in the same transaction
)
"""LMDB's errors for pages that do not hold together; no other fault raises them here."""
REMEDY = "repair the store into a new one, or restore a backup"
"""Advice for a file that cannot be used."""
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
_NO_FILE = frozenset({errno.ENOENT, errno.EISDIR, errno.ENOTDIR, errno.EBADF, errno.EINVAL})

R = TypeVar("R")


def nobody_writes(path: Path) -> bool:
    """Return whether no program can write the files: then they are read without a lock file.

    That is so on a file system that is read-only for all programs, and where the write permission
    was removed for all users.
    """
    return is_read_only(path) or is_archived(path)


def is_archived(path: Path) -> bool:
    """Return whether the write permission of the files was removed for all users.

    A program of root's could write them nevertheless.
    """
    data = path / "data.mdb"
    return data.exists() and not data.stat().st_mode & 0o222 and not os.access(data, os.W_OK)


class Environment:
    """One LMDB environment of this process."""

    def __init__(self, path: Path, trees: Sequence[str], *, read_only: bool, map_bytes: int) -> None:
        self._path = path
        self._gate = Lock()
        self._turn = Lock()
        self._wanted = False
        self._writing = Lock()
        self._readers: set[object] = set()
        self._closed = False
        lock = not (read_only and nobody_writes(path))
        if lock and not read_only:
            self._reserve_lock()
        if lock and read_only and os.statvfs(path).f_flag & os.ST_RDONLY:  # LMDB would read without its lock file
            raise self._unlockable(errno.EROFS)
        try:
            self._env = self._open(read_only=read_only, lock=lock, map_bytes=map_bytes, trees=len(trees))
        except lmdb.Error as error:
            raise self._refusal(error) from _cause(error)
        try:
            if lock and not read_only:
                self._env.reader_check()
            self.trees: dict[str, Any] = self._open_trees(trees, read_only=read_only)
        except lmdb.Error as error:
            self._env.close()
            raise self._refusal(error) from _cause(error)
        self.page_bytes: int = self._env.stat()["psize"]

    def _reserve_lock(self) -> None:
        """Allocate all of the lock file, which LMDB maps, before LMDB opens it.

        Closing it later would release LMDB's locks.
        """
        path = self._path / "lock.mdb"
        try:
            if not path.exists() or path.stat().st_blocks * 512 < _LOCK_BYTES:
                fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                try:
                    allocate(fd, _LOCK_BYTES)
                finally:
                    os.close(fd)
        except OSError as error:
            if error.errno in NO_ROOM:
                raise BusyError(f"no room to open {self._path}: {error.strerror}") from error
            # LMDB reports any other error itself

    def _open(self, *, read_only: bool, lock: bool, map_bytes: int, trees: int) -> lmdb.Environment:
        size = map_bytes
        while True:
            try:
                return lmdb.open(
                    os.fsencode(self._path),
                    map_size=size,
                    max_dbs=trees,
                    max_readers=MAX_READERS,
                    mode=0o600,
                    readonly=read_only,
                    create=not read_only,
                    lock=lock,
                    lib_version=LIB_VERSION,
                )
            except (lmdb.MemoryError, lmdb.Error) as error:
                if getattr(error, "code", 0) != errno.ENOMEM or size <= _SMALLEST_MAP:
                    raise
                size //= 2  # address space is limited here; the map grows when it is full

    def _open_trees(self, names: Sequence[str], *, read_only: bool) -> dict[str, Any]:
        """Open the trees, adopting a map that another process has grown."""
        while True:
            try:
                if read_only:
                    return {name: self._env.open_db(name.encode(), create=False) for name in names}
                with self._env.begin(write=True) as txn:
                    new = not self._env.stat()["entries"]  # a tree that is missing later is damage, not a new tree
                    return {name: self._env.open_db(name.encode(), txn=txn, create=new) for name in names}
            except lmdb.MapResizedError:
                self._resize(0)

    @contextmanager
    def reading(self) -> Generator[lmdb.Transaction[memoryview], None, None]:
        """Open a snapshot.  Its values are valid until it ends: copy them."""
        token = object()
        try:
            try:
                if self._wanted:
                    with self._turn:
                        pass
                with self._gate:
                    txn = self._begin()
                    self._readers.add(token)
                with txn:
                    yield txn
            finally:
                self._readers.discard(token)
        except lmdb.Error as error:
            raise self._translate(error) from error
        except (struct.error, UnicodeDecodeError) as error:
            raise DamagedError(f"the folded part has a key of another shape: {error}; {REMEDY}") from error

    def _begin(self) -> lmdb.Transaction[memoryview]:
        """Begin to read, adopting a map that another process has grown.  `_gate` is held."""
        deadline = 0.0
        while True:
            try:
                return self._env.begin(buffers=True)
            except lmdb.MapResizedError:
                self._resize(0)
            except lmdb.ReadersFullError:
                now = time.monotonic()
                deadline = deadline or now + _PATIENCE
                if now > deadline:
                    raise
                self._env.reader_check()
                time.sleep(1e-3)

    def writing(self, job: Callable[[lmdb.Transaction[bytes]], R]) -> R:
        """Run a job in one synced write transaction, repeated if the map must grow."""
        try:
            with self._writing:
                self._env.reader_check()
                while True:
                    try:
                        with self._begin_to_write() as txn:
                            return job(txn)
                    except lmdb.MapFullError:
                        with self._undisturbed():
                            self._resize(2 * self._env.info()["map_size"])
        except lmdb.Error as error:
            raise self._translate(error) from error

    def _begin_to_write(self) -> lmdb.Transaction[bytes]:
        """Begin to write, adopting a map that another process has grown."""
        while True:
            try:
                return self._env.begin(write=True)
            except lmdb.MapResizedError:
                with self._undisturbed():
                    self._resize(0)

    @contextmanager
    def holding(self) -> Generator[None, None, None]:
        """Keep every process from writing."""
        try:
            with self._writing:
                txn = self._begin_to_write()
                try:
                    yield
                finally:
                    txn.abort()
        except lmdb.Error as error:
            raise self._translate(error) from error

    def last_txnid(self) -> int:
        """Return the number of the newest transaction, which changes with every fold."""
        return self._env.info()["last_txnid"]

    def map_bytes(self) -> int:
        """Return the size of the map."""
        return self._env.info()["map_size"]

    def close(self) -> None:
        """Release everything, after the last reader."""
        with self._undisturbed():
            self._closed = True
            self._env.close()

    def end_writing(self) -> None:
        """Let no thread write until `move_on` or `disown`; then `hold_still` may follow.

        The writer that is at work comes to its end, for which it may need other locks.
        """
        self._writing.acquire()

    def hold_still(self) -> None:
        """Allow no transaction until `move_on` or `disown`, for a fork of the process."""
        self._turn.acquire()
        self._wanted = True
        self._gate.acquire()
        self._drain()

    def move_on(self) -> None:
        """Undo `end_writing` and `hold_still`, in the parent."""
        self._gate.release()
        self._wanted = False
        self._turn.release()
        self._writing.release()

    def disown(self) -> None:
        """Close what a child inherited by fork; the parent's goes on."""
        self._closed = True
        self._env.close()

    @contextmanager
    def _undisturbed(self) -> Generator[None, None, None]:
        """Keep every thread from reading."""
        with self._turn:
            self._wanted = True
            try:
                with self._gate:
                    self._drain()
                    yield
            finally:
                self._wanted = False

    def _resize(self, size: int) -> None:
        """Set the size of the map, 0 for the size that it has by now; `_gate` is held."""
        self._drain()
        self._env.set_mapsize(size)

    def _drain(self) -> None:
        while self._readers:
            time.sleep(1e-4)

    def _refusal(self, error: lmdb.Error) -> EventlogError:
        """Translate an error of opening: nothing was written, so the log is not poisoned."""
        code = getattr(error, "code", 0)
        if code in DENIED and not os.access(self._path / "lock.mdb", os.W_OK):
            return self._unlockable(code)
        translated = self._translate(error)
        if not isinstance(translated, PoisonedError):
            return translated
        if code in _NO_FILE or isinstance(error, lmdb.InvalidParameterError):
            return DamagedError(f"the folded part is damaged: {error}; {REMEDY}")
        return StorageError(f"the folded part cannot be opened: {error}")

    def _unlockable(self, code: int) -> StorageError:
        """Return the error for a lock file that a reader may not write.

        Others may write what this program reads, and it cannot tell them which pages it needs.
        """
        return StorageError(
            f"{self._path} cannot be opened: {os.strerror(code)}: a reader writes into lock.mdb which pages it reads, and this user may not;"
            " let it (group and mode of the directory), read a backup of your own, or take the right to write"
            " from every user (chmod -R a-w)"
        )

    def _translate(self, error: lmdb.Error) -> EventlogError:
        if self._closed:
            return ClosedError("the store is closed")
        code = getattr(error, "code", 0)
        if isinstance(error, _DAMAGE):
            return DamagedError(f"the folded part is damaged: {error}; {REMEDY}")
        if isinstance(error, lmdb.ReadersFullError):
            return BusyError(f"too many readers at once: {error}")
        if isinstance(error, lmdb.LockError):
            return UnsupportedStorageError(f"{self._path} cannot be locked: {error}")
        no_room = code in NO_ROOM or isinstance(error, lmdb.DiskError)
        if no_room or (code == errno.EIO and is_full(self._path)):
            return BusyError("no room to fold: the disk is full")
        if code in _EXHAUSTED or isinstance(error, lmdb.MemoryError):
            return BusyError(f"the folded part cannot be used now: {error}")
        if code in DENIED or isinstance(error, lmdb.ReadonlyError):
            return StorageError(f"the folded part may not be used: {error}")
        return PoisonedError(f"LMDB failed: {error}")


def _cause(error: lmdb.Error) -> Exception:
    """Return the system's error behind an LMDB error, or the LMDB error itself."""
    code = getattr(error, "code", 0)
    return OSError(code, os.strerror(code)) if code > 0 else error


def put_last(txn: lmdb.Transaction[bytes], tree: Any, key: bytes, value: bytes | memoryview) -> None:
    """Append a value; `DamagedError` if there is a later key already."""
    if not txn.put(key, value, append=True, db=tree):
        raise DamagedError(f"the folded part has a key beyond {key.hex()} where that should be the last")
