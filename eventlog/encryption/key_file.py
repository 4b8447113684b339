"""Key provider in a local file of the store's owner, beside the store and never in it.

    eventlog keys 1
    NAME KEY CHECK      one key a line: 32, 64 and 8 hexadecimal digits, CHECK a CRC-32

A new key is appended as one line, and on disk before anything is encrypted with it.  So a torn last
line was never used, and the next writer removes it.

To destroy a key, a writer writes the file anew without its line (`.new`), moves it into the place
of the old one in one step, syncs it, and overwrites the old file, as far as the file system writes
in place. Until then the old file has a name (`.destroyed`), so that the next program can finish
after a crash. Writers of all processes take turns (flock).

A file that other users may read, or that has a second name, is refused. Copies of the file hold the
keys that it had: its owner must look after them.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import RLock

from eventlog import os_fork
from eventlog.encryption.key_lines import (
    EMPTY,
    HEADER,
    LINE_BYTES,
    TITLE,
    has_header,
    line_of,
    lines_without,
    parse_keys,
    unbroken_size,
)
from eventlog.encryption.keys import KEY_BYTES
from eventlog.errors import DamagedError, KeysError, StorageError
from eventlog.log.embedded.filesystem import data_end, make_directory, sync_directory

_SIZE = 3
"""Index of the size in what `_file_state` returns."""
_LONGEST_HOLE = 1 << 20
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.ENOSYS}
"""Errors of file systems that have no hard links."""


class KeyFile:
    """Keys in one file, which is made with the first key."""

    def __init__(self, path: Path) -> None:
        self.path: Path = Path(os.path.realpath(path))  # so that the file is replaced, not a symbolic link to it
        self._new_file = self.path.with_name(self.path.name + ".new")
        self._old_file = self.path.with_name(self.path.name + ".destroyed")
        self._lock = RLock()
        self._content = EMPTY
        self._seen: tuple[int, ...] = ()
        self._written: tuple[int, ...] = ()
        """State of the file after the last line that this program wrote."""
        os_fork.register(self)

    def __repr__(self) -> str:
        return f"<KeyFile {self.path}>"

    def fork_off(self) -> None:
        """Renew the lock in a child process."""
        self._lock = RLock()

    def find(self, name: str) -> bytes | None:
        """See `Keys.find`; `KeysError` without a file, or if a damaged line may hold the key.

        That is no `DamagedError`, which would say that the session is damaged whose key is asked
        for.
        """
        with self._lock, _storage_errors(self.path):
            while not self._refresh():
                pass  # another writer has replaced the file
            self._recover()
            key = self._content.keys.get(name)
            if key is None and self._content.damaged:
                raise KeysError(f"key file {self.path}: line {self._content.damaged[0]} cannot be read")
            return key

    def _refresh(self) -> bool:
        """Load the file if it has changed; False if another file took its place meanwhile."""
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            raise KeysError(f"there is no key file {self.path}") from None
        try:
            if _file_state(self.path, fd) == self._seen:
                return True
            fcntl.flock(fd, fcntl.LOCK_SH)  # waits while the file is overwritten
            if not _is_at(fd, self.path):
                return False
            self._load(fd)
        finally:
            _unlock_and_close(fd)
        return True

    def _load(self, fd: int) -> None:
        """Load the file if it has changed; the caller holds its lock, so no writer is at work."""
        seen = _file_state(self.path, fd)
        if seen == self._seen:
            return
        _require_names(self.path, fd, 1 + _is_at(fd, self._old_file))
        self._content = parse_keys(self.path, _read(self.path, fd))
        self._seen = seen

    def _recover(self) -> None:
        """Finish what a writer left that died, if this program may write there."""
        with suppress(OSError):
            if self._new_file.exists() or self._old_file.exists():
                with self._locked_file():
                    pass

    def make(self, name: str) -> bytes:
        """See `Keys`."""
        key = secrets.token_bytes(KEY_BYTES)
        with self._lock, _storage_errors(self.path), self._locked_file() as fd:
            if _file_state(self.path, fd) != self._written:
                os.fsync(fd)  # a line that a dead writer did not sync may be torn, and must be the last one
            whole = _repair_end(self.path, fd)
            os.lseek(fd, whole, os.SEEK_SET)
            try:
                _write(self.path, fd, (b"" if whole else HEADER) + line_of(name, key))
            except BaseException:
                os.ftruncate(fd, whole)
                raise
            self._written = _file_state(self.path, fd)
        return key

    def destroy(self, name: str) -> None:
        """See `Keys.destroy`; `DamagedError` if a damaged line may hold the key.

        A damaged line that begins with the name is removed too.
        """
        with self._lock, _storage_errors(self.path):
            if not self.path.exists():
                return
            with self._locked_file() as fd:
                self._load(fd)
                if name not in self._content.keys and self._content.ends and not self._content.damaged:
                    return
                data = _read(self.path, fd)
                kept = lines_without(self.path, data, name)
                if len(kept) < len(data):
                    self._replace(fd, kept)
                elif self._content.damaged:
                    raise DamagedError(
                        f"key file {self.path}: line {self._content.damaged[0]} cannot be read, and may have the key to destroy"
                    )

    def _replace(self, fd: int, kept: bytes) -> None:
        """Replace the locked file by one with these bytes, and overwrite the old one."""
        fresh = os.open(self._new_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fresh, fcntl.LOCK_EX)  # a program that finds it in its place waits until the old one is gone
            _write(self.path, fresh, kept)
            try:
                os.link(self.path, self._old_file)
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
            self._new_file.replace(self.path)
            self._content, self._seen = EMPTY, ()
            sync_directory(self.path.parent)
            _overwrite(fd)
            self._old_file.unlink(missing_ok=True)
        finally:
            _unlock_and_close(fresh)

    @contextmanager
    def _locked_file(self) -> Generator[int]:
        """Lock the file for writing; it is made if it is absent."""
        while True:
            if not self.path.parent.exists():
                make_directory(self.path.parent)
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX)
                if not _file_state(self.path, fd)[_SIZE]:  # its name must be on disk before its content
                    sync_directory(self.path.parent)
                if not _is_at(fd, self.path):
                    continue  # another writer has replaced the file
                self._remove_leftovers()
                _require_names(self.path, fd, 1)
                try:
                    yield fd
                except BaseException:
                    self._remove_leftovers()
                    raise
            finally:
                _unlock_and_close(fd)
            return

    def _remove_leftovers(self) -> None:
        """Overwrite and remove what a writer left that died: a new file, an old one, or both.

        Both may hold keys that are to be destroyed.

        The old one that is still in its place only loses its second name; else it must not come
        back to its place, empty.
        """
        for path in (self._new_file, self._old_file):
            with suppress(FileNotFoundError), path.open("r+b") as left:
                if not _is_at(left.fileno(), self.path):
                    sync_directory(self.path.parent)
                    _overwrite(left.fileno())
                path.unlink()


def _unlock_and_close(fd: int) -> None:
    """Unlock and close a file.

    Closing alone would leave the lock to a child that another thread has forked meanwhile.
    """
    try:
        fcntl.flock(fd, fcntl.LOCK_UN)
    finally:
        os.close(fd)


def _overwrite(fd: int) -> None:
    left = os.fstat(fd).st_size
    os.lseek(fd, 0, os.SEEK_SET)
    while left > 0:  # the system may write less than asked
        left -= os.write(fd, bytes(left))
    os.fsync(fd)


def _write(path: Path, fd: int, data: bytes) -> None:
    if os.write(fd, data) != len(data):
        raise StorageError(f"{path} cannot be written: there is no room")
    os.fsync(fd)


@contextmanager
def _storage_errors(path: Path) -> Generator[None]:
    """Raise `StorageError` for an error of the operating system."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"key file {path}: {error.strerror or error}") from error


def _file_state(path: Path, fd: int) -> tuple[int, ...]:
    """Return what identifies this state of the file.

    `KeysError` if it is no file, or others may read it.
    """
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        raise KeysError(f"{path} is not a file")
    if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise KeysError(f"other users may read {path}: allow its owner only (chmod 600)")
    return status.st_dev, status.st_ino, status.st_nlink, status.st_size, status.st_mtime_ns


def _require_names(path: Path, fd: int, names: int) -> None:
    """Raise `KeysError` if the file has more names than it should."""
    if os.fstat(fd).st_nlink > names:
        raise KeysError(f"{path} has a second name (a hard link), under which keys that are destroyed would stay")


def _is_at(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False


def _read(path: Path, fd: int) -> bytes:
    """Read the whole file; `KeysError` if it ends in a hole that no torn line leaves.

    Such a hole may be longer than memory.
    """
    size = os.fstat(fd).st_size
    if size - data_end(fd) > _LONGEST_HOLE:
        raise KeysError(f"{path} has {size} bytes, and ends in a hole: put a copy of the key file in its place")
    chunks: list[bytes] = []
    at = 0
    while chunk := os.pread(fd, 1 << 20, at):
        chunks.append(chunk)
        at += len(chunk)
    return b"".join(chunks)


def _repair_end(path: Path, fd: int) -> int:
    """Remove a torn last line, or restore its line feed; return the file's size then.

    Looks at the two ends of the file only.
    """
    size = os.fstat(fd).st_size
    whole = 0
    ends = True
    if has_header(path, os.pread(fd, len(HEADER), 0)):
        begin = max(size - 2 * LINE_BYTES, 0)
        found = os.pread(fd, size - begin, begin)
        if b"\n" not in found:
            raise DamagedError(f"key file {path}: the last line cannot be read")
        found = found[: unbroken_size(found)]
        whole, ends = begin + len(found), found.endswith(b"\n")
    if whole < size or not ends:  # synced alone, so that the next line cannot be torn from it
        os.ftruncate(fd, whole)
        whole += 0 if ends else os.pwrite(fd, b"\n", whole)
        os.fsync(fd)
    return whole


def is_key_file(path: Path) -> bool:
    """Whether there is a file with keys at a path; False if that cannot be known."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return file.read(len(TITLE)) == TITLE
    except OSError:
        return False
