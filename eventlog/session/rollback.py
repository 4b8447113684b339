"""Rollback and redo: make the effective history what it was at an earlier version.

Nothing is deleted: `RolledBack` records where the history goes on (`history/effective_history.py`).
"""

from __future__ import annotations

from typing import NamedTuple

from eventlog import events as ev
from eventlog.errors import CallError, NotFoundError, RefusedError
from eventlog.session.executor import Executor
from eventlog.session.failure import ROLLED_BACK
from eventlog.state.settling import closing
from eventlog.validation import require_or_none, require_version
from eventlog.values import Patch


class RollbackResult(NamedTuple):
    """The version of a rollback, its target, and the file states made after the target."""

    version: int
    to: int
    snapshots: tuple[str, ...]
    """Snapshots recorded after `to`, oldest first; the caller may undo file effects with them."""
    patches: tuple[Patch, ...]
    replies: tuple[str, ...] = ()
    """Assistant messages that it hides, oldest first: all that began after `to`.

    Before a user message stands in the view what began after it without having seen it: that is
    hidden as well, because events decide.
    """


def rollback(
    executor: Executor, to: int | None = None, *, before: str | None = None, wait: float = 0.0
) -> RollbackResult:
    """Go back to a version, or to right before a message was added; see `Session.rollback`."""
    if (to is None) == (before is None):
        raise CallError("rollback: give either a version, `to=`, or a message, `before=`")
    if to is not None:
        require_version(to)
    require_or_none(str, before, "a message is named by its id, a str")
    with executor.lease(wait=wait):
        executor.writer.flush()
        state = executor.reader.state()
        if before is not None:
            to = state.message(before).added - 1
        assert to is not None
        if state.open_messages():
            raise RefusedError("a message is open", expected="a finished or aborted message", session=executor.id)
        if not 1 <= to <= state.version:
            raise NotFoundError("version", str(to), session=executor.id)
        snapshots, patches = _file_states(executor, to)
        replies = _replies(executor, to)
        committed = executor.commit([ev.RolledBack(to)], lambda after: closing(after, ROLLED_BACK))
        return RollbackResult(committed.first, to, snapshots, patches, replies)


def redo(executor: Executor, *, wait: float = 0.0) -> RollbackResult:
    """Return to the version right before the newest rollback that was not redone."""
    _rollback_to_redo(executor)  # refused without taking the lease if there is none
    with executor.lease(wait=wait):  # from here on no other process rolls back
        return rollback(executor, _rollback_to_redo(executor) - 1)


def _rollback_to_redo(executor: Executor) -> int:
    with executor.reader.deciding() as state:
        version = state.history.to_redo()
    if version is None:
        raise RefusedError("there is nothing to redo", expected="a rollback", session=executor.id)
    return version


def _replies(executor: Executor, to: int) -> tuple[str, ...]:
    """The assistant messages that a rollback to `to` hides."""
    with executor.reader.deciding() as state:
        entries = state.opens.among(state.history.lost(to))
        began = [name for version, names in entries for name in names if state.messages[name].added == version]
        return tuple(name for name in began if state.now(state.messages[name].changes) != "removed")


def _file_states(executor: Executor, to: int) -> tuple[tuple[str, ...], tuple[Patch, ...]]:
    """The snapshots and patches that a rollback to `to` hides; reads only their events."""
    with executor.reader.deciding() as state:
        versions = [version for version, _ in state.files.among(state.history.lost(to))]
    snapshots: list[str] = []
    patches: list[Patch] = []
    for version in versions:
        for span in executor.reader.spans(version - 1, version):
            item = span.item
            if isinstance(item, (ev.StepStarted, ev.StepFinished)) and item.snapshot:
                snapshots.append(item.snapshot)
            elif isinstance(item, ev.PartStarted) and isinstance(item.kind, Patch):
                patches.append(item.kind)
    return tuple(dict.fromkeys(snapshots)), tuple(patches)
