"""The newest commits that a handle has seen: a server that has lost them is noticed."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from eventlog.errors import PoisonedError
from eventlog.log.merkle import TAG_BYTES

if TYPE_CHECKING:
    from eventlog.errors import EventlogError

RESTORED = "another log was restored or made in this place"
LOST = "the server has lost commits that were seen here, as after a failover to a standby without them"
_MOST = 8192
"""Sessions of which the newest commit is remembered."""


class _Commit(NamedTuple):
    """The newest commit of a session that was seen here: its last version, and its leaf's tag."""

    version: int
    tag: bytes


class Seen:
    """The newest commit of each session, as far as it was read or written here."""

    def __init__(self) -> None:
        self.refusal: EventlogError | None = None
        """Why nothing more is read or written."""
        self._commits: OrderedDict[str, _Commit] = OrderedDict()
        self._noting = Lock()

    def get(self, session: str) -> _Commit | None:
        """Return the newest commit of a session that was seen, or None."""
        return self._commits.get(session)

    def note(self, session: str, version: int, leaf: bytes) -> None:
        """Note a commit that ends at a version."""
        with self._noting:
            one = self._commits.get(session)
            if one is None or one.version < version:
                self._commits[session] = _Commit(version, leaf[:TAG_BYTES])
                self._commits.move_to_end(session)
            if len(self._commits) > _MOST:
                self._commits.popitem(last=False)

    def refuse(self, why: str) -> EventlogError:
        """Read and write nothing more; return the error that says so."""
        if self.refusal is None:
            self.refusal = PoisonedError(f"{why}: close the store and open it again")
        return self.refusal
