"""A store of many sessions: open it, begin and find sessions, maintain its files.

A store owns its log, one handle per session (`session/handles.py`), and one thread that commits
accepted deltas and renews leases. The same path opened twice in a process shares one log.

Each maintenance method runs a module of `maintenance/`, imported at the first use: a program that
only talks needs none of them.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, Self

import msgspec

from eventlog import events as ev
from eventlog import os_fork
from eventlog.append.metrics import Metrics
from eventlog.codec.batch import validate
from eventlog.codec.bodies import to_file
from eventlog.codec.decoded import Recorded
from eventlog.codec.payload import is_foreign
from eventlog.errors import CallError, ErasedError, EventlogError, NotFoundError
from eventlog.errors.base import giving_way_to
from eventlog.history.catalog import SessionInfo, entry_of, info_of, is_shelf, is_shelf_id
from eventlog.history.cursor import cursor_at
from eventlog.history.name_streams import Name, named_heads
from eventlog.history.session_page import SessionPage, page_of
from eventlog.history.streams import head_of
from eventlog.integrity.heads import StoreHead, store_head
from eventlog.log.contract import Log
from eventlog.models.catalogue import ModelCatalogue
from eventlog.open_log import open_log
from eventlog.session import liveness
from eventlog.session.handles import handle_of
from eventlog.session.host import Host
from eventlog.session.inputs import model_of
from eventlog.session.naming import Names, begin_named, open_named
from eventlog.session.registry import SessionRegistry, check_session_id
from eventlog.session.session import Session
from eventlog.session.shelf import Shelf, open_shelf, shelf_names
from eventlog.state.committed import CHECKPOINT_EVENTS
from eventlog.subscription import Subscription, subscribe
from eventlog.validation import each, require, require_call, require_or_none, require_version
from eventlog.values import Body, Content, Model, Origin, Price, Tokens

if TYPE_CHECKING:
    from eventlog.encryption.keys import KeySource
    from eventlog.maintenance.destination import BackupResult
    from eventlog.maintenance.emptied import VacuumResult
    from eventlog.maintenance.erase import Choice
    from eventlog.maintenance.repair import RepairReport
    from eventlog.maintenance.retention import ExpiryResult
    from eventlog.search.hit import SearchPage
    from eventlog.search.said import Kind
    from eventlog.search.search import Searcher

__all__ = ["Store", "begin_session", "open_store", "repair", "restore"]

FLUSH_INTERVAL = 0.1
"""Seconds within which an accepted delta is committed."""
PAGE = 20
"""Sessions on a page of a list."""
SEARCH_WAIT = 5.0
"""Seconds for which a search brings its index up to date."""
LEASE_TTL = 30_000
"""Milliseconds a lease lasts without renewal."""


def open_store(
    path: str | os.PathLike[str],
    *,
    read_only: bool = False,
    flush_interval: float = FLUSH_INTERVAL,
    lease_ttl: int = LEASE_TTL,
    checkpoint_events: int = CHECKPOINT_EVENTS,
    clock: Callable[[], int] | None = None,
    new_id: Callable[[str], str] | None = None,
    prices: Callable[[Model | None, Tokens], Price | None] | None = None,
    models: ModelCatalogue | None = None,
    keys: KeySource | None = None,
) -> Store:
    """Open the store at `path`, made if it is not there; `memory:` is one in memory.

    `keys` makes it encrypted: True for a key file beside the store, the path of one, or a provider
    (`encryption/keys.py`).

    `flush_interval` in seconds, `lease_ttl` in milliseconds, `checkpoint_events` in events, a run
    of deltas as one; `clock` gives UTC milliseconds, `new_id` an id for a prefix. `models` is the
    catalogue of models, by default the one that ships: it gives windows their limits, and a usage
    that is recorded without a cost its price. A function `prices` is asked for the price instead.
    Either is asked once: the answer is stored with the usage, and never computed again.
    """
    return Store(
        open_log(path, read_only=read_only, keys=keys),
        flush_interval=flush_interval,
        lease_ttl=lease_ttl,
        checkpoint_events=checkpoint_events,
        clock=clock,
        new_id=new_id,
        prices=prices,
        models=models,
    )


class Store:
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
        self.host = Host(
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
        self.registry = SessionRegistry(self, self.host)
        """The executors of the sessions."""
        liveness.expire_stopped()
        os_fork.register(self.registry)
        self._searcher: Searcher | None = None
        self._origins: tuple[tuple[int, ...], dict[tuple[str, str], list[str]]] = ((), {})
        self._at_exit = liveness.begin(self.host, self.close)
        weakref.finalize(self, self.host.flusher.stop)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with giving_way_to(error, "store", EventlogError):  # what fails now follows from what failed first
            self.close()

    # -- sessions ------------------------------------------------------------------------------

    def create_session(
        self,
        *,
        id: str | None = None,
        title: str = "",
        scope: str = "",
        directory: str = "",
        agent: str = "",
        model: Model | str | None = None,
        parent: str | None = None,
        origin: Origin | None = None,
        time: int | None = None,
    ) -> Session:
        """Begin a session.  `AlreadyExistsError` if the id is taken.

        `parent` makes it a sub-session of that session; `NotFoundError` if that does not exist.
        """
        if parent is not None:
            self.host.require_open()
            require(str, parent, "a parent is the id of a session")
            head_of(self.log, parent)
        started = ev.SessionStarted(title, scope, directory, agent, model_of(model), parent, origin)
        return begin_session(self, started, id=id, time=time)

    def open_session(
        self,
        name: Name,
        *,
        create: bool = True,
        id: str | None = None,
        title: str = "",
        scope: str = "",
        directory: str = "",
        agent: str = "",
        model: Model | str | None = None,
        parent: str | None = None,
        origin: Origin | None = None,
        time: int | None = None,
    ) -> Session:
        """Return the session with a name, a (format, key); begin it if there is none.

        Of all tasks and processes that ask at once, one begins it, as `create_session` does, and
        all get the same session. Without `create` none begins it: `NotFoundError`. A fork does not
        inherit the name; an erasure frees it.
        """
        self.host.require_open()
        require_or_none(str, id, "an id is a str")
        if id:
            check_session_id(id)
        if not create:
            return open_named(self, name, None, None)
        if parent is not None:
            require(str, parent, "a parent is the id of a session")
            head_of(self.log, parent)
        started = ev.SessionStarted(title, scope, directory, agent, model_of(model), parent, origin)
        validate(started)
        return open_named(
            self, name, id, lambda new, given: begin_session(self, started, id=new, time=time, then=[given])
        )

    @property
    def names(self) -> Names:
        """Commands that give an existing session a name, and take one away."""
        return Names(self)

    def fork(
        self,
        parent: Session,
        at: int,
        *,
        id: str | None = None,
        title: str | None = None,
        name: Name | None = None,
        origin: Origin | None = None,
        time: int | None = None,
        then: Sequence[ev.Event] = (),
        bodies: Mapping[bytes, bytes] | None = None,
    ) -> Session:
        """Begin a session that continues `parent` from version `at`; see `Session.fork`.

        `origin` says where an imported continuation comes from; `time` is UTC milliseconds, now by
        default. The events `then`, with their `bodies`, are in the fork's first append.
        """
        require(Session, parent, "a parent is a session's handle")
        require_version(at)
        then = each(then, "events are a list of events")
        require_or_none(Mapping, bodies, "bodies are a mapping of digests to bytes")
        info = parent.info
        forked = ev.SessionForked(parent.id, at, b"", info.title if title is None else title, info.scope, origin)
        if name is not None:
            parent.reader.resolve(at)  # before the name is reserved

            def begin(new: str, given: ev.NameGiven) -> Session:
                return begin_session(self, forked, id=new, time=time, then=[given, *then], bodies=bodies)

            return begin_named(self, name, id, begin)
        return begin_session(self, forked, id=id, time=time, then=then, bodies=bodies)

    def session(self, id: str) -> Session:
        """The handle of a session; `NotFoundError` if there is none of this id."""
        self.host.require_open()
        executor = self.registry.get(id)
        if is_shelf_id(id) and is_shelf(head_of(self.log, id)):
            raise NotFoundError("session", id)
        return handle_of(self, executor)

    def shelf(self, name: str) -> Shelf:
        """The shelf of a name, made if there is none: values without a conversation.

        A name has 1 to 200 bytes. A shelf is in no list of sessions.
        """
        self.host.require_open()
        return open_shelf(self, name)

    def shelves(self) -> Iterator[str]:
        """The names of all shelves; reads one small record a session or shelf."""
        self.host.require_open()
        return shelf_names(self.log)

    def drop_shelf(self, name: str, *, reason: str = "") -> None:
        """Erase the shelf of a name, which may be used again; `NotFoundError` if there is none."""
        from eventlog.maintenance.erase import drop_shelf

        self.host.require_open(writing=True)
        drop_shelf(self, name, reason=reason)

    def sessions(
        self,
        after: str = "",
        *,
        scope: str | None = None,
        parent: str | None = None,
        archived: bool | None = None,
        text: str | None = None,
        active_since: int | None = None,
        format: str | None = None,
        prefix: str = "",
        limit: int | None = None,
    ) -> Iterator[SessionInfo]:
        """Sessions in the order of their ids, after the id `after`: the cursor of a page.

        Filtered by `scope`, `parent`, `archived`, by `text` in the title (in any case), and by an
        activity at or after `active_since` (UTC milliseconds); at most `limit`. None is no filter.
        Reads one small record a session, and no event.

        With a `format` those with a name of this format whose key begins with `prefix`, in the
        order of their keys, after the key `after`. Reads what it lists; an encrypted store reads
        all sessions.
        """
        self.host.require_open()
        require(str, after, "a cursor is the id of a session")
        require(str, prefix, "a prefix is a str")
        for filter in (scope, parent, text, format):
            require_or_none(str, filter, "a scope, a parent, a text to look for and a format are str")
        require_or_none(bool, archived, "archived is True, False or None")
        for number in (active_since, limit):
            require_or_none(int, number, "active_since and limit are whole numbers")
        if limit is not None and limit < 0:
            raise CallError(f"a limit is zero or more, not {limit}")
        if format is None and prefix:
            raise CallError("a prefix is of the keys of a format: give both")
        part = None if text is None else text.casefold()
        heads = self.log.heads(after) if format is None else named_heads(self.log, format, prefix, after)
        infos = (
            info
            for info in (info_of(head) for head in heads if not is_foreign(head) and not is_shelf(head))
            if not info.erased
            and (scope is None or info.scope == scope)
            and (parent is None or info.parent == parent)
            and (archived is None or info.archived == archived)
            and (part is None or part in info.title.casefold())
            and (active_since is None or info.updated >= active_since)
        )
        return islice(infos, None if limit is None else min(limit, sys.maxsize))

    def newest_sessions(
        self,
        scope: str | None = None,
        *,
        archived: bool | None = None,
        subsessions: bool | None = None,
        cursor: str | None = None,
        limit: int = PAGE,
    ) -> SessionPage:
        """A page of sessions, newest activity first, of one `scope` or of all.

        `archived` and `subsessions` choose those that are, or those that are not; None is no
        filter. The next page begins at the `cursor` of this one, with the same filters. Names,
        archiving, metadata and redactions are no activity. A page costs what it has, however many
        sessions there are; the first request in a store of an earlier program makes an index.

        Each session comes with its `state`: a session that was written to since this store last
        looked at it is opened for that.

        Each page is as of its own request: a session with new activity moves to the front, and is
        not on later pages. Erased sessions are in no list. `CursorError` for a cursor of another
        store or list, or from before the store was rewritten or restored.
        """
        self.host.require_open()
        for text in (scope, cursor):
            require_or_none(str, text, "a scope and a cursor are str")
        for choice in (archived, subsessions):
            require_or_none(bool, choice, "archived and subsessions are True, False or None")
        require(int, limit, "a limit is a whole number")
        if limit < 1:
            raise CallError(f"a page has one session or more, not {limit}")
        from eventlog.session.unfinished import state_of

        with self.log.reading():
            return page_of(
                self.log,
                scope,
                archived=archived,
                subsessions=subsessions,
                cursor=cursor,
                limit=limit,
                state_of=partial(state_of, self),
            )

    def unfinished(self) -> list[SessionInfo]:
        """Sessions that a loop has to go on with, and that no task runs now; see `Session.turn`.

        A question has no answer, or a reply or compaction is open. Turns that failed or that a user
        stopped are finished. A fork counts once something was added to it, an imported session once
        it was run here. Costs what it lists and what was written since the last call; the first
        call of a store looks at every session.
        """
        from eventlog.session.unfinished import unfinished

        self.host.require_open()
        return unfinished(self)

    def info(self, session: str) -> SessionInfo:
        """The catalog entry of one session: title, scope, times and counts."""
        info = self.host.info(session)
        if is_shelf_id(session) and is_shelf(head_of(self.log, session)):
            raise NotFoundError("session", session)
        return info

    def head(self) -> StoreHead:
        """The heads of all committed sessions and one digest of them, to keep elsewhere.

        Compare them later to detect changes (`integrity/heads.py`). Reads one small record a
        session, and no event.
        """
        self.host.require_open()
        return store_head(self.log.heads())

    def find_origin(self, format: str, foreign_id: str) -> list[str]:
        """Sessions imported from a foreign session: the first import, then divergent ones."""
        self.host.require_open()
        for name in (format, foreign_id):
            require(str, name, "a format and a foreign id are str")
        positions = self.log.last_positions()
        if self._origins[0] != positions:
            imports: dict[tuple[str, str], list[tuple[int, str]]] = {}
            for head in self.log.heads():
                if is_foreign(head):
                    continue
                origin = entry_of(head).origin
                if origin is not None:
                    imports.setdefault((origin.format, origin.foreign_id), []).append((head.base, head.session))
            self._origins = (positions, {key: [name for _, name in sorted(names)] for key, names in imports.items()})
        return list(self._origins[1].get((format, foreign_id), ()))

    def text(self, content: Content, session: str | None = None) -> str:
        """The text of a content; `DamagedError` if its body is missing or not what was stored.

        `session` is one that has it: an encrypted store finds it without asking all others
        (`Session.text`).
        """
        return self.host.text(content, session)

    def write_text(self, content: Content, file: BinaryIO, session: str | None = None) -> None:
        """Write the UTF-8 bytes of a content to a file object, piece by piece; see `text`."""
        require((str, Body), content, "a content is a str or a Body")
        require_or_none(str, session, "an id is a str")
        require_call(getattr(file, "write", 0), "a file is a binary file object, and its `write` a function")
        if isinstance(content, str):
            file.write(content.encode("utf-8", "surrogatepass"))
        else:
            to_file(content, self.host.packed(content, session), file)

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
        forgotten is found once that is committed. `LimitError` for a large store without an index
        file: an encrypted one, or one in a directory that may not be written to.
        """
        self.host.require_open()
        searcher = self._searcher
        if searcher is None:
            from eventlog.search.search import Searcher

            with self.registry.lock:  # another thread may have made one
                searcher = self._searcher = self._searcher or Searcher(
                    self.log, self.host.clock, self.host.require_open
                )
        return searcher.search(
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
        `CursorError` for a cursor of another store, or from before the store was rewritten or
        restored to an earlier state. Ends when nothing new came for `timeout` seconds
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
        """
        from eventlog.maintenance.backup import backup

        self.host.require_open()
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

        They are kept ("keep"; a fork has what it inherited), erased, too ("cascade"), or make it
        `RefusedError`, which names them. `LeaseHeldError` if a task still runs one of them after
        `wait` seconds.
        """
        from eventlog.maintenance.erase import erase

        self.host.require_open(writing=True)
        return erase(self, session, forks=forks, subsessions=subsessions, reason=reason, wait=wait)

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
        store.
        """
        from eventlog.maintenance.retention import expire, to_expire

        self.host.require_open(writing=not dry_run)
        do = to_expire if dry_run else expire
        return do(self, age=age, count=count, size=size, scope=scope)

    def scrub(self) -> VacuumResult:
        """Remove the bytes of redacted and erased content from every file of the store.

        No other process may have the store open.
        """
        from eventlog.maintenance.scrub import scrub

        self.host.require_open(writing=True)
        self.flush()
        self._close_index()
        return scrub(self)

    def vacuum(self) -> VacuumResult:
        """Return the space of erased sessions to the file system.

        No other process may have the store open.
        """
        from eventlog.maintenance.vacuum import rewrite

        self.host.require_open(writing=True)
        self.flush()
        self._close_index()
        return rewrite(self.log, shred=False, time=self.host.clock())

    # -- the end -----------------------------------------------------------------------------

    def flush(self) -> None:
        """Make everything that all handles have accepted durable."""
        self.host.require_open()
        for writer in self.registry.writers():
            with suppress(ErasedError):  # events accepted for an erased session have no place any more
                writer.flush()

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
            for work in (*(writer.end for writer in writers), *(session.abandon for session in leased)):
                try:
                    work()
                except ErasedError:  # events accepted for an erased session have no place any more
                    continue
                except EventlogError as error:
                    failure = failure or error
                except BaseException:
                    host.closed = False  # interrupted: it can be closed again
                    raise
            host.flusher.stop()
            host.kept.clear()
            self._close_index()
            liveness.end(self.host, self._at_exit)
            try:
                self.log.close()
            finally:
                host.follower.ring_all()
        if failure is not None:
            raise failure


def begin_session(
    store: Store,
    first: ev.SessionStarted | ev.SessionForked,
    *,
    id: str | None = None,
    time: int | None = None,
    then: Sequence[ev.Event] = (),
    bodies: Mapping[bytes, bytes] | None = None,
) -> Session:
    """Begin a session with its first event, as an importer made it, and those that follow."""
    store.host.require_open(writing=True)
    executor = store.registry.begin(first, id, time, then, bodies=bodies)
    if isinstance(first, ev.SessionForked) and store.log.may_lose_key(first.parent):
        store.erase(executor.id, reason="its parent was erased while it began")
        raise ErasedError(first.parent)
    return handle_of(store, executor)


def repair(
    source: str | os.PathLike[str],
    into: str | os.PathLike[str],
    *,
    on_progress: Callable[[int, int], None] | None = None,
) -> RepairReport:
    """Copy what is undamaged in the store at `source` to a new store at `into`.

    Both are directories, or `source` is the address of a server and `into` that of another or a
    directory. Catalog entries are made anew from the events; of an encrypted session the entry is
    that of its newest append, and `verify` with the keys says whether it is right.
    """
    from eventlog.maintenance.repair import repair

    return repair(source, into, on_progress=on_progress)


def restore(
    source: str | os.PathLike[str],
    into: str | os.PathLike[str],
    *,
    cursor: str | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> BackupResult:
    """Make a store at `into` from a backup, up to the event of a `cursor` (by default all)."""
    from eventlog.maintenance.backup import restore

    return restore(source, into, cursor=cursor, on_progress=on_progress)
