"""`Measure`: the sizes that planners decide by.

A `Measure` answers from the state of a conversation, so planners stay pure functions.  It keeps
sizes per message and counts again only what changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from eventlog.values import Content
from projections.conversation.parts import FilePart, Message, ReasoningPart, ToolPart

__all__ = ["Measure"]


class Measure(Protocol):
    """Tokens by the counter of the policy, calibrated where that is asked for; all pure."""

    def text(self, content: Content) -> str:
        """The text behind a content."""
        ...

    def messages(self, messages: Sequence[Message]) -> int:
        """Tokens that these messages of the conversation send, one after another."""
        ...

    def sent(self, message: Message) -> int:
        """Tokens that one message of the conversation sends, before calibration."""
        ...

    def counted(self, part: ToolPart | ReasoningPart | FilePart) -> int:
        """Tokens of a completed result, a thought or a file as if not pruned, uncalibrated.

        A result counts with its attachments.
        """
        ...

    def clearing_arguments(self, part: ToolPart) -> int:
        """Tokens that a call has less once its arguments are cleared, uncalibrated."""
        ...

    def paths(self, part: ToolPart) -> tuple[str, ...]:
        """The files that a call names, without superfluous dots and slashes."""
        ...

    @property
    def ratio(self) -> float:
        """Tokens that the provider reports for one that is counted."""
        ...
