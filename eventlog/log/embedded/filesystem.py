"""System calls of the journal, and what kind of file system a path is on.

Every byte of the journal goes through `JournalIO`, so that a test can make any single call fail,
write short or kill the process. LMDB does its own I/O; tests stop it at `reach()` points only.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from eventlog.errors import BusyError, DamagedError, StorageError, UnsupportedStorageError

if TYPE_CHECKING:
    from collections.abc import Iterable

NETWORK_FILESYSTEMS = frozenset(
    {
        "9p", "acfs", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "fuse.ceph", "fuse.davfs2", "fuse.gcsfuse",
        "fuse.glusterfs", "fuse.juicefs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "fuse.smbnetfs", "glusterfs",
        "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "pvfs2", "smb", "smb2", "smb3", "smbfs",
    }
)  # fmt: skip
"""File systems whose locks, shared maps or flushes do not hold between machines."""


_NOT_THERE = frozenset({errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS})
"""Errors of a file system that cannot allocate ahead."""
EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})
"""Errors of a resource that is exhausted now."""
DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
"""Errors of a missing permission."""
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Errors of a full file system or quota."""
_PIECE = 64 << 10
_SMALL = 64 << 10
"""Most bytes of a small file of a store."""


class JournalIO:
    """The journal's system calls.  Each method is one fault point."""

    def open(self, path: str, flags: int) -> int:
        """Open a file; a new one is readable by its owner only."""
        return os.open(path, flags | os.O_CLOEXEC, 0o600)

    pread: Callable[[int, int, int], bytes] = staticmethod(os.pread)
    """`(fd, size, offset)`: read up to `size` bytes; fewer only at the end of the file."""

    pwrite: Callable[[int, bytes | bytearray | memoryview, int], int] = staticmethod(os.pwrite)
    """`(fd, data, offset)`: write; returns how many bytes were written, which may be fewer."""

    def fdatasync(self, fd: int) -> None:
        """Return when the file's bytes, and its length, are on disk."""
        if sys.platform == "darwin":  # there, only this command reaches the medium
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
        else:
            os.fdatasync(fd)

    def rename(self, old: str, new: str) -> None:
        """Rename a file, replacing another of that name."""
        Path(old).rename(new)

    def unlink(self, path: str) -> None:
        """Remove a file."""
        Path(path).unlink()

    def blank(self, path: str) -> None:
        """Overwrite a file's content with zeros, on disk."""
        with open(path, "r+b", buffering=0) as file:  # noqa: PTH123  # like the other calls it takes a name
            offset, end = 0, data_end(file.fileno())
            while offset < end and (piece := os.pread(file.fileno(), _PIECE, offset)):
                if piece.strip(b"\0"):
                    os.pwrite(file.fileno(), bytes(len(piece)), offset)
                offset += len(piece)
            os.fdatasync(file.fileno())

    def sync_directory(self, path: str) -> None:
        """Return when the names in a directory are on disk."""
        sync_directory(path)

    def salt(self) -> bytes:
        """Return eight random bytes, the salt of a journal file."""
        return os.urandom(8)

    def random(self, size: int) -> bytes:
        """Return random bytes that cannot be guessed."""
        return os.urandom(size)

    def reach(self, point: str) -> None:
        """Mark a step of folding, at which a test can stop the process."""


def unreadable(path: Path, error: OSError) -> BusyError | StorageError | DamagedError:
    """Return the error to raise, from the cause, for an existing file that cannot be read."""
    if error.errno in EXHAUSTED:
        return BusyError(f"{path} cannot be read now: {error.strerror}")
    if error.errno in DENIED:
        return StorageError(f"{path} cannot be read: {error.strerror}")
    return DamagedError(f"{path} cannot be read: {error.strerror}")


def require_files(directory: Path) -> None:
    """Raise `DamagedError` if a directory has an entry that is neither file nor directory.

    A program that opens a FIFO waits for ever.
    """
    try:
        with os.scandir(directory) as entries:
            strange = [entry.name for entry in entries if not entry.is_file() and not entry.is_dir()]
    except OSError:
        return  # a reader of the directory reports it
    for name in strange:
        try:
            mode = (directory / name).stat().st_mode
        except OSError:
            continue
        raise DamagedError(f"{directory / name} is {_kind(mode)}, where a file of a store should be: remove it")


def _kind(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "a FIFO"
    if stat.S_ISSOCK(mode):
        return "a socket"
    return "a directory" if stat.S_ISDIR(mode) else "a device"


def read_small(path: Path) -> str:
    """Return the text of a small file of a store.

    `FileNotFoundError` without the file, `DamagedError` if it is no such file.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(fd).st_mode
        if not stat.S_ISREG(mode):
            raise DamagedError(f"{path} is {_kind(mode)}, where a file of a store should be")
        data = os.read(fd, _SMALL + 1)
    finally:
        os.close(fd)
    if len(data) > _SMALL:
        raise DamagedError(f"{path} has more than the {_SMALL} bytes that such a file has at most")
    return data.decode("utf-8", "replace")


def is_number(text: str) -> bool:
    """Return whether a text that was read is a number of at most 64 bits, in decimal."""
    return text.isascii() and text.isdigit() and len(text) < 20


def write_small(path: Path, text: str) -> None:
    """Write a small file, whole or not at all, and flush it."""
    half_made = path.with_name(path.name + ".new")
    fd = os.open(half_made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        remaining = memoryview(text.encode())
        while remaining:  # the system may take less than it is given
            remaining = remaining[os.write(fd, remaining) :]
        os.fsync(fd)
    finally:
        os.close(fd)
    half_made.rename(path)
    sync_directory(path.parent)


def remove_all(path: Path, *, ignore_errors: bool = False) -> None:
    """Remove a directory and all that is in it."""
    import shutil

    shutil.rmtree(path, ignore_errors=ignore_errors)


def data_end(fd: int) -> int:
    """Return where the data of a file ends; from there on it is a hole, which reads as zeros."""
    size = os.fstat(fd).st_size
    at = os.lseek(fd, 0, os.SEEK_CUR)
    end = 0
    try:
        while end < size:
            end = os.lseek(fd, os.lseek(fd, end, os.SEEK_DATA), os.SEEK_HOLE)
    except OSError as error:
        return end if error.errno == errno.ENXIO else size
    finally:
        os.lseek(fd, at, os.SEEK_SET)
    return end


def allocate(fd: int, size: int) -> None:
    """Make a file at least `size` bytes long, with disk space for all of them.

    For files that are mapped: on a full disk, storing into a hole of one kills the process. The
    content stays.
    """
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(fd, 0, size)
        except OSError as error:
            if error.errno not in _NOT_THERE:
                raise
        else:
            return
    if os.fstat(fd).st_size < size:
        os.ftruncate(fd, size)


def sync_directory(path: str | Path) -> None:
    """Return when the names in a directory are on disk."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_directory(path: Path) -> None:
    """Make a directory with mode 0700, and missing parents; their names are on disk then."""
    made = [path, *(parent for parent in path.parents if not parent.exists())]
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    for directory in made:  # a name is on disk when the directory that holds it is
        sync_directory(directory.parent)


def is_full(path: Path) -> bool:
    """Return whether the file system of a path is full.

    LMDB reports a write that was cut short as EIO.
    """
    try:
        return not os.statvfs(path).f_bavail
    except OSError:
        return False


def mounted(path: Path, mounts: Iterable[str], device: str = "") -> list[str]:
    """Return type, source and options of a path's file system, from `mountinfo` lines.

    [] if none matches. The longest mount point that is a prefix of the path wins, the last one of
    equals (mounts stack); with a device, as MAJOR:MINOR, one of that device before any other.
    """
    wanted = str(path)
    fields_after: list[str] = []
    best = (False, -1)
    for line in mounts:
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5 or not after:
            continue
        point = fields[4].encode("ascii", "backslashreplace").decode("unicode_escape")
        inside = wanted == point or wanted.startswith(point.rstrip("/") + "/")
        if inside and (rank := (fields[2] == device, len(point))) >= best:
            fields_after, best = after.split(" "), rank
    return fields_after


def filesystem_type(path: Path, mounts: Iterable[str]) -> str:
    """Return the type of a path's file system, from `mountinfo` lines; "" if none matches."""
    return (mounted(path, mounts) or [""])[0]


def _mount_lines(mountinfo: Path) -> list[str]:
    """Return the lines of a `mountinfo` file; none where the system has no such file."""
    try:
        return mountinfo.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return []


def is_read_only(path: Path, mountinfo: Path = Path("/proc/self/mountinfo")) -> bool:
    """Return whether the file system of a path is read-only for all programs.

    A file system that is mounted read-only here may be written through another mount, from outside
    a container: only the options of the file system itself keep every program out. False where that
    is unknown.
    """
    if not os.statvfs(path).f_flag & os.ST_RDONLY:
        return False
    device = path.stat().st_dev
    mount = mounted(path.resolve(), _mount_lines(mountinfo), f"{os.major(device)}:{os.minor(device)}")
    return len(mount) > 2 and mount[2].split(",")[0] == "ro"


def refuse_network_filesystem(path: Path, mountinfo: Path = Path("/proc/self/mountinfo")) -> None:
    """Raise `UnsupportedStorageError` if the path is on a network file system.

    Where there is no `mountinfo` (not Linux), nothing is refused.
    """
    kind = filesystem_type(path.resolve(), _mount_lines(mountinfo))
    if kind in NETWORK_FILESYSTEMS:
        raise UnsupportedStorageError(
            f"{path} is on a network file system ({kind}), which cannot keep what is promised"
        )
