"""The system prompt of a view: at most two segments, the first byte-stable so that providers can cache it (spec §4.8).

Not who wrote it.  Pure.  Imported by `model_view.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from projections.conversation import Conversation
from projections.rendering import Resolver

__all__ = ["SystemHook", "system_segments"]

SystemHook: TypeAlias = Callable[[tuple[str, ...]], Sequence[str]]
"""Is given the segments and returns others."""


def system_segments(state: Conversation, resolve: Resolver, hook: SystemHook | None = None) -> tuple[str, ...]:
    """The segments, header first; empty ones are left out.

    The rest is the caller's prompt and that of the newest user message, in this order.  What a hook returns is brought to two
    segments again: what follows the first becomes one.
    """
    header = resolve(state.header)
    message = next((found for found in reversed(state.messages.values()) if found.user and not found.removed), None)
    own = resolve(message.system) if message is not None and message.system is not None else ""
    rest = "\n".join(text for text in (resolve(state.rest), own) if text)
    segments: Sequence[str] = tuple(text for text in (header, rest) if text)
    if hook is not None:
        segments = [text for text in hook(tuple(segments)) if text]
    if len(segments) <= 2:
        return tuple(segments)
    return segments[0], "\n".join(segments[1:])
