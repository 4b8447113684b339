"""Remainder of a source record: what no event has of it, and how the record is restored.

Every record of a line-based format ends with `ForeignKept(of="line:N")`, whose data is the JSON
text `[rest, moved]`. `rest` is the record with null in place of what moved to events, and `moved`
says where it went: `[path, [event, field]]`, the path from an array that holds the record alone,
with the event's index among those since the record before. A large text that no event has is an
event of its own, `ForeignKept(of="line:N:K")`. So no large text is stored twice, and a text that is
redacted in its part does not stay behind here (texts under `SHORT` characters may). Of several
records on one line the later ones have `N+1`, `N+2` … for `N`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import merge
from typing import Any, NamedTuple

from eventlog import events as ev
from eventlog.codec.large_texts import INLINE
from eventlog.errors import DamagedError
from eventlog.errors.base import brief
from eventlog.importers.common.candidate import BESIDE
from eventlog.importers.common.importer import ImportBatch
from eventlog.importers.common.json_lines import ARRAY, OBJECT, LineNumber, dump
from eventlog.session.session import Session
from eventlog.values import Content, File, Reasoning, Text

SHORT = 16
"""Shorter texts stay in the rest, because a reference would be longer."""

AROUND = "around"
"""Subject of the snapshot of all that stands around a document's messages."""

Path = list[str | int]
Moved = list[tuple[Path, tuple[int, str]]]


class SourceRecord(NamedTuple):
    """A source record and the number of its line."""

    line: int
    record: Any


class Remainder:
    """Events of one record, with the texts and values of the record that they hold."""

    __slots__ = ("count", "plain", "texts", "values")

    def __init__(self) -> None:
        self.count: int = 0
        """Events since the record before."""
        self.plain: bool = True
        """Whether the record is plain (`parse`); only then events hold its values exactly."""
        self.texts: dict[str, tuple[int, str]] = {}
        self.values: dict[int, tuple[int, str]] = {}

    def move(self, text: str, field: str) -> None:
        """Move a text of the record into `field` of the next event (a word of `FIELDS`)."""
        if len(text) >= SHORT:
            self.texts.setdefault(text, (self.count, field))

    def move_value(self, value: object, field: str) -> None:
        """Move an array or object of the record into `field` of the next event, as JSON text."""
        if self.plain:
            self.values[id(value)] = (self.count, field)

    def close(self, batch: ImportBatch, time: int, line: int, record: Any) -> int:
        """Append what is left of the record; the number of events that took."""
        rest, moved, large = self.split(record)
        for number, text in enumerate(large):
            batch.add(time, ev.ForeignKept(f"line:{line}:{number}", batch.content(text)))
        data = dump([rest, moved], plain=self.plain)
        batch.add(time, ev.ForeignKept(f"line:{line}", batch.content(data)))
        self.begin()
        return len(large) + 1

    def begin(self) -> None:
        """Begin a record, with its first event."""
        self.count = 0
        self.texts.clear()
        self.values.clear()

    def split(self, record: Any) -> tuple[Any, Moved, list[str]]:
        """Return the rest of the record, what moved where, and large texts that no event has.

        Those go into events of their own, behind the record's.
        """
        moved: Moved = []
        large: list[str] = []
        # Wrapped in an array, so that a record that is a bare text is handled like any other.
        (rest,) = self._strip([record], moved, large)
        return rest, moved, large

    def _strip(self, value: Any, moved: Moved, large: list[str]) -> Any:
        """Return the value with null in place of what moves; the same object if nothing does."""
        rest: Any = None
        entries: Any = value.items() if isinstance(value, OBJECT) else enumerate(value)
        for key, item in entries:
            left: Any = None
            if isinstance(item, str):
                if len(item) < SHORT:
                    continue
                place = self.texts.get(item)
                if place is None:
                    if len(item) <= INLINE:
                        continue
                    place = self.texts[item] = (self.count + len(large), "data")
                    large.append(item)
                moved.append(([key], place))
            elif isinstance(item, (OBJECT, ARRAY)):
                place = self.values.get(id(item))
                if place is not None:
                    moved.append(([key], place))
                else:
                    before = len(moved)
                    left = self._strip(item, moved, large)
                    if left is item:
                        continue
                    for path, _ in moved[before:]:
                        path.insert(0, key)
            else:
                continue
            if rest is None:
                rest = value.copy()
            rest[key] = left
        return value if rest is None else rest


def records_of(events: Iterable[ev.Event], text: Callable[[Content], str]) -> Iterator[SourceRecord]:
    """Yield the records of these events, in order.

    `text` resolves a content (`Store.text`).

    `DamagedError` when what was kept does not fit the events around it.
    """
    group: list[ev.Event] = []
    for event in events:
        if isinstance(event, ev.SessionForked):
            continue
        if isinstance(event, ev.ForeignKept) and event.of == AROUND:
            yield SourceRecord(0, json.loads(text(event.data)))
            group = [one for one in group if not isinstance(one, ev.SessionRenamed)]
            continue
        if not isinstance(event, ev.ForeignKept) or not event.of.startswith("line:") or event.of.count(":") > 1:
            group.append(event)
            continue
        try:
            rest, moved = json.loads(text(event.data))
            yield SourceRecord(LineNumber.read(event.of[5:]), put_back(rest, moved, group, text))
        except UNFIT as error:
            raise DamagedError(f"what was kept of source record {brief(event.of)} does not fit its events") from error
        group = []


def emit(sessions: Iterable[Session], text: Callable[[Content], str]) -> Iterator[SourceRecord]:
    """Yield the records of a file from its sessions, in the order of their lines.

    `sessions` are the main session and its sub-sessions.
    """
    return merge(*(records_of(_imported(session), text) for session in sessions), key=lambda source: source.line)


def _imported(session: Session) -> Iterator[ev.Event]:
    """Yield the events of a session without the appends that only noted something beside it."""
    for commit in session.reader.decoded_commits():
        events = [found.event for span in commit.spans() for found in span.events()]
        if not all(isinstance(event, BESIDE) for event in events):
            yield from events


def put_back(rest: Any, moved: Moved, events: Sequence[ev.Event], text: Callable[[Content], str]) -> Any:
    """Return a record: its rest, with what moved to these events in its place again.

    One of `UNFIT` if it does not fit them.
    """
    whole = [rest]
    for path, (number, field) in moved:
        _put(whole, path, FIELDS[field](events[number], text))
    return whole[0]


UNFIT = (ValueError, LookupError, TypeError, AttributeError, RecursionError)
"""Errors of a rest that does not fit the events around it."""


def _put(whole: Any, path: Path, value: Any) -> None:
    place = whole
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value


def _part_text(event: Any, text: Callable[[Content], str]) -> str:
    kind = event.kind
    if isinstance(kind, (Text, Reasoning)):
        return text(kind.text)
    raise TypeError("not a text")


def _file_data(event: Any, text: Callable[[Content], str]) -> str:
    kind = event.kind
    if isinstance(kind, File):
        return text(kind.url).partition(",")[2]
    raise TypeError("not a file")


FIELDS: dict[str, Callable[[Any, Callable[[Content], str]], Any]] = {
    "text": _part_text,
    "file": _file_data,
    "url": lambda event, text: text(event.kind.url),
    "input": lambda event, text: json.loads(text(event.input)),
    "arguments": lambda event, text: text(event.input),
    "raw": lambda event, text: json.loads(text(event.input))["input"],
    "metadata": lambda event, _: json.loads(event.metadata),
    "signature": lambda event, _: json.loads(event.metadata)["anthropic"]["signature"],
    "secret": lambda event, _: json.loads(event.metadata)["openai"]["reasoningEncryptedContent"],
    "born_secret": lambda event, _: json.loads(event.kind.metadata)["openai"]["reasoningEncryptedContent"],
    "attachment": lambda event, text: text(event.attachments[0].url).partition(",")[2],
    "header": lambda event, text: text(event.header),
    "system": lambda event, text: text(event.system),
    "schemas": lambda event, text: json.loads(text(event.schemas)),
    "output": lambda event, text: text(event.output),
    "error": lambda event, text: text(event.error),
    "data": lambda event, text: text(event.data),
}
"""Readers of a moved text or value, by its field."""
