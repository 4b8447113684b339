"""Sessions with open work, as far as a store knows: a list need not read them again.

`unfinished.py` finds out; this is its memory within a process. A session that was not written to
since is as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from eventlog.log.contract import Head

__all__ = ["OpenWork"]

_MOST = 16_384
"""Sessions that are remembered one by one."""


class OpenWork:
    """Sessions with and without open work, each as of a version.  Safe across threads."""

    def __init__(self) -> None:
        self._known: tuple[int, frozenset[str]] = (0, frozenset())
        """A position, and the sessions with open work among those with no later event."""
        self._seen: dict[str, tuple[int, bool]] = {}
        """By session: a version, and whether there was open work then."""

    def of(self, head: Head) -> bool | None:
        """Return whether the session with this head has open work; None if it has to be read."""
        seen = self._seen.get(head.session)
        if seen is not None and seen[0] == head.version:
            return seen[1]
        position, sessions = self._known
        return head.session in sessions if head.position <= position else None

    def note(self, head: Head, *, is_open: bool) -> None:
        """Remember what was read of one session."""
        if len(self._seen) >= _MOST:
            self._seen = {}
        self._seen[head.session] = head.version, is_open

    def learn(self, position: int, sessions: Collection[str]) -> None:
        """Remember that of all sessions up to a position these have open work."""
        self._known = position, frozenset(sessions)
