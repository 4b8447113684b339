"""Items of a Codex session as parts of its conversation.

`importer.py` reads the records, and handles those that are no items.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Sequence
from typing import Any

from eventlog import events as ev
from eventlog.importers.codex.records import Duplicates, injected, prompt_of
from eventlog.importers.common.builder import RecordBuilder
from eventlog.importers.common.conversation import Conversation
from eventlog.importers.common.conversation_parts import ABORTED, CallInput, OpenAnswer, OpenCall, UserPart
from eventlog.importers.common.importer import bounded_id
from eventlog.importers.common.json_lines import dump, is_array, is_object, value_in
from eventlog.importers.common.record_index import RecordIndex
from eventlog.importers.openai import items
from eventlog.importers.openai.items import OutputItem, call_of, is_call, is_output, output_of, reasoning_of
from eventlog.importers.openai.messages import tell_blocks
from eventlog.streams.openai_responses import COMPACTION, COMPACTIONS
from eventlog.streams.records import metadata_of, number_of, object_of, text_of
from eventlog.values import Limits, Model, Opaque, Snapshot, Todo, Tool, target_of

ALL_KINDS = ("user", "assistant", "reasoning")
_PROGRESS = ("exit_code", "success", "status", "duration", "cwd", "process_id", "source", "invocation")
"""Fields of the event that ends a call that become its progress."""
_FAILED = re.compile(
    r"(?:apply_patch verification|exec_command) failed\b"
    r"|(?:(?:Chunk ID|Wall time): .*\n)*(?:Process exited with code|Exit code:) (?!0\b)"
)
"""Beginning of an output that says that the call failed."""


class Rollout(RecordBuilder):
    """State of a session's conversation while its file is read."""

    def __init__(self, conversation: Conversation, provider: str, directory: str, time: int) -> None:
        super().__init__(conversation, time)
        self.provider: str = provider
        self._place = 0
        """Number of the line's next part."""
        self.duplicates: Duplicates = Duplicates()
        self.ids: RecordIndex = RecordIndex()
        """Ids of messages, and of calls with "c:" before them."""
        self.prompts: array[int] = array("Q")
        """Version before each prompt."""
        self.ended: bool = False
        """Whether what the model says next is another answer."""
        self.effort: str | None = None
        self.cwd: str | None = directory or None
        self.window: int = 0
        self.titled = False
        self.told: dict[int, str] = {}
        """Newest message of the user's by the hash of its texts."""
        self.failing: set[str] = set()
        """Calls that failed on the screen, and whose results have not come."""
        self.compacted: str = ""
        """Cipher of the newest compaction."""

    def begin(self, line: int) -> None:
        """Begin the record of a line."""
        self.number: int = line
        self._place = 0

    def fresh(self, wanted: Sequence[str]) -> str:
        """Return an unused message id: the item's, else the line's."""
        for one in filter(None, wanted):
            name = bounded_id(one)
            if not name.startswith("line-") and self.ids.put(name, 0):
                return name
        return f"line-{self.number}"

    def next_part(self) -> str:
        """Return the id of the line's next part."""
        self._place += 1
        return f"line-{self.number}:{self._place - 1}"

    def settings(self, fields: dict[str, Any], effort: str) -> None:
        """Set the model, its effort (member `effort`) and the directory, if they are given."""
        self.provider = text_of(fields.get("model_provider_id")) or self.provider
        name = text_of(fields.get("model"))
        self.effort = text_of(fields.get(effort)) or self.effort
        self.cwd = text_of(fields.get("cwd")) or self.cwd
        model = Model(self.provider, name) if name else self.model
        if model != self.model:
            self.model = model
            self.conversation.add(self.time, ev.SettingsSet(model))

    def limits(self, window: object) -> None:
        """Set the model's window, if this is a number of tokens."""
        size = number_of(window)
        if size and size != self.window:
            self.window = size
            self.conversation.add(self.time, ev.SettingsSet(limits=Limits(size)))

    # -- items -----------------------------------------------------------------------------------

    def item(self, item: dict[str, Any]) -> None:
        """Handle a `response_item`."""
        kind = text_of(item.get("type")) or ("message" if "role" in item else "")
        if kind == "message":
            self._message(item)
        elif kind == "reasoning":
            self._reasoning(item)
        elif is_call(item):
            self._call(item)
        elif is_output(item):
            self._output(item)
        elif kind == "ghost_snapshot":
            commit = item.get("ghost_commit")
            name = text_of(commit.get("id")) if is_object(commit) else ""
            if name:
                answer = self.opened()
                self.conversation.add(self.time, ev.PartStarted(answer.id, self.next_part(), Snapshot(name)))
                self.conversation.report.parts += 1
        elif kind == "agent_message":
            self.add_unmatched(ALL_KINDS)
            self._prompt(item.get("content"), synthetic=True, agent=text_of(item.get("author")))
        elif kind in COMPACTIONS:
            self.compact(item)
        else:
            self.skip(f"an item of unknown type {kind[:40]!r}" if kind else "an item without a type")

    def compact(self, item: dict[str, Any], history: Sequence[dict[str, Any]] = ()) -> None:
        """Add a compaction that only its provider can read.

        `history` are the items that it leaves beside itself: messages of the user's, so far.
        """
        secret = text_of(item.get("encrypted_content"))
        if not secret or secret == self.compacted:
            return
        self.add_unmatched(ALL_KINDS)
        self.compacted = secret
        texts = [tuple(items.texts_of(left.get("content"))) for left in history]
        kept = [name for said in texts if said and (name := self.told.get(hash(said)))]
        answer = self.opened()
        opaque = Opaque(COMPACTION, self.batch.content(dump(item)), target_of(answer.model), kept=tuple(kept))
        self.conversation.complete(self.time, f"line-{self.number}:compaction", opaque)

    def _message(self, item: dict[str, Any]) -> None:
        content = item.get("content", item.get("message"))
        texts = items.texts_of(content)
        role = text_of(item.get("role"))
        if role == "assistant":
            self.add_unmatched(("user", "reasoning"))
            if self.duplicates.add_item("assistant", texts):
                name = text_of(item.get("id"))
                self.opened(name)
                tell_blocks(self, content, metadata_of(items.PROVIDER, itemId=name, phase=text_of(item.get("phase"))))
            return
        if role not in {"user", "developer", "system"}:
            self.skip("a message of an unknown role")
            return
        own = role == "user" and not all(map(injected, texts)) if texts else role == "user"
        if role == "user" and not self.duplicates.add_item("user", texts):
            return
        if own:
            self.add_unmatched(ALL_KINDS)
            self.duplicates.begin_turn()
        if any(text.startswith("<turn_aborted>") for text in texts):
            self.add_unmatched(ALL_KINDS)
            self.conversation.interrupt_all(ABORTED)
        name = text_of(item.get("model"))
        if name:
            self.settings({"model": name}, "effort")
        self._prompt(content, synthetic=not own, agent="" if role == "user" else role, id=text_of(item.get("id")))

    def _prompt(self, content: object, *, synthetic: bool, agent: str = "", id: str = "") -> None:
        """Add a user message."""
        said, strange = items.user_parts(content, self.batch, synthetic=synthetic)
        if strange:
            self.skip(f"{strange} blocks of a user message that are neither text nor a file")
        title = ""
        if not synthetic:
            self.prompts.append(self.conversation.version)
            title = "" if self.titled else prompt_of(items.texts_of(content))
        self.say(self.fresh([id]), said, title, synthetic=synthetic, agent=agent)

    def say(self, message: str, said: list[UserPart], title: str = "", *, synthetic: bool, agent: str = "") -> None:
        """Add a user message of these parts; `title` is the session's if that has none."""
        texts = tuple([part.held for part in said if part.field == "text"])
        self.told[hash(texts)] = message
        added_ = ev.UserMessageAdded(message, agent, self.model, self.effort, synthetic=synthetic)
        self.conversation.user(self.time, added_, said, title)
        self.ended = False

    def opened(self, id: str = "") -> OpenAnswer:
        """Return the open answer, or a new one, which has this id if that is unused."""
        answer = self.conversation.open
        if answer is not None and not self.ended:
            return answer
        self.ended = False
        message = ev.AssistantMessageStarted(
            self.fresh([id]),
            self.conversation.last_user,
            model=self.model,
            variant=self.effort,
            cwd=self.cwd,
        )
        return self.conversation.answer(self.time, message)

    def _reasoning(self, item: dict[str, Any]) -> None:
        texts = items.thoughts_of(item)
        self.add_unmatched(("user",))
        told = reasoning_of(item, texts if self.duplicates.add_item("reasoning", texts) else [])
        if told:
            self.opened()
        for text, metadata, secret in told:
            self.reasoning(text, metadata=metadata, secret=secret)

    # -- calls -------------------------------------------------------------------------------------

    def _start(self, kind: Tool, given: CallInput) -> None:
        """Add a call, to another answer if the open one has a call with its id."""
        self.add_unmatched(ALL_KINDS)
        if kind.call in self.opened().call_ids:
            self.ended = True
            self.opened()
        self.ids.put(f"c:{kind.call}", 0)
        self.conversation.call(self.time, self.next_part(), kind, given)

    def _call(self, item: dict[str, Any]) -> None:
        kind, given = call_of(item, f"line-{self.number}")
        self._start(kind, given)
        output = output_of(item, self.batch)
        if output is not None:
            self._result(kind.call, output)

    def _output(self, item: dict[str, Any]) -> None:
        output = output_of(item, self.batch)
        assert output is not None
        name = output.call or self.open_call(text_of(item.get("name")))
        if name in self.failing or is_failed_output(output.result.output):
            output = output._replace(result=output.result._replace(failed=True))
        call = self._result(name, output)
        if call is None:
            if not self.conversation.hold(name, self.number, output.result):
                self.skip("a result for a call that is not open")
            return
        self.ended = self.ended or call.answer is self.conversation.open
        if call.tool == "update_plan" and not output.result.failed:
            todos = todos_of(call.input)
            if todos is not None:
                self.conversation.add(self.time, ev.TodosSet(todos))

    def _result(self, call: str, output: OutputItem) -> OpenCall | None:
        if output.data:
            self.conversation.remainder.move(output.data, "attachment")
        self.failing.discard(call)
        return self.conversation.result(self.time, call, output.result, held=output.held)

    def add_unmatched(self, kinds: tuple[str, ...]) -> None:
        """Add the waiting events of these kinds that no item repeats."""
        line = self.number
        for event in self.duplicates.pop_unmatched(kinds):
            self.begin(event.line)
            if event.kind == "user":
                own = not injected(event.text)
                if own:
                    self.prompts.append(self.conversation.version)
                content = [{"type": "input_image", "image_url": url} for url in event.images]
                said, _ = items.user_parts([event.text or None, *content], self.batch, synthetic=not own)
                self.say(f"line-{event.line}", said, prompt_of([event.text]), synthetic=not own)
                continue
            self.opened()
            if event.kind == "assistant":
                self.conversation.text(event.time, self.next_part(), event.text)
            else:
                self.conversation.reasoning(event.time, self.next_part(), event.text)
        self.begin(line)


def progress_of(event: dict[str, Any]) -> dict[str, Any]:
    """Return what the event that ends a call has beyond its output."""
    return {key: event[key] for key in _PROGRESS if event.get(key) is not None}


def is_failed(event: dict[str, Any]) -> bool:
    """Whether the event that ends a call says that the call failed."""
    code, result = event.get("exit_code"), object_of(event.get("result"))
    return (
        (isinstance(code, int) and code != 0)
        or event.get("success") is False
        or text_of(event.get("status")) in {"failed", "declined"}
        or "Err" in result
        or object_of(result.get("Ok")).get("isError") is True
    )


def is_failed_output(output: str) -> bool:
    """Whether an output says that its command or patch failed: by its head, or as older JSON."""
    if output.startswith('{"output"'):
        metadata = object_of(object_of(value_in(output)).get("metadata"))
        return is_failed(metadata)
    return _FAILED.match(output) is not None


def todos_of(text: str) -> tuple[Todo, ...] | None:
    """Return the entries of a plan; None if the input of `update_plan` has none."""
    given = json.loads(text)
    plan = given.get("plan") if is_object(given) else None
    if not is_array(plan):
        return None
    return tuple(
        Todo(text_of(entry.get("step")), text_of(entry.get("status")) or "pending")
        for entry in plan
        if is_object(entry)
    )
