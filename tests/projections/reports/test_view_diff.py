"""The difference of two views: why parts went, and what it costs to say so."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.engine import compacted
from eventlog.store import Store
from projections.replay import loop
from projections.reports.view_diff import diff


def test_parts_that_went_together_cost_one_replay(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many parts a compaction or a rollback takes out, each view is rebuilt once."""
    session = store.create_session()
    for number in range(30):
        session.user(f"question {number}")
        with session.assistant("acme/one") as reply:
            reply.add_text(f"answer {number}")
            reply.finish()
    before = session.version
    compacted(session)
    summarized = session.version
    session.rollback(to=before - 20)
    replays = 0
    replay = loop.replay

    def counted(*given: Any) -> Any:
        nonlocal replays
        replays += 1
        return replay(*given)

    monkeypatch.setattr(loop, "replay", counted)
    for first, second, kind in ((before, summarized, "compacted"), (before, session.version, "rolled-back")):
        replays = 0
        gone = [change.kind for change in diff(session, first, second).changes if change.kind != "added"]
        assert len(gone) >= 6
        assert set(gone) == {kind}
        assert replays == 2
    assert {change.kind for change in diff(session, summarized, before).changes} >= {"later", "added"}
