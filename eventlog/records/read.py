"""Reading records: their commits by ranges of versions, their large texts together.

`RecordKept.rest` is a record as JSON, with null in place of what moved to the record's events.
`RecordKept.moved` is "", or JSON: for each place `[path, [event, field]]`, the path from an array
that holds the record alone, with the event's index among those of the record.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, TypeAlias

import msgspec

from eventlog import events as ev
from eventlog.codec.decoded import entries_of
from eventlog.errors import DamagedError, NotFoundError
from eventlog.history.ancestry import commits_with, texts
from eventlog.history.effective_history import StreamRange
from eventlog.importers.common.json_lines import is_array
from eventlog.importers.common.remainder import FIELDS, UNFIT
from eventlog.log.contract import Log
from eventlog.records.json_value import parsed
from eventlog.values import Body, Content


class Forgotten(msgspec.Struct, frozen=True):
    """Stands for a record that was forgotten."""

    number: int


class Redacted(msgspec.Struct, frozen=True):
    """Stands for a record that has something of a redacted part."""

    number: int


StoredRecord: TypeAlias = tuple[str, int, ev.RecordKept, Sequence[Any], int]
"""Session, number and end of a record, its append's entries, and the index of its first.

The index is that of the first event of the record among these entries.
"""


def events_of(record: StoredRecord) -> list[Any]:
    """Return the events of a record; those that hold nothing of it may be empty ones."""
    _, _, kept, entries, first = record
    return [entry.event for entry in entries[first : first + kept.events]]


class _LackingError(Exception):
    """A large text is not read yet."""

    def __init__(self, body: Body) -> None:
        super().__init__(body)
        self.body = body


Read = Callable[[Any, Callable[[Content], str]], Any]


def stored_records(log: Log, streams: Sequence[StreamRange], numbers: Iterable[int]) -> Iterator[StoredRecord]:
    """Yield the records with these numbers, ascending; `NotFoundError` for a number of none."""
    wanted = sorted(set(numbers))
    place = 0
    for stream in streams:
        end = bisect_right(wanted, stream.last, place)
        own, place = wanted[place:end], end
        if own and own[0] < stream.first:
            raise NotFoundError("record", str(own[0]), session=streams[-1].session)
        missing = set(own)
        for commit, held in commits_with(log, stream.session, own):
            entries = entries_of(commit)
            for number in held if entries else ():
                index = number - commit.first
                kept = entries[index].event
                if type(kept) is ev.RecordKept:
                    if kept.events > index:
                        raise DamagedError("a record without its events", session=stream.session, version=number)
                    missing.discard(number)
                    yield stream.session, number, kept, entries, index - kept.events
        if missing:
            raise NotFoundError("record", str(min(missing)), session=streams[-1].session)
    if place < len(wanted):
        raise NotFoundError("record", str(wanted[place]), session=streams[-1].session)


_PLAIN = {
    "text": "kind.text",
    "url": "kind.url",
    "arguments": "input",
    "header": "header",
    "output": "output",
    "error": "error",
    "data": "data",
}
"""Fields whose content is a text of the record as it is; `_READERS` reads the others."""


def _input(event: Any, text: Callable[[Content], str]) -> Any:
    """Return the input of a call, parsed as the rest of a record is."""
    return parsed(text(event.input))


_READERS: dict[str, Read] = FIELDS | {"input": _input}


@lru_cache(1024)
def _places(moved: str) -> list[tuple[list[Any], Any, int, Callable[[Any], Any], Read | None]]:
    """Return the places that `moved` names; most records of a format name the same ones.

    Each has the steps of its path but the last, the last one, an event, and how to read its field:
    an attribute that is a content, or a reader.
    """
    places: list[tuple[list[Any], tuple[int, str]]] = parsed(moved)
    return [
        (path[1:-1], path[-1], index, attrgetter(_PLAIN.get(field, "")), None if field in _PLAIN else _READERS[field])
        for path, (index, field) in places
    ]


def values_of(log: Log, session: str, streams: Sequence[StreamRange], numbers: Iterable[int]) -> dict[int, Any]:
    """Return the values of records by their number, deep-equal to those that were told.

    `NotFoundError` for a number of no record.
    """
    known: dict[bytes, str] = {}
    late: list[tuple[Any, Any, Body]] = []
    """Places in values where large texts go, which are read together."""

    def text(content: Content) -> str:
        if isinstance(content, str):
            return content
        try:
            return known[content.digest]
        except KeyError:
            raise _LackingError(content) from None

    values: dict[int, Any] = {}
    records: Iterable[StoredRecord] = stored_records(log, streams, numbers)
    while True:
        lacking: list[StoredRecord] = []
        bodies: dict[bytes, Body] = {}
        for record in records:
            _, number, kept, entries, first = record
            try:
                rest, moved = kept.rest, kept.moved
                value: Any = parsed(rest if type(rest) is str else text(rest))
                if moved:
                    for steps, last, index, content_of, read in _places(moved if type(moved) is str else text(moved)):
                        event = entries[first + index].event
                        found = content_of(event) if read is None else read(event, text)
                        place: Any = value
                        for step in steps:
                            place = place[step]
                        if not steps and last == 0 and not is_array(value):
                            value = (
                                found if read is not None or type(found) is str else text(found)
                            )  # the record is this
                        elif read is None and type(found) is not str:
                            place[last] = found.digest  # `AttributeError` for what is no text
                            late.append((place, last, found))
                        else:
                            place[last] = found
                values[number] = value
            except _LackingError as error:
                bodies[error.body.digest] = error.body
                lacking.append(record)
            except UNFIT as error:
                if not kept.rest:  # a restore brought back a state before it was forgotten, and not its content
                    values[number] = Forgotten(number)
                    continue
                message = "what was kept of a record does not fit its events"
                raise DamagedError(message, session=record[0], version=number) from error
        if not lacking:
            break
        known.update(zip(bodies, texts(log, session, bodies.values()), strict=True))
        records = lacking
    _put_late(log, session, late, known)
    return values


def _put_late(log: Log, session: str, late: list[tuple[Any, Any, Body]], known: dict[bytes, str]) -> None:
    """Put large texts into their places."""
    bodies = {body.digest: body for _, _, body in late if body.digest not in known}
    known.update(zip(bodies, texts(log, session, bodies.values()), strict=True))
    for place, last, body in late:
        place[last] = known[body.digest]
