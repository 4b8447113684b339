"""The handle of one session: its commands, and the way to read it.

A command decides against the session's state, appends its events, and returns when they are
durable. Inside `with session.pipeline()` it returns at once, and the wait comes at the end of the
block. Streamed text is accepted without waiting (`reply.py`). User messages, renames, pins and
interrupts need no lease; every other command takes the session's lease for as long as it lasts, if
the caller does not hold it. While another owner or task holds it, the command tries for up to
`wait` seconds, and then raises `LeaseHeldError`.

Commands run in `executor.py`; reading is `reader.py`; commands about what the model sees are
`context.py`. A `Store` makes one handle per session; it is safe across threads. For asyncio see
`aio/`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING

from eventlog import events as ev
from eventlog.errors import CallError, ErasedError, NotFoundError
from eventlog.history.ancestry import head_of
from eventlog.history.catalog import is_shelf, is_shelf_id
from eventlog.integrity.heads import store_head
from eventlog.session.context import ContextCommands
from eventlog.session.executor import Executor
from eventlog.session.held_lease import unless_held
from eventlog.session.host import Host
from eventlog.session.message_commands import MessageCommands
from eventlog.session.registry import SessionRegistry
from eventlog.session.rollback import RollbackResult, redo, rollback
from eventlog.session.settings_commands import SettingsCommands
from eventlog.session.subsessions import interrupt_all, stop_subsessions
from eventlog.session.values import Values
from eventlog.validation import require
from eventlog.values import Content

if TYPE_CHECKING:
    from eventlog.append.pipeline import Pipeline
    from eventlog.codec.decoded import Recorded, Span
    from eventlog.history.catalog import SessionInfo
    from eventlog.history.name_streams import Name
    from eventlog.integrity.heads import SessionHead, StoreHead
    from eventlog.log.commit import Committed
    from eventlog.log.contract import Log
    from eventlog.session.answering import Answer, AskedCall
    from eventlog.session.held_lease import Lease
    from eventlog.session.reader import SessionReader
    from eventlog.session.redact import RedactionResult


class Sessions(ABC):
    """The sessions of a store: the handle of each, and what is asked of all of them."""

    host: Host
    log: Log
    registry: SessionRegistry

    def session(self, id: str) -> Session:
        """The handle of a session; `NotFoundError` if there is none of this id."""
        self.host.require_open()
        executor = self.registry.get(id)
        if is_shelf_id(id) and is_shelf(head_of(self.log, id)):
            raise NotFoundError("session", id)
        return handle_of(self, executor)

    @abstractmethod
    def sessions(
        self, after: str = "", *, scope: str | None = None, parent: str | None = None
    ) -> Iterator[SessionInfo]:
        """See `SessionStore`."""

    @abstractmethod
    def fork(
        self,
        parent: Session,
        at: int,
        *,
        id: str | None = None,
        title: str | None = None,
        name: Name | None = None,
        then: Sequence[ev.Event] = (),
        bodies: Mapping[bytes, bytes] | None = None,
    ) -> Session:
        """See `SessionStore`."""

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

    def text(self, content: Content, session: str | None = None) -> str:
        """The text of a content; `DamagedError` if its body is missing or not what was stored.

        `session` is one that has it: an encrypted store finds it without asking all others
        (`Session.text`).
        """
        return self.host.text(content, session)

    def flush(self) -> None:
        """Make everything that all handles have accepted durable."""
        self.host.require_open()
        for writer in self.registry.writers():
            with suppress(ErasedError):  # events accepted for an erased session have no place any more
                writer.flush()


class Session(MessageCommands, SettingsCommands):
    """One conversation, by its `id`.  Made by `Store.session` and `Store.create_session`."""

    def __init__(self, store: Sessions, executor: Executor) -> None:
        self.id: str = executor.id
        self.store = store
        self.executor = executor
        """Runs commands; for code that appends its own events under the lease."""
        self.reader: SessionReader = executor.reader
        """Reads events with their places, ancestry, and the state commands are decided against."""
        self.context: ContextCommands = ContextCommands(executor)
        """Commands about what the model sees: promote, prune, compact."""
        self.values: Values = Values(executor)
        """Texts and bytes under keys: put, get, items, drop."""

    def __repr__(self) -> str:
        return f"<Session {self.id}>"

    # -- reading -------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """Version of the newest event, once everything this handle has accepted is committed."""
        return self.reader.version

    @property
    def info(self) -> SessionInfo:
        """The session's entry in the catalog: title, scope, times and counts."""
        return self.reader.info

    def head(self) -> SessionHead:
        """Return the root of the session's hash tree, to keep elsewhere and compare later."""
        return self.reader.head()

    def events(self, after: int = 0, upto: int | None = None) -> Iterator[Recorded]:
        """Every event of versions `after + 1 .. upto`, inherited ones included, one by one."""
        return self.reader.events(after, upto)

    def history(self, at: int | None = None, after: int = 0) -> Iterator[Span]:
        """The effective history right after version `at`, now by default.

        Without the events that rollbacks hid; runs of deltas whole.
        """
        return self.reader.history(at, after)

    def text(self, content: Content) -> str:
        """The text of a content of this session; errors as for `Store.text`."""
        return self.reader.text(content)

    # -- appending and the lease ---------------------------------------------------------------

    def append(
        self,
        items: Sequence[tuple[int, ev.Event]],
        *,
        bodies: Mapping[bytes, bytes] | None = None,
        expected_version: int | None = None,
        request_id: str | None = None,
        wait: float = 0.0,
    ) -> Committed:
        """Append events, each with its time in UTC milliseconds; durable when it returns.

        The session's state must allow every event. Without the lease in this handle's hands, no
        other owner may hold it either: `LeaseHeldError` if one still does after `wait` seconds.
        `ConflictError` unless the session is at `expected_version`. `bodies` are long contents by
        their digest. The same `request_id` appends once.
        """
        return unless_held(
            lambda: self.executor.append(
                items, bodies=bodies, expected_version=expected_version, request_id=request_id
            ),
            wait,
        )

    def flush(self) -> None:
        """Make everything accepted so far durable."""
        self.executor.writer.flush()

    def pipeline(self) -> Pipeline:
        """Let the commands inside the `with` return at once; wait for all of them at its end.

        They are one append, committed whole or not at all. A pipeline inside another is the outer
        one.
        """
        return self.executor.pipeline()

    def lease(self, *, wait: float = 0.0, take_over: bool = False) -> AbstractContextManager[Lease]:
        """Hold the right to run this session inside a `with`; may be nested.

        The lease belongs to the running task, and to the tasks and threads it starts inside the
        block. Hand it to another thread for a `with lease:` of its own. Taking it settles what a
        dead owner left open. `LeaseHeldError` if another owner or task still holds it after `wait`
        seconds; with `take_over` it is taken from that one, and what that one left open is settled.
        Its next call raises `FencedError`, which says how much streamed text is not written.
        """
        return self.executor.lease(wait=wait, take_over=take_over)

    def redact(self, part: str, reason: str = "", *, search: bool = True) -> RedactionResult:
        """Hide a part's content in every view of every version, here and in all forks.

        Returns other occurrences of the text; `search=False` skips that. `Store.scrub` removes the
        bytes. Needs no lease.
        """
        from eventlog.session.redact import redact

        require(str, part, "a part is named by its id, a str")

        return redact(self.executor, self.store.registry, part, reason, search=search)

    def asked_calls(self) -> list[AskedCall]:
        """The calls that wait for a person's answer, the oldest ask first.

        A `task` call whose sub-session waits names it; each of the sub-session's own calls is
        listed there.
        """
        from eventlog.session.answering import asked_calls

        return asked_calls(self.executor)

    def answer_call(self, message: str, call: str, answer: Answer, *, by: str = "") -> int:
        """Say whether an asked call of a message may run; returns the version of the answer.

        `answer` is `Allow()`, `Deny(reason)` or `Edit(arguments)`; `call` is the provider's id, as
        `asked_calls` lists it; `by` names the person. Needs no lease, in any process. The first
        answer wins: the same again is the first, another is `RefusedError`, as is one for a call
        that does not wait (rolled back, interrupted, never asked). An allowed call is run by the
        loop, at most once: `next_step` gives `RunTools`.
        """
        from eventlog.session.answering import Given, answer_call

        return answer_call(self.executor, self.store.registry, message, call, Given.of(answer, by))

    def interrupt(self, reason: str = "") -> None:
        """Ask the owner of the session to stop.  Needs no lease.

        Calls that wait for a person are denied, here and in sub-sessions that wait themselves.
        The sub-sessions of its newest tasks that a crash left without an owner are stopped as well.
        """
        interrupt_all(self.store.registry, self.executor, reason)
        stop_subsessions(self.store.registry, self.executor, reason)

    # -- history -------------------------------------------------------------------------------

    def rollback(
        self, to: int | None = None, *, before: str | None = None, request_id: str | None = None, wait: float = 0.0
    ) -> RollbackResult:
        """Restore the effective history right after version `to`, or before a message was added.

        Events decide: the result names the replies that it hides, also those that the view shows
        before the message because they had not seen it. `to` may be a version that an earlier
        rollback hid. What was open at `to` is closed right after. `redo` takes a rollback back; a
        rollback to the version right before the newest one not redone is a redo itself.
        `LeaseHeldError` if another owner or task runs the session after `wait` seconds. `before` is
        the message. The same `request_id` gives the result of the first call.
        """
        return rollback(self.executor, to, before=before, request_id=request_id, wait=wait)

    def redo(self, *, request_id: str | None = None, wait: float = 0.0) -> RollbackResult:
        """Return to the version right before the newest rollback that was not redone.

        `request_id` and `wait` are those of `rollback`.
        """
        return redo(self.executor, request_id=request_id, wait=wait)

    def fork(
        self,
        at: int | None = None,
        *,
        before: str | None = None,
        id: str | None = None,
        title: str | None = None,
        name: Name | None = None,
    ) -> Session:
        """Begin a session that continues this one from version `at`, now by default.

        Or it goes on from right before the message `before` was added. Nothing is copied, and later
        events of this session do not change the fork. It does not inherit a name, and may be given
        a `name`: `AlreadyExistsError` if another session has that. `id` is the fork's id, made by
        default; `title` is the parent's by default.
        """
        if before is not None:
            if at is not None:
                raise CallError("fork: give either a version, `at=`, or a message, `before=`")
            require(str, before, "a message is named by its id, a str")
            with self.reader.deciding() as state:
                at = state.message(before).added - 1
        return self.store.fork(self, self.reader.resolve(at), id=id, title=title, name=name)

    def subsession(self, *, id: str | None = None, title: str = "", agent: str = "", directory: str = "") -> Session:
        """Begin a session for a sub-agent of this one, in the same scope.

        `id` is made by default. `title`, `agent` and `directory` are those of
        `Store.create_session`.
        """
        self.store.host.require_open(writing=True)
        started = ev.SessionStarted(title, self.info.scope, directory, agent, parent=self.id)
        return handle_of(self.store, self.store.registry.begin(started, id, None))


def handle_of(store: Sessions, executor: Executor) -> Session:
    """Return the handle of the session that an executor runs."""
    registry = store.registry
    with registry.lock:
        session: Session | None = registry.handles.get(executor.id)
        if session is None or session.executor is not executor:  # an erased session had the id
            session = registry.handles[executor.id] = Session(store, executor)
        return session
