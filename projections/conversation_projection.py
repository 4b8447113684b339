"""The fold of a conversation as a projection (`projection.py`): what transcript and model view have in common.

What each event does is `folding.py`.  Imported by `transcript.py` and `model_view.py`.
"""

from __future__ import annotations

from eventlog.deltas import DeltaRun
from eventlog.events import Event
from projections import folding
from projections.conversation import Conversation

__all__ = ["ConversationProjection"]


class ConversationProjection:
    """A fold over every event; `whole` keeps what a compaction covers, otherwise the state has the size of the view."""

    name = ""
    version = 2
    whole = True

    def initial(self) -> Conversation:
        """An empty conversation."""
        return Conversation(whole=self.whole)

    def apply(self, state: Conversation, event: Event, version: int, time: int) -> Conversation:
        """Take in an event."""
        folding.apply(state, event, version, time)
        return state

    def apply_run(self, state: Conversation, run: DeltaRun, version: int, time: int) -> Conversation:
        """Take in a run of deltas, whole."""
        del version, time
        state.apply_run(run)
        return state

    def encode(self, state: Conversation) -> bytes:
        """The state's canonical bytes."""
        return state.encode()

    def decode(self, data: bytes) -> Conversation:
        """The state again."""
        return Conversation.decode(data)
