"""Keys in a local file of the owner's, beside the store and never in it.

    eventlog keys 1
    NAME KEY CHECK      one line a key: 32 and 64 hexadecimal digits, and the CRC-32 of `NAME KEY`, 8 digits

A new key is one line at the end, on disk before anything is encrypted with it; so a last line that broke off, or whose first sector
never arrived, was never used, and is taken away by whoever writes next.  To destroy a key the file is written anew without its line
(`.new`), takes the place of the old one in one step, and, once that is on disk, the old one is overwritten, as far as the file system
writes in place; until that is done it has a name (`.destroyed`), so that whoever comes after a crash goes on with it.  Writers of all processes take turns (flock).
A file that others may read, or that has a second name, is refused.  Copies of the file hold the keys that it had: they are the
owner's to look after.
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
from typing import NamedTuple
from zlib import crc32

from eventlog import os_fork
from eventlog.encryption.keys import KEY_BYTES
from eventlog.errors import DamagedError, KeysError, StorageError, TooNewError
from eventlog.log.embedded.filesystem import data_end, make_directory, sync_directory

__all__ = ["KeyFile", "is_key_file"]

_TITLE = b"eventlog keys "
_HEADER = _TITLE + b"1\n"
_NAME_DIGITS, _KEY_DIGITS, _CHECK_DIGITS = 32, 64, 8
_LINE_BYTES = _NAME_DIGITS + _KEY_DIGITS + _CHECK_DIGITS + 3
_SIZE = 3
"""Of what `_checked` tells."""
_LONGEST_HOLE = 1 << 20
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.ENOSYS}
"""What a file system says that gives no file a second name."""


class _Content(NamedTuple):
    """What a key file holds."""

    keys: dict[str, bytes]
    damaged: tuple[int, ...]
    """Numbers of the lines that cannot be read."""
    ends: bool
    """Whether the last line is whole."""


_NOTHING = _Content({}, (), ends=True)


class KeyFile:
    """The keys in one file.  Made when the first key is."""

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.realpath(path))  # or a symbolic link would be replaced, and not the file
        self._following = self.path.with_name(self.path.name + ".new")
        self._former = self.path.with_name(self.path.name + ".destroyed")
        self._lock = RLock()
        self._content = _NOTHING
        self._seen: tuple[int, ...] = ()
        self._written: tuple[int, ...] = ()
        """The state after the last line that this program wrote."""
        os_fork.register(self)

    def __repr__(self) -> str:
        return f"<KeyFile {self.path}>"

    def fork_off(self) -> None:
        """This is a child process."""
        self._lock = RLock()

    def find(self, name: str) -> bytes | None:
        """See `Keys`.  `KeysError` if there is no such file, or the key may be in a line that cannot be read.

        That is no `DamagedError`, which would say that the session is damaged whose key is asked for.
        """
        with self._lock, _system(self.path):
            while not self._looked():
                pass  # another has put a new one in its place meanwhile
            self._sweep()
            key = self._content.keys.get(name)
            if key is None and self._content.damaged:
                raise KeysError(f"key file {self.path}: line {self._content.damaged[0]} cannot be read")
            return key

    def _looked(self) -> bool:
        """Take in what the file holds, if it is another than was seen; whether the file is still the one at its path."""
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            raise KeysError(f"there is no key file {self.path}") from None
        try:
            if _checked(self.path, fd) == self._seen:
                return True
            fcntl.flock(fd, fcntl.LOCK_SH)  # not while one is overwritten
            if not _is_at(fd, self.path):
                return False
            self._take(fd)
        finally:
            _let_go(fd)
        return True

    def _take(self, fd: int) -> None:
        """Take in what the file holds, if it is another than was seen.  Only while it is locked: no writer is at work then."""
        seen = _checked(self.path, fd)
        if seen == self._seen:
            return
        _only(self.path, fd, 1 + _is_at(fd, self._former))
        self._content = _parse(self.path, _read(self.path, fd))
        self._seen = seen

    def _sweep(self) -> None:
        """Go on with what a program left that died, if this one may write there."""
        with suppress(OSError):
            if self._following.exists() or self._former.exists():
                with self._held():
                    pass

    def make(self, name: str) -> bytes:
        """See `Keys`."""
        key = secrets.token_bytes(KEY_BYTES)
        with self._lock, _system(self.path), self._held() as fd:
            if _checked(self.path, fd) != self._written:
                os.fsync(fd)  # a line of one who died before it was on disk could be torn, and then it must be the last
            whole = _cut(self.path, fd)
            os.lseek(fd, whole, os.SEEK_SET)
            try:
                _write(self.path, fd, (b"" if whole else _HEADER) + _line(name, key))
            except BaseException:
                os.ftruncate(fd, whole)
                raise
            self._written = _checked(self.path, fd)
        return key

    def destroy(self, name: str) -> None:
        """See `Keys`.  `DamagedError` if the key may be in a line that cannot be read; one that begins with the name goes with it."""
        with self._lock, _system(self.path):
            if not self.path.exists():
                return
            with self._held() as fd:
                self._take(fd)
                if name not in self._content.keys and self._content.ends and not self._content.damaged:
                    return
                data = _read(self.path, fd)
                kept = _without(self.path, data, name)
                if len(kept) < len(data):
                    self._replace(fd, kept)
                elif self._content.damaged:
                    raise DamagedError(
                        f"key file {self.path}: line {self._content.damaged[0]} cannot be read, and may have the key to destroy"
                    )

    def _replace(self, fd: int, kept: bytes) -> None:
        """Put a file of these bytes in the place of the one that is held, and overwrite that."""
        fresh = os.open(self._following, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fresh, fcntl.LOCK_EX)  # whoever finds it in its place waits until the old one is gone
            _write(self.path, fresh, kept)
            try:
                os.link(self.path, self._former)
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
            self._following.replace(self.path)
            self._content, self._seen = _NOTHING, ()
            sync_directory(self.path.parent)
            _overwrite(fd)
            self._former.unlink(missing_ok=True)
        finally:
            _let_go(fresh)

    @contextmanager
    def _held(self) -> Generator[int]:
        """The file, made if it is not there, with no other writer in it."""
        while True:
            if not self.path.parent.exists():
                make_directory(self.path.parent)
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX)
                if not _checked(self.path, fd)[_SIZE]:  # its name is on disk before anything is in it
                    sync_directory(self.path.parent)
                if not _is_at(fd, self.path):
                    continue  # another has put a new one in its place meanwhile
                self._discard()
                _only(self.path, fd, 1)
                try:
                    yield fd
                except BaseException:
                    self._discard()
                    raise
            finally:
                _let_go(fd)
            return

    def _discard(self) -> None:
        """Overwrite and remove the files of one who did not come to the end, a new one and an old one: keys that may be destroyed are in both.

        The old one that is still in its place only loses its second name; else it must not come back to its place, empty.
        """
        for path in (self._following, self._former):
            with suppress(FileNotFoundError), path.open("r+b") as left:
                if not _is_at(left.fileno(), self.path):
                    sync_directory(self.path.parent)
                    _overwrite(left.fileno())
                path.unlink()


def _let_go(fd: int) -> None:
    """Close a file that is locked: closing alone leaves the lock to a child that another thread has forked meanwhile."""
    try:
        fcntl.flock(fd, fcntl.LOCK_UN)
    finally:
        os.close(fd)


def _overwrite(fd: int) -> None:
    left = os.fstat(fd).st_size
    os.lseek(fd, 0, os.SEEK_SET)
    while left > 0:  # the system may take less than it is given
        left -= os.write(fd, bytes(left))
    os.fsync(fd)


def _write(path: Path, fd: int, data: bytes) -> None:
    if os.write(fd, data) != len(data):
        raise StorageError(f"{path} cannot be written: there is no room")
    os.fsync(fd)


@contextmanager
def _system(path: Path) -> Generator[None]:
    """What the system refuses, as an error of this package."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"key file {path}: {error.strerror or error}") from error


def _checked(path: Path, fd: int) -> tuple[int, ...]:
    """What tells this state of the file from others; `KeysError` if it is no file, or others may read it."""
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        raise KeysError(f"{path} is not a file")
    if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise KeysError(f"others may read {path}: let nobody but its owner (chmod 600)")
    return status.st_dev, status.st_ino, status.st_nlink, status.st_size, status.st_mtime_ns


def _only(path: Path, fd: int, names: int) -> None:
    """`KeysError` if the file has more names than it should."""
    if os.fstat(fd).st_nlink > names:
        raise KeysError(f"{path} has a second name (a hard link), under which keys that are destroyed would stay")


def _is_at(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False


def _read(path: Path, fd: int) -> bytes:
    """All of the file; `KeysError` if it ends in a hole that no line that broke off leaves, which may be longer than memory."""
    size = os.fstat(fd).st_size
    if size - data_end(fd) > _LONGEST_HOLE:
        raise KeysError(f"{path} has {size} bytes, and ends in a hole: put a copy of the key file in its place")
    pieces: list[bytes] = []
    at = 0
    while piece := os.pread(fd, 1 << 20, at):
        pieces.append(piece)
        at += len(piece)
    return b"".join(pieces)


def _cut(path: Path, fd: int) -> int:
    """Take away a last line that broke off, and end one that lost its end; returns how many bytes there are.

    Looks at the two ends of the file only.
    """
    size = os.fstat(fd).st_size
    whole = 0
    ends = True
    if _header(path, os.pread(fd, len(_HEADER), 0)):
        begin = max(size - 2 * _LINE_BYTES, 0)
        found = os.pread(fd, size - begin, begin)
        if b"\n" not in found:
            raise DamagedError(f"key file {path}: the last line cannot be read")
        found = found[: _unbroken(found)]
        whole, ends = begin + len(found), found.endswith(b"\n")
    if whole < size or not ends:  # on disk by itself, or what comes behind it could be torn from it
        os.ftruncate(fd, whole)
        whole += 0 if ends else os.pwrite(fd, b"\n", whole)
        os.fsync(fd)
    return whole


def _unbroken(data: bytes) -> int:
    """How many bytes there are without a last line that broke off; one that lost no more than its end did not."""
    end = data.rfind(b"\n") + 1
    last = data[end : end + _LINE_BYTES - 1]
    if _whole(last):
        return end + len(last)
    torn = end - _LINE_BYTES  # a file that grew has zeros where nothing arrived
    if end == len(data) and torn > 0 and data[torn - 1 : torn + 1] == b"\n\0":
        return torn
    return end


def _line(name: str, key: bytes) -> bytes:
    said = f"{name} {key.hex()}".encode()
    return b"%b %08x\n" % (said, crc32(said))


def is_key_file(path: Path) -> bool:
    """Whether there is a file with keys at a path; False if that cannot be known."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return file.read(len(_TITLE)) == _TITLE
    except OSError:
        return False


def _header(path: Path, data: bytes) -> bool:
    """Whether the header is there, whole; False if it broke off.  `TooNewError`, `KeysError` if there is something else."""
    if data.startswith(_HEADER):
        return True
    if _HEADER.startswith(data):
        return False
    line = data.partition(b"\n")[0]
    if line.startswith(_TITLE) and line.removeprefix(_TITLE).isdigit():
        raise TooNewError(f"key file {path} has format {int(line.removeprefix(_TITLE))}, known is 1")
    raise KeysError(f"{path} is no key file")


def _parse(path: Path, data: bytes) -> _Content:
    if not _header(path, data):
        return _Content({}, (), ends=not data)
    unbroken = data[: _unbroken(data)]
    lines = unbroken[len(_HEADER) :].removesuffix(b"\n").split(b"\n") if len(unbroken) > len(_HEADER) else []
    keys: dict[str, bytes] = {}
    damaged: list[int] = []
    for number, line in enumerate(lines, 2):
        if _whole(line):
            keys[line[:_NAME_DIGITS].decode()] = bytes.fromhex(line[_NAME_DIGITS + 1 :][:_KEY_DIGITS].decode())
        else:
            damaged.append(number)
    return _Content(keys, tuple(damaged), ends=len(unbroken) == len(data))


def _whole(line: bytes) -> bool:
    """Whether a line, without its end, is as it was written."""
    said, _, check = line.rpartition(b" ")
    name, _, digits = said.partition(b" ")
    shaped = (len(name), len(digits), len(check)) == (_NAME_DIGITS, _KEY_DIGITS, _CHECK_DIGITS)
    return shaped and b"%08x" % crc32(said) == check


def _without(path: Path, data: bytes, name: str) -> bytes:
    """What the file holds without the lines that begin with a name, damaged or not.

    A line whose end is damaged runs on in the next, which stays.  `DamagedError` if it cannot be told what of a line is the key.
    """
    start = name.encode() + b" "
    lines = data.split(b"\n")
    kept: list[bytes] = []
    for number, line in enumerate(lines, 1):
        rest = line[_LINE_BYTES:]
        if not line.startswith(start):
            kept.append(line)
        elif _whole(rest):
            kept.append(rest)
        elif rest:
            raise DamagedError(f"key file {path}: line {number} cannot be read, and has the key to destroy with others")
    if kept[-1] is not lines[-1]:
        kept.append(b"")
    return b"\n".join(kept)
