"""The newest change of the view that can be undone: a prune, a compaction or a rollback."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from eventlog.errors import RefusedError
from projections.loop.decision.loop_state import LoopState, UndoableChange
from projections.loop.decision.loop_state_projection import LoopStateProjection
from projections.replay.loop import replay

if TYPE_CHECKING:
    from eventlog.session.reader import SessionReader
    from eventlog.session.session import Session


def undo_newest(session: Session, loop: LoopState) -> str:
    """Undo the newest prune, compaction or rollback in force; return which it was."""
    newest = newest_change(session.reader, loop)
    with session.reader.deciding() as facts:
        rollback = facts.history.to_redo()
    if rollback is not None and (newest is None or rollback > newest.version):
        session.redo()
        return "rollback"
    if newest is None:
        raise RefusedError("there is nothing to undo", expected="a prune, a compaction or a rollback")
    if newest.kind == "prune":
        session.context.unprune(newest.parts, arguments=newest.arguments)
        return "prune"
    if newest.kind == "provider-compaction":  # the targets that it counts for are shown the messages again
        session.remove_part(newest.parts[0])
    else:
        session.context.undo_compaction()
    return "compaction"


def newest_change(source: SessionReader, loop: LoopState) -> UndoableChange | None:
    """Return the newest prune or compaction in force.

    Reads the history if the state holds none: it keeps only the newest changes.
    """
    if not loop.changes:
        loop, _ = replay(LoopStateProjection(sys.maxsize), source)
    return loop.changes[-1] if loop.changes else None
