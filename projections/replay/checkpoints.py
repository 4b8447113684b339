"""Checkpoints of projections: the encoded state at a version, and which are worth storing.

`eventlog/history/checkpoint_store.py` stores and checks the bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from typing import Generic, NamedTuple, TypeVar

from eventlog.errors import EventlogError
from eventlog.events import PartRedacted
from eventlog.history import checkpoint_store
from eventlog.history.ancestry import forked_from
from eventlog.history.catalog import entry_of
from eventlog.history.ranges import Range, clipped
from eventlog.log.contract import Log
from eventlog.session.reader import SessionReader
from projections.replay.projection import Projection

S = TypeVar("S")

MAX_CHECKPOINTS = 128
"""Checkpoints stored of one projection and session: the newer, the closer together."""
MAX_BYTES = 4 << 20
"""Bytes of them; four are stored in any case."""


class Checkpoint(NamedTuple, Generic[S]):
    """A state that was stored."""

    version: int
    state: S
    size: int
    """Its bytes."""


class Checkpoints:
    """The checkpoints of projections in one log."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def valid(
        self, projection: Projection[S], source: SessionReader, upto: int, at: int | None
    ) -> Iterator[Checkpoint[S]]:
        """Yield the checkpoints up to version `upto` that fit the history right after `at`.

        The newest comes first. Without `at` those of any history.

        A fork's history begins with that of its parents, so the parents' checkpoints serve as well.
        """
        forgotten, ranges = source.forgotten(), None if at is None else source.effective_ranges(at)
        for stream in reversed(source.ancestry()):
            last = min(stream.last, upto)
            for version, data in checkpoint_store.valid(self._log, _kind(projection), stream.session, last):
                mark = _mark(forgotten, version)
                is_marked = data.startswith(mark) and (mark or data[:1] != _MARKED)
                if version >= stream.first and is_marked and (ranges is None or is_as_of(source, ranges, version)):
                    try:
                        state = projection.decode(data[len(mark) :])
                    except ValueError:
                        continue
                    yield Checkpoint(version, state, len(data))

    def save(
        self,
        projection: Projection[S],
        source: SessionReader,
        version: int,
        state: S,
        forgotten: Sequence[Range],
    ) -> int:
        """Store the state right after `version`, which leaves `forgotten` out; return its bytes.

        What was redacted after it is left out, as in events after a scrub. Nothing is stored, in
        0 bytes, if more was forgotten since. Checkpoints that are too close together are evicted,
        and all of a session that was erased or redacted meanwhile.
        """
        mark = _mark(forgotten, version)
        if mark != _mark(source.forgotten(), version):
            return 0
        redacted, data = self._redacted(source.id), projection.encode(state)
        if redacted:
            shown = projection.decode(data)
            for part in redacted:
                shown = projection.apply(shown, PartRedacted(part), version, 0)
            data = projection.encode(shown)
        data = mark + data
        most = max(4, min(MAX_CHECKPOINTS, MAX_BYTES // max(1, len(data))))
        checkpoint_store.save(
            self._log, _kind(projection), source.id, version, data, surplus=partial(_surplus, most=most)
        )
        if redacted is None or redacted != self._redacted(source.id):
            checkpoint_store.forget(self._log, _kind(projection), source.id)
        return len(data)

    def _redacted(self, session: str) -> list[str] | None:
        """Return the redacted parts of a session and those above it; None if it was erased."""
        entries = [entry_of(head) for head, _ in forked_from(self._log, session)]
        return None if entries[0].erased else [part for entry in entries for part in entry.redacted]

    def leave(
        self, projection: Projection[S], source: SessionReader, version: int, state: S, forgotten: Sequence[Range]
    ) -> int:
        """Store a checkpoint as a reader may, whom a failure does not concern; return its bytes.

        Nothing is left in a read-only log.
        """
        stored = 0
        if not self._log.read_only:
            with suppress(EventlogError):
                stored = self.save(projection, source, version, state, forgotten)
        return stored

    def versions(self, projection: Projection[S], source: SessionReader) -> list[int]:
        """Return the versions that have a checkpoint, readable or not."""
        return checkpoint_store.versions(self._log, _kind(projection), source.id)


_MARKED = b"\xc1"
"""First byte of a checkpoint that leaves versions out; no MessagePack value has it."""


def _mark(forgotten: Sequence[Range], version: int) -> bytes:
    """Return the beginning of checkpoints at a version, which says what they leave out."""
    ranges = clipped(forgotten, 1, version)
    return _MARKED + blake2b(repr(ranges).encode(), digest_size=16).digest() if ranges else b""


def _kind(projection: Projection[S]) -> str:
    return f"{projection.name} {projection.version}"


def is_as_of(source: SessionReader, ranges: list[tuple[int, int]], version: int) -> bool:
    """Return whether effective ranges begin with the history as it was right after a version."""
    return [(first, min(last, version)) for first, last in ranges if first <= version] == source.effective_ranges(
        version
    )


def _surplus(versions: list[int], most: int) -> list[int]:
    """Return the versions to evict so that `most` stay.

    They are those whose neighbours are closest, measured by their age.
    """
    kept = list(versions)
    dropped: list[int] = []
    while len(kept) > most:
        newest = kept[-1]
        index = min(
            range(1, len(kept) - 1),
            key=lambda place: (kept[place + 1] - kept[place - 1]) / (newest - kept[place] + 1),
        )
        dropped.append(kept.pop(index))
    return dropped
