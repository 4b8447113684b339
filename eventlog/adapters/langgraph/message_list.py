"""Lists of messages of a thread, told as records: the view of a checkpoint is its list.

A list is told as a change of the one before it, whose beginning stays. If that one is not the
newest, or changed before its end, a rollback goes back to where they part, and what follows is told
again. A `DeltaChannel` keeps no list but what was written to it: that is applied here, as
LangGraph's own reducers of messages do.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage, convert_to_messages
from langgraph.checkpoint.serde.base import SerializerProtocol

from eventlog.adapters.langgraph.messages import LangChainMapping
from eventlog.adapters.langgraph.records import Mark, mark_of, message_of, record_of
from eventlog.importers.common.json_lines import is_array, is_object
from eventlog.records.feed import Feed
from eventlog.records.unseen import Seen
from eventlog.session.session import Session

LINES = 8
"""Lists of a thread of which is kept where their messages are."""
REMOVE_ALL = "__remove_all__"
"""Id with which a program removes all messages."""


class Entry(NamedTuple):
    """A message of a list, by its record's number or, if it has none, itself."""

    mark: Mark
    id: str | None
    number: int = 0
    item: Any = None


class _MessageFeed(Feed):
    """The messages of a thread."""

    def seen(self, after: int) -> Seen | None:
        """Return that a model was sent the list of the checkpoint before."""
        return Seen(after)


class MessageList:
    """The lists of one thread.  Its caller keeps threads apart."""

    def __init__(self, session: Session, serde: SerializerProtocol) -> None:
        self.feed: _MessageFeed = _MessageFeed(session, LangChainMapping())
        self._serde = serde
        self._lines: OrderedDict[int, list[Entry]] = OrderedDict()

    def load(self, at: int) -> list[Any]:
        """Return the messages as of a version, new objects each time."""
        numbers = self.feed.path(at)
        found = [
            (number, message_of(record, self._serde))
            for number, record in zip(numbers, self.feed.read(numbers), strict=True)
            if is_object(record)  # not one that was redacted
        ]
        if at not in self._lines:
            serde = self._serde
            self.keep(at, [Entry(mark_of(item, serde), getattr(item, "id", None), number) for number, item in found])
        return [item for _, item in found]

    def line(self, at: int) -> list[Entry]:
        """Return the list as of a version."""
        if at not in self._lines:
            self.load(at)
        self._lines.move_to_end(at)
        return self._lines[at]

    def given(self, line: Sequence[Entry], items: Sequence[Any]) -> list[Entry]:
        """Return a list as a program gives it, which begins as the one before as far as it can."""
        marks = [mark_of(item, self._serde) for item in items]
        same = _same([entry.mark for entry in line], marks)
        fresh = zip(marks[same:], items[same:], strict=True)
        return [*line[:same], *(Entry(mark, getattr(item, "id", None), item=item) for mark, item in fresh)]

    def written(self, line: Sequence[Entry], writes: Iterable[Any]) -> list[Entry]:
        """Return a list after what was written to its `DeltaChannel`."""
        entries: list[Entry | None] = list(line)
        places = {entry.id: place for place, entry in enumerate(line) if entry.id is not None}
        for write in writes:
            is_whole, value = _overwritten(write)
            if is_whole:
                entries, places = [], {}
            for item in value if is_array(value) else [] if value is None else [value]:
                message = _message(item)
                if message is None:
                    continue
                if message.type == "remove" and message.id == REMOVE_ALL:
                    entries, places = [], {}
                elif message.type == "remove":
                    if message.id in places:
                        entries[places.pop(message.id)] = None
                elif message.id in places:
                    entries[places[message.id]] = self._entry(message)
                else:
                    if message.id is not None:
                        places[message.id] = len(entries)
                    entries.append(self._entry(message))
        return [entry for entry in entries if entry is not None]

    def tell(
        self,
        line: Sequence[Entry],
        entries: Sequence[Entry],
        keep: Mapping[str, str | bytes],
        version: int | None = None,
    ) -> list[Entry]:
        """Tell a list that comes of another one, in one append with values to keep.

        `LeaseHeldError` while another owner or task holds the lease.
        """
        same = _same([entry.mark for entry in line], [entry.mark for entry in entries])
        again = [entry.number for entry in entries[same:] if entry.number]
        stored = dict(zip(again, self.feed.read(again), strict=True))
        records = [
            (entry, stored[entry.number] if entry.number else record_of(entry.item, self._serde))
            for entry in entries[same:]
        ]
        shown = [(entry, record) for entry, record in records if is_object(record)]  # not one that was redacted
        after = line[same - 1].number if same else 0
        numbers = self.feed.add([record for _, record in shown], after=after, keep=keep, version=version)
        told = [entry._replace(number=number, item=None) for (entry, _), number in zip(shown, numbers, strict=True)]
        return [*line[:same], *told]

    def keep(self, at: int, line: list[Entry]) -> None:
        """Keep where the messages of the list as of a version are."""
        self._lines[at] = line
        if len(self._lines) > LINES:
            self._lines.popitem(last=False)

    def forget(self, numbers: Sequence[int]) -> None:
        """Forget messages, in the lists of all versions."""
        self.feed.forget(numbers)
        self._lines.clear()

    def _entry(self, item: Any) -> Entry:
        return Entry(mark_of(item, self._serde), getattr(item, "id", None), item=item)


def edited(before: Sequence[Entry], after: Sequence[Entry], base: Sequence[Entry]) -> list[Entry]:
    """Return another list, changed as one was from `before` to `after`."""
    was, now = Counter(entry.mark for entry in before), Counter(entry.mark for entry in after)
    if not was & now:  # nothing stayed
        return list(after)
    gone, added = was - now, now - was
    fresh: list[Entry] = []
    for entry in reversed(after):
        if added[entry.mark] > 0:
            added[entry.mark] -= 1
            fresh.insert(0, entry)
    changed = {entry.id: entry for entry in fresh if entry.id is not None}
    entries: list[Entry] = []
    for entry in base:
        if entry.id in changed:
            entries.append(changed.pop(entry.id))
        elif gone[entry.mark] > 0:
            gone[entry.mark] -= 1
        else:
            entries.append(entry)
    return entries + [entry for entry in fresh if entry.id is None or entry.id in changed]


def _same(before: Sequence[Any], after: Sequence[Any]) -> int:
    """Return how many at the beginning are equal."""
    length = min(len(before), len(after))
    if before[:length] == after[:length]:
        return length
    return next(place for place in range(length) if before[place] != after[place])


def _message(item: Any) -> BaseMessage | None:
    try:
        return item if isinstance(item, BaseMessage) else convert_to_messages([item])[0]
    except (NotImplementedError, ValueError):  # of another kind of channel
        return None


def _overwritten(write: Any) -> tuple[bool, Any]:
    """Whether a write replaces the whole value, and what it says: as `Overwrite` or its JSON."""
    if is_object(write):
        if set(write) == {"__overwrite__"}:
            return True, write["__overwrite__"]
        return (True, write.get("value")) if write.get("type") == "__overwrite__" else (False, write)
    return (True, write.value) if type(write).__name__ == "Overwrite" else (False, write)
