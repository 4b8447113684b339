"""The handle an agent holds: everything that can be said or done in one session, as commands.

A command decides against the session's state, appends its events, and returns when they are durable; inside
`with session.pipeline()` it returns at once and the wait comes at the end.  Streamed text is accepted without waiting
(`reply.py`).  User messages, renames, pins and interrupts need no lease; every other command takes the session's lease
if this handle does not hold it, for as long as the command lasts.  What the model sees is commanded in `context.py`.

Handles come from a `Store`, one per session, and are safe across threads.  For asyncio see `aio.py`; for reading, appending
and the lease see `handle.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from eventlog import events as ev
from eventlog.codec.bodies import to_content
from eventlog.errors import CallError, NotFoundError, RefusedError
from eventlog.ids import id_of_request
from eventlog.session.context import ContextCommands
from eventlog.session.host import Host
from eventlog.session.inputs import model_of, stored_kind
from eventlog.session.reply import Reply
from eventlog.validation import each, require, require_json, require_limits, require_or_none, require_version
from eventlog.values import File, Json, Limits, Model, PartKind, Patch, Text, Todo, Usage

if TYPE_CHECKING:
    from eventlog.append.writer import SessionWriter
    from eventlog.history.catalog import SessionInfo
    from eventlog.integrity.heads import StoreHead
    from eventlog.session.redact import RedactionResult
    from eventlog.values import Origin

__all__ = ["RollbackResult", "Session", "Sessions"]


class RollbackResult(NamedTuple):
    """What a rollback did: its version, where it went, and which file states were made after that."""

    version: int
    to: int
    snapshots: tuple[str, ...]
    """Snapshots recorded after `to`, oldest first; the caller may undo file effects with them."""
    patches: tuple[Patch, ...]


class Sessions(Host, Protocol):
    """The store as a place with many sessions: what its sessions, and work on several of them, need."""

    def session(self, id: str) -> Session:
        """See `Store`."""
        ...

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
        origin: Origin | None = None,
        time: int | None = None,
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
        origin: Origin | None = None,
        time: int | None = None,
    ) -> Session:
        """See `Store`."""
        ...

    def head(self) -> StoreHead:
        """See `Store`."""
        ...

    def flush(self) -> None:
        """See `Store`."""
        ...

    def let_go(self, session: str) -> None:
        """Forget the handle of a session that is no more."""
        ...


class Session(ContextCommands):
    """One conversation.  Made by `Store.session` and `Store.create_session`."""

    def __init__(self, store: Sessions, session: str, writer: SessionWriter) -> None:
        super().__init__(store, session, writer)
        self.store = store

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
        """Add a user message of a text and files, or of the parts given; returns its id.  Needs no lease.

        One with `delivery="queue"` waits, unseen by the model, until `promote`.  `cause` is the compaction that adds it.
        """
        if request_id is not None:
            require(str, request_id, "a request id is a str")
        bodies: dict[bytes, bytes] = {}
        new_id = self.store.new_id
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
        self.command(added, bodies, request_id=request_id)
        return message

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
    ) -> Reply:
        """Begin an assistant message, to be filled in a `with` block; takes the lease (see `lease`).

        `reply_to` is the last user message by default.
        """
        return Reply(
            self,
            ev.AssistantMessageStarted(
                id or self.store.new_id("msg_"),
                reply_to,
                agent,
                mode,
                model_of(model),
                variant,
                cwd,
                root,
                summary,
            ),
            lease_wait=wait,
        )

    def remove_message(self, message: str) -> None:
        """Take a finished message out of the conversation; its events stay."""
        self.run([ev.MessageRemoved(message)])

    def edit_part(self, part: str, text: str) -> None:
        """Replace the text of an ended part (text, reasoning, or a completed tool's output)."""
        bodies: dict[bytes, bytes] = {}
        self.run([ev.PartEdited(part, to_content(text, bodies))], bodies)

    def remove_part(self, part: str) -> None:
        """Take an ended part out of its message; its events stay."""
        self.run([ev.PartRemoved(part)])

    def redact(self, part: str, reason: str = "", *, search: bool = True) -> RedactionResult:
        """Hide a part's content in every view of every version, here and in all forks; needs no lease.

        Returns where else the same text stands, if that is to be searched for.  The bytes go with `Store.scrub`.
        """
        from eventlog.session.redact import redact

        require(str, part, "a part is named by its id, a str")

        return redact(self, self.store, part, reason, search=search)

    # -- the session ---------------------------------------------------------------------------

    def rename(self, title: str) -> None:
        """Give the session a title.  Needs no lease."""
        self.command([ev.SessionRenamed(title)])

    def archive(self) -> None:
        """Put the session away.  Needs no lease."""
        self.command([ev.SessionArchived()])

    def unarchive(self) -> None:
        """Take the session back.  Needs no lease."""
        self.command([ev.SessionUnarchived()])

    def set_metadata(self, key: str, value: Json | None) -> None:
        """Set (None: remove) an entry of the embedder's own metadata.  Needs no lease."""
        self.command([ev.MetadataSet(key, value)])

    def interrupt(self, reason: str = "") -> None:
        """Ask the owner of the session to stop.  Needs no lease."""
        self.command([ev.InterruptRequested(reason)])

    @property
    def interrupt_requested(self) -> bool:
        """Whether a stop was asked for that no finished message has answered yet."""
        return self.state().interrupt_pending()

    def record_custom(self, namespace: str, data: Json) -> None:
        """Record an embedder's own fact.  Needs no lease."""
        self.command([ev.Custom(namespace, data)])

    def record_usage(
        self,
        usage: Usage,
        *,
        message: str | None = None,
        step: str | None = None,
        model: Model | str | None = None,
        purpose: str = "turn",
        failed: bool = False,
    ) -> None:
        """Record what a model call cost, whatever became of it.  Needs no lease."""
        self.command([ev.UsageRecorded(usage, message, step, model_of(model), purpose, failed)])

    # -- settings ------------------------------------------------------------------------------

    def set_settings(
        self, *, model: Model | str | None = None, limits: Limits | None = None, policy: Json | None = None
    ) -> None:
        """Set the model's limits and the context policy from here on."""
        if limits is not None:
            require_limits(limits)
        if policy is not None:
            require_json(dict, policy, "a context policy is a JSON object")
        self.run([ev.SettingsSet(model_of(model), limits, policy)])

    def set_system_prompt(self, header: str, rest: str = "") -> None:
        """Set the system prompt from here on, in its two segments."""
        bodies: dict[bytes, bytes] = {}
        self.run([ev.SystemPromptSet(to_content(header, bodies), to_content(rest, bodies))], bodies)

    def set_tools(self, schemas: Json) -> None:
        """Set the tool schemas (a JSON array) offered from here on."""
        require_json(list, schemas, "tool schemas are a JSON array, as a str")
        bodies: dict[bytes, bytes] = {}
        self.run([ev.ToolsSet(to_content(schemas, bodies))], bodies)

    def set_todos(self, todos: Sequence[Todo]) -> None:
        """Replace the list of things to do."""
        self.run([ev.TodosSet(each(todos, "todos are a list of todos"))])

    def pin(self, text: str | None = None, *, part: str | None = None) -> str:
        """Mark a fact or a part to be carried over by every compaction; returns the pin's id.  Needs no lease."""
        bodies: dict[bytes, bytes] = {}
        pin = self.store.new_id("pin_")
        self.command([ev.Pinned(pin, None if text is None else to_content(text, bodies), part)], bodies)
        return pin

    def unpin(self, pin: str) -> None:
        """Take a pin away.  Needs no lease."""
        self.command([ev.Unpinned(pin)])

    # -- history -------------------------------------------------------------------------------

    def rollback(self, to: int | None = None, *, before: str | None = None) -> RollbackResult:
        """Make the effective history what it was right after version `to`, or right before a message was added.

        Whatever `to` was, also a version that an earlier rollback hid.  `redo` takes it back, unless it is a redo itself: a
        return to the version right before the newest rollback that was not redone.  What is open at `to` is closed right after.
        """
        if (to is None) == (before is None):
            raise CallError("rollback takes a version or a message, one of them")
        if to is not None:
            require_version(to)
        require_or_none(str, before, "a message is named by its id, a str")
        with self.lease():
            self.flush()
            state = self.state()
            if before is not None:
                to = state.message(before).added - 1
            assert to is not None
            if state.open_messages():
                raise RefusedError("a message is open", expected="a finished or aborted message")
            if not 1 <= to <= state.version:
                raise NotFoundError("version", str(to), session=self.id)
            snapshots, patches = self._file_states(to)
            committed = self.commit_now([ev.RolledBack(to)], lambda after: after.closing("rolled back"))
            version = committed.first
            return RollbackResult(version, to, snapshots, patches)

    def redo(self) -> RollbackResult:
        """Take back the newest rollback that was not redone yet: return to the version right before it."""
        self._to_redo()
        with self.lease():  # from here on no other process rolls back
            return self.rollback(self._to_redo() - 1)

    def _to_redo(self) -> int:
        with self.deciding() as state:
            version = state.history.to_redo()
        if version is None:
            raise RefusedError("there is nothing to redo", expected="a rollback")
        return version

    def _file_states(self, to: int) -> tuple[tuple[str, ...], tuple[Patch, ...]]:
        """The snapshots and patches that count now, and would not right after version `to`; reads only the events between."""
        with self.deciding() as state:
            lost = state.history.lost(to)
        snapshots: list[str] = []
        patches: list[Patch] = []
        for first, last in lost:
            for span in self.spans(first - 1, last):
                item = span.item
                if isinstance(item, (ev.StepStarted, ev.StepFinished)) and item.snapshot:
                    snapshots.append(item.snapshot)
                elif isinstance(item, ev.PartStarted) and isinstance(item.kind, Patch):
                    patches.append(item.kind)
        return tuple(dict.fromkeys(snapshots)), tuple(patches)

    def fork(self, at: int | None = None, *, id: str | None = None, title: str | None = None) -> Session:
        """Begin a session that continues this one as it was right after version `at` (now by default).

        Nothing is copied, and nothing that happens here later changes it.
        """
        version = self._known(at)
        return self.store.fork(self, version, id=id, title=title)

    def subsession(self, *, id: str | None = None, title: str = "", agent: str = "", directory: str = "") -> Session:
        """Begin a session for a sub-agent of this one, in the same scope."""
        scope = self.info.scope
        return self.store.create_session(
            id=id, title=title, agent=agent, directory=directory, scope=scope, parent=self.id
        )
