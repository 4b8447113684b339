"""The two meta pages of an LMDB file, one for each of its last two transactions.

LMDB writes them in turn, and does not open a file unless both are well formed. No page of the last
transaction but one is reused before its meta page is, so the file as that transaction left it is
all there. Format 1, in the byte order of this machine; of a page of at least 512 bytes:

    number of the page u64  |  u16  |  flags u16, 8 for a meta page  |  u32
    magic u32  |  format u32  |  u64  |  u64
    list of free pages, and then list of trees, each:
        u32, of the first one the size of a page  |  flags u16  |  depth u16
        u64  |  u64  |  u64  |  u64  |  number of the root page u64, all ones for none
    number of the last page u64  |  transaction u64: its lowest bit is the number of the meta page
"""

from __future__ import annotations

import errno
import os
import sys
from contextlib import contextmanager
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from pathlib import Path

_FIELDS = Struct("=Q2xH4x" + "II16x" + 2 * "IHH32xQ" + "QQ")
_META = 8
_MAGIC, _FORMAT = 0xBEEFC0DE, 1
_NONE = (1 << 64) - 1
_PAGES = tuple(1 << bits for bits in range(9, 17))
"""Possible sizes of a page."""
_DEEPEST = 32
_BLOCK = 1 << 20
_SECTOR = 512


class MetaPage(NamedTuple):
    """A meta page whose fields are consistent."""

    page_bytes: int
    transaction: int
    last: int
    """Number of the last page in use."""
    data: bytes
    """The fields of the page."""

    @property
    def file_bytes(self) -> int:
        """Bytes that the file must have."""
        return (self.last + 1) * self.page_bytes


def sound_metas(path: Path) -> list[MetaPage]:
    """Return the sound meta pages of a file, the newer one first: two, one or none."""
    with _opened(path) as file:
        places = [(0, 0), *((1, size) for size in _PAGES)]
        pages = [_meta(_read(file, _FIELDS.size, at), number, at) for number, at in places]
    metas = [meta for meta in pages if meta is not None]
    return sorted(metas, key=lambda meta: -meta.transaction)[:2]


def are_in_turn(metas: Sequence[MetaPage]) -> bool:
    """Return whether these are the meta pages of two successive transactions."""
    return len(metas) == 2 and metas[0].transaction - metas[1].transaction <= 1


def _meta(data: bytes, number: int, at: int) -> MetaPage | None:
    """Return the meta page of this number, if it lies at this offset."""
    if len(data) < _FIELDS.size:
        return None
    (page, flags, magic, form, size, _, free_depth, free, _, _, depth, root, last, transaction) = _FIELDS.unpack(data)
    shaped = (page, flags, magic, form) == (number, _META, _MAGIC, _FORMAT) and size in _PAGES and at in {0, size}
    roots = all(one == _NONE or 1 < one <= last for one in (free, root)) and max(free_depth, depth) <= _DEEPEST
    in_turn = not transaction or transaction & 1 == number
    return MetaPage(size, transaction, last, data) if shaped and roots and in_turn else None


def copy_as_of(path: Path, to: Path, meta: MetaPage) -> None:
    """Copy a file as it was after a transaction; unreadable sectors become zeros."""
    with _opened(path) as file, to.open("xb") as new:
        size = os.fstat(file).st_size
        for at in range(0, size, _BLOCK):
            new.write(_read(file, min(_BLOCK, size - at), at))
        for number in range(2):
            new.seek(number * meta.page_bytes)
            new.write(number.to_bytes(8, sys.byteorder) + meta.data[8:])


@contextmanager
def _opened(path: Path) -> Generator[int]:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield file
    finally:
        os.close(file)


def _read(file: int, size: int, at: int) -> bytes:
    """Return the bytes at an offset, with zeros for each sector that cannot be read."""
    try:
        return os.pread(file, size, at)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
    if size <= _SECTOR:
        return bytes(size)
    half = size // 2
    return _read(file, half, at) + _read(file, size - half, at + half)
