"""One session of a Claude Code file as it is read: its open messages, its calls, and the events its records mean.

`importer.py` decides whose record it is.  Everything here depends on earlier records alone, so
that a grown file gives the old events as a prefix; therefore nothing is closed because the file ends.

* An assistant message is open until a record comes that is not of it.  With calls that have no result yet it stays
  open then, because a result may still come; at most `MAX_OPEN` such messages are waited for.
* A call and its result may come in either order.  A result before its call is held, and said right after it; one that
  comes when the call was taken for interrupted completes it late.
* A message's usage is the sum of its `UsageRecorded`: Claude Code repeats the usage on every record of a message and
  corrects it upward, so the first record gives the event, and later ones give the difference, if there is one.
* Messages are counted as *nodes*.  A new message whose parent is not in the newest node is a branch: the versions up
  to then become a fork, and this session is rolled back to the end of the parent's node and goes on with the new
  branch, as Claude Code itself does.
"""

from __future__ import annotations

from array import array
from typing import Any

from eventlog import events as ev
from eventlog.importers.anthropic import blocks
from eventlog.importers.claude_code.open_messages import Call, Early, Open, own_id, todos_of
from eventlog.importers.common.early_results import EarlyResults
from eventlog.importers.common.importer import ImportBatch, Report, bounded_id
from eventlog.importers.common.json_lines import dump, is_array, is_object
from eventlog.importers.common.record_index import RecordIndex
from eventlog.importers.common.session_pieces import SessionPieces
from eventlog.importers.common.usage import added, price
from eventlog.values import INTERRUPTED, File, MessageError, Model, Reasoning, Text, Tool, Usage

__all__ = ["INTERRUPT", "Thread"]

MAX_OPEN = 8
"""How many messages with unanswered calls are waited for."""
MAX_LATE = 1024
"""How many calls that were taken for interrupted a late result may still come for."""
MAX_INLINE = 1024
"""Longest JSON text of tool metadata that is kept in an event."""
INTERRUPT = "[Request interrupted by user"


class Thread(SessionPieces):
    """The state of one session while its file is read, and the batch that is being filled."""

    def __init__(self, session: str, number: int, report: Report, started: ev.SessionStarted, time: int) -> None:
        super().__init__(session, report, started.title)
        self.number = number
        self.ends = array("Q")
        """Version at the end of each node but the newest."""
        self.tip = ""
        """Key of the newest record of the conversation."""
        self.open: Open | None = None
        self.waiting: list[Open] = []
        self.calls: dict[str, Call] = {}
        self.interrupted: dict[str, Call] = {}
        """The newest calls that were taken for interrupted: a late result may come."""
        self.early: EarlyResults[Early] = EarlyResults(report)
        self.arrived: list[str] = []
        """Keys of the records whose early results a record has just given a call."""
        self._called = RecordIndex()
        """Ids of all calls."""
        self.compaction: tuple[str, str] | None = None
        """The part and message of a compaction whose summary has not come."""
        self.last_user: str | None = None
        self.branch: str | None = None
        self.add(time, started)

    # -- branches ------------------------------------------------------------------------------

    @property
    def node(self) -> int:
        """Number of the newest node; node 0 is what stands before the first message."""
        return len(self.ends)

    def begin_node(self, key: str) -> None:
        """A new message begins."""
        self.ends.append(self.version)
        self.tip = key

    def branch_off(self, time: int, node: int, key: str) -> ImportBatch:
        """A new message begins on another branch: return the fork that keeps this one, and go back to the end of `node`.

        Calls of the branch that is left are no longer waited for.
        """
        self.supersede()
        fork = ImportBatch(bounded_id(f"{self.session}:{self.tip}"))
        fork.add(time, ev.SessionForked(self.session, self.version, title=self.title))
        self.begin_node(key)
        self.add(time, ev.RolledBack(self.ends[node]))
        self.waiting = [message for message in self.waiting if message.node <= node]
        self.calls = {name: call for name, call in self.calls.items() if call.message.node <= node}
        self.interrupted = {name: call for name, call in self.interrupted.items() if call.message.node <= node}
        self.compaction = self.last_user = None
        return fork

    # -- closing -------------------------------------------------------------------------------

    def supersede(self) -> None:
        """Another message begins, or the turn is over: finish the open one if its calls have results."""
        message, self.open = self.open, None
        if message is None:
            return
        if not message.calls:
            self.finish(message)
            return
        self.waiting.append(message)
        if len(self.waiting) > MAX_OPEN:
            self.interrupt(self.waiting.pop(0), None)

    def interrupt_all(self, error: MessageError | None) -> None:
        """Finish what is open; calls without a result were interrupted."""
        message, self.open = self.open, None
        for waiting in [*self.waiting, *([message] if message else [])]:
            self.interrupt(waiting, error)
        self.waiting = []

    def interrupt(self, message: Open, error: MessageError | None) -> None:
        """Finish one message; its calls without a result were interrupted."""
        for name in sorted(message.calls):
            call = self.calls.get(name)
            if call is not None and call.message is message:
                del self.calls[name]
                self.add(message.time, ev.ToolFailed(call.part, INTERRUPTED, interrupted=True))
                self.interrupted[name] = call
                if len(self.interrupted) > MAX_LATE:
                    del self.interrupted[next(iter(self.interrupted))]
        self.finish(message, error)

    def finish(self, message: Open, error: MessageError | None = None) -> None:
        """Close an assistant message; its time is that of its newest record."""
        self.add(message.time, ev.StepFinished(message.id, own_id(message.id, "finish"), message.reason or ""))
        self.add(message.time, ev.MessageFinished(message.id, message.reason, error))

    # -- the session -----------------------------------------------------------------------------

    def on_branch(self, time: int, branch: object) -> None:
        """The git branch the record was written on, noted when it changes."""
        if isinstance(branch, str) and branch and branch != self.branch:
            self.branch = branch
            self.add(time, ev.MetadataSet("git_branch", dump(branch)))

    # -- user messages ---------------------------------------------------------------------------

    def user(self, time: int, line: int, message: str, record: dict[str, Any], content: list[Any]) -> None:
        """A user message of the blocks in `content`; the caller has begun its node."""
        synthetic = bool(record.get("isMeta"))
        ignored = bool(record.get("isVisibleInTranscriptOnly"))
        self.add(time, ev.UserMessageAdded(message, synthetic=synthetic))
        self.last_user = message
        self.report.messages += 1
        for number, block in enumerate(content):
            kind: Text | File | None = None
            text = block if isinstance(block, str) else block.get("text") if is_object(block) else None
            if isinstance(text, str) and (isinstance(block, str) or block.get("type") == "text"):
                kind = Text(self.batch.content(text), synthetic, ignored)
                self.remainder.move(text, "text")
            elif is_object(block):
                found = blocks.file_of(block, self.batch)
                if found is not None:
                    kind = found[0]
                    self.remainder.move(found[1], "file")
            if kind is None:
                self.report.skip(line, f"content block {number} of a user message is not text, image or document")
                continue
            self.add(time, ev.PartStarted(message, own_id(message, str(number)), kind))
            self.report.parts += 1

    # -- assistant messages ----------------------------------------------------------------------

    def start(self, time: int, message: str, foreign: object, model: object, cwd: object) -> Open:
        """A new assistant message; the caller has begun its node."""
        known = Model(blocks.PROVIDER, model) if isinstance(model, str) and model else None
        place = cwd if isinstance(cwd, str) else None
        self.add(time, ev.AssistantMessageStarted(message, self.last_user, model=known, cwd=place))
        self.add(time, ev.StepStarted(message, own_id(message, "step")))
        self.report.messages += 1
        self.open = Open(message, foreign, self.node, known, time)
        return self.open

    def assistant(self, time: int, line: int, key: str, message: Open, content: list[Any]) -> None:
        """The blocks of one record of an open message."""
        message.time = time
        for number, block in enumerate(content):
            if isinstance(block, str):
                self._text(time, message, own_id(key, str(number)), block)
            elif not is_object(block):
                self.report.skip(line, f"content block {number} is not an object")
            elif not self._block(time, line, message, own_id(key, str(number)), block):
                self.report.skip(line, f"content block {number} of an assistant message is of an unknown type or shape")

    def _text(self, time: int, message: Open, part: str, text: str) -> None:
        self.remainder.move(text, "text")
        self.add(time, ev.PartStarted(message.id, part, Text(self.batch.content(text))))
        self.add(time, ev.PartEnded(part))
        self.report.parts += 1

    def _block(self, time: int, line: int, message: Open, part: str, block: dict[str, Any]) -> bool:
        kind = blocks.text_or_empty(block.get("type"))
        if kind == "text" and isinstance(block.get("text"), str):
            self._text(time, message, part, block["text"])
            return True
        if kind == "thinking" and isinstance(block.get("thinking"), str):
            self._thinking(time, message, part, block["thinking"], block.get("signature"))
            return True
        if kind == "redacted_thinking" and isinstance(block.get("data"), str):
            self.add(time, ev.PartStarted(message.id, part, Reasoning()))
            self.add(time, ev.PartEnded(part, dump({blocks.PROVIDER: {"redactedData": block["data"]}})))
            self.report.parts += 1
            return True
        if kind in {"tool_use", "server_tool_use", "mcp_tool_use"} and isinstance(block.get("id"), str):
            return self._call(time, line, message, part, block)
        result = blocks.server_result(block)
        if result is not None:
            call = self.calls.get(result.call)
            if call is None or call.message is not message:
                self.report.skip(line, "a result for a call that is not open")
                return True
            self._settle(result.call)
            field = "error" if result.failed else "output"
            self.remainder.move(result.output, field)
            output = self.batch.content(result.output)
            done = ev.ToolFailed(call.part, output) if result.failed else ev.ToolCompleted(call.part, output)
            self.add(time, done)
            return True
        return False

    def _thinking(self, time: int, message: Open, part: str, text: str, signature: object) -> None:
        self.remainder.move(text, "text")
        self.add(time, ev.PartStarted(message.id, part, Reasoning(self.batch.content(text))))
        metadata = None
        if isinstance(signature, str) and signature:
            metadata = dump({blocks.PROVIDER: {"signature": signature}})
            self.remainder.move(signature, "signature")
        self.add(time, ev.PartEnded(part, metadata))
        self.report.parts += 1

    def _call(self, time: int, line: int, message: Open, part: str, block: dict[str, Any]) -> bool:
        name, given = block["id"], block.get("input")
        tool = blocks.text_or_empty(block.get("name"))
        if name in message.known:
            self.report.skip(line, "a second call with the same id in one message")
            return True
        message.known.add(name)
        self.add(time, ev.PartStarted(message.id, part, Tool(name, tool, block["type"] != "tool_use")))
        if is_object(given) or is_array(given):
            self.remainder.move_value(given, "input")
        self.add(time, ev.ToolRunning(part, self.batch.content(dump({} if given is None else given))))
        self.report.parts += 1
        fields = given if is_object(given) else {}
        call = Call(part, message)
        if tool == "TodoWrite":
            call.todos = fields.get("todos")
        elif tool in {"Task", "Agent"}:
            call.prompt = fields.get("prompt")
            call.description = blocks.text_or_empty(fields.get("description"))
            call.agent = blocks.text_or_empty(fields.get("subagent_type"))
        if name in self.calls:
            earlier = self._settle(name)
            self.add(time, ev.ToolFailed(earlier.part, INTERRUPTED, interrupted=True))
            self._answered(earlier.message)
        self.calls[name] = call
        message.calls.add(name)
        self.interrupted.pop(name, None)
        self._called.put(name, 0)
        early = self.early.pop(name)
        if early is not None:
            self.arrived.append(early.key)
            self._answer(time, self._settle(name), early.block, early.extra)
        return True

    def usage(self, time: int, message: Open, usage: object, cost: object) -> None:
        """What the record says the message cost so far; what that adds to what is recorded is recorded."""
        tokens = blocks.tokens_of(usage) if is_object(usage) else message.usage.tokens
        known = price(cost)
        now = Usage(tokens, message.usage.cost if known is None else known)
        more = added(message.usage, now)
        if more is not None:
            self.add(time, ev.UsageRecorded(more, message.id, own_id(message.id, "finish"), message.model))
            message.usage = now

    # -- results ---------------------------------------------------------------------------------

    def _settle(self, name: str) -> Call:
        call = self.calls.pop(name)
        call.message.calls.discard(name)
        return call

    def _answered(self, message: Open) -> None:
        if not message.calls and message in self.waiting:
            self.waiting.remove(message)
            self.finish(message)

    def result(self, time: int, line: int, key: str, block: dict[str, Any], extra: object) -> None:
        """A `tool_result` block of the record `key`; `extra` is the record's `toolUseResult`."""
        name = blocks.text_or_empty(block.get("tool_use_id"))
        late = name in self.interrupted
        if name in self.calls:
            call = self._settle(name)
        elif late:
            call = self.interrupted.pop(name)
        elif not name or self._called.get(name) is not None:
            self.report.skip(line, "a tool result for a call that is not open")
            return
        elif self.early.hold(name, line, Early(block, extra, key), len(dump([block, extra], plain=False))):
            return
        else:
            self.report.skip(line, "a second tool result for a call")
            return
        self._answer(time, call, block, extra, held=True, late=late)
        call.message.time = time
        self._answered(call.message)

    def _answer(
        self, time: int, call: Call, block: dict[str, Any], extra: object, *, held: bool = False, late: bool = False
    ) -> None:
        """What a result says; `held` if it is of the record that is being read, `late` if the call is interrupted."""
        text, files = blocks.result_of(block.get("content"), self.batch)
        fields = extra if is_object(extra) else {}
        metadata = dump(fields) if fields else None
        if metadata is not None and len(metadata) > MAX_INLINE:
            metadata = None
        failed = bool(block.get("is_error"))
        interrupted = failed and (fields.get("interrupted") is True or text.startswith(INTERRUPT))
        if late and interrupted:
            return
        if held:
            self.remainder.move(text, "error" if failed else "output")
            if metadata is not None:
                self.remainder.move_value(extra, "metadata")
        output = self.batch.content(text)
        if failed:
            self.add(time, ev.ToolFailed(call.part, output, interrupted, metadata=metadata))
            return
        self.add(time, ev.ToolCompleted(call.part, output, metadata=metadata, attachments=files))
        if call.todos is not None and not late:  # there may be newer ones
            todos = fields.get("newTodos", call.todos)
            if is_array(todos):
                self.add(time, ev.TodosSet(todos_of(todos)))

    # -- compaction --------------------------------------------------------------------------------

    def compact(self, time: int, message: str, *, auto: bool, tokens: object) -> None:
        """Claude Code compacts: everything so far is covered.  The summary comes with a later record."""
        self.interrupt_all(None)
        if self.compaction is not None:
            self.add(time, ev.CompactionFailed(self.compaction[0], "no summary followed"))
        part = own_id(message, "compaction")
        self.begin_node(message)
        before = tokens if isinstance(tokens, int) and not isinstance(tokens, bool) and 0 <= tokens < 1 << 53 else None
        self.add(time, ev.UserMessageAdded(message, synthetic=True))
        self.add(time, ev.CompactionRequested(message, part, auto))
        self.add(time, ev.CompactionStarted(part, tokens_before=before))
        self.report.messages += 1
        self.compaction = (part, message)
        self.last_user = message

    def summary(self, time: int, message: str, text: str) -> None:
        """The summary of the compaction that is under way."""
        assert self.compaction is not None
        part, marker = self.compaction
        self.compaction = None
        self.begin_node(message)
        body = own_id(message, "0")
        self.add(time, ev.AssistantMessageStarted(message, marker, summary=True))
        self.remainder.move(text, "text")
        self.add(time, ev.PartStarted(message, body, Text(self.batch.content(text))))
        self.add(time, ev.PartEnded(body))
        self.add(time, ev.MessageFinished(message, "stop"))
        self.add(time, ev.CompactionCompleted(part, message))
        self.report.messages += 1
        self.report.parts += 1
