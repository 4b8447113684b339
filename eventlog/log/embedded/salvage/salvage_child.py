"""The program of the child process that `salvage.py` starts: it copies one LMDB tree.

A damaged page may kill it. A program, not a module: it imports nothing but LMDB. Arguments: the
directory that holds the package `lmdb`, the damaged LMDB directory, the one to copy into, its
format, the name of the tree, the way (`forward`, `backward`, or `points` for keys that are
numbers), after how many entries to commit, a key in hexadecimal to begin at ("" for the end), and
for `points` the last number. It prints "whole" if it came to the end of the tree and found as many
entries as the tree counts. It ends with `UNABLE`, and an error number on standard error, if
something other than the damage stops it.
"""

from __future__ import annotations

import errno
import os
import sys

TYPE_CHECKING = False  # importing `typing` would take longer than all the rest
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

__all__ = ["UNABLE", "copy"]

ROOM = 64 << 20
"""Bytes of the map beyond the copied file: address space, neither memory nor disk."""
UNABLE = 3
_EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN}


def able(call: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
    """Call something that does not read the damaged pages; if it fails, end the program."""
    try:
        return call(*arguments, **more)
    except Exception as error:  # LMDB's errors, and the system's
        end(error)
        raise


def looked(call: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
    """Open the damaged file; if a resource of the system is exhausted, end the program."""
    try:
        return call(*arguments, **more)
    except Exception as error:  # LMDB's errors, and the system's
        if code_of(error) in _EXHAUSTED:
            end(error)
        raise


def end(error: Exception) -> None:
    """End the program for a reason other than the damage."""
    sys.stderr.write(str(code_of(error) or errno.EIO))
    sys.exit(UNABLE)


def code_of(error: Exception) -> int:
    """Return the system's number of an error; 0 if it has none."""
    return getattr(error, "code", 0) or getattr(error, "errno", 0) or 0


def room_for(path: str) -> int:
    """Return the size of a map for all entries of both meta pages, in half-full pages."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return 4 * os.fstat(fd).st_size + ROOM
    finally:
        os.close(fd)


def copy(source: Any, target: Any, name: str, way: str, *, batch: int, begin: bytes, last: int) -> bool:
    """Copy what the target does not have yet; return whether that was everything."""
    tree = source.open_db(name.encode(), create=False)
    target_tree = able(target.open_db, name.encode())
    count = 0
    with source.begin(db=tree) as reading:
        writing = able(target.begin, write=True, db=target_tree)
        walk = _points(reading, begin, last) if way == "points" else _walk(reading, way, begin)
        for key, value in walk:
            if len(key) <= 511 and key:
                able(writing.put, key, value, overwrite=False)
            count += 1
            if count % batch == 0:
                able(writing.commit)
                writing = able(target.begin, write=True, db=target_tree)
        able(writing.commit)
        whole: bool = way == "forward" and not begin and count == reading.stat(tree)["entries"]
    return whole


def _walk(reading: Any, way: str, begin: bytes) -> Iterator[tuple[bytes, bytes]]:
    with reading.cursor() as cursor:
        if way == "forward":
            found = cursor.set_range(begin) if begin else cursor.first()
        elif begin:
            found = cursor.set_range(begin) or cursor.last()
        else:
            found = cursor.last()
        before = None
        while found:
            key = bytes(cursor.key())
            if before is not None and (key <= before if way == "forward" else key >= before):
                return  # it goes round in a circle
            yield key, bytes(cursor.value())
            before = key
            found = cursor.next() if way == "forward" else cursor.prev()


def _points(reading: Any, begin: bytes, last: int) -> Iterator[tuple[bytes, bytes]]:
    for number in range(int.from_bytes(begin, "big") + 1, last + 1):
        key = number.to_bytes(8, "big")
        value = reading.get(key)
        if value is not None:
            yield key, bytes(value)


def main() -> None:
    """Copy what the command line names."""
    sys.path.insert(0, sys.argv[1])
    import lmdb

    _, _, old, new, form, name, way, batch, begin, last = sys.argv
    options: dict[str, Any] = {"max_dbs": 64, "lib_version": int(form)}
    room: Any = looked(room_for, f"{old}/data.mdb")
    with able(lmdb.open, new, map_size=room, sync=False, mode=0o600, **options) as target:
        source: Any = looked(lmdb.open, old, readonly=True, create=False, lock=False, **options)
        with source:
            if copy(source, target, name, way, batch=int(batch), begin=bytes.fromhex(begin), last=int(last)):
                sys.stdout.write("whole")


if __name__ == "__main__":
    main()
