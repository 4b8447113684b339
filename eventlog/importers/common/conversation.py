"""A conversation while foreign records are told to it, with its open answers and calls.

Importers and mappings decide what a record means.  Everything here depends on earlier records
alone, so that the events of a grown file begin with those of the file before it grew.  Therefore
the end of the file closes nothing.

* An *answer* is an assistant message with one step.  It stays open until a record of another
  message comes, and longer while calls of it have no result: at most `MAX_OPEN` such answers wait.
* A call's input is complete when the call starts.  Call ids are unique within one answer only: a
  result belongs to the newest call with its id.
* A result that comes before its call is held and applied right after the call.  A result that
  comes after the call was closed as interrupted completes the call late.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from eventlog import events as ev
from eventlog.codec.surrogates import readable
from eventlog.importers.common.conversation_parts import (
    ABORTED,
    NOTHING_KEPT,
    UNREADABLE,
    CallInput,
    CallResult,
    EarlyResults,
    Kept,
    OpenAnswer,
    OpenCall,
    UserPart,
)
from eventlog.importers.common.importer import ImportBatch, Report, own_id
from eventlog.importers.common.record_index import RecordIndex
from eventlog.importers.common.remainder import Remainder
from eventlog.values import INTERRUPTED, File, Json, MessageError, Opaque, Reasoning, Text, Tool, Usage

MAX_OPEN = 8
"""Answers that may wait for results of their calls."""
MAX_DONE = 8192
"""Calls with a result that may be cleared: more than a window of the model holds."""
MAX_LATE = 1024
"""Interrupted calls that may still get a late result."""


class Conversation:
    """State of one session while its file is read, and the batch that is being filled."""

    def __init__(self, session: str, report: Report, started: ev.SessionStarted | None, time: int) -> None:
        """Begin a session, or, without its first event, go on in one."""
        self.session = session
        self.report = report
        self.title: str = "" if started is None else started.title
        self.remainder: Remainder = Remainder()
        self.batch: ImportBatch = ImportBatch(session)
        self.version: int = 0
        self.open: OpenAnswer | None = None
        self.latest: OpenAnswer | None = None
        """Newest answer, open or not."""
        self.waiting: list[OpenAnswer] = []
        """Older answers with calls that have no result."""
        self.calls: dict[str, OpenCall] = {}
        self.interrupted: dict[str, OpenCall] = {}
        """Newest calls that were closed as interrupted: a late result may come."""
        self.done: dict[str, str] = {}
        """Parts of the newest calls that have a result, "" once it is cleared."""
        self.early: EarlyResults = EarlyResults(report)
        self._call_ids = RecordIndex()
        """Ids of all calls."""
        self.last_user: str | None = None
        self.prompted = False
        """Whether a system prompt has come; see `has_prompt`."""
        self.compaction: tuple[str, str] | None = None
        """Part and message of a compaction whose summary comes with a later record."""
        self._before_compaction: str | None = None
        """The newest user message before a compaction was asked for."""
        if started is not None:
            self.add(time, started)

    # -- events --------------------------------------------------------------------------------

    def add(self, time: int, event: ev.Event) -> None:
        """Append an event of the record that is being read."""
        self.batch.items.append((time, event))
        self.version += 1
        self.remainder.count += 1

    def end_record(self, time: int, line: int, record: object) -> None:
        """End the record: store what no event has of it."""
        self.version += self.remainder.close(self.batch, time, line, record)

    def pop_batch(self) -> ImportBatch:
        """Return the batch filled so far and begin a new one."""
        batch, self.batch = self.batch, ImportBatch(self.session)
        return batch

    def rename(self, time: int, title: str, part: str | None = None) -> None:
        """Set the session's title, if it is a new one; `part` is the part that it quotes."""
        if title and readable(title) != readable(self.title_now()):
            self.title = title
            self.add(time, ev.SessionRenamed(title, part))

    def title_now(self) -> str:
        """Return the session's title."""
        return self.title

    def has_prompt(self) -> bool:
        """Whether the conversation has a system prompt."""
        return self.prompted

    # -- closing -------------------------------------------------------------------------------

    def supersede(self) -> None:
        """Finish the open answer, or let it wait for results: the next record is not of it."""
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
        """Finish all answers, the open one with the error; open calls fail as interrupted."""
        answer, self.open = self.open, None
        self._interrupt_waiting(None)
        if answer is not None:
            self._interrupt(answer, error)

    def abandon(self) -> None:
        """Leave open what is open: it is on a branch that the conversation left."""
        self.open = self.latest = self.last_user = None
        self.waiting.clear()
        self.calls.clear()
        self.interrupted.clear()

    def _interrupt_waiting(self, error: MessageError | None) -> None:
        for answer in self.waiting:
            self._interrupt(answer, error)
        self.waiting = []

    def _interrupt(self, answer: OpenAnswer, error: MessageError | None) -> None:
        for name in sorted(answer.calls):
            call = self.calls.get(name)
            if call is not None and call.answer is answer:
                self.add(answer.time, ev.ToolFailed(call.part, INTERRUPTED, interrupted=True))
                self.stands(name, call, "interrupted")
        self._finish(answer, error)

    def _finish(self, answer: OpenAnswer, error: MessageError | None) -> None:
        """Close an answer; without a reason in the file, the reason follows from what it has."""
        reason = answer.reason or ("error" if error else "tool-calls" if answer.call_ids else "stop")
        self._end_step(answer, reason)
        self.add(answer.time, ev.MessageFinished(answer.id, None if error == ABORTED else reason, error))

    def _end_step(self, answer: OpenAnswer, reason: str) -> None:
        self.add(answer.time, ev.StepFinished(answer.id, own_id(answer.id, f"finish{answer.finishes or ''}"), reason))

    def remove(self, time: int, message: str) -> bool:
        """Take a message out of the conversation: a file does not say which of its ids is which."""
        del time, message
        return False

    # -- messages ------------------------------------------------------------------------------

    def user(self, time: int, event: ev.UserMessageAdded, parts: Iterable[UserPart | None], title: str = "") -> None:
        """Add a user message of these parts, None for none; `title` names a session without one."""
        self.supersede()
        self.add(time, event)
        self.last_user = event.message
        self.report.messages += 1
        numbered = ((own_id(event.message, str(number)), part) for number, part in enumerate(parts) if part)
        for name, part in numbered:
            if part.held:
                self.remainder.move(part.held, part.field)
            self.add(time, ev.PartStarted(event.message, name, part.kind))
            self.report.parts += 1
            if title and not self.title_now() and title.removesuffix("…") in part.held:
                self.rename(time, title, name)

    def answer(self, time: int, event: ev.AssistantMessageStarted) -> OpenAnswer:
        """Begin an assistant message; the one before it is over."""
        self.supersede()
        self.add(time, event)
        self.add(time, ev.StepStarted(event.message, own_id(event.message, "step")))
        self.report.messages += 1
        self.open = self.latest = OpenAnswer(event.message, time, event.model)
        return self.open

    def text(self, time: int, part: str, text: str, metadata: Json | None = None) -> None:
        """Add a whole text to the open answer."""
        self.remainder.move(text, "text")
        self._add_part(time, part, Text(self.batch.content(text)), metadata)

    def reasoning(self, time: int, part: str, text: str, metadata: Json | None = None, secret: str = "") -> None:
        """Add whole reasoning to the open answer; `metadata` hold the record's text `secret`."""
        self.remainder.move(text, "text")
        self._add_part(time, part, Reasoning(self.batch.content(text)), metadata, secret)

    def _add_part(self, time: int, part: str, kind: Text | Reasoning, metadata: Json | None, secret: str = "") -> None:
        self.complete(time, part, kind)
        if secret:
            self.remainder.move(secret, "secret" if metadata and metadata.startswith('{"openai"') else "signature")
        self.add(time, ev.PartEnded(part, metadata))

    def complete(self, time: int, part: str, kind: Text | Reasoning | File | Tool | Opaque) -> OpenAnswer:
        """Start a part of the open answer; a file or a compaction is complete with it."""
        answer = self.open
        assert answer is not None
        answer.time = time
        answer.parts += 1
        self.add(time, ev.PartStarted(answer.id, part, kind))
        self.report.parts += 1
        return answer

    def usage(self, time: int, usage: Usage, *, failed: bool = False, purpose: str = "turn") -> None:
        """Record the usage of the newest answer."""
        answer = self.latest
        if answer is None:
            self.add(time, ev.UsageRecorded(usage, purpose=purpose, failed=failed))
            return
        step = own_id(answer.id, "finish")
        self.add(time, ev.UsageRecorded(usage, answer.id, step, answer.model, purpose, failed))

    # -- calls ---------------------------------------------------------------------------------

    def stands(self, name: str, call: OpenCall, status: Literal["running", "interrupted", "done"]) -> None:
        """Note how the newest call of an id stands now."""
        self.calls.pop(name, None)
        self.interrupted.pop(name, None)
        self.done.pop(name, None)
        if status == "running":
            self.calls[name] = call
        elif status == "interrupted":
            self.interrupted[name] = call
            if len(self.interrupted) > MAX_LATE:
                del self.interrupted[next(iter(self.interrupted))]
        else:
            self.done[name] = call.part
            if len(self.done) > MAX_DONE:
                del self.done[next(iter(self.done))]

    def call(self, time: int, part: str, kind: Tool, given: CallInput) -> OpenCall:
        """Add a call to the open answer, which has none with this id.

        An older call with the id gets no result any more; a result that came early is applied.
        """
        answer = self.complete(time, part, kind)
        answer.call_ids.add(kind.call)
        if given.field:
            if isinstance(given.held, str):
                self.remainder.move(given.held, given.field)
            else:
                self.remainder.move_value(given.held, given.field)
        self.add(time, ev.ToolRunning(part, self.batch.content(given.text)))
        older = self.calls.get(kind.call)
        if older is not None:
            older.answer.calls.discard(kind.call)
            self.add(time, ev.ToolFailed(older.part, INTERRUPTED, interrupted=True))
            self.stands(kind.call, older, "interrupted")
            self._finish_answered(older.answer)
        call = OpenCall(part, answer, kind.tool, given.text)
        self.stands(kind.call, call, "running")
        self._call_ids.put(kind.call, 0)
        early = self.early.pop(kind.call)
        if early is None:
            answer.calls.add(kind.call)
            return call
        self.batch.bodies.update(early.bodies)
        self.batch.weight += sum(map(len, early.bodies.values()))
        self._complete(time, kind.call, call, early.result)
        return call

    def result(
        self, time: int, name: str, result: CallResult, *, held: bool = True, metadata: object = None
    ) -> OpenCall | None:
        """Complete the newest call with this id; return None when no call waits for a result.

        `held` is False when the record has the output in another form; `metadata` is the value of
        the record that the result's metadata hold.
        """
        late = name in self.interrupted
        call = self.interrupted.get(name) if late else self.calls.get(name)
        if call is None:
            return None
        if late and result.interrupted:
            del self.interrupted[name]
            return call
        call.answer.calls.discard(name)
        call.answer.time = time
        if held:
            self.remainder.move(result.output, "error" if result.failed else "output")
            if metadata is not None:
                self.remainder.move_value(metadata, "metadata")
        self._complete(time, name, call, result)
        self._finish_answered(call.answer)
        return call

    def has_called(self, name: str) -> bool:
        """Whether a call with this id has come."""
        return self._call_ids.get(name) is not None

    def hold(self, name: str, line: int | None, result: CallResult) -> bool:
        """Hold a result until its call comes; `line` as in `EarlyResults.hold`.

        False if the call has come, or another result is held for it.
        """
        if not name or self.has_called(name):
            return False
        return self.early.hold(name, line, result, self.batch.bodies)

    def _complete(self, time: int, name: str, call: OpenCall, result: CallResult) -> None:
        call.result = result
        self.stands(name, call, "done")
        content = self.batch.content(result.output)
        if result.failed:
            self.add(time, ev.ToolFailed(call.part, content, result.interrupted, metadata=result.metadata))
        else:
            metadata, files = result.metadata, result.attachments
            self.add(time, ev.ToolCompleted(call.part, content, metadata=metadata, attachments=files))

    def _finish_answered(self, answer: OpenAnswer) -> None:
        """Finish an answer that waits no longer: all its calls have results."""
        if not answer.calls and answer in self.waiting:
            self.waiting.remove(answer)
            self._finish(answer, None)

    def tool_of(self, call: OpenCall) -> str:
        """Return the tool of a call."""
        return call.tool

    def spent(self, answer: OpenAnswer) -> Usage:
        """Return the usage that was recorded for an open answer, by a mapping that sets it."""
        return answer.usage

    # -- compaction ----------------------------------------------------------------------------

    def holds(self, message: str) -> bool:
        """Whether a message that was told is in the conversation now."""
        del message
        return True

    def prune(self, time: int, calls: Iterable[str], policy: str, freed: int) -> None:
        """Clear the results of these calls, those that have one which is not cleared."""
        parts = {name: part for name in calls if (part := self.prunable(name))}
        if parts:
            for name, part in parts.items():
                self.clear(name, part)
            self.add(time, ev.Pruned(tuple(parts.values()), policy, freed))

    def clear(self, name: str, part: str) -> None:
        """Note that the result of the newest call of an id is cleared."""
        del part
        self.done[name] = ""

    def prunable(self, call: str) -> str:
        """Return the part of the newest call of this id, "" if no result of it can be cleared."""
        return self.done.get(call, "")

    def compact(self, time: int, message: str, *, auto: bool, before: int | None, kept: Kept = NOTHING_KEPT) -> str:
        """Begin a compaction of all but `kept` so far, asked for by `message`; return its part."""
        self.interrupt_all(None)
        part = own_id(message, "compaction")
        self.add(time, ev.UserMessageAdded(message, synthetic=True))
        self.add(time, ev.CompactionRequested(message, part, auto))
        self.add(time, ev.CompactionStarted(part, tail=kept.tail, tokens_before=before, kept=kept.messages))
        self.report.messages += 1
        self._before_compaction, self.last_user = self.last_user, message
        return part

    def summary(
        self, time: int, part: str, asked: str, message: str, kinds: Iterable[tuple[Text | Reasoning, str, str]]
    ) -> bool:
        """Complete the compaction that message `asked` asked for with the summary `message`.

        `kinds` are the summary's parts, each with the text of the record it holds and its field.
        Without a text that can be read the compaction fails, for its messages stand for nothing:
        False.
        """
        is_readable = False
        self.add(time, ev.AssistantMessageStarted(message, asked, summary=True))
        self.report.messages += 1
        for number, (kind, held, field) in enumerate(kinds):
            body = own_id(message, str(number))
            is_readable = is_readable or (isinstance(kind, Text) and bool(held.strip()))
            if held:
                self.remainder.move(held, field)
            self.add(time, ev.PartStarted(message, body, kind))
            self.add(time, ev.PartEnded(body))
            self.report.parts += 1
        self.add(time, ev.MessageFinished(message, "stop"))
        if is_readable:
            self.add(time, ev.CompactionCompleted(part, message))
        else:
            self.add(time, ev.CompactionFailed(part, UNREADABLE, message))
            self.last_user = self._before_compaction or self.last_user
        return is_readable
