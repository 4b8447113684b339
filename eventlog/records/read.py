"""Reading records: their commits by ranges of versions, their large texts together.

`RecordKept.rest` is a record as JSON, with null in place of what moved to the record's events.
`RecordKept.moved` is "", or JSON: for each place `[path, [event, field]]`, the path from an array
that holds the record alone, with the event's index among those of the record.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from eventlog import events as ev
from eventlog.codec.decoded import decode_commit
from eventlog.codec.redaction import contents, part_of
from eventlog.errors import DamagedError, NotFoundError
from eventlog.history.lineage import StreamRange
from eventlog.history.streams import texts
from eventlog.importers.common.json_lines import is_array
from eventlog.importers.common.remainder import FIELDS, UNFIT
from eventlog.log.contract import Commit, Log
from eventlog.records.json_value import parsed
from eventlog.records.light import one_by_one
from eventlog.values import Body, Content

__all__ = ["Forgotten", "Redacted", "StoredRecord", "stored_records", "values_of", "whole_events"]

APART = 256
"""Versions between two records from which on they are read one by one."""


class Forgotten(msgspec.Struct, frozen=True):
    """Stands for a record that was forgotten."""

    number: int


class Redacted(msgspec.Struct, frozen=True):
    """Stands for a record that has something of a redacted part."""

    number: int


class StoredRecord(NamedTuple):
    """A record as it is stored: its end, and its place among the entries of its append."""

    session: str
    """The session whose stream it is in."""
    number: int
    kept: ev.RecordKept
    entries: list[Any]
    first: int
    """Index of its first event."""

    @property
    def events(self) -> list[Any]:
        """Its events; those that hold nothing of records may be empty ones of their kind."""
        return [entry.event for entry in self.entries[self.first : self.first + self.kept.events]]

    def has_part(self, parts: Collection[str]) -> bool:
        """Whether one of its events has content of one of these parts."""
        return any(part_of(event) in parts for event in self.events)


class _LackingError(Exception):
    """A large text is not read yet."""


Read = Callable[[Any, Callable[[Content], str]], Any]
Decode = Callable[[Commit], list[Any]]


def whole_events(commit: Commit) -> list[Any]:
    """Return the entries of a commit with all their events."""
    decoded = decode_commit(commit)
    return [] if decoded is None else one_by_one(decoded)


def stored_records(
    log: Log, streams: Sequence[StreamRange], numbers: Iterable[int], decode: Decode = whole_events
) -> Iterator[StoredRecord]:
    """Yield the records with these numbers, ascending; `NotFoundError` for a number of none."""
    wanted = sorted(set(numbers))
    count = 0
    for stream in streams:
        own = [number for number in wanted if stream.first <= number <= stream.last]
        for group in _together(own):
            place, number = 0, group[0]
            for commit in log.read(stream.session, number - 1, group[-1]):
                first = commit.first
                last = first + commit.count - 1
                if number > last:
                    continue
                entries = decode(commit)
                while number <= last:
                    index = number - first
                    kept = entries[index].event if entries else None
                    if type(kept) is ev.RecordKept:
                        if kept.events > index:
                            raise DamagedError("a record without its events", session=stream.session, version=number)
                        count += 1
                        yield StoredRecord(stream.session, number, kept, entries, index - kept.events)
                    place += 1
                    if place == len(group):
                        break
                    number = group[place]
    if count < len(wanted):
        raise NotFoundError("record", "of these numbers", session=streams[-1].session)


def _together(numbers: list[int]) -> list[list[int]]:
    """Return the numbers in groups whose neighbours are not far apart."""
    groups: list[list[int]] = []
    before = -APART - 1
    for number in numbers:
        if number - before <= APART:
            groups[-1].append(number)
        else:
            groups.append([number])
        before = number
    return groups


@lru_cache(1024)
def _places(moved: str) -> list[tuple[list[Any], Any, int, Read]]:
    """Return the places that `moved` names; most records of a format name the same ones.

    Each has the steps of its path but the last, the last one, an event, and a reader of its field.
    """
    places: list[tuple[list[Any], tuple[int, str]]] = parsed(moved)
    return [(path[1:-1], path[-1], index, FIELDS[field]) for path, (index, field) in places]


def values_of(log: Log, session: str, records: Iterable[StoredRecord]) -> dict[int, Any]:
    """Return the values of records by their number, deep-equal to those that were told."""
    known: dict[bytes, str] = {}

    def text(content: Content) -> str:
        if type(content) is str:
            return content
        try:
            return known[content.digest]  # type: ignore[union-attr]
        except KeyError:
            raise _LackingError from None

    values: dict[int, Any] = {}
    while True:
        lacking: list[StoredRecord] = []
        for record in records:
            _, number, kept, entries, first = record
            try:
                rest, moved = kept.rest, kept.moved
                value = parsed(rest if type(rest) is str else text(rest))
                if moved:
                    for steps, last, index, read in _places(moved if type(moved) is str else text(moved)):
                        found = read(entries[first + index].event, text)
                        if last == 0 and not steps and not is_array(value):
                            value = found  # the record is this text
                            continue
                        place: Any = value
                        for step in steps:
                            place = place[step]
                        place[last] = found
                values[number] = value
            except _LackingError:
                lacking.append(record)
            except UNFIT as error:
                message = "what was kept of a record does not fit its events"
                raise DamagedError(message, session=record.session, version=number) from error
        if not lacking:
            return values
        bodies = {body.digest: body for record in lacking for body in _bodies(record)}
        known.update(zip(bodies, texts(log, session, bodies.values()), strict=True))
        records = lacking


def _bodies(record: StoredRecord) -> Iterator[Body]:
    """Yield the large texts of a record's events."""
    for event in (record.kept, *record.events):
        yield from (content for content in contents(event) if isinstance(content, Body))
