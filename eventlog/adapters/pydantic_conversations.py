"""Finding the conversations of pydantic-ai in a store, and where their entries are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from itertools import chain, islice
from typing import Any

from pydantic import TypeAdapter
from pydantic_ai.conversation_store import ConversationRecord

from eventlog.adapters.entry_feed import EntryFeed
from eventlog.adapters.name_keys import key_of_id
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
        return self._store.open_session((FORMAT, key_of_id(conversation_id)), create=False)

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
        """Return the newest records, of a scope if one is given; reads no more than these."""
        records = (record for key in self._newest_first() if (record := self.record(key)) is not None)
        found = list(islice((record for record in records if scope is None or record.scope == scope), limit))
        return sorted(found, key=lambda record: record.updated_at, reverse=True)

    def _newest_first(self) -> Iterator[str]:
        """Yield the keys of conversations, newest activity first."""
        cursor: str | None = None
        while True:
            page = self._store.newest_sessions(cursor=cursor)
            names = (info.name for info in page.sessions)
            yield from (name[1] for name in names if name is not None and name[0] == FORMAT)
            cursor = page.next
            if cursor is None:
                return

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
