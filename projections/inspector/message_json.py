"""Messages and parts as JSON for the page: rendered, cut, with the reason of the view.

A call is sent folded: what it was given and what came of it is read when it is opened.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from projections.exports.html_text import visible
from projections.exports.readable import SILENT
from projections.inspector.comparison import shortened
from projections.inspector.history import shown_state
from projections.inspector.large_text import cut, full_size
from projections.inspector.markup import prose_html
from projections.transcript.message_json import header_json
from projections.view.explain import SHOWING, Reason, reason_in
from projections.view.opening_words import arguments, opening
from projections.view.options import DEFAULT

if TYPE_CHECKING:
    from projections.conversation.state import Conversation
    from projections.inspector.room import Told
    from projections.transcript.message import TranscriptPart
    from projections.view.part_rendering import Resolver

PAGE_TEXT = 300_000
"""Characters of a page's messages; where they are used up, parts are cut short."""
_SHORT = 4_000
"""Characters of a part that is cut short."""
_GIST = 160
"""Characters of a call's arguments that are shown while it is folded."""

Reasons: TypeAlias = Callable[[str], Reason]
"""Says of the id of a message or part why it is in the view, or is not."""


def reasons_in(state: Conversation | None, resolve: Resolver, *, hidden: bool, at: int) -> Reasons:
    """Return the function that says why: from the state behind the view.

    Without it all that no rollback hides passes for shown.
    """

    def reason(name: str) -> Reason:
        if hidden or state is None:
            return "rolled-back" if hidden else "shown"
        return reason_in(state, DEFAULT, resolve, name) or ("covered" if at else "later")

    return reason


def message_json(told: Told, reason: Reasons, room: list[int], *, running: bool) -> dict[str, Any]:
    """Return a message for the page; `room` has the characters that its page has left.

    What is open is said to be so while a task runs the session: else nothing more will come.
    """
    message = told.message
    why = reason(message.id)
    parts = [
        part_json(part, reason(part.id) if why in SHOWING else why, room, running=running)
        for part in message.parts
        if part.kind not in SILENT
    ]
    error = message.error
    return {
        **shortened(header_json(message), _SHORT),
        "id": message.id,
        "at": told.at,
        "open": running and message.role == "assistant" and message.finished is None,
        "error": None if error is None else f"{visible(error.name)}: {visible(cut(error.message, _SHORT))}",
        "reason": why,
        "seen": why in SHOWING,
        "parts": parts,
    }


def part_json(part: TranscriptPart, reason: Reason, room: list[int], *, running: bool) -> dict[str, Any]:
    """Return a part for the page."""
    is_open, named = running and part.open, ("tool", "title", "status", "mime", "filename")
    found: dict[str, Any] = {
        **{name: visible(getattr(part, name) or "") for name in named},
        "id": part.id,
        "kind": part.kind,
        "open": is_open,
        "reason": reason,
        "seen": reason in SHOWING,
        "size": full_size(part.text),
    }
    if part.kind == "tool":
        status = "interrupted" if part.interrupted else part.status
        return found | {"gist": gist(part.input), "status": shown_state(status, running=running)}
    text = cut(part.text, len(part.text) if room[0] >= len(part.text) else _SHORT)
    room[0] -= len(text)
    found["shown"] = len(text)
    if part.kind in {"text", "reasoning"} and not is_open:
        return found | {"html": prose_html(text)}
    return found | {"text": visible(text)}


def gist(given: str) -> str:
    """Return a line that says what a call was given."""
    return visible(opening(arguments(given), _GIST))
