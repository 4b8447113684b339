"""Remainder of a stream's records, which are many and alike: several records an event.

One event has the remainders of a batch of records: `ForeignKept(of="lines:N")`, N the line of the
first record, whose data is a JSON array with an entry `[lines, events, steps, moved]` for each
record. `lines` and `events` count from the record before it. `steps` is the difference
(`json_patch.py`) from the record before. `moved` says where the texts went that are null: 0 for "as
before", else a list of `[path, [event, field]]` as in `remainder.py`, with events counted within
the record, or of `[path, [part, "said"]]`: the whole text, or input, that a part has by then.

A batch ends with a record that does more than add to a text. The records after the last whole batch
are in the event of its `tail`, which is a snapshot: it is replaced when the file has grown.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

from eventlog import events as ev
from eventlog.codec.bodies import INLINE
from eventlog.importers.common.json_lines import dump, is_array, is_object
from eventlog.importers.common.json_patch import difference, patch
from eventlog.values import Content, Reasoning, Text

__all__ = ["PartTexts", "StreamRemainder", "unpack"]

LONGEST = 500
"""Most records in a batch."""
SAID = 16
"""Shortest text of a part that is looked for in later records, in characters."""

Path = list[str | int]
Moved = list[tuple[Path, tuple[int | str, str]]]


class StreamRemainder:
    """Remainders of the records since the last batch."""

    def __init__(self) -> None:
        self.first = 0
        self._entries: list[Any] = []
        self._line = 0
        self._rest: Any = None
        self._moved: Moved = []
        self._plain = True
        self._deltas: dict[str, int] = {}
        self._events = 0
        """Events of the record that is being read."""
        self._more = False
        """Whether one of them is not a delta."""
        self._said: dict[str, str] = {}
        self._bound = INLINE

    def event(self, event: ev.Event) -> None:
        """Count an event of the record that is being read."""
        if isinstance(event, ev.PartDelta):
            if event.text:
                self._deltas.setdefault(event.text, self._events)
        else:
            self._more = True
        self._events += 1

    def complete(self, part: str, text: str) -> None:
        """Note the whole text or input of a part."""
        if len(text) >= SAID:
            self._said[text] = part

    def begin_message(self) -> None:
        """Forget the texts of the last message, which a new one does not repeat."""
        self._said.clear()

    def close(self, line: int, record: Any, *, plain: bool, begun: bool) -> list[str]:
        """End the record; return its large texts, each to be stored by an event (`line:N:K`).

        While the session has not begun there are none: no event may come before its first.
        """
        moved: Moved = []
        large: list[str] = []
        self._bound = INLINE if begun else sys.maxsize
        (rest,) = self._strip([record], [], moved, large)
        steps = difference(self._rest, rest)
        place = moved if not self._entries or moved != self._moved else 0
        if not self._entries:
            self.first = self._line = line
        self._entries.append([line - self._line, self._events + len(large), steps, place])
        self._line, self._rest, self._moved = line, rest, moved
        self._plain = self._plain and plain
        self._more = self._more or bool(large)
        self._events = 0
        self._deltas.clear()
        return large

    def due(self) -> bool:
        """Whether the batch must end now."""
        due, self._more = self._more or self.full(), False
        return due

    def full(self) -> bool:
        """Whether it may take no more records."""
        return len(self._entries) >= LONGEST

    def has_records(self) -> bool:
        """Whether there are records in it."""
        return bool(self._entries)

    def data(self) -> str:
        """Return the batch as JSON text."""
        return dump(self._entries, plain=self._plain)

    def clear(self) -> None:
        """Begin a new batch."""
        self._entries, self._rest, self._moved, self._plain = [], None, [], True

    def _strip(self, value: Any, path: Path, moved: Moved, large: list[str]) -> Any:
        """Return a copy of the value with null in place of texts that events have."""
        if isinstance(value, str):
            if value in self._deltas:
                moved.append((path, (self._deltas[value], "delta")))
                return None
            if value in self._said:
                moved.append((path, (self._said[value], "said")))
                return None
            if len(value) > self._bound:
                moved.append((path, (self._events + len(large), "data")))
                large.append(value)
                return None
            return value
        if is_object(value):
            return {key: self._strip(item, [*path, key], moved, large) for key, item in value.items()}
        if is_array(value):
            return [self._strip(item, [*path, number], moved, large) for number, item in enumerate(value)]
        return value


class PartTexts:
    """Texts of a stream's parts so far, for restoring its records."""

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {}

    def add(self, event: ev.Event, text: Callable[[Content], str]) -> None:
        """Add the text of the next event."""
        if isinstance(event, ev.PartDelta):
            self._texts.setdefault(event.part, []).append(event.text)
        elif isinstance(event, ev.PartStarted):
            kind = event.kind
            self._texts[event.part] = [text(kind.text)] if isinstance(kind, (Text, Reasoning)) else []
        elif isinstance(event, ev.ToolRunning):
            self._texts[event.part] = [text(event.input)]
        elif isinstance(event, ev.AssistantMessageStarted):
            self._texts.clear()

    def text_of(self, part: str) -> str:
        """Return a part's text so far."""
        return "".join(self._texts[part])


def unpack(
    first: int, data: str, events: list[ev.Event], texts: PartTexts, text: Callable[[Content], str]
) -> Iterator[tuple[int, Any]]:
    """Yield the records of a batch with their lines.

    `events` are those since the batch before.
    """
    line, at = first, 0
    rest: Any = None
    moved: Any = []
    for lines, count, steps, place in json.loads(data):
        line += lines
        rest = patch(rest, steps)
        moved = moved if place == 0 else place
        for event in events[at : at + count]:
            texts.add(event, text)
        whole = [json.loads(json.dumps(rest))]
        for path, (number, field) in moved:
            _put(
                whole, path, texts.text_of(number) if field == "said" else _value(events[at + int(number)], field, text)
            )
        yield line, whole[0]
        at += count


def _value(event: ev.Event, field: str, text: Callable[[Content], str]) -> str:
    if field == "delta" and isinstance(event, ev.PartDelta):
        return event.text
    if field == "data" and isinstance(event, ev.ForeignKept):
        return text(event.data)
    raise TypeError("not a text")


def _put(whole: Any, path: Path, value: Any) -> None:
    place = whole
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
