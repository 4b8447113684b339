"""The system prompt of a view: at most two segments, the first byte-stable so that providers can cache it (spec §4.8).

Not who wrote it.  Pure.  Imported by `model_view.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from projections.conversation import Conversation
from projections.parts import Message
from projections.rendering import Resolver

__all__ = ["SystemHook", "system_segments", "two_segments"]

SystemHook: TypeAlias = Callable[[tuple[str, ...]], Sequence[str]]
"""Is given the segments and returns others."""


def _is_said(message: Message) -> bool:
    """Whether a user said this, and the model may know."""
    return message.user and not (message.synthetic or message.removed or message.waiting)


def system_segments(state: Conversation, resolve: Resolver, hook: SystemHook | None = None) -> tuple[str, ...]:
    """The segments, header first; empty ones are left out.

    The rest is the caller's prompt and that of the newest message a user wrote, in this order.  What a hook returns is brought to two
    segments again (`two_segments`).
    """
    header = resolve(state.header)
    message = next((found for found in reversed(state.messages.values()) if _is_said(found)), None)
    own = resolve(message.system) if message is not None and message.system is not None else ""
    rest = "\n".join(text for text in (resolve(state.rest), own) if text)
    segments = tuple(text for text in (header, rest) if text)
    return segments if hook is None else two_segments(hook(segments))


def two_segments(segments: Sequence[str]) -> tuple[str, ...]:
    """The segments without empty ones; what follows the first becomes one."""
    filled = tuple(text for text in segments if text)
    return filled if len(filled) <= 2 else (filled[0], "\n".join(filled[1:]))
