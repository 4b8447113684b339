"""Sessions with open work, as far as a store knows: a list need not read them again.

`unfinished.py` finds out; this is its memory within a process. A session that was not written to
since is as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from eventlog.log.commit import Head

__all__ = ["OpenWork"]

_MOST = 16_384
"""Sessions that are remembered one by one."""


class OpenWork:
    """Sessions with and without open work, each as of a version.  Safe across threads."""

    def __init__(self) -> None:
        self._known: tuple[tuple[int, ...], frozenset[str]] = ((), frozenset())
        """A position of each partition, and the sessions with open work up to these."""
        self._seen: dict[str, tuple[int, bool]] = {}
        """By session: a version, and whether there was open work then."""

    def of(self, head: Head, partition: int) -> bool | None:
        """Return whether the session with this head has open work; None if it has to be read."""
        seen = self._seen.get(head.session)
        if seen is not None and seen[0] == head.version:
            return seen[1]
        positions, sessions = self._known
        is_known = bool(positions) and head.position <= positions[partition]
        return head.session in sessions if is_known else None

    def note(self, head: Head, *, is_open: bool) -> None:
        """Remember what was read of one session."""
        if len(self._seen) >= _MOST:
            self._seen = {}
        self._seen[head.session] = head.version, is_open

    def learn(self, positions: tuple[int, ...], sessions: Collection[str]) -> None:
        """Remember that of all sessions up to these positions these have open work."""
        self._known = positions, frozenset(sessions)
