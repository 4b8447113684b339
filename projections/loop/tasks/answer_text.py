"""The answer of a turn, as one text."""

from __future__ import annotations

from collections.abc import Sequence

from eventlog.session.session import Session
from eventlog.validation import each, require
from projections.window.retrieval.part_text import read_message

__all__ = ["answer_text"]


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
