"""Compactions by the bare commands, without a window."""

from __future__ import annotations

from typing import Any

from eventlog import events as ev
from eventlog.session.session import Session
from eventlog.values import Text


def compacted(session: Session, text: str = "what was done", *, goes_on: str = "", **bounds: Any) -> str:
    """Let a summary stand for what `bounds` cover, and return the compaction's part.

    `goes_on` is the id of a message that it adds, to go on with the question before it.
    """
    part = session.context.request_compaction()
    with session.lease():
        session.context.start_compaction(part, **bounds)
        with session.assistant("p/m", summary=True) as reply:
            if text:
                reply.add_text(text)
            reply.finish("stop")
        then: list[ev.Event] = []
        if goes_on:
            then = [
                ev.UserMessageAdded(goes_on, synthetic=True, cause=part),
                ev.PartStarted(goes_on, f"{goes_on}:text", Text("Go on")),
            ]
        session.context.complete_compaction(part, reply.id, then=then)
    return part
