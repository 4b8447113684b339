"""A shelf: values without a conversation, in a stream of its own.

A shelf has a hash tree and, in an encrypted store, a key of its own. It is in no list of sessions,
and no retention erases it; `verify`, backups, heads and scrubs include it.

Its id is made from its name and the number of shelves of that name that were dropped before it. In
an encrypted store the id has a keyed hash of the name.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from eventlog import events as ev
from eventlog.codec.payload import is_encrypted
from eventlog.errors import AlreadyExistsError, ErasedError, LimitError
from eventlog.history.catalog import SHELF, entry_of, is_shelf
from eventlog.ids import size_of
from eventlog.session.values import Values
from eventlog.validation import require

if TYPE_CHECKING:
    from eventlog.append.pipeline import Pipeline
    from eventlog.integrity.heads import SessionHead
    from eventlog.log.contract import Log
    from eventlog.session.executor import Executor
    from eventlog.session.session import Sessions

MAX_NAME_BYTES = 200
"""Longest name of a shelf, in bytes of UTF-8."""


class Shelf:
    """Values under a name.  Made by `Store.shelf`; safe across threads."""

    def __init__(self, name: str, executor: Executor) -> None:
        self.name = name
        self.id: str = executor.id
        """The id of its stream, in heads and in `verify`."""
        self.values: Values = Values(executor)
        """Its values: put, get, items, drop."""
        self._executor = executor

    def __repr__(self) -> str:
        return f"<Shelf {self.name}>"

    def pipeline(self) -> Pipeline:
        """Collect puts and drops inside a `with`, and commit them at its end: all, or none."""
        return self._executor.pipeline()

    def head(self) -> SessionHead:
        """Return the root of the shelf's hash tree, to keep elsewhere and compare later."""
        return self._executor.reader.head()


def check_name(name: str) -> str:
    """Return `name` if a shelf may have it: 1..200 bytes of UTF-8; `LimitError` otherwise."""
    require(str, name, "a shelf's name is a str")
    size = size_of("a shelf's name", name)
    if not 0 < size <= MAX_NAME_BYTES:
        raise LimitError("bytes of a shelf's name", size, MAX_NAME_BYTES)
    return name


def find_shelf(log: Log, name: str) -> tuple[str, bool]:
    """Return the id of the shelf of a name and True; if there is none, the id for a new one.

    A shelf of an encrypted copy of a plain store has the id that it had there.
    """
    keyed = log.scope_name(f"{SHELF}:{name}").removeprefix(f"{SHELF}:")
    places = [_first_place(log, named) for named in dict.fromkeys((keyed, name))]
    found = next((place for place in places if log.head(place) is not None), None)
    return (places[0], False) if found is None else (found, True)


def _first_place(log: Log, named: str) -> str:
    """Return the first id that no dropped shelf has left behind.

    There may be many, one for each shelf of the name that was dropped, so it is searched for.
    """

    def place(number: int) -> str:
        return f"{SHELF}~{number}:{named}" if number else f"{SHELF}:{named}"

    def used(number: int) -> bool:
        head = log.head(place(number))
        return head is not None and (not is_shelf(head) or entry_of(head).erased)

    last = 1
    while used(last - 1):
        last *= 2
    return place(bisect_left(range(last), True, lo=last // 2, key=lambda number: not used(number)))


def open_shelf(store: Sessions, name: str) -> Shelf:
    """Return the shelf of a name, which begins if there is none."""
    check_name(name)
    while True:
        id, exists = find_shelf(store.log, name)
        with suppress(AlreadyExistsError, ErasedError):  # another writer began or dropped it meanwhile
            if exists:
                return Shelf(name, store.registry.get(id))
            return Shelf(name, store.registry.begin(ev.ShelfStarted(name), id, None))


def shelf_names(log: Log) -> Iterator[str]:
    """Yield the names of all shelves; those whose key is gone have none any more."""
    for head in log.heads():
        if is_shelf(head) and not is_encrypted(head.entry) and not (entry := entry_of(head)).erased:
            yield entry.title
