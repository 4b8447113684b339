"""Errors that end a handle: close it and open again."""

from __future__ import annotations

from eventlog.errors.base import EventlogError, cut

__all__ = [
    "ClosedError",
    "FencedError",
    "ForkedProcessError",
    "PoisonedError",
    "StopError",
    "StorageError",
    "UnsupportedStorageError",
]


class StopError(EventlogError):
    """This handle cannot go on: close it and open again."""


class FencedError(StopError):
    """The lease of this append is over: released, or taken by another owner.

    `deltas` and `characters` of streamed text were accepted under it and are not written.
    """

    def __init__(self, session: str, epoch: int, current: int, deltas: int = 0, characters: int = 0) -> None:
        why = "its holder released it" if epoch == current else f"the current one is {current}"
        lost = f"{deltas} accepted deltas of {characters} characters are not written; " if deltas else ""
        super().__init__(
            f"session {cut(session)}: lease epoch {epoch} is over, {why}; {lost}take a lease anew (a result of a call"
            " that the next owner settled: session.late_result)"
        )
        self.session = session
        self.epoch = epoch
        self.current = current
        self.deltas = deltas
        self.characters = characters


class PoisonedError(StopError):
    """A write failed or was lost, or the store was moved: open it again before you write."""


class ClosedError(StopError):
    """The store or the session handle is closed."""


class ForkedProcessError(StopError):
    """The store was opened before `os.fork()`; open it again in the child."""


class StorageError(StopError):
    """The system refuses to open or make the store; `__cause__` is its error.

    No permission, no room, or an I/O error.
    """


class UnsupportedStorageError(StopError):
    """The path is on a file system that cannot keep the promises (a network file system)."""
