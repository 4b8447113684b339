"""A foreign conversation as it is read, one record after the other: open answers, open calls, and the events they mean.

The importers decide what a record says.  Everything here depends on earlier
records alone, so that a grown file gives the old events as a prefix; nothing is closed because the file ends.

* An *answer* is an assistant message with one step.  It is open until something comes that is not of it.  With calls that
  have no result yet it stays open then, because a result may still come; at most `MAX_OPEN` such answers are waited for.
* A call's input is complete at birth.  Ids of calls are unique within an answer only: a result goes to the newest call of its id.
* A result that comes before its call is held, and said right after it; one that comes when the call was taken for
  interrupted completes it late.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from eventlog import events as ev
from eventlog.importers.common.early_results import EarlyResults
from eventlog.importers.common.importer import Report, bounded_id
from eventlog.importers.common.record_index import RecordIndex
from eventlog.importers.common.session_pieces import SessionPieces
from eventlog.values import INTERRUPTED, Attachment, Body, File, Json, MessageError, Model, Reasoning, Text, Tool, Usage

__all__ = ["ABORTED", "CallInput", "CallResult", "Conversation", "OpenAnswer", "OpenCall", "UserPart"]

MAX_OPEN = 8
"""How many answers with calls that have no result are waited for."""
MAX_LATE = 1024
"""How many calls that were taken for interrupted a late result may still come for."""
ABORTED = MessageError("aborted", "interrupted by the user")


class UserPart(NamedTuple):
    """A part of a user message, and the text of the record that it holds, in the field that `remainder.py` knows it by."""

    kind: Text | File
    held: str = ""
    field: str = ""


class CallInput(NamedTuple):
    """A call's input: JSON text, and the value of the record that it holds."""

    text: str
    held: object = None
    field: str = ""


class CallResult(NamedTuple):
    """What a call gave back."""

    output: str
    failed: bool = False
    interrupted: bool = False
    metadata: Json | None = None
    attachments: tuple[Attachment, ...] = ()


class _Early(NamedTuple):
    """A result that came before its call, with the bodies of its attachments."""

    result: CallResult
    bodies: dict[bytes, bytes]


class OpenAnswer(msgspec.Struct, eq=False):
    """An assistant message that is not finished."""

    id: str
    time: int
    model: Model | None
    calls: set[str] = msgspec.field(default_factory=set[str])
    """Calls without a result."""
    known: set[str] = msgspec.field(default_factory=set[str])
    """All its calls."""
    reason: str | None = None
    """Why the model stopped, as far as the source says."""


class OpenCall(msgspec.Struct, eq=False):
    """A call that has no result yet."""

    part: str
    answer: OpenAnswer
    tool: str
    input: str


class Conversation(SessionPieces):
    """The state of one session while its file is read, and the batch that is being filled."""

    def __init__(self, session: str, report: Report, started: ev.SessionStarted, time: int) -> None:
        super().__init__(session, report, started.title)
        self.open: OpenAnswer | None = None
        self.latest: OpenAnswer | None = None
        """The newest answer, open or not."""
        self.waiting: list[OpenAnswer] = []
        self.calls: dict[str, OpenCall] = {}
        self.interrupted: dict[str, OpenCall] = {}
        """The newest calls that were taken for interrupted: a late result may come."""
        self.early: EarlyResults[_Early] = EarlyResults(report)
        self._called = RecordIndex()
        """Ids of all calls."""
        self.last_user: str | None = None
        self.add(time, started)

    # -- closing -------------------------------------------------------------------------------

    def supersede(self) -> None:
        """Something comes that is not of the open answer: finish it if its calls have results."""
        answer, self.open = self.open, None
        if answer is None:
            return
        if not answer.calls:
            self._finish(answer, None)
            return
        self.waiting.append(answer)
        if len(self.waiting) > MAX_OPEN:
            self._interrupt(self.waiting.pop(0), None)

    def interrupt_all(self, error: MessageError | None) -> None:
        """Finish what is open; calls without a result were interrupted."""
        answer, self.open = self.open, None
        for waiting in self.waiting:
            self._interrupt(waiting, None)
        self.waiting = []
        if answer is not None:
            self._interrupt(answer, error)

    def forget(self) -> None:
        """What is open is on a branch that was left: it stays as it is."""
        self.open = self.latest = self.last_user = None
        self.waiting.clear()
        self.calls.clear()
        self.interrupted.clear()

    def _interrupt(self, answer: OpenAnswer, error: MessageError | None) -> None:
        for name in sorted(answer.calls):
            call = self.calls.get(name)
            if call is not None and call.answer is answer:
                del self.calls[name]
                self.add(answer.time, ev.ToolFailed(call.part, INTERRUPTED, interrupted=True))
                self.interrupted[name] = call
                if len(self.interrupted) > MAX_LATE:
                    del self.interrupted[next(iter(self.interrupted))]
        self._finish(answer, error)

    def _finish(self, answer: OpenAnswer, error: MessageError | None) -> None:
        """Close an answer; its time is that of its newest record."""
        reason = answer.reason or ("error" if error else "tool-calls" if answer.known else "stop")
        self.add(answer.time, ev.StepFinished(answer.id, _own(answer.id, "finish"), reason))
        self.add(answer.time, ev.MessageFinished(answer.id, None if error == ABORTED else reason, error))

    # -- messages ------------------------------------------------------------------------------

    def user(self, time: int, event: ev.UserMessageAdded, said: Iterable[UserPart]) -> None:
        """A user message of these parts; what is open before it is over."""
        self.supersede()
        self.add(time, event)
        self.last_user = event.message
        self.report.messages += 1
        for number, part in enumerate(said):
            if part.held:
                self.remainder.move(part.held, part.field)
            self.add(time, ev.PartStarted(event.message, _own(event.message, str(number)), part.kind))
            self.report.parts += 1

    def answer(self, time: int, event: ev.AssistantMessageStarted) -> OpenAnswer:
        """A new assistant message; what is open before it is over."""
        self.supersede()
        self.add(time, event)
        self.add(time, ev.StepStarted(event.message, _own(event.message, "step")))
        self.report.messages += 1
        self.open = self.latest = OpenAnswer(event.message, time, event.model)
        return self.open

    def text(self, time: int, part: str, text: str, metadata: Json | None = None, *, held: bool = True) -> None:
        """A whole text in the open answer; `held` is False when the record has it in another form."""
        if held:
            self.remainder.move(text, "text")
        self._part(time, part, Text(self.batch.content(text)), metadata)

    def reasoning(self, time: int, part: str, text: str, metadata: Json | None = None, secret: str = "") -> None:
        """A whole piece of reasoning in the open answer; `secret` is the text of the record that the metadata hold."""
        self.remainder.move(text, "text")
        self._part(time, part, Reasoning(self.batch.content(text)), metadata, secret)

    def _part(self, time: int, part: str, kind: Text | Reasoning, metadata: Json | None, secret: str = "") -> None:
        answer = self.open
        assert answer is not None
        answer.time = time
        self.add(time, ev.PartStarted(answer.id, part, kind))
        if secret:
            self.remainder.move(secret, "secret" if metadata and metadata.startswith('{"openai"') else "signature")
        self.add(time, ev.PartEnded(part, metadata))
        self.report.parts += 1

    def complete(self, time: int, part: str, kind: File) -> None:
        """A part of the open answer that is complete at birth; the caller says what it holds."""
        answer = self.open
        assert answer is not None
        answer.time = time
        self.add(time, ev.PartStarted(answer.id, part, kind))
        self.report.parts += 1

    def usage(self, time: int, usage: Usage, *, failed: bool = False) -> None:
        """What the newest answer cost."""
        answer = self.latest
        if answer is None:
            self.add(time, ev.UsageRecorded(usage, failed=failed))
            return
        step = _own(answer.id, "finish")
        self.add(time, ev.UsageRecorded(usage, answer.id, step, answer.model, failed=failed))

    # -- calls ---------------------------------------------------------------------------------

    def call(self, time: int, part: str, kind: Tool, given: CallInput) -> OpenCall:
        """A call in the open answer, which has none of this id; an earlier call of the id is no longer waited for."""
        answer = self.open
        assert answer is not None
        answer.time = time
        answer.known.add(kind.call)
        self.add(time, ev.PartStarted(answer.id, part, kind))
        if given.field:
            if isinstance(given.held, str):
                self.remainder.move(given.held, given.field)
            else:
                self.remainder.move_value(given.held, given.field)
        self.add(time, ev.ToolRunning(part, self.batch.content(given.text)))
        self.report.parts += 1
        earlier = self.calls.pop(kind.call, None)
        if earlier is not None:
            earlier.answer.calls.discard(kind.call)
            self.add(time, ev.ToolFailed(earlier.part, INTERRUPTED, interrupted=True))
            self._answered(earlier.answer)
        found = self.calls[kind.call] = OpenCall(part, answer, kind.tool, given.text)
        self.interrupted.pop(kind.call, None)
        self._called.put(kind.call, 0)
        early = self.early.pop(kind.call)
        if early is None:
            answer.calls.add(kind.call)
            return found
        del self.calls[kind.call]
        self.batch.bodies.update(early.bodies)
        self.batch.weight += sum(map(len, early.bodies.values()))
        self._settle(time, found, early.result)
        return found

    def result(self, time: int, name: str, result: CallResult, *, held: bool = True) -> OpenCall | None:
        """The result of the newest call of this id; None when no such call waits for one.  `held` as in `text`."""
        late = name in self.interrupted
        call = self.interrupted.pop(name) if late else self.calls.pop(name, None)
        if call is None or (late and result.interrupted):
            return call
        call.answer.calls.discard(name)
        call.answer.time = time
        if held:
            self.remainder.move(result.output, "error" if result.failed else "output")
        self._settle(time, call, result)
        self._answered(call.answer)
        return call

    def hold(self, name: str, line: int | None, result: CallResult) -> bool:
        """Hold a result whose call has not come; False if it has, or has such a result.  `line` as in `EarlyResults`."""
        if not name or self._called.get(name) is not None:
            return False
        urls = [file.url for file in result.attachments]
        bodies = {url.digest: self.batch.bodies[url.digest] for url in urls if isinstance(url, Body)}
        size = len(result.output) + sum(url.size if isinstance(url, Body) else len(url) for url in urls)
        return self.early.hold(name, line, _Early(result, bodies), size)

    def _settle(self, time: int, call: OpenCall, result: CallResult) -> None:
        content = self.batch.content(result.output)
        if result.failed:
            self.add(time, ev.ToolFailed(call.part, content, result.interrupted, metadata=result.metadata))
        else:
            self.add(
                time,
                ev.ToolCompleted(call.part, content, metadata=result.metadata, attachments=result.attachments),
            )

    def _answered(self, answer: OpenAnswer) -> None:
        if not answer.calls and answer in self.waiting:
            self.waiting.remove(answer)
            self._finish(answer, None)

    # -- compaction ----------------------------------------------------------------------------

    def compact(self, time: int, message: str, *, auto: bool, before: int | None) -> str:
        """Everything so far is covered; the compaction's part is returned."""
        self.interrupt_all(None)
        part = _own(message, "compaction")
        self.add(time, ev.UserMessageAdded(message, synthetic=True))
        self.add(time, ev.CompactionRequested(message, part, auto))
        self.add(time, ev.CompactionStarted(part, tokens_before=before))
        self.report.messages += 1
        self.last_user = message
        return part

    def summary(self, time: int, part: str, message: str, kinds: Iterable[tuple[Text | Reasoning, str, str]]) -> None:
        """The summary of a compaction: its parts, each with the text of the record it holds and the field for it."""
        self.add(time, ev.AssistantMessageStarted(message, self.last_user, summary=True))
        self.report.messages += 1
        for number, (kind, held, field) in enumerate(kinds):
            body = _own(message, str(number))
            if held:
                self.remainder.move(held, field)
            self.add(time, ev.PartStarted(message, body, kind))
            self.add(time, ev.PartEnded(body))
            self.report.parts += 1
        self.add(time, ev.MessageFinished(message, "stop"))
        self.add(time, ev.CompactionCompleted(part, message))


def _own(owner: str, suffix: str) -> str:
    return bounded_id(f"{owner}:{suffix}")
