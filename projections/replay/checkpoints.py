"""Checkpoints of projections: the encoded state at a version, which of them still fit, and which are worth their place (spec §6).

How they are stored and checked is `eventlog/history/checkpoint_store.py`.  Reading never writes; `save` is for whoever may write.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from eventlog.history import checkpoint_store
from eventlog.history.lineage import Stream
from eventlog.log.contract import Log
from eventlog.session.reader import SessionReader
from projections.replay.projection import Projection, Source

__all__ = ["Checkpoints"]

S = TypeVar("S")

KEPT = 12
"""Most checkpoints kept of one projection and session: the newer, the closer together."""


class Checkpoints:
    """The checkpoints in one log."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def valid(self, projection: Projection[S], source: Source, upto: int, at: int) -> Iterator[tuple[int, S]]:
        """The usable checkpoints at versions up to `upto`, newest first, for the history right after `at`.

        A fork's history begins with that of its parents, so their checkpoints of it serve as well.
        """
        ranges = source.effective_ranges(at)
        for version, state in self.sound(projection, source, upto):
            if _clipped(ranges, version) == source.effective_ranges(version):
                yield version, state

    def sound(self, projection: Projection[S], source: Source, upto: int) -> Iterator[tuple[int, S]]:
        """The checkpoints at versions up to `upto` that can be read, newest first, whatever history they are of."""
        for stream in reversed(_ancestry(source, upto)):
            last = min(stream.last, upto)
            for version, data in checkpoint_store.valid(self._log, _kind(projection), stream.session, last):
                if version >= stream.first:
                    try:
                        state = projection.decode(data)
                    except ValueError:
                        continue
                    yield version, state

    def save(self, projection: Projection[S], source: Source, version: int, state: S) -> None:
        """Keep the state right after `version`, and let go of older ones that are no longer worth their place."""
        checkpoint_store.save(
            self._log, _kind(projection), source.id, version, projection.encode(state), surplus=_superfluous
        )

    def versions(self, projection: Projection[S], source: Source) -> list[int]:
        """The versions that have a checkpoint, sound or not."""
        return checkpoint_store.versions(self._log, _kind(projection), source.id)

    def forget(self, projection: Projection[S], source: Source) -> None:
        """Delete them all."""
        checkpoint_store.forget(self._log, _kind(projection), source.id)


def _kind(projection: Projection[S]) -> str:
    return f"{projection.name} {projection.version}"


def _ancestry(source: Source, upto: int) -> tuple[Stream, ...]:
    return source.ancestry() if isinstance(source, SessionReader) else (Stream(source.id, 1, upto),)


def _clipped(ranges: list[tuple[int, int]], version: int) -> list[tuple[int, int]]:
    return [(first, min(last, version)) for first, last in ranges if first <= version]


def _superfluous(versions: list[int]) -> list[int]:
    """The versions to let go of, so that at most `KEPT` stay: those whose neighbours are closest for their age."""
    kept = list(versions)
    dropped: list[int] = []
    while len(kept) > KEPT:
        newest = kept[-1]
        index = min(
            range(1, len(kept) - 1),
            key=lambda place: (kept[place + 1] - kept[place - 1]) / (newest - kept[place] + 1),
        )
        dropped.append(kept.pop(index))
    return dropped
