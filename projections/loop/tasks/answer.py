"""The answer of a turn, as one text."""

from __future__ import annotations

from collections.abc import Sequence

from eventlog.errors import RefusedError
from eventlog.session.outcome import outcome_of, pending_question
from eventlog.session.session import Session
from eventlog.validation import each, require
from projections.window.retrieval.part_text import read_message

__all__ = ["answer_text", "newest_answer"]


def answer_text(session: Session, replies: Sequence[str]) -> str:
    """Return the last text that a turn's replies say (`turn.answer`); "" if they say none.

    Only these replies are read, however long the history is.
    """
    require(Session, session, "an answer is that of a Session")
    for name in reversed(each(replies, "replies are a list of ids, as `turn.answer` has them")):
        require(str, name, "a reply is named by its id, a str")
        parts = read_message(session, name).parts
        said = [part.text for part in parts if part.kind == "text" and not part.removed and part.text]
        if said:
            return said[-1]
    return ""


def newest_answer(session: Session) -> str:
    """Return the answer to the newest question; `RefusedError` unless it is answered."""
    asked = pending_question(session.reader)
    found = None if asked is None else outcome_of(session.reader, asked)
    if found is None or found.state != "done":
        state = "not asked" if found is None else found.state
        raise RefusedError(f"the task is {state}", expected="an answered question", session=session.id)
    return answer_text(session, found.replies)
