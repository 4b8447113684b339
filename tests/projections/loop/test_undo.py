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
def test_every_compaction_can_be_undone_however_many_there_are(store: eventlog.Store) -> None:
    """Promise 9: every compaction can be undone, beyond what the loop state remembers."""
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
