"""A session's events for a replay at their recorded pace, delta by delta, in pages."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from eventlog import events as ev
from eventlog.values import File, Reasoning, Subtask, Text, Tool
from projections.exports.html_text import visible
from projections.inspector.history import is_jump
from projections.inspector.large_text import beginning, full_size
from projections.inspector.markup import prose_html
from projections.inspector.message_json import gist
from projections.reports.timeline import TimelineBuilder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eventlog import Session
    from eventlog.codec.decoded import Recorded

_SHOWN = 4_000
"""Characters of a text that came as a whole."""


def played(session: Session, redacted: set[str], after: int, limit: int) -> tuple[list[dict[str, Any]], int]:
    """Return what to play of at most `limit` events after a version, and the last of these."""
    scenes: list[dict[str, Any]] = []
    version, builder = after, TimelineBuilder()
    for recorded in islice(session.events(after=after), limit):
        version = recorded.version
        if getattr(recorded.event, "part", None) in redacted:
            continue
        scenes += [{"v": version, "t": recorded.time, **scene} for scene in _scenes(session, recorded, builder)]
    return scenes, version


def _scenes(session: Session, recorded: Recorded, builder: TimelineBuilder) -> Iterator[dict[str, Any]]:
    """Yield what an event shows."""
    event = recorded.event

    def short(content: Any) -> str:
        return beginning(session, content, _SHOWN)

    match event:
        case ev.PartDelta():
            yield {"op": "delta", "part": event.part, "field": event.field, "text": visible(event.text)}
        case ev.UserMessageAdded():
            yield {"op": "user", "message": event.message}
        case ev.AssistantMessageStarted():
            model = "" if event.model is None else visible(str(event.model))
            yield {"op": "assistant", "message": event.message, "model": model, "summary": event.summary}
        case ev.PartStarted(kind=Text() | Reasoning() | Subtask() | File() | Tool()):
            yield {"op": "part", "message": event.message, "part": event.part, **_begun(event.kind, short)}
        case ev.PartEnded():
            yield {"op": "end", "part": event.part}
        case ev.ToolRunning():
            yield {"op": "run", "part": event.part, "gist": gist(short(event.input)), "title": visible(event.title)}
        case ev.ToolCompleted():
            output = short(event.output)
            yield {"op": "done", "part": event.part, "text": visible(output), "size": full_size(output)}
        case ev.ToolFailed():
            yield {"op": "fail", "part": event.part, "text": visible(short(event.error))}
        case ev.MessageFinished():
            yield {"op": "finish", "message": event.message, "reason": event.reason or ""}
        case _ if is_jump(event):
            for entry in builder.entries(event, recorded.version, recorded.time):
                yield {"op": "note", "kind": entry.kind, "what": visible(entry.what)}
        case _:
            pass


def _begun(kind: Any, short: Any) -> dict[str, Any]:
    match kind:
        case Tool():
            return {"kind": "tool", "tool": visible(kind.tool)}
        case File():
            return {"kind": "file", "text": visible(f"{kind.filename or 'file'} ({kind.mime})")}
        case Subtask():
            return {"kind": "subtask", "text": visible(short(kind.prompt))}
        case _:
            text = short(kind.text)
            rendered = {"html": prose_html(text)} if text and full_size(text) == len(text) else {}
            return {"kind": type(kind).__name__.lower(), "text": visible(text), **rendered}
