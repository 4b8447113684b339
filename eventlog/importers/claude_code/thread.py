"""One session of a Claude Code file while it is read, with its branches.

`importer.py` decides whose record it is; `common/conversation.py` has the open answers and calls.

* A message's usage is the sum of its `UsageRecorded`.  Claude Code repeats the usage on every
  record of a message and corrects it upward: the first record gives the event, later ones the
  difference.
* Messages are counted as *nodes*.  A new message whose parent is not in the newest node begins a
  branch: the versions before it become a fork, and this session is rolled back to the end of the
  parent's node and goes on with the new branch, as Claude Code itself does.
"""

from __future__ import annotations

import json
from array import array
from typing import Any, NamedTuple

from eventlog import events as ev
from eventlog.importers.anthropic import blocks
from eventlog.importers.anthropic.content import add_block, user_part
from eventlog.importers.common.conversation import Conversation
from eventlog.importers.common.conversation_parts import CallInput, CallResult, OpenAnswer, OpenCall
from eventlog.importers.common.importer import ImportBatch, Report, bounded_id, own_id
from eventlog.importers.common.json_lines import dump, is_array, is_object, text_or_empty
from eventlog.importers.common.usage import added, price
from eventlog.values import MessageError, Model, Text, Todo, Tool, Usage

__all__ = ["INTERRUPT", "Thread", "input_of"]

MAX_INLINE = 1024
"""Longest JSON text of tool metadata that is stored in an event, in characters."""
INTERRUPT = "[Request interrupted by user"


class _ResultNote(NamedTuple):
    """Source of a result: the key of its record, and the todo list that it sets, if any."""

    key: str
    todos: object


_NO_TODOS = object()


class Thread(Conversation):
    """State of one session with branches while its file is read."""

    def __init__(self, session: str, number: int, report: Report, started: ev.SessionStarted, time: int) -> None:
        self.number = number
        self.ends = array("Q")
        """Version at the end of each node but the newest."""
        self.tip = ""
        """Key of the newest record of the conversation."""
        self.arrived: list[str] = []
        """Keys of the records whose early results the current record's calls received."""
        self.compaction: tuple[str, str] | None = None
        """Part and message of a compaction whose summary has not come."""
        self.branch: str | None = None
        """Git branch of the newest record."""
        super().__init__(session, report, started, time)

    # -- branches ------------------------------------------------------------------------------

    @property
    def node(self) -> int:
        """Number of the newest node; node 0 is what stands before the first message."""
        return len(self.ends)

    def begin_node(self, key: str) -> None:
        """Begin the node of a new message."""
        self.ends.append(self.version)
        self.tip = key

    def branch_off(self, time: int, node: int, key: str) -> ImportBatch:
        """Return the fork that keeps this branch, and go back to the end of `node`.

        Calls of the branch that is left get no results any more.
        """
        self.supersede()
        fork = ImportBatch(bounded_id(f"{self.session}:{self.tip}"))
        fork.add(time, ev.SessionForked(self.session, self.version, title=self.title))
        self.begin_node(key)
        self.add(time, ev.RolledBack(self.ends[node]))
        self.waiting = [answer for answer in self.waiting if answer.node <= node]
        self.calls = {name: call for name, call in self.calls.items() if call.answer.node <= node}
        self.interrupted = {name: call for name, call in self.interrupted.items() if call.answer.node <= node}
        self.compaction = self.last_user = None
        return fork

    def on_branch(self, time: int, branch: object) -> None:
        """Record the git branch of a record when it changes."""
        if isinstance(branch, str) and branch and branch != self.branch:
            self.branch = branch
            self.add(time, ev.MetadataSet("git_branch", dump(branch)))

    # -- closing -------------------------------------------------------------------------------

    def interrupt_all(self, error: MessageError | None) -> None:
        """Finish all answers with the error; calls without a result fail as interrupted."""
        self._interrupt_waiting(error)
        super().interrupt_all(error)

    def _finish(self, answer: OpenAnswer, error: MessageError | None) -> None:
        """Close an answer with the reason that the file gives, if any."""
        self.add(answer.time, ev.StepFinished(answer.id, own_id(answer.id, "finish"), answer.reason or ""))
        self.add(answer.time, ev.MessageFinished(answer.id, answer.reason, error))

    # -- messages ------------------------------------------------------------------------------

    def prompt(self, time: int, line: int, message: str, record: dict[str, Any], content: list[Any]) -> None:
        """Add a user message of the blocks in `content`; the caller has begun its node."""
        synthetic, ignored = bool(record.get("isMeta")), bool(record.get("isVisibleInTranscriptOnly"))
        parts = [user_part(block, self.batch, synthetic=synthetic, ignored=ignored) for block in content]
        for number, part in enumerate(parts):
            if part is None:
                self.report.skip(line, f"content block {number} of a user message is not text, image or document")
        self.user(time, ev.UserMessageAdded(message, synthetic=synthetic), parts)

    def start(self, time: int, message: str, foreign: object, model: object, cwd: object) -> OpenAnswer:
        """Begin an assistant message; the caller has begun its node."""
        named = Model(blocks.PROVIDER, model) if isinstance(model, str) and model else None
        directory = cwd if isinstance(cwd, str) else None
        answer = self.answer(time, ev.AssistantMessageStarted(message, self.last_user, model=named, cwd=directory))
        answer.foreign, answer.node = foreign, self.node
        return answer

    def assistant(self, time: int, line: int, key: str, answer: OpenAnswer, content: list[Any]) -> None:
        """Add the blocks of one record to the open answer."""
        answer.time = time
        for number, block in enumerate(content):
            part = own_id(key, str(number))
            text = block.get("text") if is_object(block) and block.get("type") == "text" else block
            if isinstance(text, str):
                self.text(time, part, text)
            elif not is_object(block):
                self.report.skip(line, f"content block {number} is not an object")
            elif not add_block(self, time, line, part, block):
                self.report.skip(line, f"content block {number} of an assistant message is of an unknown type or shape")

    def record_usage(self, time: int, answer: OpenAnswer, usage: object, cost: object) -> None:
        """Record what a record's usage adds to the usage recorded for the answer."""
        tokens = blocks.tokens_of(usage) if is_object(usage) else answer.usage.tokens
        spent = price(cost)
        now = Usage(tokens, answer.usage.cost if spent is None else spent)
        more = added(answer.usage, now)
        if more is not None:
            self.add(time, ev.UsageRecorded(more, answer.id, own_id(answer.id, "finish"), answer.model))
            answer.usage = now

    # -- calls ---------------------------------------------------------------------------------

    def call(self, time: int, part: str, kind: Tool, given: CallInput) -> OpenCall:
        """Add a call to the open answer, with the effects of a result that came early."""
        call = super().call(time, part, kind, given)
        if call.result is not None:
            assert isinstance(call.result.note, _ResultNote)
            self.arrived.append(call.result.note.key)
            self._set_todos(time, call)
        return call

    def tool_result(self, time: int, line: int, key: str, block: dict[str, Any], extra: object) -> None:
        """Apply a `tool_result` block of record `key`; `extra` is its `toolUseResult`."""
        name = text_or_empty(block.get("tool_use_id"))
        text, files = blocks.result_of(block.get("content"), self.batch)
        fields = extra if is_object(extra) else {}
        metadata = dump(fields) if fields else None
        if metadata is not None and len(metadata) > MAX_INLINE:
            metadata = None
        failed = bool(block.get("is_error"))
        interrupted = failed and (fields.get("interrupted") is True or text.startswith(INTERRUPT))
        note = _ResultNote(key, fields.get("newTodos", _NO_TODOS))
        result = CallResult(text, failed, interrupted, metadata, files, note)
        late = name in self.interrupted
        call = self.result(time, name, result, metadata=None if metadata is None else extra)
        if call is not None:
            if not late:  # a later call may have set newer ones
                self._set_todos(time, call)
        elif not self.hold(name, line, result):
            reason = "a tool result for a call that is not open"
            self.report.skip(line, reason if not name or self.has_called(name) else "a second tool result for a call")

    def _set_todos(self, time: int, call: OpenCall) -> None:
        """Set the todo list that a call of TodoWrite has written."""
        result = call.result
        if call.tool != "TodoWrite" or result is None or result.failed or not isinstance(result.note, _ResultNote):
            return
        written = input_of(call).get("todos")
        todos = written if written is None or result.note.todos is _NO_TODOS else result.note.todos
        if is_array(todos):
            self.add(time, ev.TodosSet(_todos_of(todos)))

    # -- compaction ----------------------------------------------------------------------------

    def compact(self, time: int, message: str, *, auto: bool, before: object) -> str:
        """Begin a compaction of everything so far; its summary comes with a later record."""
        self.interrupt_all(None)
        if self.compaction is not None:
            self.add(time, ev.CompactionFailed(self.compaction[0], "no summary followed"))
        self.begin_node(message)
        tokens = before if isinstance(before, int) and not isinstance(before, bool) and 0 <= before < 1 << 53 else None
        part = super().compact(time, message, auto=auto, before=tokens)
        self.compaction = (part, message)
        return part

    def summarize(self, time: int, message: str, text: str) -> None:
        """Complete the compaction under way with its summary."""
        assert self.compaction is not None
        part, asked = self.compaction
        self.compaction = None
        self.begin_node(message)
        self.summary(time, part, asked, message, [(Text(self.batch.content(text)), text, "text")])


def input_of(call: OpenCall) -> dict[str, Any]:
    """Return the input of a call; an empty object when it is something else."""
    value = json.loads(call.input)
    return value if is_object(value) else {}


def _todos_of(todos: list[Any]) -> tuple[Todo, ...]:
    """Return the entries of a TodoWrite list that are objects."""
    return tuple(
        Todo(
            text_or_empty(entry.get("content")),
            text_or_empty(entry.get("status")) or "pending",
            text_or_empty(entry.get("priority")),
            text_or_empty(entry.get("id")),
        )
        for entry in todos
        if is_object(entry)
    )
