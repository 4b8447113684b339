"""Rollback and redo: make the effective history what it was at an earlier version.

Nothing is deleted: `RolledBack` records where the history goes on (`history/effective_history.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from eventlog import events as ev
from eventlog.errors import CallError, NotFoundError, RefusedError
from eventlog.log.commit import Committed
from eventlog.session.executor import Executor, Request
from eventlog.session.failure import ROLLED_BACK
from eventlog.state.settling import closing
from eventlog.state.state import State
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
    executor: Executor,
    to: int | None = None,
    *,
    before: str | None = None,
    request_id: str | None = None,
    wait: float = 0.0,
) -> RollbackResult:
    """Go back to a version, or to right before a message was added; see `Session.rollback`."""
    if (to is None) == (before is None):
        raise CallError("rollback: give either a version, `to=`, or a message, `before=`")
    if to is not None:
        require_version(to)
    require_or_none(str, before, "a message is named by its id, a str")

    def target(state: State) -> int:
        if before is not None:
            return state.message(before).added - 1
        assert to is not None
        return to

    asked = f"a rollback to {to}" if before is None else f"a rollback before {before}"
    return executor.once(asked, request_id, partial(go_back, executor, target), partial(_first, executor), wait=wait)


def redo(executor: Executor, *, request_id: str | None = None, wait: float = 0.0) -> RollbackResult:
    """Return to the version right before the newest rollback that was not redone."""

    def target(state: State) -> int:
        version = state.history.to_redo()
        if version is None:
            raise RefusedError("there is nothing to redo", expected="a rollback", session=executor.id)
        return version - 1

    def require_due() -> None:
        with executor.reader.deciding() as state:
            target(state)

    work, first = partial(go_back, executor, target), partial(_first, executor)
    return executor.once("a redo", request_id, work, first, require_due=require_due, wait=wait)


def go_back(executor: Executor, target: Callable[[State], int], request: Request | None) -> RollbackResult:
    """Go back to the target that the state has under the lease; `request` is that of `once`."""
    executor.writer.flush()
    with executor.reader.deciding() as state:
        to = target(state)
        if state.open_messages():
            raise RefusedError("a message is open", expected="a finished or aborted message", session=executor.id)
        if not 1 <= to <= state.version:
            raise NotFoundError("version", str(to), session=executor.id)
        files, replies = _hidden(state, to)
    snapshots, patches = _file_states(executor, files)
    committed = executor.commit([ev.RolledBack(to)], lambda after: closing(after, ROLLED_BACK), request=request)
    if committed.repeated:
        return _first(executor, committed)
    return RollbackResult(committed.first, to, snapshots, patches, replies)


def _first(executor: Executor, known: Committed) -> RollbackResult:
    """Return the result of a rollback that was committed before."""
    (made,) = executor.reader.events(known.first - 1, known.first)
    assert isinstance(made.event, ev.RolledBack)
    _, state = executor.reader.inherited(known.first - 1)  # as it was decided on
    files, replies = _hidden(state, made.event.to)
    return RollbackResult(known.first, made.event.to, *_file_states(executor, files), replies)


def _hidden(state: State, to: int) -> tuple[list[int], tuple[str, ...]]:
    """The versions of file states, and the assistant messages, that a rollback to `to` hides."""
    lost = state.history.lost(to)
    entries = state.opens.among(lost)
    began = [name for version, names in entries for name in names if state.messages[name].added == version]
    replies = tuple(name for name in began if state.now(state.messages[name].changes) != "removed")
    return [version for version, _ in state.files.among(lost)], replies


def _file_states(executor: Executor, versions: Sequence[int]) -> tuple[tuple[str, ...], tuple[Patch, ...]]:
    """The snapshots and patches of these versions; reads only their events."""
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
