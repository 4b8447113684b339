"""The index of lists: rows in `derived` from which a page of a list is read.

It is disposable. The first request for a list makes it, in one transaction; from then on each fold
keeps it up in its own. A mark says up to which position it goes. A fold by a program that has no
lists leaves it behind, and the next request makes it anew. `FORMAT.md` describes the rows.
"""

from __future__ import annotations

import struct
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from eventlog.errors import DamagedError
from eventlog.log.embedded.segments import layout
from eventlog.log.validation import RESERVED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import lmdb

    from eventlog.log.commit import Head
    from eventlog.log.contract import Place
    from eventlog.log.embedded.segments.layout import HeadRow
    from eventlog.log.lists import ListsOf

LIST_BYTES = 16
"""Bytes of a list's name in keys: its hash."""
_VERSION = 1
"""Of the rows and of what is a list; another one counts as no index."""
_PLACE = struct.Struct(">QQ")
_ZERO = 1 << 63
"""Added to times, which may be negative, so that keys are in their order."""
_PAGE = 32
_ROWS_A_RUN = 1 << 16
AFTER_LISTS = RESERVED[:-1] + b"\1"
"""The first key behind the index."""
_decode_mark = msgspec.msgpack.Decoder(tuple[int, int]).decode

Row: TypeAlias = "tuple[Place, str]"


class ListIndex:
    """The index of one environment; `lists_of` is None where the program has no lists."""

    def __init__(self, tree: Any, sessions: Any, lists_of: ListsOf | None) -> None:
        self._tree = tree
        self._sessions = sessions
        self.lists_of = lists_of

    def reaches(self, txn: lmdb.Transaction[Any], position: int) -> bool:
        """Return whether it is there, and goes up to a position."""
        value = txn.get(RESERVED, db=self._tree)
        mark = None if value is None else layout.unprotect(RESERVED, value)
        if mark is None:
            return False
        try:
            return _decode_mark(mark) == (_VERSION, position)
        except msgspec.DecodeError:
            return False

    def rows(self, txn: lmdb.Transaction[Any], name: bytes, before: Place | None) -> Iterator[Row]:
        """Yield the rows of a list whose places are less than `before`, newest first.

        `DamagedError` at a row that cannot be read.
        """
        prefix = _prefix(name)
        end = prefix + (b"\xff" * (_PLACE.size + 1) if before is None else _place(before))
        while True:
            page: list[Row] = []
            with txn.cursor(self._tree) as cursor:
                more = cursor.prev() if cursor.set_range(end) else cursor.last()
                while more and len(page) < _PAGE and (key := bytes(cursor.key())).startswith(prefix):
                    page.append(_row(key, cursor.value()))
                    more = cursor.prev()
            yield from page
            if len(page) < _PAGE:
                return
            end = prefix + _place(page[-1][0])

    def follow(
        self,
        txn: lmdb.Transaction[Any],
        changes: Iterable[tuple[HeadRow | None, Head]],
        *,
        since: int,
        upto: int,
    ) -> None:
        """Take in the heads that a fold changes; nothing is done unless it goes up to `since`."""
        lists_of = self.lists_of
        if lists_of is None or not self.reaches(txn, since):
            return
        for before, head in changes:
            if before is not None:
                if before.position == head.position:  # only its lease is another
                    continue
                for key, _ in _rows_of(before.head(head.session), lists_of):
                    txn.delete(key, db=self._tree)
            for key, value in _rows_of(head, lists_of):
                txn.put(key, value, db=self._tree)
        self._mark(txn, upto)

    def build(self, txn: lmdb.Transaction[bytes], lists_of: ListsOf, position: int) -> None:
        """Make it anew from the heads, up to a position."""
        self._clear(txn)
        rows = (row for head in self._heads(txn) for row in _rows_of(head, lists_of))
        while run := sorted(islice(rows, _ROWS_A_RUN)):
            for key, value in run:
                txn.put(key, value, db=self._tree)
        self._mark(txn, position)

    def faults(self, txn: lmdb.Transaction[Any], position: int) -> list[str]:
        """Compare it with the heads; return a line for a fault.

        There is none where it will be made anew.
        """
        lists_of = self.lists_of
        if lists_of is None or not self.reaches(txn, position):
            return []
        made = _sum(row for head in self._heads(txn) for row in _rows_of(head, lists_of))
        if _sum(self._stored(txn)) == made:
            return []
        return ["the index of lists does not fit the sessions; a vacuum removes it, and the next list makes it anew"]

    def _stored(self, txn: lmdb.Transaction[Any]) -> Iterator[tuple[bytes, bytes]]:
        """Yield the stored rows behind the mark."""
        with txn.cursor(self._tree) as cursor:
            more = cursor.set_range(RESERVED) and cursor.next()
            while more and (key := bytes(cursor.key())).startswith(RESERVED):
                yield key, bytes(cursor.value())
                more = cursor.next()

    def _clear(self, txn: lmdb.Transaction[bytes]) -> None:
        with txn.cursor(self._tree) as cursor:
            more = cursor.set_range(RESERVED)
            while more and cursor.key() < AFTER_LISTS:
                more = cursor.delete() and bool(cursor.key())

    def _mark(self, txn: lmdb.Transaction[Any], position: int) -> None:
        txn.put(RESERVED, layout.protect(RESERVED, layout.encode((_VERSION, position))), db=self._tree)

    def _heads(self, txn: lmdb.Transaction[Any]) -> Iterator[Head]:
        with txn.cursor(self._sessions) as cursor:
            more = cursor.first()
            while more:
                head = _head(bytes(cursor.key()), cursor.value())
                yield head
                more = cursor.next()


def _head(key: bytes, value: memoryview | bytes) -> Head:
    session = key.decode(errors="replace")
    content = layout.unprotect(key, value)
    if content is None:
        raise DamagedError("a row of sessions is damaged", session=session)
    return layout.decode_head(memoryview(content), session).head(session)


def _sum(rows: Iterable[tuple[bytes, bytes]]) -> tuple[int, int]:
    """Return a number of rows and a sum over them, which is the same in any order."""
    count = total = 0
    for row in rows:
        count += 1
        total += hash(row)
    return count, total


def _prefix(name: bytes) -> bytes:
    return RESERVED + blake2b(name, digest_size=LIST_BYTES).digest()


def _place(place: Place) -> bytes:
    return _PLACE.pack(place[0] + _ZERO, place[1])


def _rows_of(head: Head, lists_of: ListsOf) -> list[tuple[bytes, bytes]]:
    """Return the keys and values of a session's rows."""
    place, session = _place((head.updated, head.position)), layout.session_key(head.session)
    keys = [_prefix(name) + place for name in lists_of(head.entry)]
    return [(key, layout.protect(key, session)) for key in keys]


def _row(key: bytes, value: memoryview | bytes) -> Row:
    session = layout.unprotect(key, value)
    if session is None or len(key) != len(RESERVED) + LIST_BYTES + _PLACE.size:
        raise DamagedError("the index of lists is damaged")
    time, position = _PLACE.unpack_from(key, len(key) - _PLACE.size)
    return (time - _ZERO, position), str(session, "utf-8", "replace")
