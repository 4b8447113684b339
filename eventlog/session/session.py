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

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol

from eventlog import events as ev
from eventlog.codec.bodies import to_content
from eventlog.errors import CallError, RefusedError
from eventlog.ids import id_of_request
from eventlog.session.context import ContextCommands
from eventlog.session.executor import Executor
from eventlog.session.host import Host
from eventlog.session.inputs import model_of, stored_kind
from eventlog.session.lease import unless_held
from eventlog.session.outcome import pending_question
from eventlog.session.registry import SessionRegistry
from eventlog.session.reply import Reply
from eventlog.session.rollback import RollbackResult, redo, rollback
from eventlog.session.subsessions import stop_subsessions
from eventlog.session.turn import Turn
from eventlog.session.values import Values
from eventlog.validation import a_kind, each, require, require_json, require_limits
from eventlog.values import Attachment, Content, File, Json, Limits, Model, PartKind, Text, Todo, Truncation, Usage

if TYPE_CHECKING:
    from eventlog.append.pipeline import Pipeline
    from eventlog.codec.decoded import Recorded, Span
    from eventlog.history.catalog import SessionInfo
    from eventlog.history.name_streams import Name
    from eventlog.integrity.heads import SessionHead, StoreHead
    from eventlog.log.commit import Committed
    from eventlog.log.contract import Log
    from eventlog.session.lease import Lease
    from eventlog.session.redact import RedactionResult

__all__ = ["RollbackResult", "Sent", "Session", "Sessions"]


class Sessions(Protocol):
    """A store as its sessions, and work on several of them, see it.

    A session begins others, and a store makes the handle of each: one of the two has to know the
    other by what it does.
    """

    host: Host
    log: Log
    registry: SessionRegistry

    def session(self, id: str) -> Session:
        """See `Store`."""
        ...

    def sessions(
        self, after: str = "", *, scope: str | None = None, parent: str | None = None
    ) -> Iterator[SessionInfo]:
        """See `Store`."""
        ...

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
    ) -> Session:
        """See `Store`."""
        ...

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
        """See `Store`."""
        ...

    def head(self) -> StoreHead:
        """See `Store`."""
        ...

    def info(self, session: str) -> SessionInfo:
        """See `Store`."""
        ...

    def text(self, content: Content, session: str | None = None) -> str:
        """See `Store`."""
        ...


class Sent(Protocol):
    """A view, or a request of the window: the messages that a model is sent."""

    @property
    def version(self) -> int:
        """The version whose history it shows."""
        ...


class Session:
    """One conversation.  Made by `Store.session` and `Store.create_session`."""

    def __init__(self, store: Sessions, executor: Executor) -> None:
        self.id = executor.id
        self.store = store
        self.executor = executor
        """Runs commands; for code that appends its own events under the lease."""
        self.reader = executor.reader
        """Reads events with their places, ancestry, and the state commands are decided against."""
        self.context = ContextCommands(executor)
        """Commands about what the model sees: promote, prune, compact."""
        self.values = Values(executor)
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

    @property
    def holds_lease(self) -> bool:
        """Whether this handle holds the lease."""
        return self.executor.holds_lease

    # -- messages ------------------------------------------------------------------------------

    def user(
        self,
        text: str | Sequence[PartKind] = "",
        *,
        id: str | None = None,
        files: Sequence[File] = (),
        agent: str = "",
        model: Model | str | None = None,
        variant: str | None = None,
        system: str | None = None,
        tools: Json | None = None,
        format: Json | None = None,
        synthetic: bool = False,
        delivery: Literal["steer", "queue"] = "steer",
        cause: str | None = None,
        request_id: str | None = None,
    ) -> str:
        """Add a user message of a text or parts, and `files`; returns its id.  Needs no lease.

        `tools` switches tools off for this question, as `{"bash": false}`; `format` is the output
        format that it asks for. Both are JSON, and part of the view while the message is the newest
        of the user's. With `delivery="queue"` it waits, unseen by the model, until
        `context.promote`. `cause` is the compaction that adds it. `id` is the message's id, made by
        default; the same `request_id` gives the message of the first call. `agent`, `model` and
        `variant` are those that are asked, `system` is a system prompt for this question.
        `synthetic` marks a message that the program writes.
        """
        if request_id is not None:
            require(str, request_id, "a request id is a str")
        bodies: dict[bytes, bytes] = {}
        new_id = self.executor.host.new_id
        message = id or (new_id("msg_") if request_id is None else id_of_request("msg_", self.id, request_id))
        kinds: list[PartKind] = [Text(text, synthetic=synthetic)] if isinstance(text, str) and text else []
        if not isinstance(text, str):
            kinds.extend(each(text, "a user message is a str or a list of parts"))
        kinds.extend(each(files, "files are a list of files") if files else ())
        added: list[ev.Event] = [
            ev.UserMessageAdded(
                message,
                agent,
                None if model is None else model_of(model),
                variant,
                None if system is None else to_content(system, bodies),
                tools,
                format,
                synthetic,
                delivery,
                cause,
            )
        ]
        for number, kind in enumerate(kinds):
            part = new_id("prt_") if request_id is None else id_of_request("prt_", self.id, f"{request_id} {number}")
            added.append(ev.PartStarted(message, part, stored_kind(kind, bodies)))
        self.executor.command(added, bodies, request_id=request_id)
        return message

    def turn(
        self,
        text: str | Sequence[PartKind] | None = None,
        request_id: str | None = None,
        *,
        files: Sequence[File] = (),
        agent: str = "",
        model: Model | str | None = None,
        tools: Json | None = None,
        format: Json | None = None,
        delivery: Literal["steer", "queue"] = "steer",
        wait: float = 0.0,
        take_over: bool = False,
    ) -> Turn:
        """Add a user message, or find it by its request id, to be answered once in a `with` block.

        Without both it is the question that waits for its answer, or the newest one: for a program
        that goes on with what another one left. Inside, `turn.state` says whether the caller is to
        answer; it holds the lease if so. While another task runs the session, up to `wait` seconds
        are waited for the answer, or for the lease; with `take_over` the lease is then taken from
        that task, as by `lease`. `tools` and `format` are those of `user`. `files`, `agent`,
        `model` and `delivery` are those of `user`, too.
        """
        given = {"files": files, "agent": agent, "model": model, "tools": tools, "format": format, "delivery": delivery}
        return Turn(
            self.executor,
            partial(self._asked, text, request_id=request_id, **given),
            request_id,
            wait=wait,
            take_over=take_over,
        )

    def _asked(self, text: str | Sequence[PartKind] | None, *, request_id: str | None, **given: Any) -> str:
        """Add the user message of a turn, or find it."""
        if text is not None and request_id is not None:
            return self.user(text, request_id=request_id, **given)
        if text is not None or request_id is not None:
            raise CallError("a turn has a text and a request id, or neither: then it is the question that waits")
        found = pending_question(self.reader)
        if found is None:
            raise RefusedError("nothing was asked", expected="a text and a request id", session=self.id)
        return found

    def assistant(
        self,
        model: Model | str | None = None,
        *,
        id: str | None = None,
        reply_to: str | None = None,
        agent: str = "",
        mode: str = "",
        variant: str | None = None,
        cwd: str | None = None,
        root: str | None = None,
        summary: bool = False,
        wait: float = 0.0,
        view: Sent | int | None = None,
    ) -> Reply:
        """Begin an assistant message, to be filled in a `with` block, which takes the lease.

        `view` is what the model is sent, a view or a request of the window, or its version: the
        reply answers the user messages in it, and no others. Without it the reply answers what was
        there when the turn began, when the caller's last reply of the turn ended, or when the
        caller itself added or promoted a message, whichever came last; outside a turn, what is
        there when it begins. Several replies to one view each need it. `reply_to` is the newest
        user message of the view by default. `id` is the message's id, made by default. `agent`,
        `mode` and `variant` are those that answer, `cwd` and `root` the directories of the work.
        `summary` marks the summary of a compaction. `wait` is the seconds to wait for the lease.
        """
        return Reply(
            self.executor,
            ev.AssistantMessageStarted(
                id or self.executor.host.new_id("msg_"),
                reply_to,
                agent,
                mode,
                model_of(model),
                variant,
                cwd,
                root,
                summary,
                None if view is None else _version_of(view),
            ),
            lease_wait=wait,
        )

    def late_result(
        self,
        message: str,
        call: str,
        output: str,
        *,
        failed: bool = False,
        title: str = "",
        metadata: Json | None = None,
        attachments: Sequence[Attachment] = (),
        truncation: Truncation | None = None,
    ) -> int:
        """Complete a call that was settled as interrupted; returns the version of the result.

        Needs no lease: for a worker that another owner took for dead. The view is that of a
        punctual result. The same result again is the first one, and another is `RefusedError`, as
        is a result of a call that goes on. `failed` says that `output` is an error. `title`,
        `metadata`, `attachments` and `truncation` are those of `ToolCall.succeed`.
        """
        from eventlog.session.late_result import late_result

        return late_result(
            self.executor,
            message,
            call,
            output,
            failed=failed,
            title=title,
            metadata=metadata,
            attachments=attachments,
            truncation=truncation,
        )

    def remove_message(self, message: str, *, wait: float = 0.0) -> None:
        """Take a finished message out of the conversation; its events stay.

        `wait` is the seconds to wait for the lease.
        """
        self.executor.run([ev.MessageRemoved(message)], wait=wait)

    def edit_part(self, part: str, text: str, *, wait: float = 0.0) -> None:
        """Replace the text of an ended part (text, reasoning, or a completed tool's output).

        `wait` is the seconds to wait for the lease.
        """
        bodies: dict[bytes, bytes] = {}
        self.executor.run([ev.PartEdited(part, to_content(text, bodies))], bodies, wait=wait)

    def remove_part(self, part: str, *, wait: float = 0.0) -> None:
        """Take an ended part out of its message; its events stay.

        `wait` is the seconds to wait for the lease.
        """
        self.executor.run([ev.PartRemoved(part)], wait=wait)

    def redact(self, part: str, reason: str = "", *, search: bool = True) -> RedactionResult:
        """Hide a part's content in every view of every version, here and in all forks.

        Returns other occurrences of the text; `search=False` skips that. `Store.scrub` removes the
        bytes. Needs no lease.
        """
        from eventlog.session.redact import redact

        require(str, part, "a part is named by its id, a str")

        return redact(self.executor, self.store.registry, part, reason, search=search)

    # -- the session ---------------------------------------------------------------------------

    def rename(self, title: str) -> None:
        """Give the session a title.  Needs no lease."""
        self.executor.command([ev.SessionRenamed(title)])

    def archive(self) -> None:
        """Mark the session as archived.  Needs no lease."""
        self.executor.command([ev.SessionArchived()])

    def unarchive(self) -> None:
        """Mark the session as not archived.  Needs no lease."""
        self.executor.command([ev.SessionUnarchived()])

    def set_metadata(self, key: str, value: Json | None) -> None:
        """Set (None: remove) an entry of the embedder's own metadata.  Needs no lease."""
        self.executor.command([ev.MetadataSet(key, value)])

    def set_note(self, note: str) -> None:
        """Set the embedder's note in the list of sessions (`SessionInfo.note`); "" removes it.

        Needs no lease, is no activity, and is not undone by a rollback. `LimitError` above 1 KB of
        UTF-8.
        """
        self.executor.command([ev.NoteSet(note)])

    def interrupt(self, reason: str = "") -> None:
        """Ask the owner of the session to stop.  Needs no lease.

        The sub-sessions of its newest tasks that a crash left without an owner are stopped as well.
        """
        self.executor.command([ev.InterruptRequested(reason)])
        stop_subsessions(self.store.registry, self.executor, reason)

    def record_custom(self, namespace: str, data: Json) -> None:
        """Record an embedder's own fact.  Needs no lease."""
        self.executor.command([ev.Custom(namespace, data)])

    def record_usage(
        self,
        usage: Usage,
        *,
        message: str | None = None,
        step: str | None = None,
        model: Model | str | None = None,
        purpose: str = "turn",
        failed: bool = False,
        catalogue: str = "",
    ) -> None:
        """Record the cost of a model call, failed ones included.  Needs no lease.

        `catalogue` is the date of the prices from which the caller computed the cost. Without a
        cost, the store's `prices` are asked. `message` and `step` are the ids of the reply and the
        step-start part, `model` is the one that was called. `purpose` is "turn", "summary", "title"
        or the program's word; `failed` says that no answer came.
        """
        named = model_of(model)
        usage, catalogue = self.executor.host.priced(usage, named, catalogue)
        self.executor.command([ev.UsageRecorded(usage, message, step, named, purpose, failed, catalogue)])

    # -- settings ------------------------------------------------------------------------------

    def set_settings(
        self,
        *,
        model: Model | str | None = None,
        limits: Limits | None = None,
        policy: Json | None = None,
        wait: float = 0.0,
    ) -> None:
        """Set the model's limits and the context policy from here on.

        `model` is the model that `limits` are of, `policy` is a `ContextPolicy` as JSON; None
        leaves each as it is. `wait` is the seconds to wait for the lease.
        """
        if limits is not None:
            require_limits(limits)
        if policy is not None:
            require_json(dict, policy, "a context policy is a JSON object")
        self.executor.run([ev.SettingsSet(model_of(model), limits, policy)], wait=wait)

    def set_system_prompt(self, header: str, rest: str = "", *, wait: float = 0.0) -> None:
        """Set the system prompt from here on, in its two segments.

        `wait` is the seconds to wait for the lease.
        """
        bodies: dict[bytes, bytes] = {}
        prompt = ev.SystemPromptSet(to_content(header, bodies), to_content(rest, bodies))
        self.executor.run([prompt], bodies, wait=wait)

    def set_tools(self, schemas: Json, *, wait: float = 0.0) -> None:
        """Set the tool schemas (a JSON array) offered from here on.

        `wait` is the seconds to wait for the lease.
        """
        require_json(list, schemas, "tool schemas are a JSON array, as a str")
        bodies: dict[bytes, bytes] = {}
        self.executor.run([ev.ToolsSet(to_content(schemas, bodies))], bodies, wait=wait)

    def set_todos(self, todos: Sequence[Todo], *, wait: float = 0.0) -> None:
        """Replace the list of things to do.

        `wait` is the seconds to wait for the lease.
        """
        self.executor.run([ev.TodosSet(each(todos, "todos are a list of todos"))], wait=wait)

    def pin(self, text: str | None = None, *, part: str | None = None) -> str:
        """Carry a fact or a part over every compaction; returns the pin's id.  Needs no lease.

        Give `text` for a fact, or `part` for a part.
        """
        bodies: dict[bytes, bytes] = {}
        pin = self.executor.host.new_id("pin_")
        self.executor.command([ev.Pinned(pin, None if text is None else to_content(text, bodies), part)], bodies)
        return pin

    def unpin(self, pin: str) -> None:
        """Take a pin away.  Needs no lease."""
        self.executor.command([ev.Unpinned(pin)])

    # -- history -------------------------------------------------------------------------------

    def rollback(self, to: int | None = None, *, before: str | None = None, wait: float = 0.0) -> RollbackResult:
        """Restore the effective history right after version `to`, or before a message was added.

        Events decide: the result names the replies that it hides, also those that the view shows
        before the message because they had not seen it. `to` may be a version that an earlier
        rollback hid. What was open at `to` is closed right after. `redo` takes a rollback back; a
        rollback to the version right before the newest one not redone is a redo itself.
        `LeaseHeldError` if another owner or task runs the session after `wait` seconds. `before` is
        the message.
        """
        return rollback(self.executor, to, before=before, wait=wait)

    def redo(self, *, wait: float = 0.0) -> RollbackResult:
        """Return to the version right before the newest rollback that was not redone.

        `wait` is that of `rollback`.
        """
        return redo(self.executor, wait=wait)

    def fork(
        self, at: int | None = None, *, id: str | None = None, title: str | None = None, name: Name | None = None
    ) -> Session:
        """Begin a session that continues this one from version `at`, now by default.

        Nothing is copied, and later events of this session do not change the fork. It does not
        inherit a name, and may be given a `name`: `AlreadyExistsError` if another session has that.
        `id` is the fork's id, made by default; `title` is the parent's by default.
        """
        version = self.reader.resolve(at)
        return self.store.fork(self, version, id=id, title=title, name=name)

    def subsession(self, *, id: str | None = None, title: str = "", agent: str = "", directory: str = "") -> Session:
        """Begin a session for a sub-agent of this one, in the same scope.

        `id` is made by default. `title`, `agent` and `directory` are those of
        `Store.create_session`.
        """
        scope = self.info.scope
        return self.store.create_session(
            id=id, title=title, agent=agent, directory=directory, scope=scope, parent=self.id
        )


def _version_of(view: Sent | int) -> int:
    """Return the version of what the model is sent."""
    version = view if type(view) is int else getattr(view, "version", None)
    if type(version) is not int:
        raise CallError(f"a view is what the model is sent, which has a version, or that version, not {a_kind(view)}")
    if version < 0:
        raise CallError(f"a version is at least 0, not {version}")
    return version
