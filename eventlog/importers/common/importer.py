"""Contract of an importer: it turns records into events, batch by batch.

An importer never touches a store.  It yields batches, and `importers/reconcile.py` decides what of
them is new.  For that the events of a record must depend on that record and earlier ones only, ids
and times must come from the source, and the same input must give the same events: then the events
of a grown file begin with the old ones.  The n-th event of a session's batches is its version n, so
events may name versions (rollbacks, forks).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import BinaryIO, NamedTuple, Protocol

import msgspec

from eventlog.codec.large_texts import INLINE, to_content
from eventlog.events import Event
from eventlog.ids import MAX_ID_BYTES
from eventlog.values import Content

BATCH_EVENTS = 500
BATCH_BYTES = 2 * 1024 * 1024


class Skipped(NamedTuple):
    """Record that was not imported, or has nothing of a conversation; lines count from 1."""

    line: int
    reason: str


class Report(msgspec.Struct):
    """Report of an import of one file, filled while it runs."""

    path: str
    format: str
    sessions: list[str] = msgspec.field(default_factory=list[str])
    events: int = 0
    """Events added to the store now."""
    messages: int = 0
    """Messages of the file, those that ask for a compaction included."""
    parts: int = 0
    """Parts in the file."""
    skipped: list[Skipped] = msgspec.field(default_factory=list[Skipped])

    def skip(self, line: int, reason: str) -> None:
        """List a record that was not imported, or not whole."""
        self.skipped.append(Skipped(int(line), reason))


class ImportBatch:
    """Some events of one session in order, with their times and the bodies they refer to.

    The first piece of a session begins with its `SessionStarted`, which carries the origin, or is a
    `SessionForked` whose `parent` is the id of a session whose batches were yielded before.
    """

    __slots__ = ("bodies", "items", "session", "snapshot", "weight")

    def __init__(self, session: str) -> None:
        self.session: str = session
        self.items: list[tuple[int, Event]] = []
        self.bodies: dict[bytes, bytes] = {}
        self.weight: int = 0
        """Bytes of the packed bodies."""
        self.snapshot: list[tuple[int, Event]] | None = None
        """Events of a snapshot: a title, remainders; None for formats that only grow.

        They are not compared: the latest of each kind counts, and those that changed are appended
        at the end. The first batch of a session says whether there will be any; the last one has
        them.
        """

    def add(self, time: int, event: Event) -> None:
        """Append an event."""
        self.items.append((time, event))

    def content(self, text: str) -> Content:
        """Return the text, or a reference to it when it is large."""
        if len(text) <= INLINE:
            return text
        content = to_content(text, self.bodies)
        if not isinstance(content, str):
            self.weight += len(self.bodies[content.digest])
        return content

    def full(self) -> bool:
        """Whether the batch is large enough to be handed on."""
        return len(self.items) >= BATCH_EVENTS or self.weight >= BATCH_BYTES


class RecordReader(Protocol):
    """A file of records that is read as it grows."""

    def read(self, file: BinaryIO, after: int = 0) -> Iterator[ImportBatch]:
        """Yield the events of the lines that the file has from here on, behind `after` lines."""
        ...

    def unsettled(self) -> Iterator[Skipped]:
        """Yield a report of each record that waits for another one, as if the file ended here."""
        ...


class Importer(Protocol):
    """One foreign format."""

    name: str

    def detect(self, start: bytes, path: str) -> bool:
        """Whether a file that begins with these bytes (up to 64 KiB) is of this format."""
        ...

    def read(self, file: BinaryIO, path: str, report: Report) -> Iterator[ImportBatch]:
        """Yield the file's events; `report` gets the counts and what is skipped."""
        ...


class GrowingImporter:
    """Importer of files of records that are only appended to.

    `begin` makes the reader of a file at a path; `is_whole` tells the beginning of one that does
    not grow.
    """

    def __init__(
        self,
        name: str,
        detect: Callable[[bytes], bool],
        begin: Callable[[str, Report], RecordReader],
        is_whole: Callable[[bytes], bool] = lambda _: False,
    ) -> None:
        self.name = name
        self._detect = detect
        self._begin = begin
        self._is_whole = is_whole

    def detect(self, start: bytes, path: str) -> bool:
        """Whether one of the first lines is a record of this format."""
        del path
        return self._detect(start)

    def read(self, file: BinaryIO, path: str, report: Report) -> Iterator[ImportBatch]:
        """Yield the file's events."""
        reader = self._begin(path, report)
        yield from reader.read(file)
        report.skipped.extend(reader.unsettled())

    def growing(self, start: bytes, path: str, report: Report) -> RecordReader | None:
        """Return a reader of the file that begins with `start`; None for one that does not grow."""
        return None if self._is_whole(start) else self._begin(path, report)


def bounded_id(name: str) -> str:
    """Return `name` if it may be an id, else its beginning with a hash of it."""
    if name.isascii() and 0 < len(name) <= MAX_ID_BYTES:
        return name
    data = name.encode("utf-8", "surrogatepass")
    if 0 < len(data) <= MAX_ID_BYTES and data.decode("utf-8", "ignore") == name:
        return name
    return data[:64].decode("utf-8", "ignore") + "~" + sha256(data).hexdigest()


def own_id(owner: str, suffix: str) -> str:
    """Return the id of something that belongs to `owner`."""
    name = f"{owner}:{suffix}"
    return name if len(name) <= MAX_ID_BYTES and name.isascii() else bounded_id(name)


def path_identity(path: str) -> str:
    """Return the foreign id of a record that has none of its own: its absolute path."""
    return os.path.abspath(path)  # noqa: PTH100  # resolving links would make one file two
