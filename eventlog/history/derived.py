"""Derived data that is lost or damaged: made anew in one way.

A look-up reads rows that were made from the log. One that is missing or damaged is `LostRowError`:
`found` has the rows made anew, and looks once more. Many look-ups have a row of every `WINDOW`
versions (`windows`), made by the first reader of a window that is complete; what lies behind the
last one is read each time. Rows are stored where the log takes them; else the next reader makes
them again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import ParamSpec, TypeVar

import msgspec

from eventlog.errors import EventlogError
from eventlog.history import checkpoint_store
from eventlog.history.effective_history import StreamRange
from eventlog.log.contract import BodyStore, Log

WINDOW = 1024
"""Versions of a row."""

P = ParamSpec("P")
T = TypeVar("T")


class LostRowError(Exception):
    """A row that must be there is missing, or cannot be read."""


def decoded(decode: Callable[[bytes], T], row: bytes | None) -> T:
    """Return a decoded row; `LostRowError` if there is none, or it cannot be read."""
    if row is None:
        raise LostRowError
    try:
        return decode(row)
    except (msgspec.MsgspecError, ValueError):
        raise LostRowError from None


def found(look: Callable[P, T], make_anew: Callable[[], object], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what `look` returns; if it meets a lost row, once the rows are made anew."""
    try:
        return look(*args, **kwargs)
    except LostRowError:
        make_anew()
        return look(*args, **kwargs)


def store(rows: BodyStore, items: Sequence[tuple[bytes, bytes | None]]) -> bool:
    """Store rows, if the log takes any now; return whether they are stored."""
    with suppress(EventlogError):
        if items and not rows.read_only:
            rows.put_derived(items)
        return not rows.read_only
    return False


def windows(
    log: Log, kind: str, stream: StreamRange, *, after: int, last: int, read: Callable[[int, int], T], of: type[T]
) -> Iterator[tuple[int, int, T]]:
    """Yield the rows of versions `after + 1 .. last` of a stream.

    Each is of type `of`, and comes with the version before its window and the last one that it goes
    to. `read` makes a row of the versions behind its first argument, up to its second.
    """
    version = after
    decode = msgspec.msgpack.Decoder(of).decode
    stored = checkpoint_store.rows(log, kind, stream.session) if last - version >= WINDOW else {}
    made: list[tuple[int, bytes]] = []
    while version < last:
        window = version // WINDOW * WINDOW
        end, begin = window + WINDOW, version
        is_whole, version = begin == max(window, stream.first - 1), min(end, last)
        try:
            row = decoded(decode, stored.get(end) if is_whole else None)
        except LostRowError:
            row = read(begin, version)
            if is_whole and end <= last:
                made.append((end, msgspec.msgpack.encode(row)))
        yield window, version, row
    store(log.of(stream.session), checkpoint_store.stored_rows(kind, stream.session, made))
