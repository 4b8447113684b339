"""The message behind a summary: the refused request again, or a word to continue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from eventlog import events as ev
from eventlog.session.inputs import stored_kind
from eventlog.values import File, PartKind, Text
from projections.conversation.parts import CompactionPart, FilePart, Message, NotePart, Part, SubtaskPart, TextPart
from projections.view.part_rendering import Resolver, is_media, named, text_of
from projections.window.policy.hooks import AutoContinue, Hooks

if TYPE_CHECKING:
    from eventlog.session.session import Session
    from projections.loop.decision.situation import Situation
    from projections.loop.decision.steps import Compact
    from projections.window.compaction.selection import Selection

CONTINUE = (
    "The earlier part of this conversation now stands in the summary above.  If something is left to do, go on with it;"
    " if you cannot tell what to do next, stop and ask."
)
"""The continuation message of the preset `default`."""
REMOVED = (
    "The last request was too large for the model, so images and other attached files were taken out of the conversation.  If the"
    " user's question depends on one of them, say that it was too large to be sent and ask for a smaller or shorter one."
)
"""The notice before it when the cause was a refused request."""

CONTINUE_OPENCODE = (
    "Continue if you have next steps, or stop and ask for clarification if you are unsure how to proceed."
)
"""The text as OpenCode 1.18 writes it: a fixed string.

Retained so that its sessions go on as they began.
"""
REMOVED_OPENCODE = (
    "The previous request exceeded the provider's size limit due to large media attachments. The conversation was compacted and media"
    " files were removed from context. If the user was asking about attached images or files, explain that the attachments were"
    " too large to process and suggest they try again with smaller or fewer files."
)
"""Its notice, fixed as well."""


def tokens_after(now: Situation, step: Compact, selection: Selection, text: str) -> int:
    """Tokens of the first request after a compaction with this summary."""
    said = _said_then(now, step, selection)
    then = [now.measure.text(kind.text) for kind in said if isinstance(kind, Text)]
    return now.tokens_after(selection, text, then, marker=step.message)


def continuation_events(
    session: Session,
    now: Situation,
    step: Compact,
    selection: Selection,
    bodies: dict[bytes, bytes],
    *,
    like: Message | None,
    hooks: Hooks,
) -> list[ev.Event]:
    """Return the events of the message that follows an automatic compaction, [] without one.

    A message to continue has the agent and the model of `like`; large texts are put into `bodies`.
    """
    kinds = _said_then(now, step, selection)
    if selection.replay is not None:
        again = now.summarisable.messages[selection.replay]
        return _user(session, step.part, kinds, bodies, like=again, synthetic=again.synthetic)
    if not kinds or not now.policy.compaction.auto_continue:
        return []
    agent = "" if like is None else like.agent
    hook = hooks.auto_continue
    if hook is not None and not hook(AutoContinue(session.id, step.part, step.overflow, agent)):
        return []
    return _user(session, step.part, kinds, bodies, like=like, synthetic=True)


def _said_then(now: Situation, step: Compact, selection: Selection) -> list[PartKind]:
    """Return the parts said after the summary: the refused message again, or a continuation.

    A hook or the policy may still leave them out.
    """
    if selection.replay is not None:
        return overflow_replay(now.summarisable.messages[selection.replay], now.measure.text)
    if not step.auto:
        return []
    return [Text(continuation(now.policy.preset, overflow=step.overflow), synthetic=True)]


def _user(
    session: Session,
    cause: str,
    kinds: Sequence[PartKind],
    bodies: dict[bytes, bytes],
    *,
    like: Message | None,
    synthetic: bool,
) -> list[ev.Event]:
    host = session.store.host
    message = host.new_id("msg_")
    added = (
        ev.UserMessageAdded(message, synthetic=synthetic, cause=cause)
        if like is None
        else ev.UserMessageAdded(
            message,
            like.agent,
            like.model,
            like.variant,
            like.system,
            like.tools,
            like.format,
            synthetic,
            cause=cause,
        )
    )
    parts = [ev.PartStarted(message, host.new_id("prt_"), stored_kind(kind, bodies)) for kind in kinds]
    return [added, *parts]


def continuation(preset: str, *, overflow: bool) -> str:
    """Return the continuation text after an automatic compaction, in a preset's words."""
    opencode = preset.startswith("opencode")
    words = CONTINUE_OPENCODE if opencode else CONTINUE
    if not overflow:
        return words
    return f"{REMOVED_OPENCODE if opencode else REMOVED}\n\n{words}"


def overflow_replay(message: Message, resolve: Resolver) -> list[PartKind]:
    """Return the parts of a user message to add again, with media named instead of sent.

    What was removed or redacted stays away, and so does a compaction's mark. Texts keep whether
    they are synthetic or shown to people only.
    """
    return [
        kind
        for part in message.parts
        if not (part.removed or part.redacted) and (kind := _again(part, resolve)) is not None
    ]


def _again(part: Part, resolve: Resolver) -> PartKind | None:
    match part:
        case TextPart():
            text = part.pieces[0] if len(part.pieces) == 1 else text_of(part.pieces, resolve)
            return Text(text, part.synthetic, part.ignored, part.metadata)
        case FilePart():
            return _file(part.file)
        case SubtaskPart():
            return part.subtask
        case NotePart():
            return part.note
        case CompactionPart() | _:
            return None


def _file(file: File) -> PartKind:
    if is_media(file.mime):
        return Text(named(file.mime, file.filename).text, metadata=file.metadata)
    return file
