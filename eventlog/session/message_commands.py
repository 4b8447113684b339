"""Commands of a session about messages: ask, answer, edit and remove."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, Protocol

from eventlog import events as ev
from eventlog.append.backoff import Backoff
from eventlog.append.transaction import transact
from eventlog.codec.large_texts import to_content
from eventlog.errors import CallError, ConflictError, NotFoundError, RefusedError
from eventlog.errors.base import brief
from eventlog.ids import id_of_request
from eventlog.session.executor import Executor
from eventlog.session.inputs import (
    is_blank,
    model_of,
    require_sound_json,
    stored_attachment,
    stored_kind,
    stored_truncation,
)
from eventlog.session.outcome import pending_question
from eventlog.session.reader import SessionReader
from eventlog.session.reply import Reply
from eventlog.session.turn import Turn, TurnState, state_of_turn
from eventlog.state.facts import PartFacts, versions_of
from eventlog.state.state import State
from eventlog.state.waiting_calls import effective_call
from eventlog.validation import a_kind, each, require, require_or_none
from eventlog.values import Attachment, File, Json, Model, PartKind, Text, Truncation


class Sent(Protocol):
    """A view, or a request of the window: the messages that a model is sent."""

    @property
    def version(self) -> int:
        """The version whose history it shows."""
        ...


class MessageCommands:
    """The commands of a handle that add messages, and change them."""

    id: str
    executor: Executor
    reader: SessionReader

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
        if all(isinstance(kind, Text) and is_blank(kind.text) for kind in kinds):
            raise CallError("a user message without words; it has a text that is not blank, a File or a Subtask")
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

    def turn_state(self, request_id: str) -> TurnState | Literal["pending"]:
        """The state of the turn of this request id now, for one who will not answer it.

        Takes no lease and adds nothing. "pending": no task answers, and the next that asks by
        `turn` does. `NotFoundError` if no turn has the id; the other states are those of `Turn`.
        """
        require(str, request_id, "a request id is a str")
        message = id_of_request("msg_", self.id, request_id)
        with self.reader.deciding() as state:
            if not state.has_message(message):
                raise NotFoundError("request", request_id, session=self.id)
        return state_of_turn(self.executor, message)

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
        reply answers the user messages in it, and no others. Its first part, or `fill`, records the
        view as the request of a step, for an audit. Without `view` the reply answers what was
        there when the turn began, when the caller's last reply of the turn ended, or when the
        caller itself added or promoted a message, whichever came last; outside a turn, what is
        there when it begins. Several replies to one view each need it. `reply_to` is the newest
        user message of the view by default. `id` is the message's id, made by default. `agent`,
        `mode` and `variant` are those that answer, `cwd` and `root` the directories of the work.
        `summary` marks the summary of a compaction. `wait` is the seconds to wait for the lease.
        """
        reply = Reply(
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
        reply.view = view
        return reply

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

        Needs no lease: for a worker that another owner took for dead. The append is made at the
        version that it was decided at, so it changes nothing that it has not seen. The view is that
        of a punctual result. The same result again is the first one, another is
        `RefusedError`, as is a result of a call that goes on. `failed` says that `output` is an
        error, which a `truncation` keeps as the call's output. `title`, `metadata`, `attachments`
        and `truncation` are those of `ToolCall.succeed`.
        """
        for name, rule in (
            (message, "a message is named by its id, a str"),
            (call, "a call is named by its id, a str"),
        ):
            require(str, name, rule)
        require(str, output, "an output is a str")
        require_or_none(Truncation, truncation, "a truncation is a Truncation")
        self.executor.host.require_open(writing=True)
        bodies: dict[bytes, bytes] = {}
        content = to_content(output, bodies)
        truncation = stored_truncation(truncation, bodies)
        files = tuple(
            stored_attachment(one, bodies) for one in each(attachments, "attachments are a list of attachments")
        )
        writer = self.executor.writer
        backoff = Backoff()
        while True:
            try:
                if writer.is_ahead:
                    writer.flush()
                with self.executor.reader.deciding() as state:
                    version = state.version
                    part, facts = effective_call(state, message, call)
                    status = state.status(facts)
                    done = None if status == "interrupted" else _newest_change(state, facts, status)
                event: ev.ToolCompleted | ev.ToolFailed
                if failed:
                    shown, whole = (content, None) if truncation is None else (truncation.preview, content)
                    event = ev.ToolFailed(part, shown, output=whole, metadata=metadata)
                else:
                    event = ev.ToolCompleted(part, content, truncation, title, metadata, files)
                require_sound_json([event])
                if done is not None:
                    return _same_result(self.executor, call, done, event)
                items: list[tuple[int, ev.Event]] = [(self.executor.host.clock(), event)]
                return transact(writer, items, bodies, expected=version).last
            except ConflictError:
                if not backoff.goes_on():
                    raise

    def remove_message(self, message: str, *, wait: float = 0.0) -> None:
        """Take a finished message out of the conversation; its events stay.

        `wait` is the seconds to wait for the lease.
        """
        self.executor.run([ev.MessageRemoved(message)], wait=wait)

    def edit_part(self, part: str, text: str, *, wait: float = 0.0) -> None:
        """Replace the text of an ended part (text, reasoning, or a completed tool's output).

        A user's text is never blank: `remove_part` takes it away. `wait` is the seconds to wait for
        the lease.
        """
        bodies: dict[bytes, bytes] = {}
        content = to_content(text, bodies)
        if is_blank(content):
            with self.reader.deciding() as state:
                facts = state.parts.get(part)
                if facts is not None and state.messages[facts.message].user:
                    raise CallError("the edited text of a user is blank; `remove_part(part)` takes the part away")
        self.executor.run([ev.PartEdited(part, content)], bodies, wait=wait)

    def remove_part(self, part: str, *, wait: float = 0.0) -> None:
        """Take an ended part out of its message; its events stay.

        `wait` is the seconds to wait for the lease.
        """
        self.executor.run([ev.PartRemoved(part)], wait=wait)


def _version_of(view: Sent | int) -> int:
    """Return the version of what the model is sent."""
    version = view if type(view) is int else getattr(view, "version", None)
    if type(version) is not int:
        raise CallError(f"a view is what the model is sent, which has a version, or that version, not {a_kind(view)}")
    if version < 0:
        raise CallError(f"a version is at least 0, not {version}")
    return version


def _newest_change(state: State, facts: PartFacts, status: str) -> int:
    """Return the version of a call's end; `RefusedError` if it goes on."""
    if status not in {"completed", "failed"}:
        raise RefusedError(f"the call is {status}", expected="a call that was settled as interrupted")
    return next(filter(state.history.holds, versions_of(facts.changes, status)))


def _same_result(executor: Executor, call: str, version: int, event: ev.Event) -> int:
    """Return the version of a result that is there already; `RefusedError` if it is another."""
    (known,) = executor.reader.events(version - 1, version)
    if known.event != event:
        expected = "the same result, or a call that was settled as interrupted"
        raise RefusedError(f"call {brief(call)} has another result", expected=expected, session=executor.id)
    return version
