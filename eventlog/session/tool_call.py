"""A tool call of an assistant message: pending, running, then completed or failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, BinaryIO

from eventlog import events as ev
from eventlog.codec.large_texts import from_file, to_content
from eventlog.errors import CallError, RefusedError
from eventlog.errors.base import brief
from eventlog.session.asking import ask_event, streamed_input
from eventlog.session.inputs import as_json, stored_attachment, stored_truncation
from eventlog.session.text_stream import TextStream
from eventlog.validation import a_kind, each, require, require_or_none
from eventlog.values import INTERRUPTED, Attachment, Content, Json, Truncation

if TYPE_CHECKING:
    from eventlog.session.executor import Executor
    from eventlog.session.held_lease import Lease


class ToolCall:
    """A tool call of a message: pending, running, then completed or failed.

    `id` is the id of its part, `call_id` the provider's, by which a result names it.
    `provider_executed` says that the provider runs it.
    """

    def __init__(
        self, executor: Executor, part: str, call: str, lease: Lease | None, *, provider_executed: bool = False
    ) -> None:
        self.id = part
        self.call_id = call
        self.provider_executed = provider_executed
        self._executor = executor
        self._lease = lease
        self._input: TextStream | None = None
        self._output: TextStream | None = None
        self._takes_input = True

    def stream_input(self, text: str) -> None:
        """Accept a piece of the arguments as they stream."""
        if self._input is None:
            self._input = TextStream(self._executor, self.id, "input", self._lease)
            if not self._takes_input:
                self._input.close()
        self._input.append(text)

    def start(
        self,
        input: Json | dict[str, object] | None = None,
        *,
        title: str = "",
        metadata: Json | None = None,
        started: ev.PartStarted | None = None,
    ) -> None:
        """Record that the arguments are complete and the tool runs; durable on return.

        `input` are the arguments, by default those that streamed. `started` is the part's first
        event, if it goes in with the same append. `title` is shown to users; `metadata` is JSON.
        `RefusedError` for a call that already runs, as one begun by `tool(…, input=…)` does.
        """
        bodies: dict[bytes, bytes] = {}
        if input is None:
            input = streamed_input(self._executor, self.id)
        running = ev.ToolRunning(self.id, to_content(as_json(input), bodies), title, metadata)
        self._close_input()
        self._executor.command([running] if started is None else [started, running], bodies, lease=self._lease)

    def ask(self, reason: str = "", *, input: Json | dict[str, object] | None = None) -> None:
        """Record that the call waits for a person (`Session.answer_call`); durable on return.

        `reason` is shown to the person. `input` are the arguments, by default those that streamed.
        The message can be finished, and the loop ends; an allowed call is run by a loop later.
        """
        require(str, reason, "the reason of an ask is a str")
        if self.provider_executed:
            expected = "a call whose tool the program runs"
            raise RefusedError(f"the provider runs call {brief(self.call_id)}", expected=expected)
        bodies: dict[bytes, bytes] = {}
        event = ask_event(self._executor, self.id, reason, input, bodies, states=("pending",))
        self._executor.command([event], bodies, lease=self._lease)
        self._close()

    def stream_output(self, text: str) -> None:
        """Accept a piece of what the running tool prints."""
        if self._output is None:
            self._output = TextStream(self._executor, self.id, "output", self._lease)
        self._output.append(text)

    def progress(self, title: str | None = None, metadata: Json | None = None) -> None:
        """Record a title or metadata of the running tool; does not wait."""
        self._executor.command([ev.ToolProgress(self.id, title, metadata)], wait=False, lease=self._lease)

    def succeed(
        self,
        output: str | BinaryIO,
        *,
        title: str = "",
        metadata: Json | None = None,
        attachments: Sequence[Attachment] = (),
        truncation: Truncation | None = None,
    ) -> None:
        """Record the tool's full output; durable when it returns.

        With `truncation` the view shows its preview. A binary file object of UTF-8 text is read
        piece by piece. `title` is shown to users, `metadata` is JSON, `attachments` are files of
        the result.
        """
        if not isinstance(output, str) and not hasattr(output, "read"):
            raise CallError(f"an output is a str, or a binary file of one, not {a_kind(output)}")
        require_or_none(Truncation, truncation, "a truncation is a Truncation")
        bodies: dict[bytes, bytes] = {}
        truncation = stored_truncation(truncation, bodies)
        event = ev.ToolCompleted(
            self.id,
            to_content(output, bodies) if isinstance(output, str) else from_file(output, bodies),
            truncation,
            title,
            metadata,
            tuple(stored_attachment(one, bodies) for one in each(attachments, "attachments are a list of attachments")),
        )
        self._close()
        self._executor.command([event], bodies, lease=self._lease)

    def fail(
        self,
        error: str = INTERRUPTED,
        *,
        interrupted: bool = False,
        output: str | None = None,
        metadata: Json | None = None,
    ) -> None:
        """Record that the tool failed or was interrupted; durable on return.

        `interrupted` says that the tool was stopped; `output` is what the tool had printed,
        `metadata` is JSON.
        """
        bodies: dict[bytes, bytes] = {}
        partial: Content | None = None if output is None else to_content(output, bodies)
        event = ev.ToolFailed(self.id, to_content(error, bodies), interrupted, partial, metadata)
        self._close()
        self._executor.command([event], bodies, lease=self._lease)

    def _close(self) -> None:
        self._close_input()
        if self._output is not None:
            self._output.close()

    def _close_input(self) -> None:
        self._takes_input = False
        if self._input is not None:
            self._input.close()
