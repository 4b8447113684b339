"""One place with many sessions: opening it, finding and beginning sessions, its upkeep.

A store owns its log, one handle per session, and one thread that commits accepted deltas and renews leases.  The same path
opened twice in a process shares one log.

`Keeping` is the part of `Store` about its files as a whole: backup, erasure, retention, scrub, vacuum.  Each is a module of
`maintenance/` that is imported when it is used: a program that only talks needs none of them.
"""

from __future__ import annotations

import os
import sys
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from threading import RLock
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, Self, cast

import msgspec

from eventlog import events as ev
from eventlog import ids
from eventlog.append.flusher import Flusher, Leased
from eventlog.append.metrics import Metrics
from eventlog.append.writer import SessionWriter
from eventlog.codec.bodies import to_file, unpack
from eventlog.codec.decoded import Recorded
from eventlog.codec.payload import is_foreign
from eventlog.errors import (
    AlreadyExistsError,
    CallError,
    ClosedError,
    DamagedError,
    ErasedError,
    EventlogError,
    ForkedProcessError,
    ReadOnlyError,
    giving_way_to,
)
from eventlog.history.catalog import SessionInfo, entry_of, info_of
from eventlog.history.lineage import END, StreamRange
from eventlog.history.streams import head_of
from eventlog.integrity.fork_anchor import prefix_head
from eventlog.integrity.heads import StoreHead, store_head
from eventlog.log.contract import Log
from eventlog.open_log import open_log
from eventlog.session import liveness
from eventlog.session.inputs import model_of
from eventlog.session.owner import Owner
from eventlog.session.session import Session
from eventlog.state.committed import CHECKPOINT_EVENTS, CommittedState
from eventlog.state.state import State
from eventlog.subscription import Subscription, subscribe
from eventlog.validation import a_kind, require, require_call, require_or_none, require_version
from eventlog.values import Body, Content, Model, Origin

if TYPE_CHECKING:
    from eventlog.encryption.keys import KeySource
    from eventlog.maintenance.backup import BackupResult
    from eventlog.maintenance.erase import Choice
    from eventlog.maintenance.repair import RepairReport
    from eventlog.maintenance.retention import ExpiryResult
    from eventlog.maintenance.vacuum import VacuumResult

__all__ = ["Keeping", "Store", "open_store", "repair", "restore"]


def repair(
    source: str | os.PathLike[str],
    into: str | os.PathLike[str],
    *,
    on_progress: Callable[[int, int], None] | None = None,
) -> RepairReport:
    """Save all that is sound of the damaged store at `source` into a new one at `into`; see `maintenance/repair.py`."""
    from eventlog.maintenance.repair import repair

    return repair(source, into, on_progress=on_progress)


def restore(
    source: str | os.PathLike[str],
    into: str | os.PathLike[str],
    *,
    position: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> BackupResult:
    """Make a store at `into` of a backup, as it was when `position` was its newest event; see `maintenance/backup.py`."""
    from eventlog.maintenance.backup import restore

    return restore(source, into, position=position, on_progress=on_progress)


class Keeping:
    """The part of a `Store` that is about its files as a whole; nothing else is one."""

    def backup(
        self, to: str | os.PathLike[str], *, on_progress: Callable[[int, int], None] | None = None
    ) -> BackupResult:
        """Copy what is committed by now into the directory `to`, while everybody goes on; see `maintenance/backup.py`."""
        from eventlog.maintenance.backup import backup

        store = cast("Store", self)
        store.usable()
        return backup(store.log, to, on_progress=on_progress)

    def erase(
        self, session: str, *, forks: Choice = "refuse", subsessions: Choice = "refuse", reason: str = ""
    ) -> tuple[str, ...]:
        """Erase a session, and what the choices say of its forks and sub-sessions; returns all ids.  See `maintenance/erase.py`."""
        from eventlog.maintenance.erase import erase

        store = cast("Store", self)
        store.usable(writing=True)
        return erase(store, session, forks=forks, subsessions=subsessions, reason=reason)

    def expire(
        self,
        *,
        age: int | None = None,
        count: int | None = None,
        size: int | None = None,
        scope: str | None = None,
        dry_run: bool = False,
    ) -> ExpiryResult:
        """Erase the sessions that are older, more, or larger than is to be kept; see `maintenance/erase.py`.

        With `dry_run` nothing is erased, and what is returned is what would be: also from a store opened for reading only.
        """
        from eventlog.maintenance.retention import expire, to_expire

        store = cast("Store", self)
        store.usable(writing=not dry_run)
        do = to_expire if dry_run else expire
        return do(store, age=age, count=count, size=size, scope=scope)

    def scrub(self) -> VacuumResult:
        """Take what was redacted and erased out of every file; nobody else may have the store open.  See `maintenance/scrub.py`."""
        from eventlog.maintenance.scrub import scrub

        store = cast("Store", self)
        store.usable(writing=True)
        store.flush()
        return scrub(store)

    def vacuum(self) -> VacuumResult:
        """Give the space of erased sessions back; nobody else may have the store open.  See `maintenance/vacuum.py`."""
        from eventlog.maintenance.vacuum import rewrite

        store = cast("Store", self)
        store.usable(writing=True)
        store.flush()
        return rewrite(store.log, shred=False, time=store.clock())


FLUSH_INTERVAL = 0.1
"""Seconds within which an accepted delta is committed."""
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
    keys: KeySource | None = None,
) -> Store:
    """Open the store at `path` (made if it is not there), or one in memory: `memory:`.

    `keys` makes it encrypted: True for a key file beside the store, the path of one, or a provider (`encryption/keys.py`).

    `flush_interval` in seconds, `lease_ttl` in milliseconds, `checkpoint_events` in events; `clock` gives UTC milliseconds, `new_id` an id for a prefix.
    """
    return Store(
        open_log(path, read_only=read_only, keys=keys),
        flush_interval=flush_interval,
        lease_ttl=lease_ttl,
        checkpoint_events=checkpoint_events,
        clock=clock,
        new_id=new_id,
    )


class Store(Keeping):
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
    ) -> None:
        for number in (flush_interval, lease_ttl, checkpoint_events):
            require((int, float), number, "flush_interval, lease_ttl and checkpoint_events are numbers")
        require_call(clock, "a clock is a function that gives UTC milliseconds")
        require_call(new_id, "new_id is a function that gives an id for a prefix")
        if not (flush_interval > 0 and lease_ttl > 0 and checkpoint_events > 0):
            raise CallError("flush_interval, lease_ttl and checkpoint_events are greater than zero")
        self.log = log
        self.clock: Callable[[], int] = _now if clock is None else _checked_clock(clock)
        own = self.clock
        self.nanoseconds: Callable[[], int] = time.time_ns if clock is None else lambda: own() * 1_000_000
        """The same clock for deltas, where a call less counts."""
        self.new_id: Callable[[str], str] = ids.new_id if new_id is None else _checked_new_id(new_id)
        self.lease_ttl = lease_ttl
        self.flush_interval = flush_interval
        self.checkpoint_events = checkpoint_events
        self.owner = Owner.here(ids.new_id("own_"))
        liveness.let_go_of_stopped()
        self._sessions: weakref.WeakValueDictionary[str, Session] = weakref.WeakValueDictionary()
        self._lock = RLock()
        self._closing = RLock()
        self._closed = False
        self._forked = False
        self.writable = not log.read_only
        """Whether `usable(writing=True)` would let a command pass: quicker to ask."""
        self.counted = Metrics()
        """The live counters; see `metrics`."""
        self._flusher = Flusher(self, self.clock, self.counted, interval=flush_interval, lease_ttl=lease_ttl)
        self._origins: tuple[int, dict[tuple[str, str], list[str]]] = (-1, {})
        self._at_exit = liveness.begin(self)
        weakref.finalize(self, self._flusher.stop)

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

        `parent` makes it a sub-session of that one; `NotFoundError` if there is none of this id.
        """
        if parent is not None:
            self.usable()
            require(str, parent, "a parent is the id of a session")
            head_of(self.log, parent)
        started = ev.SessionStarted(title, scope, directory, agent, model_of(model), parent, origin)
        return self.begin(started, id=id, time=time)

    def fork(
        self,
        parent: Session,
        at: int,
        *,
        id: str | None = None,
        title: str | None = None,
        origin: Origin | None = None,
        time: int | None = None,
    ) -> Session:
        """Begin a session that continues `parent` as of version `at`; see `Session.fork`.

        `origin` says where an imported continuation comes from; `time` is UTC milliseconds, now by default.
        """
        require(Session, parent, "a parent is a session's handle")
        require_version(at)
        info = parent.info
        forked = ev.SessionForked(parent.id, at, b"", info.title if title is None else title, info.scope, origin)
        return self.begin(forked, id=id, time=time)

    def begin(
        self, first: ev.SessionStarted | ev.SessionForked, *, id: str | None = None, time: int | None = None
    ) -> Session:
        """Begin a session with its first event; a fork's parent is a session of this store, whose head goes into it."""
        self.usable(writing=True)
        if id is not None:
            require(str, id, "an id is a str")
        session = ids.check_id("session", id or self.new_id("ses_"))
        streams: list[StreamRange] = []
        state = State()
        if isinstance(first, ev.SessionForked):
            streams, state = self.session(first.parent).inherited(first.at)
            first = msgspec.structs.replace(first, parent_head=prefix_head(self.log, streams, first.at))
        writer = self._writer(session)
        base = state.version
        writer.committed.begin([*streams, StreamRange(session, base + 1, END)], state)
        try:
            writer.commit([(self.clock() if time is None else time, first)], creates_at=base)
        except AlreadyExistsError:
            head_of(self.log, session)  # an erased session is not there, and its id is not used again
            raise
        if isinstance(first, ev.SessionForked) and self.log.may_lose_key(first.parent):
            self.erase(session, reason="its parent was erased while it began")
            raise ErasedError(first.parent)
        with self._lock:
            handle = self._sessions.get(session)  # another thread may have found it already
            if handle is None:
                handle = self._sessions[session] = Session(self, session, writer)
            return handle

    def session(self, id: str) -> Session:
        """The handle of a session; `NotFoundError` if there is none of this id."""
        self.usable()
        require(str, id, "an id is a str")
        with self._lock:
            handle = self._sessions.get(id)
            if handle is None:
                head_of(self.log, id)
                handle = Session(self, id, self._writer(id))
                self._sessions[id] = handle
            return handle

    def _writer(self, session: str) -> SessionWriter:
        committed = CommittedState(self.log, session, self.checkpoint_events)
        return SessionWriter(committed, self._flusher.wake, self.counted)

    def sessions(
        self,
        after: str = "",
        *,
        scope: str | None = None,
        parent: str | None = None,
        archived: bool | None = None,
        text: str | None = None,
        active_since: int | None = None,
        limit: int | None = None,
    ) -> Iterator[SessionInfo]:
        """Sessions by id, from the first id greater than `after` (the cursor of a page is its last id).

        Only those of a `scope`, with a `parent`, `archived` or not, with `text` in the title whatever its case, with an event
        at or after `active_since` (UTC milliseconds), and at most `limit`; None asks for no such thing.  Reads one small
        record a session, and no event.
        """
        self.usable()
        require(str, after, "a cursor is the id of a session")
        for given in (scope, parent, text):
            require_or_none(str, given, "a scope, a parent and a text to look for are str")
        require_or_none(bool, archived, "archived is True, False or None")
        for number in (active_since, limit):
            require_or_none(int, number, "active_since and limit are whole numbers")
        if limit is not None and limit < 0:
            raise CallError(f"a limit is not less than zero, as {limit} is")
        wanted = None if text is None else text.casefold()
        found = (
            info
            for info in (info_of(head) for head in self.log.heads(after) if not is_foreign(head))
            if not info.erased
            and (scope is None or info.scope == scope)
            and (parent is None or info.parent == parent)
            and (archived is None or info.archived == archived)
            and (wanted is None or wanted in info.title.casefold())
            and (active_since is None or info.updated >= active_since)
        )
        return islice(found, None if limit is None else min(limit, sys.maxsize))

    def head(self) -> StoreHead:
        """The heads of all sessions, as committed, and one digest of them: keep it elsewhere, and compare (`integrity/heads.py`).

        Reads one small record a session, and no event.
        """
        self.usable()
        return store_head(self.log.heads())

    def info(self, session: str) -> SessionInfo:
        """What a list of sessions shows of one."""
        self.usable()
        require(str, session, "an id is a str")
        return info_of(head_of(self.log, session))

    def find_origin(self, format: str, foreign_id: str) -> list[str]:
        """The sessions imported from this foreign session: the first import, then its divergent continuations."""
        self.usable()
        for given in (format, foreign_id):
            require(str, given, "a format and a foreign id are str")
        position = self.log.last_position()
        if self._origins[0] != position:
            found: dict[tuple[str, str], list[tuple[int, str]]] = {}
            for head in self.log.heads():
                if is_foreign(head):
                    continue
                origin = entry_of(head).origin
                if origin is not None:
                    found.setdefault((origin.format, origin.foreign_id), []).append((head.base, head.session))
            self._origins = (position, {key: [name for _, name in sorted(names)] for key, names in found.items()})
        return list(self._origins[1].get((format, foreign_id), ()))

    def text(self, content: Content, session: str | None = None) -> str:
        """The text of a content; `DamagedError` if its body is missing or not what was stored.

        `session` is one that has it: in an encrypted store it is found without asking all others (`Session.text`).
        """
        require((str, Body), content, "a content is a str or a Body")
        return content if isinstance(content, str) else unpack(content, self._packed(content, session))

    def write_text(self, content: Content, file: BinaryIO, session: str | None = None) -> None:
        """Write the UTF-8 bytes of a content to a file object, piece by piece; `session` and errors as for `text`."""
        require((str, Body), content, "a content is a str or a Body")
        require_or_none(str, session, "an id is a str")
        require_call(getattr(file, "write", 0), "a file is a binary file object, and its `write` a function")
        if isinstance(content, str):
            file.write(content.encode("utf-8", "surrogatepass"))
        else:
            to_file(content, self._packed(content, session), file)

    def _packed(self, body: Body, session: str | None) -> bytes:
        packed = (self.log if session is None else self.log.of(session)).body(body.digest)
        if packed is None:
            raise DamagedError(f"body {body.digest.hex()} is missing")
        return packed

    def subscribe(
        self,
        after: int = 0,
        *,
        session: str | None = None,
        kinds: Sequence[type[ev.Base]] | None = None,
        timeout: float | None = None,
        provisional: bool = False,
    ) -> Iterator[Recorded]:
        """Every event after the position `after`, history first and then live, without a gap or a duplicate.

        `session` and `kinds` choose among them.  The cursor to go on from is the `position` of the last one.
        Ends when nothing new came for `timeout` seconds (None: never), with `ClosedError` when the store is closed.  Deltas
        arrive with their flush.  A session that is not there yet is waited for.  Blocks: for asyncio see `aio.py`.

        `provisional`: also what handles of this store have accepted and not committed yet, within hundredths of a second, with
        the position 0 and the version it will have if nothing comes between.  It comes again when it is committed;
        what a crash or another writer takes away does not.  So whoever shows it drops, at each
        event with a position, what it showed of that session without one.
        """
        return subscribe(self.subscription(after, session=session, kinds=kinds, provisional=provisional), timeout)

    def subscription(
        self,
        after: int = 0,
        *,
        session: str | None = None,
        kinds: Sequence[type[ev.Base]] | None = None,
        provisional: bool = False,
    ) -> Subscription:
        """What `subscribe` follows with, for whoever waits in another way: for asyncio see `aio.py`."""
        self.usable()
        ahead = self._writers if provisional else None
        return Subscription(self.log, after, session=session, kinds=kinds, ahead=ahead)

    def _writers(self) -> list[SessionWriter]:
        """Those of the handles that are held, and those that have accepted something for a handle that is not any more."""
        held = (session.writer for session in list(self._sessions.values()))
        return list(dict.fromkeys((*held, *self._flusher.writers())))

    def let_go(self, session: str) -> None:
        """Forget the handle of a session that is no more."""
        with self._lock:
            self._sessions.pop(session, None)

    # -- the background thread -------------------------------------------------------------------

    def keep(self, session: Leased, *, soon: bool = False) -> None:
        """Renew this session's lease from now on; see `Flusher.keep`."""
        self._flusher.keep(session, soon=soon)

    def forget(self, session: Leased) -> None:
        """Renew this session's lease no more."""
        self._flusher.forget(session)

    def tick(self) -> float | None:
        """Do now what the background thread does: commit accepted deltas, renew leases; see `Flusher.tick`."""
        return self._flusher.tick()

    # -- the end -----------------------------------------------------------------------------

    def flush(self) -> None:
        """Make everything that was accepted durable."""
        self.usable()
        for writer in self._writers():
            with suppress(ErasedError):  # what was accepted for it has no place any more
                writer.flush()

    def metrics(self) -> Metrics:
        """What this store has done so far, in numbers."""
        return msgspec.structs.replace(self.counted)

    @property
    def closed(self) -> bool:
        """Whether `close()` was called."""
        return self._closed

    def usable(self, *, writing: bool = False) -> None:
        """Raise unless the store is open (and may be written)."""
        if self._closed:
            raise (
                ForkedProcessError("the store was opened before os.fork()")
                if self._forked
                else ClosedError("the store is closed")
            )
        if writing and self.log.read_only:
            raise ReadOnlyError("the store was opened for reading only")

    def fork_off(self) -> None:
        """This is a child process now: the store and its handles belong to the parent."""
        self._closed = self._forked = True
        self.writable = False
        self._lock, self._closing = RLock(), RLock()  # other threads of the parent may have held the old ones
        self._flusher.fork_off()
        for session in list(self._sessions.values()):
            session.leases.fork_off()
        for writer in self._writers():
            writer.fork_off()

    def close(self) -> None:
        """Make everything durable, give leases back, close the log.  Calling it twice is harmless.

        What another thread has accepted meanwhile is durable too, or was refused with `ClosedError`.
        """
        if self._forked:
            return
        with self._closing:  # whoever closes it as well waits for that
            with self._lock:
                if self._closed:
                    return
                self._closed = True
                self.writable = False
                leased = self._flusher.leased()
                writers = self._writers()
            failure: EventlogError | None = None
            for writer in writers:
                writer.buffer.close()
            for work in (*(writer.end for writer in writers), *(session.abandon for session in leased)):
                try:
                    work()
                except ErasedError:  # what was accepted for it has no place any more
                    continue
                except EventlogError as error:
                    failure = failure or error
                except BaseException:
                    self._closed = False  # interrupted: it can be closed again
                    raise
            self._flusher.stop()
            liveness.end(self, self._at_exit)
            self.log.close()
        if failure is not None:
            raise failure


def _checked_clock(clock: Callable[[], int]) -> Callable[[], int]:
    """A caller's clock, whose times are refused unless they are whole."""

    def now() -> int:
        time: object = clock()
        if type(time) is not int:
            raise CallError(f"a clock gives UTC milliseconds as a whole number, not {a_kind(time)}")
        return time

    return now


def _checked_new_id(new_id: Callable[[str], str]) -> Callable[[str], str]:
    """A caller's maker of ids, whose ids are refused unless they may be some."""

    def made(prefix: str) -> str:
        name: object = new_id(prefix)
        require(str, name, "new_id gives an id as a str")
        return ids.check_id("new", str(name))

    return made


def _now() -> int:
    return time.time_ns() // 1_000_000
