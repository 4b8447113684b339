"""The conversation as a projection: the base of transcript and model view.

What each event does is `apply.py`.
"""

from __future__ import annotations

from eventlog.codec.deltas import DeltaRun
from projections.conversation import apply as apply_module
from projections.conversation.state import Conversation


class ConversationProjection:
    """Applies every event; `whole` keeps covered messages, otherwise they are evicted."""

    name = ""
    version = 6
    whole = True

    def initial(self) -> Conversation:
        """An empty conversation."""
        return Conversation(whole=self.whole)

    apply = staticmethod(apply_module.apply)
    """Apply an event."""
    apply_batch = staticmethod(apply_module.apply_batch)
    """Apply all events of an append, or those before a rollback."""

    def apply_run(self, state: Conversation, run: DeltaRun, version: int, time: int) -> Conversation:
        """Apply a whole run of deltas."""
        del version, time
        state.apply_run(run)
        return state

    def encode(self, state: Conversation) -> bytes:
        """The state's canonical bytes."""
        return state.encode()

    def decode(self, data: bytes) -> Conversation:
        """The state again."""
        return Conversation.decode(data)
