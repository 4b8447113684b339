"""A store of many sessions: search and follow it, maintain its files.

A store owns its log, one handle per session (`session/session.py`), and one thread that commits
accepted deltas and renews leases. The same path opened twice in a process shares one log. Sessions
are begun, found and listed in `session_store.py`.

Each maintenance method runs a module of `maintenance/`, imported at the first use: a program that
only talks needs none of them.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self

import msgspec

from eventlog import events as ev
from eventlog import os_fork
from eventlog.append.metrics import Metrics
from eventlog.codec.decoded import Recorded
from eventlog.errors import ErasedError, EventlogError
from eventlog.errors.base import giving_way_to
from eventlog.history.cursor import cursor_at
from eventlog.log.contract import Log
from eventlog.maintenance.gathered import Gatherer
from eventlog.models.catalogue import ModelCatalogue
from eventlog.session import liveness
from eventlog.session.host import Host
from eventlog.session.registry import SessionRegistry
from eventlog.session_store import PAGE, SessionStore
from eventlog.state.committed import CHECKPOINT_EVENTS
from eventlog.subscription import Subscription, subscribe
from eventlog.values import Model, Price, Tokens

if TYPE_CHECKING:
    from eventlog.encryption.keys import KeySource
    from eventlog.maintenance.destination import BackupResult
    from eventlog.maintenance.emptied import VacuumResult
    from eventlog.maintenance.erase import Choice
    from eventlog.maintenance.erase_scope import ScopeErasure
    from eventlog.maintenance.retention import ExpiryResult
    from eventlog.search.hit import SearchPage
    from eventlog.search.said import Kind
    from eventlog.search.search import Searcher
    from eventlog.search.usage import UsageByDay

FLUSH_INTERVAL = 0.1
"""Seconds within which an accepted delta is committed."""
SEARCH_WAIT = 5.0
"""Seconds for which a search brings its index up to date."""
LEASE_TTL = 30_000
"""Milliseconds a lease lasts without renewal."""


class Store(SessionStore):
    """Many sessions in one log.  A context manager; `close()` makes everything durable."""

    def __init__(
        self,
        log: Log,
        *,
        flush_interval: float = FLUSH_INTERVAL,
        lease_ttl: int = LEASE_TTL,
        checkpoint_events: int = CHECKPOINT_EVENTS,
        clock: Callable[[], int] | None = None,
        new_id: Callable[[str], str] | None = None,
        prices: Callable[[Model | None, Tokens], Price | None] | None = None,
        models: ModelCatalogue | None = None,
    ) -> None:
        self.log = log
        self.host: Host = Host(
            self,
            log,
            flush_interval=flush_interval,
            lease_ttl=lease_ttl,
            checkpoint_events=checkpoint_events,
            clock=clock,
            new_id=new_id,
            prices=prices,
            models=models,
        )
        """Services for the sessions: clock, ids, lease owner, flusher."""
        self.registry: SessionRegistry = SessionRegistry(self, self.host)
        """The executors of the sessions."""
        liveness.expire_stopped()
        os_fork.register(self.registry)
        self._searcher: Searcher | None = None
        self._gatherer = Gatherer(self.host, self.vacuum)
        self._unregister = liveness.begin(self.host, self.close)
        self._stop = weakref.finalize(self, self.host.flusher.stop)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with giving_way_to(error, "store", EventlogError):  # what fails now follows from what failed first
            self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a store, or a handle of one, cannot be copied or pickled: open the store by its path again")

    def search(
        self,
        words: str,
        *,
        session: str | None = None,
        scope: str | None = None,
        kinds: Sequence[Kind] | None = None,
        tool: str | None = None,
        since: int | None = None,
        until: int | None = None,
        rolled_back: bool | None = None,
        ranked: bool = False,
        cursor: str | None = None,
        limit: int = PAGE,
        wait: float | None = SEARCH_WAIT,
    ) -> SearchPage:
        """Texts with all of these words, and phrases in quotes: the newest first, or `ranked`.

        All that was said is searched, also what was pruned, compacted or rolled back: texts of
        users and models, reasoning, calls and results. Case and accents do not count. `session`
        searches a session with the history it inherited; `kinds` are of *user*, *assistant*,
        *reasoning*, *call*, *result*; `tool` is the name of one; `since` and `until` are UTC
        milliseconds, of which the second is left out; `rolled_back` chooses what a rollback hides,
        or what none does. None is no filter. The next page begins at the `cursor` of this one,
        with the same words and filters.

        The index is brought up to date first, for at most `wait` seconds (None: as long as it
        takes); `SearchPage.behind` says how much is missing. Nothing that is redacted, erased or
        forgotten is found once that is committed. `scope` searches the sessions of one scope.
        `LimitError` for a large store without an index file (encrypted, on a server, in a read-only
        directory), unless `session` or `scope` chooses less. A page has at most `limit` texts.
        """
        return self._index().search(
            words,
            session=session,
            scope=scope,
            kinds=kinds,
            tool=tool,
            since=since,
            until=until,
            rolled_back=rolled_back,
            ranked=ranked,
            cursor=cursor,
            limit=limit,
            wait=wait,
        )

    def usage_by_day(
        self,
        *,
        since: int | None = None,
        until: int | None = None,
        scope: str | None = None,
        model: str | None = None,
        wait: float | None = SEARCH_WAIT,
    ) -> UsageByDay:
        """Replies, errors, tokens and cost of each day, scope and model, by the days of UTC.

        Each event counts once, at its own time: what a fork inherited counts for the session in
        which it happened, and what a rollback hides was spent. An erased session counts no more.
        A call without a recorded cost is estimated by the store's catalogue of now, or counts as
        unpriced. `since` and `until` are UTC milliseconds: the days that begin from the first on
        and before the second. `scope` and `model` choose those of one name; None is no filter.

        It is read from the index of `search`, brought up to date for at most `wait` seconds (None:
        as long as it takes); `UsageByDay.behind` says how much is missing.
        """
        return self._index().usage_by_day(
            self.host.models, since=since, until=until, scope=scope, model=model, wait=wait
        )

    def _index(self) -> Searcher:
        """Return what searches this store, made at the first search."""
        self.host.require_open()
        searcher = self._searcher
        if searcher is None:
            from eventlog.search.search import Searcher

            with self.registry.lock:  # another thread may have made one
                searcher = self._searcher = self._searcher or Searcher(
                    self.log, self.host.clock, self.host.require_open
                )
        return searcher

    def cursor(self) -> str:
        """The cursor behind everything that is committed now, for `subscribe`."""
        self.host.require_open()
        return cursor_at(self.log, self.log.last_positions())

    def subscribe(
        self,
        after: str | int | None = None,
        *,
        session: str | None = None,
        kinds: Sequence[type[ev.Base]] | None = None,
        timeout: float | None = None,
        provisional: bool = False,
    ) -> Iterator[Recorded]:
        """Every event behind the cursor `after`, first from history, then live.

        Each comes once, and those of a session in their order. `session` and `kinds` choose among
        the events. `after` is the `cursor` of the last event that was taken in, `cursor()` for
        what comes from now on, a version of the `session`, or None (or "") for the beginning.
        `CursorError` for a cursor of another store, or from before the store was restored to an
        earlier state. Ends when nothing new came for `timeout` seconds
        (None: never), and with `ClosedError` when the store is closed. Deltas arrive with their
        flush. A session that does not exist yet is waited for. Blocks: for asyncio see `aio/`.

        With `provisional` also events that handles of this store have accepted and not committed
        yet, within hundredths of a second, without a cursor and with the version they will have if
        no other event comes between. They come again when they are committed; events lost in a
        crash, or refused, do not. A caller that shows provisional events drops those of a session
        at the session's next event with a cursor.
        """
        self.host.require_open()
        ahead = self.registry.writers if provisional else None
        reader = Subscription(self.log, after, session=session, kinds=kinds, ahead=ahead)
        return subscribe(reader, self.host.follower, timeout)

    # -- maintenance ---------------------------------------------------------------------------

    def backup(
        self,
        to: str | os.PathLike[str],
        *,
        keys: KeySource | None = None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> BackupResult:
        """Copy all committed events into the directory `to`, while others read and write.

        With `keys` (see `open`) the copy of a plain store is a new store that is encrypted.
        `on_progress` is called with the events copied and all events.
        """
        from eventlog.maintenance.backup import backup

        self.host.require_open()
        self._gatherer.remove()  # else the copy would have what was erased a moment ago
        return backup(self.log, to, keys=keys, on_progress=on_progress)

    def erase(
        self,
        session: str,
        *,
        forks: Choice = "refuse",
        subsessions: Choice = "refuse",
        reason: str = "",
        wait: float = 0.0,
    ) -> tuple[str, ...]:
        """Erase a session, and its forks and sub-sessions as chosen; returns the erased ids.

        `forks` and `subsessions` say what happens to each: "refuse" (default) raises `RefusedError`
        with their ids; "keep" leaves them, a fork with the history it inherited; "cascade" erases
        them. `reason` is recorded. `LeaseHeldError` if a task still runs one of them after `wait`
        seconds.
        """
        from eventlog.maintenance.erase import erase

        self.host.require_open(writing=True)
        return erase(self, session, forks=forks, subsessions=subsessions, reason=reason, wait=wait)

    def erase_scope(
        self,
        scope: str,
        *,
        forks: Choice = "refuse",
        subsessions: Choice = "refuse",
        reason: str = "",
        wait: float = 0.0,
    ) -> ScopeErasure:
        """Erase all sessions of a `scope`; returns their ids and the places that have copies.

        `forks` and `subsessions` of other scopes are refused, kept or erased as by `erase`, before
        anything is erased; `reason` is recorded. `LeaseHeldError` if a task still runs one of them
        after `wait` seconds. After an error the same call goes on with the rest. Shelves and values
        of other sessions belong to no scope.
        """
        from eventlog.maintenance.erase_scope import erase_scope

        self.host.require_open(writing=True)
        return erase_scope(self, scope, forks=forks, subsessions=subsessions, reason=reason, wait=wait)

    def drop_shelf(self, name: str, *, reason: str = "") -> None:
        """Erase the shelf of a name, which may be used again; `NotFoundError` if there is none.

        `reason` is recorded.
        """
        from eventlog.maintenance.erase import drop_shelf

        self.host.require_open(writing=True)
        drop_shelf(self, name, reason=reason)

    def expire(
        self,
        *,
        age: int | None = None,
        count: int | None = None,
        size: int | None = None,
        scope: str | None = None,
        dry_run: bool = False,
    ) -> ExpiryResult:
        """Erase the least recently used sessions until the store is within the given limits.

        With `dry_run` nothing is erased, and the result says what would be; allowed in a read-only
        store. `age` is milliseconds since the last activity, `count` a number of sessions, `size`
        bytes of events; None is no limit. `scope` considers the sessions of one scope. An imported
        session is as old as its recording says, without times the oldest of all.
        """
        from eventlog.maintenance.retention import expire, to_expire

        self.host.require_open(writing=not dry_run)
        do = to_expire if dry_run else expire
        return do(self, age=age, count=count, size=size, scope=scope)

    def scrub(self) -> VacuumResult:
        """Remove the bytes of redacted and erased content from every file of the store.

        Other programs may use the store meanwhile.
        """
        from eventlog.maintenance.scrub import scrub

        self.host.require_open(writing=True)
        self.flush()
        self._close_index()
        return scrub(self)

    def vacuum(self) -> VacuumResult:
        """Return the space of erased sessions to the file system.

        Other programs may use the store meanwhile.
        """
        from eventlog.maintenance.vacuum import rewrite

        self.host.require_open(writing=True)
        self.flush()
        self._close_index()
        return rewrite(self.log, time=self.host.clock())

    # -- the end -----------------------------------------------------------------------------

    def metrics(self) -> Metrics:
        """Counters of what this store has done so far."""
        return msgspec.structs.replace(self.host.counted)

    def _close_index(self) -> None:
        if self._searcher is not None:
            self._searcher.close()

    @property
    def closed(self) -> bool:
        """Whether `close()` was called."""
        return self.host.closed

    def close(self) -> None:
        """Make everything durable, give leases back, close the log.  Calling it twice is harmless.

        What another thread has accepted meanwhile is durable too, or was refused with
        `ClosedError`.
        """
        host = self.host
        if host.forked:
            return
        self._gatherer.end()
        with host.closing:  # another thread that closes waits for this one
            with self.registry.lock:
                if host.closed:
                    return
                host.closed = True
                host.writable = False
                leased = host.flusher.leased()
                writers = self.registry.writers()
            failure: EventlogError | None = None
            for writer in writers:
                writer.buffer.close()
            for work in (*(writer.end for writer in writers), *leased):
                try:
                    work()
                except ErasedError:  # events accepted for an erased session have no place any more
                    continue
                except EventlogError as error:
                    failure = failure or error
                except BaseException:
                    host.closed = False  # interrupted: it can be closed again
                    raise
            self._stop()
            host.kept.clear()
            self._close_index()
            self._unregister()
            try:
                self.log.close()
            finally:
                host.follower.ring_all()
        if failure is not None:
            raise failure
