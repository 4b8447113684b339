"""Session of one recorded stream while it is read.

A stream has no identity that is safe to use, because recordings of one request exist under many
names: its session is named after the format and the path. A stream has no times either: the n-th
record is n milliseconds after `created`, if the provider sends that, or after 1970.
"""

from __future__ import annotations

import os
from hashlib import sha256

from eventlog import events as ev
from eventlog.importers.common.importer import ImportBatch, Report, bounded_id, path_identity
from eventlog.importers.streams.rests import Rests
from eventlog.values import Origin

__all__ = ["StreamSession"]

_LATEST = 1 << 40


class StreamSession:
    """The session, and the batch that is being filled."""

    def __init__(self, name: str, path: str, report: Report) -> None:
        self.report = report
        identity = path_identity(path)
        digest = sha256(identity.encode("utf-8", "surrogateescape")).hexdigest()
        self.id: str = f"{name}-{digest[:26]}"
        self._started = ev.SessionStarted(os.path.basename(path), origin=Origin(name, identity, identity))  # noqa: PTH119  # not always a path
        self.batch: ImportBatch = ImportBatch(self.id)
        self.rests: Rests = Rests()
        self._begun = False
        self._ids: set[str] = set()
        self._base = 0
        self._time = 0

    def tick(self, created: object) -> None:
        """Advance the time to that of the next record: one millisecond later.

        The first `created` (UTC seconds) sets where time begins.
        """
        self._time += 1
        if self._base or not isinstance(created, (int, float)) or isinstance(created, bool):
            return
        if 1 <= created < _LATEST:
            self._base, self._time = int(created) * 1000, 0

    def add(self, event: ev.Event) -> None:
        """Append an event at the time of the record that is being read."""
        if not self._begun:
            self._begun = True
            self.report.sessions.append(self.id)
            self.batch.add(self._base + self._time, self._started)
        self.batch.add(self._base + self._time, event)

    def pop_batch(self) -> ImportBatch:
        """Return the batch filled so far and begin a new one."""
        batch, self.batch = self.batch, ImportBatch(self.id)
        return batch

    def new_id(self, wanted: str) -> str:
        """Return an unused id: the wanted one, or one made from it."""
        name, number = bounded_id(wanted), 1
        while name in self._ids:
            number += 1
            name = bounded_id(f"{wanted}#{number}")
        self._ids.add(name)
        return name
