"""Commands of an assistant message that is open: texts, tool calls, steps, and its end.

A delta is accepted: it costs one list operation, and the store's flusher commits it within its
interval. The end of a text, a tool that is about to run, a result and the end of the message wait
until they are durable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

from eventlog import events as ev
from eventlog.codec.large_texts import to_content
from eventlog.errors import EventlogError, NotFoundError, RefusedError
from eventlog.session.empty_answers import ending_of
from eventlog.session.failure import is_crash
from eventlog.session.held_lease import Block, Lease
from eventlog.session.inputs import stored_kind
from eventlog.session.text_stream import TextStream
from eventlog.session.tool_call import ToolCall
from eventlog.state.settling import closing_parts, closing_texts, has_run, said_in_step
from eventlog.state.state import GOES_ON
from eventlog.validation import require, require_json, require_or_none
from eventlog.values import Json, MessageError, PartKind, Reasoning, Retry, Text, Tool, Usage, target_of

if TYPE_CHECKING:
    from eventlog.session.executor import Executor


class ReplyCommands:
    """The commands that fill and end an assistant message."""

    def __init__(self, executor: Executor, started: ev.AssistantMessageStarted, *, lease_wait: float = 0.0) -> None:
        """`started.seen` None: what the running task has seen (`Session.assistant`)."""
        self.id: str = started.message
        """The message's id."""
        self._executor = executor
        self._started = started
        self.lease_wait = lease_wait
        self._streams: list[TextStream] = []
        self._calls: list[ToolCall] = []
        self.api: str = ""
        """The API of the answer, as the reader recognises it."""
        self.target: str = ""
        """The target of the newest step."""
        self.view: object = None
        """The view of the first model call, if it was named; None once its step began."""
        self._purpose = "turn"
        """Purpose of the newest step."""
        self.told: Usage | None = None
        """Usage of the model call that is read, as its stream told; recorded once it ends."""
        self.is_empty: bool = False
        """Whether the answer has nothing to read, and its provider did not end it by itself."""
        self.lost: list[Usage] = []
        """Usage of the calls before it that failed; recorded with it."""
        self._failed = 0
        """Attempts that failed and are repeated, those of replies before this one included."""
        self.lease: Lease | None = None
        """The lease that all of the message is written under, by any thread."""
        self._block: Block | None = None
        """Keeps the lease that `with` took."""
        self._took_lease = False
        """Whether the message's last append gives the lease back."""
        self._begun = self._finished = False

    def _accept(self, events: Sequence[ev.Event], bodies: Mapping[bytes, bytes] | None = None) -> None:
        """Append events without waiting."""
        self._executor.command(events, bodies, wait=False, lease=self.lease)

    def _require_open(self) -> None:
        if not self._begun or (self._finished and not self.is_open):
            reason = "the reply is finished" if self._begun else "the reply has not begun"
            raise RefusedError(reason, expected="`with session.assistant(…) as reply:`", session=self._executor.id)

    @property
    def is_open(self) -> bool:
        """Whether the message is open: a `finish` or `abort` that was refused leaves it open."""
        if self._finished:
            with suppress(EventlogError):  # the log cannot be read: as this handle left it
                self._finished = self.id not in self._executor.writer.known_state().open_messages()
        return not self._finished

    @property
    def interrupt_requested(self) -> bool:
        """Whether any process asked for a stop since the user message that this one answers.

        In a sub-session a stop of the session that waits for it counts, too.
        """
        return self._executor.interrupt_requested(self._started.reply_to)

    # -- parts and steps -----------------------------------------------------------------------

    def stream_text(self, *, id: str | None = None, metadata: Json | None = None) -> TextStream:
        """Begin a text part.

        `id` is the part's id, made by default; `metadata` is JSON of the provider, sent back with
        the text.
        """
        return self._stream(Text(metadata=metadata), id)

    def stream_reasoning(self, *, id: str | None = None, metadata: Json | None = None) -> TextStream:
        """Begin a reasoning part.

        `id` and `metadata` are as in `stream_text`: signatures and the like.
        """
        return self._stream(Reasoning(metadata=metadata), id)

    def add_text(self, text: str) -> str:
        """Add a text part that is known as a whole; returns its id."""
        stream = self.stream_text()
        stream.append(text)
        stream.end()
        return stream.id

    def part(self, kind: PartKind, *, id: str | None = None) -> str:
        """Add a complete part: a file, patch, snapshot, subtask, agent or retry; returns its id.

        `id` is the part's id, made by default.
        """
        if isinstance(kind, (Text, Reasoning, Tool)):
            name = type(kind).__name__
            raise RefusedError(f"a {name} part streams", expected="stream_text(), stream_reasoning() or tool()")
        self._require_step()
        bodies: dict[bytes, bytes] = {}
        part = id or self._executor.host.new_id("prt_")
        self._accept([ev.PartStarted(self.id, part, stored_kind(kind, bodies))], bodies)
        return part

    def tool(
        self,
        tool: str,
        *,
        call_id: str,
        input: Json | dict[str, object] | None = None,
        id: str | None = None,
        provider_executed: bool = False,
        title: str = "",
        metadata: Json | None = None,
    ) -> ToolCall:
        """Begin a tool call.

        With `input` it runs at once, durably; without, its arguments stream first. `call_id` is the
        provider's id of the call, `id` the part's, made by default. `provider_executed` says that
        the provider runs the tool. `title` is shown to users; `metadata` is JSON.
        """
        self._require_step()
        part = id or self._executor.host.new_id("prt_")
        call = ToolCall(self._executor, part, call_id, self.lease, provider_executed=provider_executed)
        started = ev.PartStarted(self.id, part, Tool(call_id, tool, provider_executed, metadata))
        if input is None:
            self._accept([started])
        else:
            call.start(input, title=title, started=started)
        self._calls.append(call)
        return call

    def call(self, part: str) -> ToolCall:
        """Return the handle of a call of this message; `NotFoundError` for another part."""
        for call in self._calls:
            if call.id == part:
                return call
        raise NotFoundError("call", part, session=self._executor.id)

    def _stream(self, kind: Text | Reasoning, part: str | None) -> TextStream:
        self._require_step()
        name = part or self._executor.host.new_id("prt_")
        self._accept([ev.PartStarted(self.id, name, kind)])
        stream = TextStream(self._executor, name, "text", self.lease)
        self._streams.append(stream)
        return stream

    def _require_step(self) -> None:
        """Record the request of the first model call, unless `step` did, if its view was named."""
        self._require_open()
        record = getattr(self.view, "record", None)
        if record is not None:
            self.step(**record)

    @property
    def in_step(self) -> bool:
        """Whether a model call has begun, and not ended."""
        with self._executor.writer.lock:
            state = self._executor.writer.known_state()
            return state.has_message(self.id) and state.in_step(self.id)

    def step(
        self,
        *,
        purpose: Literal["turn", "summary", "title"] = "turn",
        view_version: int | None = None,
        view_digest: bytes | None = None,
        render: Json | None = None,
        snapshot: str | None = None,
        counted: int | None = None,
        patch: str | None = None,
        endpoint: str = "",
        form: Json | None = None,
        body_digest: bytes | None = None,
    ) -> str:
        """Record the beginning and the request of a model call; returns the step-start part's id.

        `counted` are the request's tokens before calibration, `patch` what hooks changed of the
        view. `endpoint` names the host, region or account that is asked, if signatures and ciphers
        of one are refused by another. `form` is the `record` of a `RequestForm`, and `body_digest`
        the digest of the body that it made. `purpose` says what the answer is for. `view_version`
        and `view_digest` are those of the `ModelView` that was sent, `render` its options as JSON.
        `snapshot` is the state of the user's files.
        """
        self._require_open()
        self.view = None
        if patch is not None:
            require_json(dict, patch, "a patch of a view is a JSON object")
        part, bodies = self._executor.host.new_id("prt_"), dict[bytes, bytes]()
        self.target = target_of(self._started.model, endpoint)
        changed, named = None if patch is None else to_content(patch, bodies), self.target if endpoint else ""
        view = view_version, view_digest, render, snapshot, counted, changed, named, form, body_digest
        self._accept([ev.StepStarted(self.id, part, purpose, *view)], bodies)
        self._purpose = purpose
        return part

    def end_step(
        self, reason: str = "", *, usage: Usage | None = None, catalogue: str = "", snapshot: str | None = None
    ) -> str:
        """Record the end and the cost of the model call; returns the step-finish part's id.

        `catalogue` is that of `Session.record_usage`. `usage` has tokens and cost of the call;
        `snapshot` is the state of the user's files.
        """
        self._require_open()
        part = self._executor.host.new_id("prt_")
        used = self._used(usage, part, self._purpose, catalogue)
        self._accept([ev.StepFinished(self.id, part, reason, snapshot), *used])
        return part

    def _used(
        self, usage: Usage | None, step: str | None, purpose: str, catalogue: str = "", *, failed: bool = False
    ) -> list[ev.Event]:
        spent = [(one, True) for one in self.lost]
        usage = self.told if usage is None else usage
        if usage is not None:
            spent.append((usage, failed))
        self.told, self.lost, model = None, [], self._started.model
        priced = ((*self._executor.host.priced(one, model, catalogue), lost) for one, lost in spent)
        return [ev.UsageRecorded(one, self.id, step, model, purpose, lost, date) for one, date, lost in priced]

    def retry(self, error: MessageError) -> str:
        """Begin the model call again after `error`; returns the id of the retry part.

        The call's text so far stays in the log and leaves the view. Refused once a tool ran.
        """
        require(MessageError, error, "an error is a MessageError")
        self._require_open()
        with self._executor.reader.deciding() as state:
            said = said_in_step(state, self.id)
            ran = [part for part in said if has_run(state, part) and not self.call(part).provider_executed]
            if ran:
                raise RefusedError(f"call {ran[0]} ran", expected="the end of the reply", session=self._executor.id)
            removed: list[ev.Event] = [*closing_parts(state, self.id, final=True), *map(ev.PartRemoved, said)]
        self._failed += 1
        part = self._executor.host.new_id("prt_")
        retry = ev.PartStarted(self.id, part, Retry(self._failed, error))
        self._accept([*removed, *self._used(None, None, self._purpose, failed=True), retry])
        for stream in self._streams:
            stream.close()
        self._calls = [call for call in self._calls if call.id not in said]
        return part

    def record_custom(self, namespace: str, data: Json) -> None:
        """Record a fact beside the message, which is not in the view; does not wait."""
        self._accept([ev.Custom(namespace, data)])

    # -- the end -------------------------------------------------------------------------------

    def finish(
        self, reason: str = "stop", *, usage: Usage | None = None, catalogue: str = "", snapshot: str | None = None
    ) -> None:
        """Close the message; durable when it returns.

        Ends open texts and the open step. Tool calls without a result are refused: complete or fail
        them first. `catalogue` is that of `Session.record_usage`. A second answer in a row without
        a call, with a reason behind which a loop asks again, ends the turn: with the error "empty"
        if neither says anything, else with the reason "stop". `usage` and `snapshot` are as in
        `end_step`.
        """
        self._require_open()
        writer = self._executor.writer
        with writer.lock:  # a message whose beginning was refused is unknown: the command says why
            closing = closing_texts(writer.known_state(), self.id, [stream.id for stream in self._streams])
        step = self._executor.host.new_id("prt_") if self.in_step else None
        if step is not None:
            closing.append(ev.StepFinished(self.id, step, reason, snapshot))
        closing += self._used(usage, step, "turn" if step is None else self._purpose, catalogue)
        ending = ev.MessageFinished(self.id, reason, None)
        if self.looks_back(reason):
            writer.flush()
            ending = ending_of(self._executor.reader, self.id, reason, self.api)
        self._end([*closing, ending])

    def looks_back(self, reason: str) -> bool:
        """Return whether `finish` reads this reply and the one before."""
        return not self._started.summary and not self._calls and (self.is_empty or reason in GOES_ON)

    def abort(self, error: MessageError | None = None) -> None:
        """Close the message with the text it has; calls without a result, asked or not, end."""
        require_or_none(MessageError, error, 'an abort is told a MessageError, such as MessageError("aborted", "why")')
        self._require_open()
        with self._executor.reader.deciding() as state:
            closing = closing_parts(state, self.id, final=True)
        error = error or MessageError("aborted")
        used = self._used(None, None, self._purpose, failed=error.name != "aborted" or is_crash(error))
        self._end([*closing, *used, ev.MessageFinished(self.id, None, error)])

    def _end(self, events: Sequence[ev.Event]) -> None:
        """Append the events that close the message."""
        self._executor.command(events, last=self._took_lease, lease=self.lease)
        self._close()

    def _close(self) -> None:
        self._finished = True
        for stream in self._streams:
            stream.close()
