"""Everything beside what the model saw: for each part whether it is there as it was said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import msgspec

from projections.exports.html_text import visible
from projections.inspector.large_text import full_size
from projections.view.carryover_text import carried_text
from projections.view.explain import SHOWING, reason_in
from projections.view.message_rendering import MessageRenderer
from projections.view.neutral import Call, File, Result
from projections.view.options import DEFAULT
from projections.view.part_rendering import file_name
from projections.view.selection import boundary_of, carryover_of, is_hidden, shows_question

if TYPE_CHECKING:
    from projections.conversation.parts import Part
    from projections.conversation.state import Conversation
    from projections.transcript.message import TranscriptMessage
    from projections.view.neutral import NeutralPart
    from projections.view.part_rendering import PartRendering, Resolver

_SEEN = 2_000
"""Characters of a changed part that are shown."""


def seen_parts(state: Conversation, told: TranscriptMessage, resolve: Resolver) -> dict[str, dict[str, Any]]:
    """Return what the model sees of each part of a message, by the part's id.

    A part is the *same*, *changed*, *added* by the view itself, or *gone*; under "+" is what the
    view adds behind the message.
    """
    message = state.messages.get(told.id)
    if message is None:
        return {}
    question = shows_question(state, message, DEFAULT)
    boundary = boundary_of(state, message)
    draft = MessageRenderer(message, DEFAULT, resolve, shows_question=question, boundary=boundary)
    gone = is_hidden(state, message, DEFAULT) or draft.is_left_out()
    found: dict[str, dict[str, Any]] = {}
    for part in message.parts:
        rendered = draft.rendered(part)
        reason = reason_in(state, DEFAULT, resolve, part.id)
        if gone or not rendered.shown:
            found[part.id] = {"state": "gone", "reason": reason}
        else:
            found[part.id] = {"state": _state(part, reason), "reason": reason, "text": _said(rendered)}
    carried = None if gone else carryover_of(state, message)
    if carried is not None:
        found["+"] = {"state": "added", "reason": "carried", "text": shortened(carried_text(carried, resolve), _SEEN)}
    return found


def _state(part: Part, reason: str | None) -> str:
    """Whether a shown part is as it was said."""
    if type(part).__name__ == "CompactionPart":
        return "added"
    if reason not in SHOWING or reason == "shown":
        return "changed" if getattr(part, "full", None) is not None else "same"
    return "changed"


def _said(rendered: PartRendering) -> str:
    """Return the beginning of what a rendered part says; of a call the result."""
    said: tuple[NeutralPart, ...] = rendered.results
    said = said or tuple(part for part in rendered.said if not isinstance(part, Call)) or rendered.said
    return "\n".join(shortened(_words(piece), _SEEN) for piece in (*said, *rendered.media))


def _words(piece: NeutralPart) -> str:
    match piece:
        case Result():
            return piece.output
        case Call():
            return piece.input
        case File():
            return f"[{file_name(piece.mime, piece.filename)}]"
        case _:
            return piece.text


def neutral_json(part: NeutralPart, most: int) -> dict[str, Any]:
    """Return a part of a request as it was sent, each text at most so long."""
    found: dict[str, Any] = shortened(msgspec.to_builtins(part), most)
    return {name: value for name, value in found.items() if value not in (None, "", [], False)}


def shortened(value: Any, most: int) -> Any:
    """Return JSON values with their texts visible, each at most so long."""
    match value:
        case str():
            full = full_size(value)
            return visible(value[:most]) + (f"… ({full:,} characters)" if full > most else "")
        case dict():
            named = cast("dict[str, Any]", value)
            return {name: shortened(each, most) for name, each in named.items()}
        case list() | tuple():
            return [shortened(each, most) for each in cast("list[Any]", value)]
        case _:
            return value
