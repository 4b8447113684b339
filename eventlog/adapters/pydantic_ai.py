"""Conversation store of pydantic-ai: a conversation is a session, its entries are records.

Each write is one append of entries and, behind them, the conversation's own record; so a revision
is the newest record's, and checked in the commit. A branch is a rollback, a fork is a fork, and
both share the entries. A deleted conversation's session is erased.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from pydantic import TypeAdapter
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)

from eventlog.adapters.pydantic_messages import PydanticAIMapping
from eventlog.adapters.settled import settled
from eventlog.errors import AlreadyExistsError, ConflictError, NotFoundError
from eventlog.importers.common.json_lines import is_object
from eventlog.records.feed import Feed
from eventlog.session.session import Session
from eventlog.store import Store

__all__ = ["FORMAT", "EverdeltaConversationStore"]

FORMAT = "pydantic-ai"
"""Format of the names of these sessions; their keys are ids of conversations."""

_ENTRY = TypeAdapter(ConversationEntry)
_RECORD = TypeAdapter(ConversationRecord)


class EverdeltaConversationStore(ConversationStore):
    """Conversations of pydantic-ai in a store; `delete` erases one, and forks keep what they share.

    `wait` is how many seconds a write waits for another task to give back a session's lease.
    """

    def __init__(self, store: Store, *, wait: float = 30.0) -> None:
        self.store = store
        self.wait = wait
        self._homes: dict[str, str] = {}
        """Sessions in which entries were seen."""

    def session(self, conversation_id: str) -> Session:
        """Return the session of a conversation, for views; `NotFoundError` if there is none."""
        return self.store.open_session((FORMAT, conversation_id), create=False)

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
        try:
            await settled(self._write, record, list(new_entries), expected_revision)
        except (ConflictError, NotFoundError, AlreadyExistsError) as error:
            raise ConversationConflict(record.conversation_id) from error

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Erase a conversation; a write that comes later is refused."""
        try:
            await settled(self._delete, conversation_id, expected_revision)
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
        with suppress(NotFoundError):
            feed = _feed(self.session(conversation_id))
            value = _state(feed)[1]
            if value.get("conversation") is not None:
                record = _RECORD.validate_python(value["conversation"])
                self._homes.update((entry, feed.session.id) for entry in (record.head_id, *record.branches) if entry)
                return record
        return None

    def _records(self, scope: str | None, limit: int | None) -> list[ConversationRecord]:
        keys = [info.name[1] for info in self.store.sessions(format=FORMAT) if info.name is not None]
        found = [record for key in keys if (record := self._record(key)) is not None]
        found.sort(key=lambda record: record.updated_at, reverse=True)
        return [record for record in found if scope is None or record.scope == scope][:limit]

    def _write(self, record: ConversationRecord, entries: list[ConversationEntry], expected: str | None) -> None:
        name, parent = (FORMAT, record.conversation_id), entries[0].parent_id if entries else record.head_id
        told = [_ENTRY.dump_python(entry, mode="json") for entry in entries]
        kept: dict[str, Any] = {"conversation": _RECORD.dump_python(record, mode="json")}
        if expected is not None:
            feed = _feed(self.session(record.conversation_id))
            newest, stored = _state(feed)
            if (stored.get("conversation") or {}).get("revision") != expected:
                raise ConversationConflict(record.conversation_id)
            after = newest if parent == stored["conversation"]["head_id"] else _place(feed, parent)
            path = feed.path()
            places = stored.get("places", {}) | {stored["conversation"]["head_id"]: path[-2] if len(path) > 1 else 0}
            kept["places"] = {tip: places[tip] for tip in record.branches if tip in places}
            feed.add([*told, kept], after=after, expected=newest, wait=self.wait)
        elif self._record(record.conversation_id) is not None:
            raise ConversationConflict(record.conversation_id)
        else:
            self._begin(name, parent, [*told, kept])
            feed = _feed(self.session(record.conversation_id))
        self._homes.update((entry.id, feed.session.id) for entry in entries)

    def _begin(self, name: tuple[str, str], parent: str | None, told: list[Any]) -> None:
        """Begin a conversation whole, and then give it its name, which one of all writers gets."""
        with suppress(NotFoundError):  # left by a deletion that broke off
            self._erase(self.session(name[1]))
        if parent is None:
            session = self.store.create_session()
        else:
            home = self._home(parent)
            session = home.session.fork(_place(home, parent))
        try:
            _feed(session).add(told, wait=self.wait)
            self.store.names.give(session.id, name)
        except BaseException:
            self._erase(session)
            raise

    def _delete(self, conversation_id: str, expected: str) -> None:
        session = self.session(conversation_id)
        feed = _feed(session)
        newest, stored = _state(feed)
        if (stored.get("conversation") or {}).get("revision") != expected:
            raise ConversationConflict(conversation_id)
        feed.add([{"conversation": None}], expected=newest, wait=self.wait)
        self._erase(session)

    def _erase(self, session: Session) -> None:
        with suppress(NotFoundError):
            self.store.erase(session.id, forks="keep", subsessions="cascade", wait=self.wait)

    def _home(self, entry: str) -> Feed:
        """Return a feed that has an entry: as it was seen, or else of all conversations."""
        known = [self._homes[entry]] if entry in self._homes else []
        for session in [*known, *(info.id for info in self.store.sessions(format=FORMAT))]:
            with suppress(NotFoundError):
                feed = _feed(self.store.session(session))
                _place(feed, entry)
                self._homes[entry] = session
                return feed
        raise KeyError(entry)

    def _history(self, head: str, limit: int | None) -> list[ConversationEntry]:
        feed = self._home(head)
        path = feed.path(_place(feed, head))
        wanted = len(path) if limit is None else limit
        found: list[Any] = []
        while path and len(found) < wanted:
            piece = path[-2 * wanted :]
            del path[-len(piece) :]
            found[:0] = [value for value in feed.read(piece) if is_object(value) and "message" in value]
        return [_ENTRY.validate_python(value) for value in found[-wanted:]]


def _feed(session: Session) -> Feed:
    return Feed(session, PydanticAIMapping())


def _state(feed: Feed) -> tuple[int, dict[str, Any]]:
    """Return the newest record's number, and what it keeps of the conversation."""
    path = feed.path(newest=1)
    value = feed.read(path)[0] if path else {}
    return (path[0], value) if path and is_object(value) else (0, {})


def _place(feed: Feed, entry: str | None) -> int:
    """Return the number of an entry, 0 for None; `NotFoundError` if the feed has none of this id."""
    if entry is None:
        return 0
    for path in _lines(feed):
        for number, value in zip(reversed(path), reversed(feed.read(path))):
            if is_object(value) and value.get("id") == entry:
                return number
    raise NotFoundError("entry", entry, session=feed.session.id)


def _lines(feed: Feed) -> Iterator[list[int]]:
    """Yield the records of a conversation's history, and of the branches that it left."""
    yield feed.path()
    for place in reversed((_state(feed)[1].get("places") or {}).values()):
        yield feed.path(place)
