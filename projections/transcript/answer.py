"""What a turn answered, as one text."""

from __future__ import annotations

from collections.abc import Sequence

from eventlog.session.session import Session
from eventlog.validation import each, require
from projections.transcript.transcript import Transcript

__all__ = ["answer_text"]


def answer_text(session: Session, replies: Sequence[str]) -> str:
    """Return the last text that a turn's replies say (`turn.answer`); "" if they say none.

    Reads the transcript from its end, as far as the last reply.
    """
    require(Session, session, "an answer is that of a Session")
    wanted = each(replies, "replies are a list of ids, as `turn.answer` has them")
    if not wanted:
        return ""
    for message in Transcript(session).newest_first():
        if message.id == wanted[-1]:
            said = [part.text for part in message.parts if part.kind == "text" and not part.removed and part.text]
            return said[-1] if said else ""
    return ""
