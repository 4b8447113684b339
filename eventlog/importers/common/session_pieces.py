"""One session of a foreign file while it is read: its events, their versions, and the batch that is being filled.

Not what a record means (`conversation.py`, `importers/claude_code/thread.py`, which are made of this).
"""

from __future__ import annotations

from eventlog import events as ev
from eventlog.importers.common.importer import ImportBatch, Report
from eventlog.importers.common.remainder import Remainder

__all__ = ["SessionPieces"]


class SessionPieces:
    """The session's events so far."""

    def __init__(self, session: str, report: Report, title: str) -> None:
        self.session = session
        self.report = report
        self.title = title
        self.remainder = Remainder()
        self.batch = ImportBatch(session)
        self.version = 0

    def add(self, time: int, event: ev.Event) -> None:
        """Append an event of the record that is being read."""
        self.batch.add(time, event)
        self.version += 1
        self.remainder.count += 1

    def keep(self, time: int, line: int, record: object) -> None:
        """End the record: what is left of it is kept."""
        self.version += self.remainder.close(self.batch, time, line, record)

    def take(self) -> ImportBatch:
        """The batch filled so far; a new one begins."""
        batch, self.batch = self.batch, ImportBatch(self.session)
        return batch

    def rename(self, time: int, title: str) -> None:
        """The session has a title, if it is a new one."""
        if title and title != self.title:
            self.title = title
            self.add(time, ev.SessionRenamed(title))
