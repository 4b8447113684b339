"""Index of a stream's values: the versions that put or dropped each key.

Derived data, brought up to date with each append. It lies in rows that hold keys and versions, no
contents: the nodes of a tree (`value_tree.py`). Row keys have hashes of node names, keyed ones in
an encrypted store.

A *mark* has the version up to which the index goes, and how many values it knows. It is complete if
the session's catalog entry counts as many; else the stream is read from the mark on. Every row
begins with the version that changed it last, and the log keeps the newer of two (`GROWING`), so
processes may write in any order. Rows may be newer than the mark, never older. A row that is
missing or damaged shows, as another names it; then the index is made anew.

The nodes read last stay in memory. While the stored mark is theirs they hold, for rows follow from
the events up to their mark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from itertools import islice
from sys import maxsize
from threading import RLock
from typing import TYPE_CHECKING, TypeVar

import msgspec

from eventlog.codec.decoded import spans_of
from eventlog.codec.payload import is_encrypted
from eventlog.errors import KeyMissingError
from eventlog.history.catalog import entry_of
from eventlog.history.checkpoint_store import name_in_keys
from eventlog.history.derived import LostRowError, decoded, store
from eventlog.history.effective_history import END
from eventlog.history.value_tree import Change, ValueTree, changes_in, key_bytes
from eventlog.log.contract import GROWING, STAMP_BYTES

if TYPE_CHECKING:
    from eventlog.log.commit import Head
    from eventlog.log.contract import BodyStore, Log

PREFIX = GROWING + b"values\0\x01"
"""First bytes of the keys of all rows; the last one is the version of their meaning."""
NEAR = 256
"""Versions behind its mark up to which a writer reads what others appended."""
MOST_NODES = 1024
"""Nodes in memory from which on they are read anew."""
_NAME_BYTES = 20
_MARK = b"m"

T = TypeVar("T")


class Mark(msgspec.Struct, array_like=True, frozen=True):
    """The version up to which the index goes, and the number of changes it has."""

    version: int
    count: int


_encode = msgspec.msgpack.Encoder().encode
_decode_mark = msgspec.msgpack.Decoder(Mark).decode


class ValueIndex:
    """The index of the values in one stream, forks' inherited ones not included.  Thread-safe."""

    def __init__(self, log: Log, session: str) -> None:
        self._log = log
        self._session = session
        self._rows: BodyStore = log.of(session)
        self._begin = PREFIX + name_in_keys(session)
        self._lock = RLock()
        self._own: dict[bytes, bytes] = {}
        """Rows that cannot be stored, as in a store opened for reading only."""
        self._alone = False
        """Whether what is stored is of no use."""
        self._known: tuple[Mark, ValueTree] | None = None
        """The nodes read last, and their mark; None while they may be half changed."""

    # -- reading -------------------------------------------------------------------------------

    def newest(self, key: str, upto: int = END) -> Change | None:
        """Return the newest change of a key up to a version, None if there is none."""
        name = key_bytes(key)
        return self._complete(upto, lambda tree: tree.newest(name, upto))

    def newest_of_all(
        self, prefix: str = "", upto: int = END, after: str = "", limit: int | None = None
    ) -> list[Change]:
        """Return the newest change up to a version of every key with a prefix, in key order.

        Of keys greater than `after`. With a `limit` of the first ones that have a value.
        """

        def look(tree: ValueTree) -> list[Change]:
            found = tree.newest_of_all(key_bytes(prefix), upto, key_bytes(after))
            return list(
                found if limit is None else islice((one for one in found if not one.dropped), min(limit, maxsize))
            )

        return self._complete(upto, look)

    def _complete(self, upto: int, look: Callable[[ValueTree], T]) -> T:
        """Look into the index once it knows all changes up to a version.

        An index made anew is looked into as it is in memory: another process may have changed its
        rows since.
        """
        with self._lock:
            try:
                return look(self._caught_up(upto))
            except LostRowError:
                return look(self._made_anew())

    # -- bringing it up to date ------------------------------------------------------------------

    def note(self, changes: Sequence[Change], valued: int) -> None:
        """Take in changes that the caller has appended, after which the entry counts `valued`.

        If others' changes before them are missing, they are read; if those are far behind, or
        another thread reads the index now, they are left to the next reader.
        """
        if not self._lock.acquire(blocking=False):
            return
        try:
            mark = self._mark()
            last = changes[-1].version
            if mark.count + len(changes) == valued and mark.version < changes[0].version:
                tree = self._tree(mark)
                for change in changes:
                    tree.apply(change)
                self._store(tree, Mark(last, valued))
            elif mark.count < valued and last - mark.version <= NEAR:
                self._caught_up(last)
        except LostRowError:
            return
        finally:
            self._lock.release()

    def _tree(self, mark: Mark) -> ValueTree:
        """Take the nodes of a mark out of memory, or begin without any."""
        known, self._known = self._known, None
        if known is not None and known[0] == mark and len(known[1]) <= MOST_NODES:
            return known[1]
        return ValueTree(self._row, self._key)

    def _caught_up(self, upto: int) -> ValueTree:
        mark = self._mark()
        head = self._log.head(self._session)  # behind the mark, which others move on
        tree = self._tree(mark)
        if head is None:
            return tree
        if is_encrypted(head.entry):
            raise KeyMissingError("it is encrypted, and its key is missing", session=self._session)
        if mark.version > head.version or (mark.count and tree.is_empty):
            raise LostRowError
        if mark.version >= min(upto, head.version) or mark.count == entry_of(head).valued:
            self._known = mark, tree
            return tree
        return self._read_on(tree, head, mark)

    def _read_on(self, tree: ValueTree, head: Head, mark: Mark) -> ValueTree:
        """Apply what the stream has beyond the mark."""
        count = mark.count
        start = max(mark.version, head.base)
        for commit in self._log.read(self._session, start, head.version):
            for change in changes_in((span.first, span.item) for span in spans_of(commit, start, head.version)):
                tree.apply(change)
                count += 1
        self._store(tree, Mark(head.version, count))
        return tree

    def _made_anew(self) -> ValueTree:
        """Make the index from the stream alone; what is stored of it is of no use any more."""
        head = self._log.head(self._session)
        self._own, self._known = {}, None
        self._alone = not store(self._rows, [(key, None) for key in self._rows.derived_keys(self._begin)])
        tree = ValueTree(lambda _key: None, self._key)
        return tree if head is None else self._read_on(tree, head, Mark(0, 0))

    # -- rows ------------------------------------------------------------------------------------

    def _key(self, kind: bytes, name: bytes) -> bytes:
        return self._begin + kind + self._rows.name(sha256(kind + name).digest())[:_NAME_BYTES]

    def _row(self, key: bytes) -> bytes | None:
        """Return a row without its stamp."""
        row = self._own.get(key)
        if row is None and not self._alone:
            row = self._rows.get_derived(key)
        return None if row is None else row[STAMP_BYTES:]

    def _mark(self) -> Mark:
        row = self._row(self._key(_MARK, b""))
        return Mark(0, 0) if row is None else decoded(_decode_mark, row)

    def _store(self, tree: ValueTree, mark: Mark) -> None:
        rows = {
            key: stamp.to_bytes(STAMP_BYTES, "big") + _encode(value) for key, (stamp, value) in tree.changed.items()
        }
        rows[self._key(_MARK, b"")] = mark.version.to_bytes(STAMP_BYTES, "big") + _encode(mark)
        tree.changed = {}
        self._own.update(rows)
        if store(self._rows, list(self._own.items())):
            self._own = {}  # else they are stored with the next ones
        self._known = mark, tree
