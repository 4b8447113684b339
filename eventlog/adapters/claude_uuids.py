"""Index of a transcript's entries by their uuids.

Derived data: a row of every `WINDOW` versions of the session, made by the first reader of a window
that is complete; what lies behind the last one is read each time. A key is 8 bytes of BLAKE2b, so a
found entry is looked at before it is believed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from hashlib import blake2b
from threading import Lock
from typing import Any

import msgspec

from eventlog.errors import EventlogError
from eventlog.history import checkpoint_store
from eventlog.importers.claude_code.records import kept_of
from eventlog.importers.common.json_lines import is_object
from eventlog.log.contract import Log

__all__ = ["TAIL", "UuidIndex", "uuid_of"]

TAIL = "tail:"
"""Precedes the last kept message's uuid in a boundary's second name."""

WINDOW = 1024
"""Versions of a row."""
KEY = 8
_KIND = "claude uuids 2"

_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[tuple[list[int], bytes]] = msgspec.msgpack.Decoder(tuple[list[int], bytes])


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
        stored: dict[int, bytes] = {}
        if version - self._version >= WINDOW:
            stored = checkpoint_store.rows(self._log, _KIND, self._session)
        made: list[tuple[int, bytes]] = []
        while self._version < version:
            window = self._version // WINDOW * WINDOW
            end, is_whole = window + WINDOW, self._version == window
            row = _decoded(stored.get(end)) if is_whole else None
            if row is None:
                own = told[bisect_right(told, self._version) : bisect_right(told, min(end, version))]
                named = [
                    (number, name) for number, entry in zip(own, self._read(own), strict=True) for name in _names(entry)
                ]
                row = [number - window for number, _ in named], b"".join(_key(name) for _, name in named)
                if is_whole and end <= version:
                    made.append((end, _encode(row)))
            for place, number in enumerate(row[0]):
                self._places[row[1][place * KEY : place * KEY + KEY]] = window + number
            self._version = min(end, version)
        if made and not self._log.read_only:
            with suppress(EventlogError):  # the next reader makes them again
                checkpoint_store.save_rows(self._log, _KIND, self._session, made)


def _key(uuid: str) -> bytes:
    return blake2b(uuid.encode("utf-8", "surrogatepass"), digest_size=KEY).digest()


def _decoded(data: bytes | None) -> tuple[list[int], bytes] | None:
    try:
        row = None if data is None else _decoder.decode(data)
    except msgspec.MsgspecError:
        return None
    return row if row is not None and len(row[1]) == KEY * len(row[0]) else None
