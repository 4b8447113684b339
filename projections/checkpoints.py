"""Checkpoints: the encoded state of a projection at a version, kept beside the log and never trusted blindly (spec §6).

Not a source of truth: any of them may be missing, damaged or deleted, and nothing but time is lost.  Reading never writes; `save` is
for whoever may write.  A key names projection, its version, session and version; the value is a checksum over key and
state, then the state.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import TypeVar

from eventlog.log.base import Log
from projections.projection import Projection, Source

__all__ = ["Checkpoints"]

S = TypeVar("S")

PREFIX = b"checkpoint\0"
CHECKSUM = 16
KEPT = 12
"""Most checkpoints kept of one projection and session: the newer, the closer together."""


class Checkpoints:
    """The checkpoints in one log."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def valid(self, projection: Projection[S], source: Source, upto: int, at: int) -> Iterator[tuple[int, S]]:
        """The usable checkpoints at versions up to `upto`, newest first, for the history right after `at`."""
        ranges = source.effective_ranges(at)
        for key, value in reversed(self._log.scan_derived(_prefix(projection, source.id))):
            version = int.from_bytes(key[-8:], "big")
            if not 0 < version <= upto or _checksum(key, value[CHECKSUM:]) != value[:CHECKSUM]:
                continue
            if _clipped(ranges, version) != source.effective_ranges(version):
                continue
            try:
                state = projection.decode(value[CHECKSUM:])
            except ValueError:
                continue
            yield version, state

    def save(self, projection: Projection[S], source: Source, version: int, state: S) -> None:
        """Keep the state right after `version`, and let go of older ones that are no longer worth their place."""
        prefix = _prefix(projection, source.id)
        key = prefix + version.to_bytes(8, "big")
        data = projection.encode(state)
        known = {int.from_bytes(other[-8:], "big") for other, _ in self._log.scan_derived(prefix)}
        dropped = _superfluous(sorted(known | {version}))
        items: list[tuple[bytes, bytes | None]] = [(key, _checksum(key, data) + data)]
        items.extend((prefix + other.to_bytes(8, "big"), None) for other in dropped if other != version)
        self._log.put_derived(items)

    def versions(self, projection: Projection[S], source: Source) -> list[int]:
        """The versions that have a checkpoint, sound or not."""
        found = self._log.scan_derived(_prefix(projection, source.id))
        return [int.from_bytes(key[-8:], "big") for key, _ in found]

    def forget(self, projection: Projection[S], source: Source) -> None:
        """Delete them all."""
        self._log.put_derived([(key, None) for key, _ in self._log.scan_derived(_prefix(projection, source.id))])


def _prefix(projection: Projection[S], session: str) -> bytes:
    name = projection.name.encode() + b"\0" + projection.version.to_bytes(2, "big")
    return PREFIX + name + blake2b(session.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _checksum(key: bytes, data: bytes) -> bytes:
    return blake2b(data, digest_size=CHECKSUM, key=blake2b(key, digest_size=32).digest()).digest()


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
