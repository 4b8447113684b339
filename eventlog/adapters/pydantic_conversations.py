"""Finding the conversations of pydantic-ai in a store, and where their entries are."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from itertools import chain
from typing import Any

from pydantic import TypeAdapter
from pydantic_ai.conversation_store import ConversationRecord

from eventlog.adapters.entry_feed import EntryFeed
from eventlog.errors import NotFoundError
from eventlog.session.session import Session
from eventlog.store import Store

__all__ = ["FORMAT", "RECORD", "Conversations", "revision_of"]

FORMAT = "pydantic-ai"
"""Format of the names of these sessions; their keys are ids of conversations."""
RECORD = TypeAdapter(ConversationRecord)
FEEDS = 256
"""Conversations of which is kept where their records are."""


class Conversations:
    """The conversations of a store, and where entries were seen."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.feed: Callable[[Session], EntryFeed] = lru_cache(FEEDS)(EntryFeed)
        self.seen: dict[str, str] = {}
        """Sessions in which entries were seen."""

    def session(self, conversation_id: str) -> Session:
        """Return the session of a conversation; `NotFoundError` if there is none."""
        return self._store.open_session((FORMAT, conversation_id), create=False)

    def record(self, conversation_id: str) -> ConversationRecord | None:
        """Return the record of a conversation, None if there is none."""
        with suppress(NotFoundError):
            feed = self.feed(self.session(conversation_id))
            value = feed.newest()[1]
            if value.get("conversation") is not None:
                record = RECORD.validate_python(value["conversation"])
                self.seen.update((entry, feed.session.id) for entry in (record.head_id, *record.branches) if entry)
                return record
        return None

    def records(self, scope: str | None, limit: int | None) -> list[ConversationRecord]:
        """Return the newest records, of a scope if one is given."""
        keys = [info.name[1] for info in self._store.sessions(format=FORMAT) if info.name is not None]
        found = [record for key in keys if (record := self.record(key)) is not None]
        found.sort(key=lambda record: record.updated_at, reverse=True)
        return [record for record in found if scope is None or record.scope == scope][:limit]

    def find(self, entry: str) -> EntryFeed:
        """Return a feed that has an entry: as it was seen, or else of all conversations."""
        known = [self.seen[entry]] if entry in self.seen else []
        for session in chain(known, (info.id for info in self._store.sessions(format=FORMAT))):
            with suppress(NotFoundError):
                feed = self.feed(self._store.session(session))
                feed.place(entry)
                self.seen[entry] = session
                return feed
        raise KeyError(entry)


def revision_of(stored: dict[str, Any]) -> str | None:
    """Return the revision that a conversation's own record has."""
    conversation: dict[str, Any] = stored.get("conversation") or {}
    return conversation.get("revision")
