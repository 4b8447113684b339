"""Compactions by the bare commands, without a window."""

from __future__ import annotations

from typing import Any

from eventlog.session.session import Session


def compacted(session: Session, text: str = "what was done", **bounds: Any) -> str:
    """Let a summary stand for what `bounds` cover, and return the compaction's part."""
    part = session.context.request_compaction()
    with session.lease():
        session.context.start_compaction(part, **bounds)
        with session.assistant("p/m", summary=True) as reply:
            if text:
                reply.add_text(text)
            reply.finish("stop")
        session.context.complete_compaction(part, reply.id)
    return part
