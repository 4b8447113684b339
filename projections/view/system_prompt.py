"""The system prompt of a view: at most two segments, the first stable for provider caches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from eventlog.values import Content
from projections.conversation.state import Conversation
from projections.view.part_rendering import Resolver

SystemHook: TypeAlias = Callable[[tuple[str, ...]], Sequence[str]]
"""Is given the segments and returns others."""


class SystemPrompt:
    """The segments of a growing conversation; built again only when their sources change."""

    __slots__ = ("_header", "_own", "_resolve", "_rest", "_segments")

    def __init__(self, resolve: Resolver) -> None:
        self._resolve = resolve
        self._header: Content = ""
        self._rest: Content = ""
        self._own: Content | None = None
        self._segments: tuple[str, ...] = ()

    def of(self, state: Conversation) -> tuple[str, ...]:
        """The segments, header first; empty ones are left out.

        The rest is the caller's prompt and that of the newest message a user wrote, in this order.
        """
        message = state.newest_user or state.newest_user_message()
        own = None if message is None else message.system
        if state.header is not self._header or state.rest is not self._rest or own is not self._own:
            resolve = self._resolve
            rest = "\n".join(text for text in (resolve(state.rest), resolve(own or "")) if text)
            self._segments = tuple(text for text in (resolve(state.header), rest) if text)
            self._header, self._rest, self._own = state.header, state.rest, own
        return self._segments


def system_segments(state: Conversation, resolve: Resolver) -> tuple[str, ...]:
    """The segments now; see `SystemPrompt`."""
    return SystemPrompt(resolve).of(state)


def hooked(segments: tuple[str, ...], hook: SystemHook | None) -> tuple[str, ...]:
    """The segments that a hook makes of these, brought to two again (`two_segments`)."""
    return segments if hook is None else two_segments(hook(segments))


def two_segments(segments: Sequence[str]) -> tuple[str, ...]:
    """The segments without empty ones; what follows the first becomes one."""
    filled = tuple(text for text in segments if text)
    return filled if len(filled) <= 2 else (filled[0], "\n".join(filled[1:]))
