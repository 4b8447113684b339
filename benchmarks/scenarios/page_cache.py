"""Drop files from the system's page cache, and count the pages that are still cached.

Dropped pages are read from the disk again. The host of a virtual disk may have them in its own
memory, which cannot be observed here.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path
from typing import NamedTuple

__all__ = ["PageCount", "cached", "drop"]


class PageCount(NamedTuple):
    """Pages of files: cached, and all."""

    there: int
    all: int


def drop(directory: Path) -> PageCount:
    """Drop the pages of every file in a directory; return the pages that are still cached.

    Pages that a process has mapped cannot be dropped, so the files must be closed; changed pages
    are written to the disk first. On a system that cannot drop pages, all of them count as cached.
    """
    there = every = 0
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            descriptor = os.open(path, os.O_RDWR)
            try:
                os.fsync(descriptor)
                if hasattr(os, "posix_fadvise"):
                    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                pages = cached(descriptor)
            finally:
                os.close(descriptor)
            there += pages.there
            every += pages.all
    return PageCount(there, every)


def cached(descriptor: int) -> PageCount:
    """Count the cached pages of an open file with `mincore`; all pages where it is missing."""
    size = os.fstat(descriptor).st_size
    every = -(-size // mmap.PAGESIZE)
    mincore = getattr(ctypes.CDLL(None, use_errno=True), "mincore", None)
    if not every or mincore is None:
        return PageCount(every, every)
    flags = (ctypes.c_ubyte * every)()
    with mmap.mmap(descriptor, size, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ | mmap.PROT_WRITE) as mapped:
        start = ctypes.c_char.from_buffer(mapped)
        failed = mincore(ctypes.c_void_p(ctypes.addressof(start)), ctypes.c_size_t(size), flags)
        del start  # a map that is exported cannot be closed
    if failed:
        raise OSError(ctypes.get_errno(), "mincore failed")
    return PageCount(sum(flag & 1 for flag in flags), every)
