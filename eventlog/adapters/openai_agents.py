"""Session of the OpenAI Agents SDK: its items are records of a session, found by name.

The SDK's `Session` is a protocol, so nothing of the SDK is imported. A pop, a rewind and a
compaction are rollbacks, which `Session.redo` undoes; a clear erases the session.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from eventlog.adapters.openai_compaction import Prune, Snapshot, snapshot_of
from eventlog.adapters.settled import settled
from eventlog.adapters.unshared import erase_unshared
from eventlog.errors import ConflictError, NotFoundError
from eventlog.importers.openai.responses import OpenAIResponsesMapping
from eventlog.records.feed import Feed
from eventlog.records.read import Forgotten, Redacted
from eventlog.session.session import Session
from eventlog.store import Store
from eventlog.validation import require

__all__ = ["FORMAT", "EverdeltaSession"]

FORMAT = "openai-agents"
"""Format of the names of these sessions; their keys are the SDK's session ids."""


class EverdeltaSession:
    """A conversation of the OpenAI Agents SDK in a store: pass it to `Runner.run(session=)`.

    The first item begins the session of the name `("openai-agents", session_id)`. `wait` is how
    many seconds a write waits for another owner or task to give back the session's lease. A write
    by a handle whose session was cleared elsewhere is refused, until the handle has read again.
    """

    def __init__(
        self, store: Store, session_id: str, *, scope: str = "", session_settings: Any = None, wait: float = 30.0
    ) -> None:
        require(str, session_id, "a session id is a str")
        self.store = store
        self.session_id = session_id
        self.session_settings = session_settings
        self.scope = scope
        self.wait = wait
        self._feed: Feed | None = None
        self._seen = 0
        """The newest record when items were last read, or of own items added right behind it."""

    @property
    def session(self) -> Session:
        """The session itself, begun if there is none: for views, forks, redo and leases."""
        return self._begun().session

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """Return the items, oldest first, or the newest `limit` of them."""
        if limit is None:
            limit = getattr(self.session_settings, "limit", None)
        return await asyncio.to_thread(self._items, None if limit is None or limit < 0 else limit)

    async def add_items(self, items: list[Any]) -> None:
        """Add items in one append, durable when this returns."""
        if items:
            await settled(self._add, items)

    async def pop_item(self) -> Any | None:
        """Take away the newest item by a rollback, and return it; None if there is none."""
        return await settled(self._pop)

    async def clear_session(self) -> None:
        """Erase the session; `Store.scrub` then removes its bytes.  The id may be used again."""
        await settled(self._clear)

    async def _get_compaction_snapshot(self, limit: int, *, prune_prefix: Prune | None = None) -> Snapshot | None:
        """Return the newest items for a compaction; a subclass may change items, and has none."""
        feed = await asyncio.to_thread(self._found) if type(self) is EverdeltaSession else None
        return None if feed is None else await asyncio.to_thread(snapshot_of, feed, limit, prune_prefix, self.wait)

    async def _atomic_replace_items(self, items: list[Any]) -> bool:
        """Replace all items in one append: of a compaction that the program asks for."""
        await settled(lambda: self._begun().replace(items, expected=self._seen, wait=self.wait))
        return True

    # -- in a thread ---------------------------------------------------------------------------

    def _begun(self) -> Feed:
        if self._feed is None:
            session = self.store.open_session((FORMAT, self.session_id), scope=self.scope)
            self._feed = Feed(session, OpenAIResponsesMapping())
        return self._feed

    def _found(self) -> Feed | None:
        """Return the feed of the session that has the name now, None if none has it."""
        try:
            session = self.store.open_session((FORMAT, self.session_id), create=False)
        except NotFoundError:
            self._feed = None
            return None
        if self._feed is None or self._feed.session.id != session.id:
            self._feed = Feed(session, OpenAIResponsesMapping())
        return self._feed

    def _add(self, items: list[Any]) -> None:
        feed, seen = self._begun(), self._seen
        numbers = feed.add(items, wait=self.wait)
        with suppress(NotFoundError):  # cleared elsewhere, once they were stored
            if feed.path(numbers[0], newest=2)[:-1] == ([seen] if seen else []):  # no other worker wrote
                self._seen = numbers[-1]

    def _items(self, limit: int | None) -> list[Any]:
        feed = self._found()
        numbers = [] if feed is None else feed.path(newest=limit)
        if limit != 0:
            self._seen = numbers[-1] if numbers else 0
        return (
            [] if feed is None else [item for item in feed.read(numbers) if not isinstance(item, (Redacted, Forgotten))]
        )

    def _pop(self) -> Any | None:
        while (feed := self._found()) is not None and (newest := feed.path(newest=2)):
            (item,) = feed.read(newest[-1:])
            with suppress(ConflictError):  # another writer's item is the newest by now
                feed.add([], after=newest[0] if len(newest) > 1 else 0, expected=newest[-1], wait=self.wait)
                if not isinstance(item, (Redacted, Forgotten)):
                    return item
        return None

    def _clear(self) -> None:
        feed = self._found()
        if feed is not None:
            erase_unshared(feed, wait=self.wait)
        self._feed = None
