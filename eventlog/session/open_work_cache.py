"""Sessions with open work, as far as a store knows: a list need not read them again.

`status.py` finds out; this is its memory within a process. A session that was not
written to since is as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from eventlog.log.commit import Head

Work: TypeAlias = Literal["open", "asked", ""]
"""The work left in a session: "asked" if it is a person's answers alone."""

_MOST = 16_384
"""Sessions that are remembered one by one."""


class OpenWork:
    """Sessions with and without open work, each as of a version.  Safe across threads."""

    def __init__(self) -> None:
        self._known: tuple[tuple[int, ...], dict[str, Work]] = ((), {})
        """A position of each partition, and the sessions with open work up to these."""
        self._seen: dict[str, tuple[int, Work]] = {}
        """By session: a version, and the open work that there was then."""

    def of(self, head: Head, partition: int) -> Work | None:
        """Return the open work of the session with this head; None if it has to be read."""
        seen = self._seen.get(head.session)
        if seen is not None and seen[0] == head.version:
            return seen[1]
        positions, sessions = self._known
        is_known = bool(positions) and head.position <= positions[partition]
        return sessions.get(head.session, "") if is_known else None

    def note(self, head: Head, work: Work) -> None:
        """Remember what was read of one session."""
        if len(self._seen) >= _MOST:
            self._seen = {}
        self._seen[head.session] = head.version, work

    def learn(self, positions: tuple[int, ...], sessions: Mapping[str, Work]) -> None:
        """Remember that of all sessions up to these positions these have open work."""
        self._known = positions, dict(sessions)
