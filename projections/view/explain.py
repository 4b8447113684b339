"""Why a part or a message is, or is not, in the view: a reason and a sentence.

Looks the id up in the state, and in the history only if the state does not have it.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from eventlog.session.reader import SessionReader
from eventlog.session.session import Session
from projections.conversation.parts import (
    CompactionPart,
    FilePart,
    Message,
    OpaquePart,
    Part,
    ReasoningPart,
    SubtaskPart,
    TextPart,
    ToolPart,
)
from projections.conversation.state import Conversation
from projections.view.message_rendering import MessageRenderer, renderer_of
from projections.view.neutral import Text
from projections.view.options import RenderOptions
from projections.view.part_rendering import PartRendering, Resolver
from projections.view.selection import compaction_of, is_hidden
from projections.view.targets import state_for

Reason: TypeAlias = Literal[
    "shown",
    "shown-as-text",
    "media-replaced",
    "cleared",
    "arguments-cleared",
    "call-cleared",
    "media-cleared",
    "reasoning-cleared",
    "reasoning-emptied",
    "interrupted",
    "asked",
    "redacted",
    "covered",
    "rolled-back",
    "removed",
    "later",
    "message-removed",
    "message-failed",
    "message-unfinished",
    "compaction-not-in-force",
    "waiting",
    "ignored",
    "empty",
    "file-as-text",
    "never-sent",
]


class Explanation(msgspec.Struct, frozen=True):
    """Why the part or message `id` is in the view (`shown`), or not."""

    id: str
    shown: bool
    reason: Reason
    sentence: str


SENTENCES: dict[Reason, str] = {
    "shown": "It is in the view as it is.",
    "shown-as-text": "It is in the view as a fixed or derived text.",
    "media-replaced": "A provider refused it; the view names it instead.",
    "cleared": "The call is in the view; its result was pruned and shows as cleared.",
    "arguments-cleared": "The call and its result are in the view; the call's large arguments were pruned.",
    "call-cleared": "The call is in the view; its result and its large arguments were pruned.",
    "media-cleared": "It was pruned; the view names it instead.",
    "reasoning-cleared": "It was pruned; the view has no thought in its place.",
    "reasoning-emptied": "It was pruned; an empty thought without its signature is in its place.",
    "interrupted": "The call is in the view; it never came to an end and shows as interrupted.",
    "asked": "The call is in the view; it waits for a person and shows so.",
    "redacted": "It was redacted; a marker stands in its place.",
    "covered": "A compaction covers it; its summary stands for it.",
    "rolled-back": "A rollback took it out of the effective history.",
    "removed": "It was removed from its message.",
    "later": "It begins after this version.",
    "message-removed": "Its message was removed.",
    "message-failed": "Its message failed and has nothing that the model should see.",
    "message-unfinished": "Its message is unfinished and has nothing yet that the model should see.",
    "compaction-not-in-force": "It belongs to a compaction that is not in force.",
    "waiting": "Its message is queued and was not promoted yet.",
    "ignored": "It is marked as shown to people only.",
    "empty": "It has no text that is sent.",
    "file-as-text": "A file of this kind was turned into text before; the text is in the view.",
    "never-sent": "Parts of this kind are never sent.",
}
"""The sentence of each reason, for people."""


def explain(session: Session, version: int, options: RenderOptions, name: str) -> Explanation:
    """Return the reason for a part or message at a version; `NotFoundError` for others."""
    state = state_for(session, version, options).state
    reason = reason_in(state, options, session.text, name) or reason_outside(session.reader, version, name)
    sentence = SENTENCES[reason]
    if reason == "covered" and state.own is not None:
        sentence = f"Compaction {state.in_force}, which only {state.own} can read, covers it for that target."
    return Explanation(name, reason in SHOWING, reason, sentence)


def reason_outside(reader: SessionReader, version: int, name: str) -> Reason:
    """Return why a state does not know a part; `NotFoundError` if there is none."""
    added = reader.find(name)
    if added > version:
        return "later"
    return (
        "covered" if any(first <= added <= last for first, last in reader.effective_ranges(version)) else "rolled-back"
    )


def reason_in(state: Conversation, options: RenderOptions, resolve: Resolver, name: str) -> Reason | None:
    """The reason as far as the state knows; None for an id that it does not know."""
    message, part = state.where.get(name, (state.messages.get(name), None))
    if message is None:
        return None
    draft = renderer_of(state, message, options, resolve)
    whole = _message_reason(state, options, message, draft)
    if whole is not None:
        return whole
    if part is not None and part.id in draft.covered:
        return "covered"
    if part is not None:
        return _part_reason(message, part, draft.rendered(part))
    for found in message.parts:
        reason = _part_reason(message, found, draft.rendered(found))
        if reason in SHOWING:
            return reason
    return "empty"


SHOWING = {
    "shown",
    "shown-as-text",
    "media-replaced",
    "cleared",
    "arguments-cleared",
    "call-cleared",
    "media-cleared",
    "reasoning-emptied",
    "interrupted",
    "asked",
    "redacted",
}
"""The reasons of what is in the view, if not as it was said."""


def _message_reason(
    state: Conversation, options: RenderOptions, message: Message, draft: MessageRenderer
) -> Reason | None:
    if message.removed:
        return "message-removed"
    if message.covered is not None:
        return "covered"
    if message.waiting:
        return "waiting"
    if is_hidden(state, message, options):
        return "compaction-not-in-force" if compaction_of(state, message) is not None else "message-removed"
    if draft.is_left_out():
        return "message-failed" if message.error is not None else "message-unfinished"
    return None


def _part_reason(message: Message, part: Part, rendered: PartRendering) -> Reason:
    """The reason of a part whose message is shown, by what it says there."""
    if part.removed:
        return "removed"
    if isinstance(part, ReasoningPart) and part.pruned and not part.redacted:
        return "reasoning-emptied" if rendered.shown else "reasoning-cleared"
    if not rendered.shown:
        return _absent(message, part)
    match part:
        case CompactionPart():
            return "shown-as-text"
        case OpaquePart() if isinstance(rendered.said[0], Text):
            return "redacted" if part.redacted else "shown-as-text"
        case _ if part.redacted:
            return "redacted"
        case ToolPart(pruned=True):
            return "call-cleared" if part.arguments_pruned else "cleared"
        case ToolPart(arguments_pruned=True):
            return "arguments-cleared"
        case ToolPart(status="asked" | "allowed"):
            return "asked"
        case ToolPart(status="pending" | "running"):
            return "interrupted"
        case SubtaskPart():
            return "shown-as-text"
        case FilePart(pruned=True):
            return "media-cleared"
        case FilePart() if part.replaced and isinstance(rendered.said[0], Text):
            return "media-replaced"
        case FilePart() | ReasoningPart() if isinstance(rendered.said[0], Text):
            return "shown-as-text"
        case _:
            return "shown"


def _absent(message: Message, part: Part) -> Reason:
    """Why a part says nothing."""
    match part:
        case TextPart():
            return "ignored" if part.ignored and message.user else "empty"
        case ReasoningPart():
            return "empty"
        case FilePart():
            return "file-as-text"
        case CompactionPart() | OpaquePart():
            return "compaction-not-in-force"
        case _:
            return "never-sent"
