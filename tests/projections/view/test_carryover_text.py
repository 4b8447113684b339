"""Texts carried by a compaction, where their wording decides what survives."""

from __future__ import annotations

import eventlog
from eventlog.values import Todo
from projections import ModelView
from projections.conversation.carryover import Carryover, Pin
from projections.loop import ContextWindow
from projections.view.carryover_text import PINNED_SHOWN, carried_text
from tests.support.window_loop import SMALL, sections, talk, told

LONG = "x" * PINNED_SHOWN + "the end"


def test_a_pinned_fact_is_carried_whole_and_a_long_part_can_be_recalled() -> None:
    """A pinned fact stands nowhere else, so none of it is left out."""
    fact, part = Pin("p1", None, (LONG,)), Pin("p2", "prt_1", (LONG,))
    assert carried_text(Carryover(pins=(fact,)), str) == f"## Pinned\n- {LONG}"
    said = carried_text(Carryover(todos=(Todo("a"),), pins=(part,)), str)
    assert "the end" not in said
    assert said.endswith("[the rest of part prt_1 can be recalled]")


def test_a_file_that_a_call_failed_to_write_was_not_touched(store: eventlog.Store) -> None:
    """Files touched: a refused call touched nothing; one that was broken off may have."""
    session = store.create_session()
    with session.assistant() as reply:
        reply.tool("edit", call_id="1", input={"path": "/done.py"}).succeed("ok")
        reply.tool("edit", call_id="2", input={"path": "/refused.py"}).fail("rejected")
        reply.tool("edit", call_id="3", input={"path": "/broken-off.py"}).fail("stopped", interrupted=True)
        reply.finish("tool-calls")
    talk(session, 4, words=5)
    window = ContextWindow(session, SMALL, summarizer=lambda _: sections(), environment={})
    assert window.compact().completed
    said = told(ModelView.of(session).messages)
    assert said[said.index("## Files touched") :].splitlines()[1:3] == [
        "- /done.py (written)",
        "- /broken-off.py (written)",
    ]
    assert "/refused.py" not in said
