"""The pages of LMDB's data file, read without LMDB, which trusts them.

A flipped byte in a page can kill the process that has LMDB read the page, or hide entries. So
`page_faults` has all pages verified before a process relies on them: after an unclean end, for
`verify`, and where a command does not find a session. The content of the slots is not read: it has
checksums, which are compared whenever it is read.

The first two pages are meta pages, one for each of the last two transactions. LMDB writes them in
turn, and does not open a file unless both are well formed. No page of the last transaction but one
is reused before its meta page is, so the file as that transaction left it is all there. Format 1,
in the byte order of this machine; of a page of at least 512 bytes:

    number of the page u64  |  u16  |  flags u16, 8 for a meta page  |  u32
    magic u32  |  format u32  |  u64  |  u64
    list of free pages, and then list of trees, each:
        u32, of the first one the size of a page  |  u16  |  depth u16
        32 bytes  |  number of the root page u64, all ones for none
    number of the last page u64  |  transaction u64: its lowest bit is the number of the meta page
"""

from __future__ import annotations

import errno
import os
import stat
import struct
import sys
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

from eventlog.errors import DamagedError
from eventlog.log.embedded.filesystem import unreadable
from eventlog.log.embedded.segments.environment import REMEDY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_META = Struct("=Q2xH4x" + "II16x" + "I2xH32xQ" + "6xH32xQ" + "QQ")
_SIGNS = (8, 0xBEEFC0DE, 1)
"""Flags, magic and format."""
_NONE = (1 << 64) - 1
_DEEPEST = 32
_SECTOR = 512
_SIZES = tuple(1 << bits for bits in range(9, 17))
"""Possible sizes of a page."""
_PAGE, _PLACE, _NODE, _TREE = Struct("=Q2xHH2x"), Struct("=H"), Struct("=IHH"), Struct("=32xQQ")
_BRANCH, _LEAF = 1, 2
_ELSEWHERE = 1
"""Flag of an entry whose value begins in a page of its own."""


class MetaPage(NamedTuple):
    """A meta page that LMDB would take for one."""

    transaction: int
    page_bytes: int
    file_bytes: int
    """Bytes that the file must have."""
    root: int
    """Number of the root page of the list of trees."""


def meta_pages(path: Path) -> list[MetaPage]:
    """Return the meta pages of a file, the newer one first: two, one or none."""
    found: list[MetaPage] = []
    with path.open("rb", buffering=0) as file:
        for number, at in ((0, 0), *((1, size) for size in _SIZES)):
            content = _read(file.fileno(), _META.size, at)
            if len(content) < _META.size:
                continue
            page, flags, magic, form, size, depth, free, main_depth, root, last, transaction = _META.unpack(content)
            shaped = (page, flags, magic, form) == (number, *_SIGNS) and size in _SIZES and at in {0, size}
            shaped = shaped and max(depth, main_depth) <= _DEEPEST
            in_turn = not transaction or transaction & 1 == number
            if shaped and in_turn and all(one == _NONE or 1 < one <= last for one in (free, root)):
                found.append(MetaPage(transaction, size, (last + 1) * size, root))
    return sorted(found, reverse=True)[:2]


def are_in_turn(metas: Sequence[MetaPage]) -> bool:
    """Return whether these are the meta pages of two successive transactions."""
    return len(metas) == 2 and metas[0].transaction - metas[1].transaction <= 1


def entries(path: Path, meta: MetaPage, tree: str) -> Iterator[tuple[bytes, bytes] | None]:
    """Yield the entries of a tree by key, and None for each part that is lost.

    They are those of the transaction of the meta page `meta`. LMDB is not asked: a damaged page
    costs its entries, and not those of the others.
    """
    with path.open("rb", buffering=0) as file:
        row = dict(filter(None, _walk(file.fileno(), meta, meta.root))).get(tree.encode(), b"")
        count, root = _TREE.unpack(row) if len(row) == _TREE.size else (1, _NONE)
        for entry in _walk(file.fileno(), meta, root):
            count -= entry is not None
            yield entry
    if count:
        yield None


def _walk(file: int, meta: MetaPage, root: int) -> Iterator[tuple[bytes, bytes] | None]:
    """Yield the entries below a page, and None for each page or entry that is not as it was.

    What LMDB does not look at, such as a page's own number, is no reason to skip the page. Entries
    out of order are yielded as well: rows have checksums.
    """
    size, before, seen, waiting = meta.page_bytes, b"", {_NONE}, [root]
    there = min(meta.file_bytes, os.fstat(file).st_size)
    while waiting:
        number = waiting.pop()
        if number in seen:
            continue
        seen.add(number)
        page = _read(file, size, number * size) if (number + 1) * size <= there else b""
        stored, flags, end = _PAGE.unpack(page[: _PAGE.size]) if page else (_NONE, 0, 0)
        kind_of_page = flags & (_BRANCH | _LEAF)
        if stored != number or flags not in {_BRANCH, _LEAF}:
            yield None
        if kind_of_page not in {_BRANCH, _LEAF}:
            continue
        below: list[int] = []
        for place in range(_PAGE.size, min(end, size - 1) - 1, _PLACE.size):
            (at,) = _PLACE.unpack_from(page, place)
            if at + _NODE.size > size:
                yield None
                continue
            length, kind, key_bytes = _NODE.unpack_from(page, at)
            at += _NODE.size
            if kind_of_page == _BRANCH:
                below.append(length | kind << 32)
                continue
            key, value = page[at : at + key_bytes], page[at + key_bytes : at + key_bytes + length]
            if kind & _ELSEWHERE:
                begin = int.from_bytes(value[:8], sys.byteorder) * size + _PAGE.size
                value = _read(file, length, begin) if begin + length <= there else b""
            is_read = len(key) == key_bytes and len(value) == length
            if is_read:
                yield key, value
            if not is_read or key <= before:
                yield None
            before = key
        waiting += reversed(below)


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


def is_whole(directory: Path) -> bool:
    """Return whether the data file is as long as its newest meta page says.

    False also without two meta pages. A file that is a little shorter may be sound: LMDB leaves
    pages at the end unwritten that it allocated and freed. Raises `DamagedError` if there is no
    such file or nothing in it, `StorageError` if it may not be read.
    """
    path = directory / "data.mdb"
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise DamagedError(f"{path} is not a file; {REMEDY}")
        if not status.st_size:
            raise DamagedError(f"{path} is empty; {REMEDY}")
        metas = meta_pages(path)
    except FileNotFoundError as error:
        raise DamagedError(f"{path} is missing; {REMEDY}") from error
    except OSError as error:
        raise unreadable(path, error) from error
    return len(metas) == 2 and status.st_size >= metas[0].file_bytes


def page_faults(directory: Path) -> list[str]:
    """Verify every page, also the list of free ones; return a line for each fault.

    Other processes may write meanwhile. `BusyError` or `StorageError` if the system does not let
    this process read: then nothing is known of the pages.
    """
    from lmdb import verify

    verifier: Any = verify  # it has no types
    path = directory / "data.mdb"
    try:
        while True:
            metas = meta_pages(path)
            try:
                faults: list[str] = verifier.verify(str(path))
            except (verifier.VerifyError, RecursionError, IndexError, struct.error) as error:
                faults = [str(error)]
            if not faults or meta_pages(path) == metas:
                break
    except OSError as error:
        refusal = unreadable(path, error)
        if not isinstance(refusal, DamagedError):
            raise refusal from error
        faults = [str(refusal)]
    return [f"the structure of the folded part is damaged: {fault}" for fault in faults]


def require_none(faults: Sequence[str]) -> None:
    """Raise `DamagedError` for the first of some faults."""
    if faults:
        raise DamagedError(f"{faults[0]}; {REMEDY}")
