"""The text of an answer, found by the replies of its turn."""

from __future__ import annotations

import pytest

from eventlog.errors import CallError, NotFoundError
from eventlog.store import Store
from projections import answer_text


def test_the_last_text_of_a_turn_is_its_answer(store: Store) -> None:
    """Of several replies and texts the last one counts, however much came after it."""
    session = store.create_session()
    with session.turn("why?", "r") as turn:
        with session.assistant("p/m") as reply:
            reply.add_text("I look.")
            reply.tool("look", call_id="c", input={}).succeed("seen")
            reply.finish("tool-calls")
        with session.assistant("p/m") as reply:
            reply.add_text("First.")
            reply.add_text("Because.")
            reply.finish()
    for number in range(20):
        session.user(f"more {number}")
        with session.assistant("p/m") as reply:
            reply.add_text("other")
            reply.finish()
    with session.turn("why?", "r") as turn:
        assert (turn.mine, answer_text(session, turn.answer)) == (False, "Because.")
    assert answer_text(session, turn.answer[:1]) == "I look."


def test_without_a_text_there_is_none(store: Store) -> None:
    """A turn without replies, or whose replies say nothing, has an empty answer."""
    session = store.create_session()
    session.user("why?")
    with session.assistant("p/m", id="m") as reply:
        reply.tool("look", call_id="c", input={}).succeed("seen")
        reply.finish()
    assert answer_text(session, ()) == answer_text(session, ["m"]) == ""


def test_wrong_replies_are_errors(store: Store) -> None:
    """An id of no message, and what is no list of ids, are typed errors."""
    session = store.create_session()
    with pytest.raises(NotFoundError):
        answer_text(session, ["nowhere"])
    with pytest.raises(CallError):
        answer_text(session, [5])  # type: ignore[list-item]
