"""Index of a transcript's entries by their uuids.

Derived data: a row of every window of the session (`history/derived.py`). A key is 8 bytes of
BLAKE2b, so a found entry is looked at before it is believed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from threading import Lock
from typing import Any

import msgspec

from eventlog.history.derived import WINDOW, windows
from eventlog.history.effective_history import END, StreamRange
from eventlog.importers.claude_code.records import kept_of
from eventlog.importers.common.json_lines import is_object
from eventlog.log.contract import Log

TAIL = "tail:"
"""Precedes the last kept message's uuid in a boundary's second name."""

KEY = 8
_KIND = "claude uuids 1"


class _Row(msgspec.Struct, array_like=True):
    """The names of a window's entries as keys, and their versions, counted from its beginning."""

    places: list[int]
    keys: list[bytes]


def uuid_of(entry: object) -> str:
    """Return the uuid of an entry, "" if it has none."""
    found = entry.get("uuid") if is_object(entry) else None
    return found if isinstance(found, str) else ""


def _names(entry: object) -> list[str]:
    """Return the names by which an entry is found."""
    uuid = uuid_of(entry)
    kept = kept_of(entry) if is_object(entry) and entry.get("subtype") == "compact_boundary" else ()
    return [*filter(None, [uuid]), *(f"{TAIL}{last}" for last in kept[-1:])]


class UuidIndex:
    """The entries of one session by their uuids, up to a version.  Safe across threads."""

    def __init__(self, log: Log, session: str, read: Callable[[Sequence[int]], list[Any]]) -> None:
        self._log = log
        self._session = session
        self._read = read
        self._places: dict[bytes, int] = {}
        self._version = 0
        self._lock = Lock()

    def number(self, uuid: object) -> int | None:
        """Return the number of the entry with a uuid, None if there is none."""
        return self._places.get(_key(uuid)) if isinstance(uuid, str) and uuid else None

    def take(self, entries: Iterable[Any], numbers: Sequence[int]) -> None:
        """Take in entries that were just told behind all others."""
        with self._lock:
            for entry, number in zip(entries, numbers, strict=True):
                for name in _names(entry):
                    self._places[_key(name)] = number
                self._version = max(self._version, number)

    def advance(self, told: list[int], version: int) -> None:
        """Take in the records up to a version; `told` are the numbers of all of them."""
        with self._lock:
            self._advance(told, version)

    def _advance(self, told: list[int], version: int) -> None:
        def read(after: int, upto: int) -> _Row:
            own, window = told[bisect_right(told, after) : bisect_right(told, upto)], after // WINDOW * WINDOW
            named = [(at, name) for at, entry in zip(own, self._read(own), strict=True) for name in _names(entry)]
            return _Row([at - window for at, _ in named], [_key(name) for _, name in named])

        stream = StreamRange(self._session, 1, END)
        rows = windows(self._log, _KIND, stream, after=self._version, last=version, read=read, of=_Row)
        for window, self._version, row in rows:
            self._places.update(zip(row.keys, (window + place for place in row.places), strict=False))


def _key(uuid: str) -> bytes:
    return blake2b(uuid.encode("utf-8", "surrogatepass"), digest_size=KEY).digest()
