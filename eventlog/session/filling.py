"""A reply that is filled from a provider's answer: the steps of a reader, as commands.

`Reply.fill` and `AsyncReply.fill` use it, and so do loops that ask again. A program that asks again
takes a new one for each attempt.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable, Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from eventlog.errors import CallError
from eventlog.streams.answer import API, AnswerReader, plain
from eventlog.streams.odd_endings import FILTERED, UNKNOWN, WITHHELD, input_of, not_whole
from eventlog.streams.records import dump, is_whole
from eventlog.streams.steps import (
    Answered,
    Argued,
    Attached,
    Called,
    Closed,
    Compacted,
    Ended,
    Kept,
    Said,
    Step,
    Used,
)
from eventlog.validation import require
from eventlog.values import Json, MessageError, Opaque

if TYPE_CHECKING:
    from eventlog.session.reply_commands import ReplyCommands
    from eventlog.session.text_stream import TextStream
    from eventlog.session.tool_call import ToolCall
    from eventlog.values import Usage

ABORTED = "aborted"
"""Reason of an answer that a user's stop ended."""
LOOK_CHUNKS, LOOK_SECONDS = 16, 0.5
"""Chunks, and seconds of a slow stream, between two looks for an interrupt."""


class Filled(NamedTuple):
    """An answer that a reply was filled with."""

    reason: str
    """Why it ended.

    "stop", "tool-calls", "length", "content-filter", "aborted", "unknown", or the provider's word.
    """
    usage: Usage | None = None
    """Tokens of the model call; None if the provider told none."""
    calls: tuple[ToolCall, ...] = ()
    """The calls that the program has to run; the reply stays open for them."""


class _Call:
    """A call of the answer and its arguments so far."""

    def __init__(self, handle: ToolCall) -> None:
        self.handle = handle
        self.pieces: list[str] = []
        self.is_answered = False

    @property
    def input(self) -> Json:
        """Its arguments; a text that is no JSON object as the member `input` of one."""
        return input_of("".join(self.pieces))


class Filling:
    """A reply while it is filled."""

    def __init__(self, reply: ReplyCommands, api: API | None = None, *, whole: bool = False) -> None:
        """`whole`: a stream that ends without a finish reason broke off: `ConnectionError`."""
        self.reply = reply
        self._reader = AnswerReader(api)
        if not reply.in_step:  # a reply of `Session.assistant`: a window begins the step itself
            reply.step(**getattr(reply.view, "record", {}))
        self._whole = whole
        self._stream: TextStream | None = None
        self._place: tuple[str, object] = ("", None)
        """Kind and part of the open text."""
        self._calls: dict[object, _Call] = {}
        self._says_nothing = True
        """Whether nothing has come that a user could read."""
        self._compacts = False
        self.is_silent = True
        """Whether the provider is waited for, in asyncio: nothing is being carried out then."""
        self._reason = ""
        self._usage: Usage | None = None
        self._unseen = 0
        self._looked = monotonic()

    def looks(self) -> bool:
        """Return whether it is time to look for an interrupt, behind this chunk."""
        self._unseen += 1
        if self._unseen < LOOK_CHUNKS and monotonic() - self._looked < LOOK_SECONDS:
            return False
        self._unseen, self._looked = 0, monotonic()
        return True

    def read(self, chunk: Any) -> list[Step]:
        """Return the steps of a chunk; see `AnswerReader.take` for its errors."""
        return self._reader.take(plain(chunk))

    def waits(self, steps: Sequence[Step]) -> bool:
        """Return whether carrying out these steps may wait for the disk."""
        if self._stream is None:
            return any(type(step) is Answered for step in steps)
        return any(type(step) is not Said or (step.kind, step.part) != self._place for step in steps)

    def carry_out(self, steps: Iterable[Step]) -> None:
        """Carry out steps, in order."""
        for step in steps:
            if type(step) is Said:
                stream = self._stream
                if stream is None or (step.kind, step.part) != self._place:
                    stream = self._begin(step)
                if step.text:
                    stream.append(step.text)
                    if self._says_nothing and step.kind == "text":
                        self._says_nothing = step.text.isspace()
            elif type(step) is Argued:
                call = self._calls[step.key]
                call.pieces.append(step.text)
                call.handle.stream_input(step.text)
            else:
                self._carry_out(step)

    def _carry_out(self, step: Step) -> None:
        match step:
            case Closed():
                self._close(step.metadata)
            case Called():
                self._close()
                self._calls[step.key] = _Call(
                    self.reply.tool(
                        step.tool, call_id=step.id, provider_executed=step.by_provider, metadata=step.metadata
                    )
                )
            case Answered():
                self._answer(step)
            case Attached():
                self._close()
                self._says_nothing = False
                self.reply.part(step.file)
            case Compacted():
                self._close()
                self._compacts = True
                self.reply.part(Opaque(step.kind, step.data, self.reply.target, step.text))
            case Kept():
                self.reply.record_custom(step.kind, step.data)
            case Used():
                self._usage = self.reply.told = step.usage
            case Ended():
                self._reason = step.reason
            case _:
                raise AssertionError(step)

    def _begin(self, said: Said) -> TextStream:
        self._close()
        self._place = (said.kind, said.part)
        stream = self.reply.stream_reasoning() if said.kind == "reasoning" else self.reply.stream_text()
        self._stream = stream
        if self.reply.api != self._reader.api:
            self.reply.api = self._reader.api
        return stream

    def _close(self, metadata: Json | None = None) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.end(metadata)

    def _answer(self, step: Answered) -> None:
        """Record the result of a call that the provider ran; another call's is kept aside."""
        call = self._calls.get(step.key)
        if call is None or not call.handle.provider_executed or call.is_answered:
            self.reply.record_custom("provider.result", dump({"call": str(step.key), "output": step.output}))
            return
        call.is_answered = True
        call.handle.start(call.input)
        if step.failed:
            call.handle.fail(step.output)
        else:
            call.handle.succeed(step.output)

    def end(self) -> Filled:
        """End the step, and the reply unless a call of the program waits."""
        self.carry_out(self._reader.end())
        if self._whole and not self._reason:
            raise ConnectionError("the answer broke off: its stream ended without a finish reason")
        self.reply.api = self._reader.api
        self._close()
        reason = self._reason or UNKNOWN
        calls = [call for call in self._calls.values() if not call.is_answered]
        self.reply.end_step(reason, usage=self._usage)
        waiting = [call.handle for call in calls if self._is_waiting(call)]
        if reason == FILTERED and self._says_nothing and not self._calls:
            self.reply.abort(MessageError(FILTERED, WITHHELD))
        elif not waiting:
            self.reply.is_empty = self._says_nothing and reason != "stop" and not self._compacts
            self.reply.finish("tool-calls" if any(not call.handle.provider_executed for call in calls) else reason)
        return Filled(reason, self._usage, tuple(waiting))

    @staticmethod
    def _is_waiting(call: _Call) -> bool:
        """Return whether the program has to run a call; one without whole arguments fails."""
        text = "".join(call.pieces)
        if call.handle.provider_executed:
            call.handle.fail(interrupted=True)
            return False
        if is_whole(text):
            return True
        call.handle.start("{}")
        call.handle.fail(not_whole(text))
        return False

    def stop(self) -> Filled:
        """Abort the reply as far as it came: the user asked for a stop."""
        self.reply.abort()
        return Filled(ABORTED, self._usage)


def is_whole_answer(answer: object) -> bool:
    """Return whether an answer is whole: a mapping or a model of a provider's package."""
    return isinstance(answer, Mapping) or hasattr(answer, "model_dump")


def chunks_of(answer: object) -> Iterable[Any]:
    """Return the chunks of an answer: itself, if it is whole."""
    if is_whole_answer(answer):
        return [answer]
    if isinstance(answer, AsyncIterable):
        raise CallError("an answer is iterable, not an async iterable; `AsyncReply.fill` takes one of asyncio")
    require(Iterable, answer, "an answer is an iterable of chunks, or a whole one")
    return cast("Iterable[Any]", answer)


def fill_with(filling: Filling, chunks: Iterable[Any]) -> Filled:
    """Fill a reply with the chunks of an answer; an error leaves it open."""
    for chunk in chunks:
        filling.carry_out(filling.read(chunk))
        if filling.looks() and filling.reply.interrupt_requested:
            close = getattr(chunks, "close", None)
            if close is not None:
                close()
            return filling.stop()
    return filling.end()
