"""Texts of a stream that a search may show, by the catalog entries of this moment.

The index may still have words of what was redacted, erased or forgotten; it is asked what is found,
never what may be shown. That is looked up in the log for every hit.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from functools import cached_property
from operator import itemgetter
from typing import NamedTuple

from eventlog.errors import ErasedError
from eventlog.history.ancestry import ancestry, forked_from
from eventlog.history.catalog import CatalogEntry, entry_of
from eventlog.history.effective_history import END, History, StreamRange
from eventlog.history.forgotten import forgotten_in
from eventlog.history.ranges import Range, covers, merged
from eventlog.log.contract import Log
from eventlog.search.rows import name_of


class Viewer:
    """A session in which texts are found, with what it hides and marks."""

    def __init__(self, log: Log, connection: sqlite3.Connection, session: str) -> None:
        self.session = session
        self._log = log
        self._connection = connection
        self.redacted: frozenset[str] = frozenset(
            part for head, _ in forked_from(log, session) for part in entry_of(head).redacted
        )
        self.forgotten: tuple[Range, ...] = forgotten_in(log, session)
        self.streams: list[StreamRange] = ancestry(log, session)

    @cached_property
    def _history(self) -> History:
        history = History()
        for stream in self.streams:
            question = (
                "SELECT r.version, r.target FROM rollbacks r JOIN streams s ON s.id = r.stream"
                " WHERE s.name = ? AND r.version <= ? ORDER BY r.version"
            )
            for version, target in self._connection.execute(question, (stream.session, stream.last)):
                history.roll_back(version, target)
        return history

    def holds(self, version: int) -> bool:
        """Return whether no rollback hides a version."""
        return self._history.holds(version)

    def removed(self, message: str, part: str) -> bool:
        """Return whether a message or part was removed, by an event that no rollback hides."""
        question = (
            "SELECT r.version FROM removals r JOIN streams s ON s.id = r.stream"
            " WHERE s.name = ? AND r.name IN (?, ?) AND r.version <= ?"
        )
        names = name_of("message", message), name_of("part", part)
        return any(
            self.holds(version)
            for stream in self.streams
            for (version,) in self._connection.execute(question, (stream.session, *names, stream.last))
        )


class Sight(NamedTuple):
    """The sessions that show a stream, each up to a version, and what any of them hides."""

    viewers: tuple[tuple[Viewer, int], ...]
    redacted: frozenset[str]
    forgotten: tuple[Range, ...]

    def viewer(self, version: int) -> tuple[Viewer, int] | None:
        """Return the session in which a version of the stream is found, None if none shows it.

        It is the one that has most of the stream; the number is the last version of it.
        """
        viewer, last = max(self.viewers, key=itemgetter(1), default=(None, 0))
        return None if viewer is None or version > last else (viewer, last)

    def hides(self, part: str, *versions: int) -> bool:
        """Return whether a part is redacted, or one of these versions forgotten."""
        return part in self.redacted or any(covers(self.forgotten, version) for version in versions)


class Sights:
    """Views on streams, looked up once in a search."""

    def __init__(self, log: Log, connection: sqlite3.Connection, session: str | None) -> None:
        """Look with the eyes of one session, or of each stream's own."""
        self._log = log
        self._connection = connection
        self._found: dict[str, Sight] = {}
        self._viewer = None if session is None else Viewer(log, connection, session)
        self.streams: list[str] | None = (
            None if self._viewer is None else [stream.session for stream in self._viewer.streams]
        )
        """The streams that are looked at; None for all."""

    def of(self, session: str) -> Sight:
        """Return what may be shown of the stream of a session."""
        if session not in self._found:
            try:
                viewers = tuple(self._viewers(session))
            except ErasedError:  # meanwhile
                viewers = ()
            self._found[session] = Sight(
                viewers,
                frozenset().union(*(viewer.redacted for viewer, _ in viewers)),
                merged(one for viewer, _ in viewers for one in viewer.forgotten),
            )
        return self._found[session]

    def _viewers(self, session: str) -> Iterator[tuple[Viewer, int]]:
        if self._viewer is not None:
            for stream in self._viewer.streams:
                if stream.session == session:
                    yield self._viewer, stream.last
            return
        entry = self._entry(session)
        if entry is None:
            return
        if not entry.erased:
            yield Viewer(self._log, self._connection, session), END
            return
        for heir in self._heirs(session):
            last = next((last for head, last in forked_from(self._log, heir) if head.session == session), 0)
            if last:
                yield Viewer(self._log, self._connection, heir), last

    def _heirs(self, session: str) -> Iterator[str]:
        """Yield the sessions that continue an erased one, and are not erased."""
        question = "SELECT name FROM streams WHERE fork_of = ? ORDER BY id DESC"
        left = [session]
        while left:
            name = left.pop()
            entry = None if name == session else self._entry(name)
            if entry is not None and not entry.erased:
                yield name
            left += (fork for (fork,) in self._connection.execute(question, (name,)))

    def _entry(self, session: str) -> CatalogEntry | None:
        head = self._log.head(session)
        return None if head is None or not head.entry else entry_of(head)
