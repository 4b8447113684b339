"""Dropping files from the system's page cache, and asking how much of them is still there.

What is dropped is read from the disk again; a virtual disk's host may still have it in its own memory, which nothing here can tell.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path
from typing import NamedTuple

__all__ = ["Cached", "cached", "drop"]


class Cached(NamedTuple):
    """Pages of files: those in the page cache, and all."""

    there: int
    all: int


def drop(directory: Path) -> Cached:
    """Drop the pages of every file below; returns what is cached nevertheless.

    Pages that a process has mapped cannot be dropped, so what uses the files is closed first; changed pages are written to the disk before.  Where the system has no way to
    drop pages, all of them are told to be there.
    """
    there = every = 0
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            descriptor = os.open(path, os.O_RDWR)
            try:
                os.fsync(descriptor)
                if hasattr(os, "posix_fadvise"):
                    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                found = cached(descriptor)
            finally:
                os.close(descriptor)
            there += found.there
            every += found.all
    return Cached(there, every)


def cached(descriptor: int) -> Cached:
    """Ask `mincore` how many pages of an open file are cached; all, where there is none."""
    size = os.fstat(descriptor).st_size
    every = -(-size // mmap.PAGESIZE)
    mincore = getattr(ctypes.CDLL(None, use_errno=True), "mincore", None)
    if not every or mincore is None:
        return Cached(every, every)
    flags = (ctypes.c_ubyte * every)()
    with mmap.mmap(descriptor, size, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ | mmap.PROT_WRITE) as mapped:
        start = ctypes.c_char.from_buffer(mapped)
        failed = mincore(ctypes.c_void_p(ctypes.addressof(start)), ctypes.c_size_t(size), flags)
        del start  # a map that is exported cannot be closed
    if failed:
        raise OSError(ctypes.get_errno(), "mincore failed")
    return Cached(sum(flag & 1 for flag in flags), every)
