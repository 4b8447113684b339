"""The program of the child process that `salvage.py` starts: it reads one LMDB tree.

A damaged page may kill it, so each entry is written to standard output as soon as it is read: the
sizes of key and value (`SIZES`), key, value. A program, not a module: it imports nothing but LMDB.
Arguments: the directory that holds the package `lmdb`, the damaged LMDB directory, its format, the
name of the tree, the way (`forward`, `backward`, or `points` for keys that are numbers), and for
`points` the first number and the one behind the last. It ends with `WHOLE` if it came to the end of
the tree forward and found as many entries as the tree counts, and with `UNABLE`, and an error
number on standard error, if something other than the damage stops it.
"""

from __future__ import annotations

import errno
import os
import sys
from struct import Struct

TYPE_CHECKING = False  # importing `typing` would take longer than all the rest
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

ROOM = 64 << 20
"""Bytes of the map beyond the copied file: address space, neither memory nor disk."""
SIZES = Struct("=II")
UNABLE, WHOLE = 3, 4
_LONGEST_KEY = 511
_EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN}


def copy(source: Any, name: str, way: str, numbers: range) -> bool:
    """Write the entries of a tree to standard output; return whether they are all there are."""
    tree = source.open_db(name.encode(), create=False)
    count = 0
    with source.begin(db=tree) as reading:
        for key, value in _points(reading, numbers) if way == "points" else _walk(reading, way):
            if 0 < len(key) <= _LONGEST_KEY:
                left = memoryview(SIZES.pack(len(key), len(value)) + key + value)
                while left:
                    left = left[os.write(1, left) :]
            count += 1
        whole: bool = way == "forward" and count == reading.stat(tree)["entries"]
    return whole


def _walk(reading: Any, way: str) -> Iterator[tuple[bytes, bytes]]:
    with reading.cursor() as cursor:
        found = cursor.first() if way == "forward" else cursor.last()
        before = None
        while found:
            key = bytes(cursor.key())
            if before is not None and (key <= before if way == "forward" else key >= before):
                return  # it goes round in a circle
            yield key, bytes(cursor.value())
            before = key
            found = cursor.next() if way == "forward" else cursor.prev()


def _points(reading: Any, numbers: range) -> Iterator[tuple[bytes, bytes]]:
    for number in numbers:
        key = number.to_bytes(8, "big")
        value = reading.get(key)
        if value is not None:
            yield key, bytes(value)


def main() -> None:
    """Read what the command line names."""
    sys.path.insert(0, sys.argv[1])
    import lmdb

    _, _, old, form, name, way, start, stop = sys.argv
    try:
        room = 4 * os.stat(f"{old}/data.mdb").st_size + ROOM  # noqa: PTH116
        options: dict[str, Any] = {"max_dbs": 64, "lib_version": int(form), "map_size": room}
        source: Any = lmdb.open(old, readonly=True, create=False, lock=False, **options)
    except Exception as error:  # LMDB's errors, and the system's
        code = getattr(error, "code", 0) or getattr(error, "errno", 0) or 0
        if code in _EXHAUSTED:
            sys.stderr.write(str(code))
            sys.exit(UNABLE)
        raise
    with source:
        whole = copy(source, name, way, range(int(start), int(stop)))
    sys.exit(WHOLE if whole else 0)


if __name__ == "__main__":
    main()
