"""How long LMDB's data file has to be, read from its two meta pages without LMDB.  Imported by `partition.py` only.

LMDB maps the file, and whoever reads a page beyond its end is killed by the system; and a file that is empty or gone it makes
anew.  So, whatever was done to a store while it was closed, this is looked at before LMDB opens it.  A meta page is, in the byte
order and word size of the machine:

    page number, 2 bytes, flags u16, 4 bytes  |  magic u32  |  format u32  |  address, map size
    two trees: page size (of the first one) u32, flags u16, depth u16, pages of each kind, entries, root
    last page used  |  number of the transaction
"""

from __future__ import annotations

import os
import stat
import struct
from typing import TYPE_CHECKING

from eventlog.errors import DamagedError
from eventlog.log.environment import REMEDY
from eventlog.log.filesystem import unreadable

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["is_whole"]

_META = struct.Struct("=8x H H 4x I I 8x 8x I 44x 48x Q Q")
_MAGIC = 0xBEEFC0DE
_META_PAGE = 8
_LARGEST_PAGE = 1 << 16


def is_whole(directory: Path) -> bool:
    """Whether the data file is as long as its newest meta page says; False also if they cannot be read.

    A file that is a little shorter may be sound: LMDB leaves pages at the end unwritten that it took and gave back.
    Raises `DamagedError` if there is no such file or nothing in it, `StorageError` if it may not be read.
    """
    path = directory / "data.mdb"
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise DamagedError(f"{path} is not a file; {REMEDY}")
            if not status.st_size:
                raise DamagedError(f"{path} is empty; {REMEDY}")
            if struct.calcsize("P") != 8:  # the pages have another form there
                return True
            first = _page(os.pread(fd, _META.size, 0))
            second = None if first is None else _page(os.pread(fd, _META.size, first[0]))
        finally:
            os.close(fd)
    except FileNotFoundError as error:
        raise DamagedError(f"{path} is missing; {REMEDY}") from error
    except OSError as error:
        raise unreadable(path, error) from error
    if first is None or second is None:
        return False
    page_bytes, last, _ = max(first, second, key=lambda page: page[2])
    return status.st_size >= (last + 1) * page_bytes


def _page(data: bytes) -> tuple[int, int, int] | None:
    """Page size, last page used and transaction of a meta page; None if it is none."""
    if len(data) < _META.size:
        return None
    _, flags, magic, _, page_bytes, last, transaction = _META.unpack(data)
    if magic != _MAGIC or not flags & _META_PAGE or not 0 < page_bytes <= _LARGEST_PAGE:
        return None
    return page_bytes, last, transaction
