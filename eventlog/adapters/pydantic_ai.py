"""Conversation store of pydantic-ai: a conversation is a session, its entries are records.

Each write is one append of entries and, behind them, the conversation's own record; so a revision
is the newest record's, and checked in the commit. A branch is a rollback, a fork is a fork, and
both share the entries. A deleted conversation's session is erased.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from itertools import chain, islice
from typing import Any

from pydantic import TypeAdapter
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)

from eventlog.adapters.name_keys import key_of_id
from eventlog.adapters.pydantic_entries import EntryFeed, entries_of, record_of
from eventlog.adapters.settled import patience, patient, settled
from eventlog.adapters.unshared import erase_unshared, fork
from eventlog.errors import AlreadyExistsError, ConflictError, NotFoundError
from eventlog.session.session import Session
from eventlog.store import Store
from eventlog.validation import each

FORMAT = "pydantic-ai"
"""Format of the names of these sessions; their keys are ids of conversations."""
RECORD = TypeAdapter(ConversationRecord)
FEEDS = 256
"""Conversations of which is kept where their records are."""


def revision_of(stored: dict[str, Any]) -> str | None:
    """Return the revision that a conversation's own record has."""
    conversation: dict[str, Any] = stored.get("conversation") or {}
    return conversation.get("revision")


class EverdeltaConversationStore(ConversationStore):
    """Conversations of pydantic-ai in a store.

    A deletion erases one; forks keep what they share.

    `wait` is how many seconds a write waits for another task to give back a session's lease.
    """

    def __init__(self, store: Store, *, wait: float = 30.0) -> None:
        self.store = store
        self.wait = wait
        self._feed: Callable[[Session], EntryFeed] = lru_cache(FEEDS)(EntryFeed)
        self._seen: dict[str, str] = {}
        """Sessions in which entries were seen."""

    def session(self, conversation_id: str) -> Session:
        """Return the session of a conversation, for views; `NotFoundError` if there is none."""
        return self.store.open_session((FORMAT, key_of_id(conversation_id)), create=False)

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """Return the record of a conversation, None if there is none."""
        return await settled(self._record, conversation_id)

    async def read_records(self, *, scope: str | None = None, limit: int | None = None) -> Sequence[ConversationRecord]:
        """Return the newest records, of a scope if one is given; reads one of each conversation."""
        return await settled(self._records, scope, limit)

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Store a record and its new entries in one append, or nothing of them."""
        entries = each(new_entries, "new entries are a list")
        try:
            await patient(self.store, partial(self._write, record, entries, expected_revision), self.wait)
        except (ConflictError, LookupError, NotFoundError, AlreadyExistsError) as error:
            raise ConversationConflict(record.conversation_id) from error

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Erase a conversation; a write that comes later is refused."""
        try:
            await patient(self.store, self._deletion(conversation_id, expected_revision), self.wait)
        except (ConflictError, NotFoundError) as error:
            raise ConversationConflict(conversation_id) from error

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """Return an entry; `KeyError` if no conversation has it."""
        return (await self.read_history(entry_id, limit=1))[-1]

    async def read_history(self, head_id: str | None, *, limit: int | None = None) -> list[ConversationEntry]:
        """Return the entries up to one, or the last `limit` of them, oldest first."""
        return [] if head_id is None or limit == 0 else await settled(self._history, head_id, limit)

    # -- in a thread ---------------------------------------------------------------------------

    def _record(self, conversation_id: str) -> ConversationRecord | None:
        """Return the record of a conversation, None if there is none."""
        with suppress(NotFoundError):
            feed = self._feed(self.session(conversation_id))
            value = feed.newest()[1]
            if value.get("conversation") is not None:
                record = RECORD.validate_python(value["conversation"])
                self._seen.update((entry, feed.session.id) for entry in (record.head_id, *record.branches) if entry)
                return record
        return None

    def _records(self, scope: str | None, limit: int | None) -> list[ConversationRecord]:
        """Return the newest records, of a scope if one is given; reads no more than these."""
        records = (record for key in self._newest_first() if (record := self._record(key)) is not None)
        found = list(islice((record for record in records if scope is None or record.scope == scope), limit))
        return sorted(found, key=lambda record: record.updated_at, reverse=True)

    def _newest_first(self) -> Iterator[str]:
        """Yield the keys of conversations, newest activity first."""
        cursor: str | None = None
        while True:
            page = self.store.newest_sessions(cursor=cursor)
            names = (info.name for info in page.sessions)
            yield from (name[1] for name in names if name is not None and name[0] == FORMAT)
            cursor = page.next
            if cursor is None:
                return

    def _find(self, entry: str) -> EntryFeed:
        """Return a feed that has an entry: as it was seen, or else of all conversations."""
        known = [self._seen[entry]] if entry in self._seen else []
        for session in chain(known, (info.id for info in self.store.sessions(format=FORMAT))):
            with suppress(NotFoundError):
                feed = self._feed(self.store.session(session))
                feed.place(entry)
                self._seen[entry] = session
                return feed
        raise KeyError(entry)

    def _write(self, record: ConversationRecord, entries: Sequence[ConversationEntry], expected: str | None) -> None:
        name, parent = (FORMAT, key_of_id(record.conversation_id)), entries[0].parent_id if entries else record.head_id
        told: list[dict[str, Any]] = [record_of(entry) for entry in entries]
        kept: dict[str, Any] = {"conversation": RECORD.dump_python(record, mode="json")}
        if expected is not None:
            feed = self._feed(self.session(record.conversation_id))
            newest, stored = feed.newest()
            if revision_of(stored) != expected:
                raise ConversationConflict(record.conversation_id)
            after = newest if parent == stored["conversation"]["head_id"] else feed.place(parent)
            places = stored.get("places", {}) | {stored["conversation"]["head_id"]: newest}
            kept["places"] = {tip: places[tip] for tip in record.branches if tip in places}
            feed.add([*told, kept], after=after, expected=newest, wait=patience(self.wait))
        elif self._record(record.conversation_id) is not None:
            raise ConversationConflict(record.conversation_id)
        else:
            self._begin(name, parent, record.scope, [*told, kept])
            feed = self._feed(self.session(record.conversation_id))
        self._seen.update((entry.id, feed.session.id) for entry in entries)

    def _begin(self, name: tuple[str, str], parent: str | None, scope: str | None, told: list[Any]) -> None:
        """Begin a conversation: of all writers one gets its name, or adds the first record."""
        with suppress(NotFoundError):
            left = self.session(name[1])
            if self._feed(left).is_deleted():  # and the deletion broke off
                erase_unshared(self._feed(left), wait=patience(self.wait))
        if parent is None:
            session = self.store.open_session(name, scope=scope or "")
            self._feed(session).add(told, expected=0, wait=patience(self.wait))
            return
        home = self._find(parent)
        place = home.place(parent)

        def begin() -> Session:
            if home.is_deleted():
                raise ConversationConflict(name[1])
            return home.fork(told, after=place, name=name)

        fork(home.session, begin, wait=patience(self.wait))

    def _deletion(self, conversation_id: str, expected: str) -> Callable[[], None]:
        """Return the command that deletes a conversation; begun again, it goes on where it was."""
        marked: EntryFeed | None = None

        def delete() -> None:
            nonlocal marked
            if marked is None:
                feed = self._feed(self.session(conversation_id))
                newest, stored = feed.newest()
                if revision_of(stored) != expected:
                    raise ConversationConflict(conversation_id)
                feed.add([stored | {"conversation": None}], expected=newest, wait=patience(self.wait))
                marked = feed
            erase_unshared(marked, wait=patience(self.wait))

        return delete

    def _history(self, head: str, limit: int | None) -> list[ConversationEntry]:
        return entries_of(self._find(head).entries(head, limit))
