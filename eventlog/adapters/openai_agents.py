"""Session of the OpenAI Agents SDK: its items are records of a session, found by name.

The SDK's `Session` is a protocol, so nothing of the SDK is imported. A pop, a rewind and a
compaction are rollbacks, which `Session.redo` undoes; a clear erases the session.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import fields
from functools import partial
from itertools import takewhile
from threading import Lock
from typing import Any, NamedTuple, TypeVar

from eventlog.adapters.framework_feed import FrameworkFeed
from eventlog.adapters.name_keys import key_of_id, session_of
from eventlog.adapters.openai_feed import RUN, ItemFeed, Run
from eventlog.adapters.settled import patience, patient
from eventlog.adapters.unshared import erase_unshared
from eventlog.errors import ArgumentTypeError, ConflictError, NotFoundError
from eventlog.errors.base import brief
from eventlog.importers.common.json_lines import is_object
from eventlog.session.session import Session
from eventlog.store import Store
from eventlog.validation import each, require

Prune = Callable[[Any], bool]
"""Whether the SDK keeps an item no longer."""


class Snapshot(NamedTuple):
    """The newest items, and what replaces an end of them: as the SDK compacts."""

    items: list[Any]
    complete: bool
    replace_suffix: Callable[[int, list[Any]], Awaitable[bool]]


def snapshot_of(feed: FrameworkFeed, limit: int, prune: Prune | None, wait: float) -> Snapshot:
    """Return the newest items of a feed; replacing an end is one append, unless they changed."""
    path = feed.path(newest=limit + 1)
    before = path.pop(0) if len(path) > limit else 0
    found = feed.shown(path)

    def replace(start: int, output: list[Any]) -> bool:
        first = path.index(found[start][0])
        try:
            feed.add(output, after=path[first - 1] if first else before, expected=path[-1], wait=patience(wait))
        except (ConflictError, NotFoundError):  # other items, or none, by now
            return False
        if prune is not None:
            _forget_oldest(feed, prune, path[first])
        return True

    async def replace_suffix(start: int, output: list[Any]) -> bool:
        return start < len(found) and await patient(feed.session.store, partial(replace, start, output), wait)

    return Snapshot([item for _, item in found], before == 0, replace_suffix)


def _forget_oldest(feed: FrameworkFeed, prune: Prune, until: int) -> None:
    """Forget the oldest items that the SDK wants kept no longer, of those before a record."""
    older = [number for number in feed.path() if number < until]
    expired = takewhile(lambda one: prune(one[1]), feed.shown(older))
    feed.forget([number for number, _ in expired])


def settings_of(given: Any) -> Any:
    """Return settings as the SDK's runner takes them, in a program that has imported the SDK.

    `ArgumentTypeError` for a setting that the SDK does not have.
    """
    if not (given is None or is_object(given)):
        return given
    sdk = sys.modules.get("agents.memory")
    known = ["limit"] if sdk is None else [field.name for field in fields(sdk.SessionSettings)]
    if unknown := [name for name in given or {} if name not in known]:
        raise ArgumentTypeError(f"a session has the settings {', '.join(known)}, not {brief(unknown[0])}")
    return given if sdk is None else sdk.SessionSettings(**given or {})


T = TypeVar("T")

FORMAT = "openai-agents"
"""Format of the names of these sessions; their keys are the SDK's session ids."""
_METHODS = ("get_items", "add_items", "pop_item", "clear_session")
"""Methods that a subclass may override; a compaction then calls them."""


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
        self._name = (FORMAT, key_of_id(session_id))
        self.store = store
        self.session_id = session_id
        self.session_settings: Any = settings_of(session_settings)
        self.scope = scope
        self.wait = wait
        self._feed: ItemFeed | None = None
        self._lock = Lock()
        self._cleared = ""
        """The session that this handle clears, or has cleared last."""

    @property
    def session(self) -> Session:
        """The session itself, begun if there is none: for views, forks, redo and leases."""
        return self._begun().session

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """Return the items, oldest first, or the newest `limit` of them."""
        if limit is None:
            settings = self.session_settings
            limit = settings.get("limit") if is_object(settings) else getattr(settings, "limit", None)
        newest = None if limit is None or limit < 0 else limit
        found = await asyncio.to_thread(self._read, lambda feed: feed.items(newest))
        items, run = found or ([], Run(self, 0))
        RUN.set(run)
        return items

    async def add_items(self, items: list[Any]) -> None:
        """Add items in one append, durable when this returns."""
        if told := each(items, "items are a list"):
            await self._patient(lambda: self._write(lambda feed: feed.tell(told, wait=patience(self.wait))))

    async def pop_item(self) -> Any | None:
        """Take away the newest item by a rollback, and return it; None if there is none."""
        return await self._patient(lambda: self._read(lambda feed: feed.take_back(wait=patience(self.wait))))

    async def clear_session(self) -> None:
        """Erase the session; `Store.scrub` then removes its bytes.  The id may be used again."""
        await self._patient(self._clear)

    async def _get_compaction_snapshot(self, limit: int, *, prune_prefix: Prune | None = None) -> Snapshot | None:
        """Return the newest items for a compaction; a subclass that changes items has none."""
        if not self._is_plain():
            return None
        return await asyncio.to_thread(self._read, lambda feed: snapshot_of(feed, limit, prune_prefix, self.wait))

    async def _atomic_replace_items(self, items: list[Any]) -> bool:
        """Replace all items in one append: of a compaction that the program asks for.

        False for a subclass that changes items: the SDK then clears the session and adds them.
        """
        if not self._is_plain():
            return False
        await self._patient(lambda: self._write(lambda feed: feed.make(items, wait=patience(self.wait))))
        return True

    def _is_plain(self) -> bool:
        """Whether the methods by which items come and go are those of this class."""
        found = (getattr(getattr(self, name), "__func__", None) for name in _METHODS)
        return all(one is getattr(EverdeltaSession, name) for one, name in zip(found, _METHODS, strict=True))

    async def _patient(self, command: Callable[[], T]) -> T:
        """Run a command in a thread; this task waits for the lease."""
        return await patient(self.store, command, self.wait)

    # -- in a thread ---------------------------------------------------------------------------

    def _begun(self) -> ItemFeed:
        with self._lock:
            if self._feed is None:
                self._feed = ItemFeed(self.store.open_session(self._name, scope=self.scope), self)
            return self._feed

    def _found(self) -> ItemFeed | None:
        """Return the feed of the session that has the name now, None if none has it."""
        with self._lock:
            session = session_of(self.store, self._name)
            if session is None or self._feed is None or self._feed.session.id != session.id:
                self._feed = None if session is None else ItemFeed(session, self)
            return self._feed

    def _read(self, ask: Callable[[ItemFeed], T]) -> T | None:
        """Ask the session that has the name now; None if none has it."""
        feed = self._found()
        while feed is not None:
            try:
                return ask(feed)
            except NotFoundError:
                asked, feed = feed, self._found()
                if feed is asked:  # it was not cleared meanwhile
                    raise
        return None

    def _write(self, tell: Callable[[ItemFeed], None]) -> None:
        """Write to the session that this handle knows, begun anew behind a clear of its own."""
        while True:
            feed = self._begun()
            try:
                tell(feed)
            except NotFoundError:
                if feed.session.id != self._cleared:
                    raise
                self._leave(feed)
            else:
                return

    def _clear(self) -> None:
        feed = self._found()
        if feed is None:
            return
        self._cleared = feed.session.id
        try:
            erase_unshared(feed, wait=patience(self.wait))
        except BaseException:
            self._cleared = ""
            raise
        self._leave(feed)

    def _leave(self, feed: ItemFeed) -> None:
        """Let the next write begin a session."""
        with self._lock:
            self._feed = None if self._feed is feed else self._feed
