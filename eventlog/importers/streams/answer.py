"""One answer of a recorded stream: the steps of a reader, as events.

`eventlog.session.filling` does with a live answer what this does with a recorded one. Parts are
named `MESSAGE:NUMBER`, in order. A call that the program has to run stays pending, and its message
open, as in a live answer; so does a message whose stream breaks off. Nothing else is invented.
"""

from __future__ import annotations

from eventlog import events as ev
from eventlog.importers.common.conversation_parts import added, purpose_of
from eventlog.importers.common.importer import Report, own_id
from eventlog.importers.streams.session import StreamSession
from eventlog.streams.answer import API, AnswerReader
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
from eventlog.values import (
    INTERRUPTED,
    File,
    MessageError,
    Model,
    Opaque,
    PartKind,
    Reasoning,
    Text,
    Tokens,
    Tool,
    Usage,
    target_of,
)

_EXPECTED = frozenset(
    {
        "anthropic.stop_details", "google.grounding", "google.promptFeedback", "openai.mcp_approval_request",
        "openai.mcp_list_tools",
    }
)  # fmt: skip
"""Kinds of `Kept` that the report does not list."""


class ImportedCall:
    """A call of the answer, and its arguments so far."""

    def __init__(self, answer: ImportedAnswer, part: str, *, by_provider: bool) -> None:
        self.answer = answer
        self.part = part
        self.by_provider = by_provider
        self.pieces: list[str] = []
        self.has_result = False


class ImportedAnswer:
    """An answer, whose message begins with `begin`."""

    def __init__(self, session: StreamSession, api: API, hosted: dict[object, ImportedCall]) -> None:
        """`hosted` has the calls of earlier answers that the provider runs, by their keys."""
        self.session = session
        self.report: Report = session.report
        self.reader: AnswerReader = AnswerReader(api)
        self.message: str = ""
        """Its id here; "" while it has not begun."""
        self.foreign: str = ""
        """Its id in the stream."""
        self.is_done: bool = False
        self.touched: str = ""
        """The part that the newest event is of."""
        self._model: Model | None = None
        self._hosted = hosted
        self._open = ""
        self._place: tuple[str, object] = ("", None)
        """Kind and part of the open text."""
        self._parts = 0
        self._calls: list[ImportedCall] = []
        self._by_key: dict[object, ImportedCall] = {}
        self._ids: set[str] = set()
        self._says_nothing = True
        self._reason = ""
        self._usage: Usage | None = None
        self._recorded = Usage(Tokens())

    def begin(self, line: int, id: str, model: Model | None) -> None:
        """Begin the message; `id` is that of the stream, "" if it has none."""
        self.foreign, self._model = id, model
        self.message = self.session.new_id(id or f"message-{line}")
        self.session.rests.begin()
        self.session.add(ev.AssistantMessageStarted(self.message, model=model))
        self.session.add(ev.StepStarted(self.message, own_id(self.message, "step")))
        self.report.messages += 1

    def part_of(self, item: object) -> str:
        """Return the part of the call with this key, else of the newest call; "" without one."""
        call = self._by_key.get(item) or (self._calls[-1] if self._calls else None)
        return "" if call is None else call.part

    # -- steps -------------------------------------------------------------------------------------

    def carry_out(self, line: int, step: Step) -> None:
        """Add the events of a step."""
        match step:
            case Said():
                self._say(step)
            case Closed():
                self._close(step.metadata)
            case Called():
                self._call(line, step)
            case Argued():
                self._argue(line, step)
            case Answered():
                self._answer(line, step)
            case Attached():
                self._close()
                self._says_nothing = False
                url = step.file.url if isinstance(step.file.url, str) else ""
                self.session.rests.hold(url)
                self.session.rests.hold(url.partition(",")[2])
                self._start(File(step.file.mime, self.session.batch.content(url), step.file.filename))
            case Compacted():
                self._compact(step)
            case Kept():
                self._keep(line, step)
            case Used():
                self._usage = step.usage
                if self.is_done:
                    self._record_usage()
            case Ended():
                self._reason = step.reason

    def _start(self, kind: PartKind) -> str:
        part = self.touched = own_id(self.message, str(self._parts))
        self._parts += 1
        self.report.parts += 1
        self.session.add(ev.PartStarted(self.message, part, kind))
        return part

    def _delta(self, part: str, field: str, text: str) -> None:
        self.touched = part
        self.session.add(ev.PartDelta(part, field, text))
        self.session.rests.add(part, text)

    def _say(self, said: Said) -> None:
        if not self._open or (said.kind, said.part) != self._place:
            self._close()
            self._says_nothing = self._says_nothing and said.kind != "text"
            self._place = (said.kind, said.part)
            self._open = self._start(Reasoning() if said.kind == "reasoning" else Text())
        if said.text:
            self._delta(self._open, "text", said.text)

    def _close(self, metadata: str | None = None) -> None:
        part, self._open = self._open, ""
        if part:
            self.touched = part
            self.session.add(ev.PartEnded(part, metadata))
            self.session.rests.hold_json(metadata)

    def _call(self, line: int, called: Called) -> None:
        self._close()
        id, number = called.id, 1
        while id in self._ids:
            number += 1
            id = f"{called.id}#{number}"
        if number > 1:
            self.report.skip(line, "a second call with the same id in one message: its id was changed")
        self._ids.add(id)
        part = self._start(Tool(id, called.tool, called.by_provider, called.metadata))
        call = self._by_key[called.key] = ImportedCall(self, part, by_provider=called.by_provider)
        self._calls.append(call)
        if called.by_provider:
            self._hosted[called.key] = call

    def _argue(self, line: int, step: Argued) -> None:
        call = self._by_key.get(step.key)
        if call is None or call.has_result:
            self._keep(line, Kept("provider.arguments", dump({"call": str(step.key), "arguments": step.text})))
            return
        call.pieces.append(step.text)
        self._delta(call.part, "input", step.text)
        if is_whole(step.text):
            self.session.rests.hold_json(step.text)

    def _answer(self, line: int, step: Answered) -> None:
        """Add the result of a call that the provider ran, in this answer or an earlier one."""
        call = self._hosted.pop(step.key, None)
        if call is None:
            self._keep(line, Kept("provider.result", dump({"call": str(step.key), "output": step.output})))
            return
        call.has_result = True
        self.touched = call.part
        output = self.session.batch.content(step.output)
        self.session.rests.hold_json(step.output)
        given = self.session.batch.content(input_of("".join(call.pieces)))
        self.session.add(ev.ToolRunning(call.part, given))
        self.session.add(ev.ToolFailed(call.part, output) if step.failed else ev.ToolCompleted(call.part, output))
        if call.answer.is_done:
            call.answer.finish()

    def _compact(self, step: Compacted) -> None:
        """Add a compaction of the provider's."""
        self._close()
        self.session.rests.hold_json(step.data)
        content = self.session.batch.content
        text = None if step.text is None else content(step.text)
        self._start(Opaque(step.kind, content(step.data), target_of(self._model), text))

    def _keep(self, line: int, kept: Kept) -> None:
        self.session.add(ev.Custom(kept.kind, kept.data))
        self.session.rests.hold_json(kept.data)
        if kept.kind not in _EXPECTED:
            self.report.skip(line, f"no part of a message: {kept.kind[:60]}")

    # -- the end -----------------------------------------------------------------------------------

    def end(self, line: int) -> None:
        """End the step, and the message unless a call waits; the reason may be unknown."""
        for step in self.reader.end():
            self.carry_out(line, step)
        self._close()
        self._reason = self._reason or UNKNOWN
        self._finish_step(self._reason)
        for call in self._calls:
            text = "".join(call.pieces)
            if not call.by_provider and not is_whole(text):
                self.report.skip(line, "a call whose input is not whole: it did not run")
                call.has_result = True
                self.session.add(ev.ToolRunning(call.part, "{}"))
                self.session.add(ev.ToolFailed(call.part, self.session.batch.content(not_whole(text))))
        self.finish()

    def finish(self) -> None:
        """Finish the message unless a call waits for its result."""
        if self._reason == FILTERED and self._says_nothing and not self._calls:
            self.session.add(ev.MessageFinished(self.message, None, MessageError(FILTERED, WITHHELD)))
        elif all(call.has_result for call in self._calls):
            called = any(not call.by_provider for call in self._calls)
            self.session.add(ev.MessageFinished(self.message, "tool-calls" if called else self._reason))

    def fail(self, error: MessageError) -> None:
        """Fail the message: the provider's error came in place of its rest."""
        self._close()
        for call in self._calls:
            if not call.has_result:
                self.session.add(ev.ToolFailed(call.part, INTERRUPTED, interrupted=True))
        for key in [key for key, call in self._hosted.items() if call.answer is self]:
            del self._hosted[key]
        self._finish_step("error", failed=True)
        self.session.add(ev.MessageFinished(self.message, "error", error))

    def _finish_step(self, reason: str, *, failed: bool = False) -> None:
        self.is_done = True
        self.session.add(ev.StepFinished(self.message, own_id(self.message, "finish"), reason))
        self._record_usage(failed=failed)

    def _record_usage(self, *, failed: bool = False) -> None:
        """Record the usage of the step, and later the difference that a correction makes."""
        usage, self._usage = self._usage, None
        more = None if usage is None else added(self._recorded, usage)
        if usage is not None and more is not None:
            purpose = purpose_of(self._recorded)
            self._recorded = usage
            step = own_id(self.message, "finish")
            self.session.add(ev.UsageRecorded(more, self.message, step, self._model, purpose, failed))
