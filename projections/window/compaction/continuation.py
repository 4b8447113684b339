"""The message after a compaction: the refused request again, or a word to continue.

Pure; `loop/context/continuation_events.py` decides whether it is said.
"""

from __future__ import annotations

from eventlog.values import File, PartKind, Text
from projections.conversation.parts import CompactionPart, FilePart, Message, NotePart, Part, SubtaskPart, TextPart
from projections.view.part_rendering import Resolver, is_media, text_of

__all__ = ["CONTINUE", "CONTINUE_OPENCODE", "REMOVED", "REMOVED_OPENCODE", "continuation", "overflow_replay"]

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
        return Text(f"[Attached {file.mime}: {file.filename or 'file'}]", metadata=file.metadata)
    return file
