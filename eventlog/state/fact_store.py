"""Facts of messages and parts by id: the newest as objects, the others archived.

A long session has millions of facts that hardly any command asks for. Only the newest messages, and
those that may still change, are objects; the others lie in `archive.py` and come back when an event
or a reader names them. A reader cannot tell the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from threading import RLock
from typing import TypeVar

from eventlog.state.archive import FactArchive
from eventlog.state.facts import MessageFacts, PartFacts

HOT = 64
"""Messages that are never archived: the newest."""
AT_ONCE = 32
"""Messages that are archived together: looking for them costs what is hot."""

F = TypeVar("F")


class FactMap(Mapping[str, F]):
    """The facts of all messages, or of all parts, by id, archived ones included."""

    __slots__ = ("_all", "_find", "_hot")

    def __init__(
        self, hot: dict[str, F], find: Callable[[str], F | None], every: Callable[[], Iterator[tuple[str, F]]]
    ) -> None:
        self._hot = hot
        self._find = find
        self._all = every

    def __getitem__(self, key: str) -> F:
        facts = self._hot.get(key)
        if facts is None:
            facts = self._find(key)
        if facts is None:
            raise KeyError(key)
        return facts

    def __contains__(self, key: object) -> bool:
        return key in self._hot or (isinstance(key, str) and self._find(key) is not None)

    def __iter__(self) -> Iterator[str]:
        """Reads the whole archive, chunk by chunk: for tests and tools."""
        return (key for key, _ in self._all())

    def __len__(self) -> int:
        return sum(1 for _ in self._all())


class FactStore:
    """The facts of one session.

    Its owner changes it; readers may look up archived facts meanwhile.
    """

    __slots__ = ("_restored", "archive", "archive_at", "hot_messages", "hot_parts", "lock", "messages", "parts")

    def __init__(self) -> None:
        self.hot_messages: dict[str, MessageFacts] = {}
        self.hot_parts: dict[str, PartFacts] = {}
        """The parts of the hot messages, and no others."""
        self.archive: FactArchive = FactArchive()
        self.lock: RLock = RLock()
        """Held to archive facts and to look into the archive: readers have no other lock."""
        self.archive_at: int = HOT + AT_ONCE
        """Number of hot messages at which the older ones are archived."""
        self._restored: dict[str, int] = {}
        """Messages that came back from the archive, with the version of their newest fact then."""
        self.messages: FactMap[MessageFacts] = FactMap(self.hot_messages, self.archived_message, self.all_messages)
        self.parts: FactMap[PartFacts] = FactMap(self.hot_parts, self.archived_part, self._all_parts)

    def insert(self, name: str, facts: MessageFacts) -> None:
        """Insert a message with its parts."""
        self.hot_parts.update(facts.parts)
        self.hot_messages[name] = facts

    def archive_older(self, staying: Collection[str], committed: int | None) -> None:
        """Archive the older messages, except those in `staying` and those not yet committed.

        Facts up to version `committed` are committed; None: all of them are.
        """
        with self.lock:
            rows: list[tuple[str, MessageFacts]] = []
            for name, facts in list(self.hot_messages.items())[:-HOT]:
                if name in staying or not (committed is None or facts.newest() <= committed):
                    continue
                if name in self._restored and facts.newest() == self._restored[name]:
                    self._drop(name, facts)  # the archive has it as it is
                    continue
                rows.append((name, facts))
            self.archive.add(rows)
            for row in rows:
                self._drop(*row)
            self.archive_at = len(self.hot_messages) + AT_ONCE

    def archived_message(self, message: str) -> MessageFacts | None:
        """A message that is not hot, brought back from the archive; None if it is not there."""
        return self._brought_back(self.hot_messages, message)

    def archived_part(self, part: str) -> PartFacts | None:
        """A part that is not hot, brought back with its message; None if it is not there."""
        return self._brought_back(self.hot_parts, part)

    def _brought_back(self, hot: dict[str, F], key: str) -> F | None:
        if not self.archive:
            return None
        with self.lock:
            row = None if key in hot else self.archive.find(key)
            if row is not None and row[0] not in self.hot_messages:
                self.insert(*row)
                self._restored[row[0]] = row[1].newest()
            return hot.get(key)

    def all_messages(self) -> Iterator[tuple[str, MessageFacts]]:
        """Every message, the archived ones first."""
        with self.lock:
            hot = dict(self.hot_messages)
            yield from (row for row in self.archive if row[0] not in hot)
        yield from hot.items()

    def _all_parts(self) -> Iterator[tuple[str, PartFacts]]:
        for _, facts in self.all_messages():
            yield from facts.parts.items()

    def _drop(self, name: str, facts: MessageFacts) -> None:
        """Drop the objects of an archived message."""
        self._restored.pop(name, None)
        del self.hot_messages[name]
        for part in facts.parts:
            del self.hot_parts[part]
