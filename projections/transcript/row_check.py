"""The check of stored rows against a replay of the events."""

from __future__ import annotations

from collections.abc import Iterator

from eventlog.session.session import Session
from eventlog.values import Content
from projections.conversation.text_pieces import joined
from projections.replay.loop import state_at
from projections.transcript.backward import BackwardReader
from projections.transcript.message import LargeText, frozen_message
from projections.transcript.transcript import TranscriptProjection


def wrong_rows(session: Session, version: int) -> Iterator[int]:
    """Yield the first versions of the messages that rows show otherwise than a replay does.

    No rows are made, and no large text is read.
    """
    state, _ = state_at(session, TranscriptProjection(), version, uses_checkpoints=False)
    for messages, large, _ in BackwardReader(session, version, makes_rows=False).stretches():
        for index, message in enumerate(messages):
            lacking: list[LargeText] = []
            replayed = state.messages.pop(message.id, None)
            right = None if replayed is None else frozen_message(replayed, index, lacking, session.text)
            if message != right or _texts(large, index) != _texts(lacking, index):
                yield message.version
    yield from (message.version for message in state.messages.values())


def _texts(large: list[LargeText], index: int) -> list[tuple[int, str, list[Content]]]:
    """Return the large texts of a message, however their pieces came."""
    return [(text.part, text.field, joined(list(text.pieces))) for text in large if text.message == index]
