"""Undo by hand: one change after the other, the newest first, until none is left."""

from __future__ import annotations

import pytest

import eventlog
from eventlog.errors import RefusedError
from projections import ModelView
from projections.loop import ContextWindow
from tests.support.window_loop import SMALL, summarized, talk, told

MANY = 40
"""More changes than the loop state remembers."""


@pytest.mark.promise(9)
def test_every_compaction_can_be_undone_however_many_there_are() -> None:
    """Promise 9: every compaction can be undone, beyond what the loop state remembers."""
    with eventlog.open("memory:") as store:
        session = store.create_session()
        talk(session, 2, words=5)
        for _ in range(MANY):
            talk(session, 1, words=5)
            assert ContextWindow(session, SMALL, summarizer=summarized, environment={}).compact().completed
        window = ContextWindow(session, environment={})
        assert told(ModelView.of(session).messages).count("answer") < 10
        for _ in range(MANY):
            assert window.undo() == "compaction"
        assert told(ModelView.of(session).messages).count("answer") == 2 + MANY
        with pytest.raises(RefusedError, match="nothing to undo"):
            window.undo()


@pytest.mark.promise(9)
def test_prunes_compactions_and_rollbacks_are_undone_newest_first() -> None:
    """Promise 9: each undo restores the view before the newest change of any kind."""
    with eventlog.open("memory:") as store:
        session = store.create_session()
        talk(session, 4, words=5)
        with session.assistant() as reply:
            result = reply.tool("bash", call_id="c", input={})
            result.succeed("long " * 100)
            reply.finish("stop")
        talk(session, 1, words=5)
        digests = [ModelView.of(session).digest]
        session.context.prune([result.id])
        digests.append(ModelView.of(session).digest)
        assert ContextWindow(session, SMALL, summarizer=summarized, environment={}).compact().completed
        digests.append(ModelView.of(session).digest)
        session.rollback(3)
        window = ContextWindow(session, environment={})
        for kind in ("rollback", "compaction", "prune"):
            assert window.undo() == kind
            assert ModelView.of(session).digest == digests.pop()


@pytest.mark.promise(9)
def test_rollbacks_to_what_was_hidden_are_undone_one_by_one() -> None:
    """Promise 9: rollbacks to hidden versions are undone one by one, the newest first."""
    with eventlog.open("memory:") as store:
        session = store.create_session()
        talk(session, 6, words=5)
        end = session.version
        digests = [ModelView.of(session).digest]
        session.rollback(end // 3)
        digests.append(ModelView.of(session).digest)
        session.rollback(end * 2 // 3)
        window = ContextWindow(session, environment={})
        for _ in range(2):
            assert window.undo() == "rollback"
            assert ModelView.of(session).digest == digests.pop()
        with pytest.raises(RefusedError, match="nothing to undo"):
            window.undo()
