"""The program of the child process that `probe.py` starts: it walks LMDB's structure.

A damaged page may kill it. Checksums of rows are compared, too, except for values that are
disposable: a row whose key is damaged would never be found.

A program, not a module: it imports nothing but LMDB, so that it starts quickly. Arguments: the
directory that holds the package `lmdb`, the LMDB directory, its format, `r` or `w` or `-` (read
without the lock file), and the names of the trees. It prints a line for each fault. It ends with
`UNABLE`, and an error number on standard error, if something other than damage stops it.

The map is as large as the file needs, with room to begin to write and for what other processes fold
meanwhile: a map that is too small is no fault of the file's.
"""

from __future__ import annotations

import errno
import os
import sys
from zlib import crc32

TYPE_CHECKING = False  # importing `typing` would take longer than all the rest
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn

UNPROTECTED = {"data", "derived"}
"""Trees whose values have no checksum, or need none."""
ROOM = 64 << 20
"""Bytes of the map beyond twice the file: address space, neither memory nor disk."""
UNABLE = 3
_UNRELATED = {
    errno.EMFILE,
    errno.ENFILE,
    errno.EAGAIN,
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOSPC,
    errno.EDQUOT,
}
"""System errors that no page of the file can cause."""


def walk(path: str, format_version: int, mode: str, trees: Sequence[str]) -> list[str]:
    """Return every fault of the structure that can be found alive."""
    import lmdb

    file_bytes = 0
    while True:
        faults: list[str] = []
        before, room = file_bytes, 0
        trying = False
        try:
            file_bytes = _size_of(f"{path}/data.mdb")
            room = 2 * file_bytes + ROOM
            options: dict[str, Any] = {"create": False, "max_dbs": 64, "lib_version": format_version, "map_size": room}
            with lmdb.open(path, readonly=True, lock=mode != "-", **options) as environment:
                names = _walk(environment, "", faults)
                faults += [f"tree {name} is missing" for name in trees if name not in names]
                for name in names:
                    _walk(environment, name, faults)
            if mode == "w":
                environment = lmdb.open(path, **options)
                trying = True  # a damaged list of free pages may ask for any amount of memory
                _write(environment)
        except lmdb.MapResizedError as error:
            if file_bytes > before:  # another process made the file larger than the map meanwhile
                continue
            faults.append(f"{type(error).__name__}: {error}")
        except lmdb.ReadersFullError:
            _end(errno.EAGAIN)
        except (lmdb.Error, OSError, ValueError, MemoryError) as error:
            code = _code_of(error)
            if code in _UNRELATED or (code == errno.ENOMEM and not trying and not _is_free(room)):
                _end(code)
            faults.append(f"{type(error).__name__}: {error}")
        return faults


def _end(code: int) -> NoReturn:
    """End the program for a reason other than damage."""
    sys.stderr.write(str(code))
    sys.exit(UNABLE)


def _code_of(error: Exception) -> int:
    """Return the system's number of an error; 0 if it has none."""
    if isinstance(error, MemoryError):
        return errno.ENOMEM
    return getattr(error, "code", 0) or getattr(error, "errno", 0) or 0


def _is_free(room: int) -> bool:
    """Return whether there is address space for a map of this size.

    If so, a damaged page asked for more.
    """
    import mmap

    try:
        mmap.mmap(-1, room, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ).close()
    except (OSError, MemoryError, ValueError):
        return False
    return True


def _size_of(path: str) -> int:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.fstat(fd).st_size
    finally:
        os.close(fd)


def _walk(environment: Any, name: str, faults: list[str]) -> list[str]:
    """Read every page of a tree, and both ends of every value; return its keys as names.

    An empty name stands for the list of trees.
    """
    shown = f"tree {name}" if name else "the list of trees"
    tree = environment.open_db(name.encode(errors="surrogateescape"), create=False) if name else None
    protected = bool(name) and name not in UNPROTECTED
    names: list[str] = []
    count, last = 0, b""
    with environment.begin(buffers=True, db=tree) as txn:
        entries = environment.stat()["entries"] if tree is None else txn.stat(tree)["entries"]
        with txn.cursor() as cursor:
            more = cursor.first()
            while more and count <= entries:
                key, value = bytes(cursor.key()), cursor.value()
                _ = bytes(value[:1]), bytes(value[-1:])
                again = txn.get(key)
                if again is None or len(again) != len(value) or key <= last:
                    faults.append(f"{shown}: an entry is not found by its key")
                    return names
                if protected and bytes(value[:4]) != crc32(value[4:], crc32(key)).to_bytes(4, "little"):
                    faults.append(f"{shown}: an entry or its key is not what was written")
                    return names
                count, last = count + 1, key
                if not name:
                    names.append(key.decode(errors="surrogateescape"))
                more = cursor.next()
    if count != entries:
        faults.append(f"{shown}: it counts {entries} entries, and {count} can be found")
    return names


def _write(environment: Any) -> None:
    """Begin to write, which reads the list of free pages; nothing is written."""
    with environment:
        txn = environment.begin(write=True)
        txn.put(b"probe", bytes(1 << 16))
        txn.abort()


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    faults: list[str] = walk(sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5:])
    sys.stdout.write("".join(f"{fault}\n" for fault in faults))
