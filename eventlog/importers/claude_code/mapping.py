"""Mapping of Claude Code's records, for imported files and live feeds of a transcript.

* An answer comes in several records, one for each block, that have its message's id and repeat its
  usage, corrected upward: each adds to the answer what it has more.
* A user record's tool results belong to the calls they name; what else is in it is a user message.
* A compaction is a boundary record, and the summary that follows it. The boundary names messages
  that it keeps. A micro-compaction clears the results of the calls that it names.
* A prompt that waited while the model was busy stands where it reached the model.
* The title is that of the first prompt until Claude Code gives one; a custom title stays.

A subclass may say where messages begin: the records of a file have branches.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from eventlog import events as ev
from eventlog.importers.anthropic.content import PROVIDER, add_block, result_of, user_part
from eventlog.importers.claude_code.records import (
    ASIDE,
    CONVERSATION,
    INTERRUPT,
    content_of,
    is_custom_title,
    kept_of,
    prompt_of,
    queued_prompt,
    texts_of,
)
from eventlog.importers.common.builder import RecordBuilder
from eventlog.importers.common.conversation import Conversation
from eventlog.importers.common.conversation_parts import (
    ABORTED,
    COVERS_NOTHING,
    CallResult,
    Kept,
    OpenAnswer,
    OpenCall,
    UserPart,
    added,
    purpose_of,
)
from eventlog.importers.common.importer import bounded_id
from eventlog.importers.common.json_lines import OBJECT, dump, is_array, is_object
from eventlog.streams.anthropic import reason_of
from eventlog.streams.records import number_of, text_of
from eventlog.streams.tokens import anthropic_usage, price_of
from eventlog.values import MessageError, Model, Reasoning, Text, Todo, Usage

MAX_INLINE = 1024
"""Longest JSON text of tool metadata that is stored in an event, in characters."""
TURN_ENDS = frozenset({"stop_hook_summary", "turn_duration", "away_summary"})
"""System records that come when a turn is over."""
_ENDS = ("end_turn", "stop_sequence", "max_tokens", "refusal")
"""Reasons with which an answer ends that calls no tool."""
MICRO = "microcompact"
"""Policy of what a micro-compaction prunes."""
COPIES = 4
"""Names that a message may have whose id is taken, as on another branch."""


class ResultNote(NamedTuple):
    """Source of a result: the key of its record, and the todo list that it sets, if any."""

    key: str
    todos: object


_NO_TODOS = object()


class ClaudeCodeMapping(ABC):
    """The mapping; a record is a line of a transcript.

    `sidechain`: it is that of a sub-agent, whose records say that they are aside of the main one.
    """

    format = "claude_code_records"

    def __init__(self, *, sidechain: bool = False) -> None:
        self.sidechain = sidechain
        self.titled: bool = False
        """Whether a person gave the title."""
        self.over: bool = False
        """Whether a record that came before ends the turn with the one that is read."""
        self.in_order: bool = True
        """Whether all has come that this one follows; else the turn that it ends goes on."""

    def read(self, record: Any, to: RecordBuilder) -> None:
        """Tell what a record means."""
        if not isinstance(record, OBJECT):
            to.skip("not an object")
            return
        kind = record.get("type")
        if not isinstance(kind, str) or kind not in CONVERSATION:
            self._aside(text_of(kind), record, to)
        elif self.sidechain or record.get("isSidechain") is not True:
            self._conversation(kind, record, to)

    # -- for subclasses --------------------------------------------------------------------------

    def key(self, record: dict[str, Any]) -> str:
        """Return the name of a record, "" if it has none."""
        return text_of(record.get("uuid"))

    def part(self, key: str, place: int) -> str:
        """Return the id of a part; "" for one made from its message's."""
        del key, place
        return ""

    @abstractmethod
    def knows(self, uuid: object) -> bool:
        """Whether a record came before."""

    def begin(self, record: dict[str, Any], to: RecordBuilder) -> None:
        """Begin a message of a record."""
        del record
        to.conversation.supersede()

    def begin_node(self, message: str) -> None:
        """Begin the request for a compaction, or its summary."""
        del message

    @abstractmethod
    def go_back(self, record: dict[str, Any], to: RecordBuilder) -> None:
        """Go back to the branch of results, if the conversation has left it."""

    def early(self, record: dict[str, Any]) -> Iterable[dict[str, Any]]:
        """Return records with results that came before the calls of this one, if none hold them."""
        del record
        return ()

    @abstractmethod
    def kept(self, uuids: Sequence[str], to: RecordBuilder) -> tuple[str, ...]:
        """Return the messages of the records that a compaction keeps (`kept_of`)."""

    # -- what is no message ----------------------------------------------------------------------

    def _aside(self, kind: str, record: dict[str, Any], to: RecordBuilder) -> None:
        rename, time = to.conversation.rename, to.time
        if kind == "system":
            subtype = text_of(record.get("subtype"))
            if subtype == "compact_boundary":
                found = record.get("compactMetadata")
                metadata = found if is_object(found) else {}
                before = metadata.get("preTokens")
                kept = self.kept(kept_of(record), to)
                self._compact(self.key(record), metadata.get("trigger") == "auto", before, to, kept)
            elif subtype == "microcompact_boundary":
                _clear(record.get("microcompactMetadata"), to)
            elif subtype in TURN_ENDS and to.conversation.open is not None and self.in_order:
                to.conversation.supersede()
        elif kind == "summary":
            title = record.get("summary")
            if isinstance(title, str) and self.knows(record.get("leafUuid")) and not self.titled:
                rename(time, title)
        elif kind == "custom-title":
            if is_custom_title(record):
                self.titled = True
                rename(time, record["customTitle"])
        elif kind == "ai-title":
            title = record.get("aiTitle")
            if isinstance(title, str) and not self.titled:
                rename(time, title)
        elif kind == "agent_metadata":
            rename(time, text_of(record.get("description")))
        elif kind == "attachment":
            prompt = queued_prompt(record)
            found = record.get("attachment")
            if prompt is not None and (self.sidechain or record.get("isSidechain") is not True):
                self._queued(record, prompt, to)
            elif is_object(found) and found.get("type") == "queued_command":
                to.skip("a queued notification that no person wrote: kept, but not as a message")
        elif kind not in ASIDE:
            to.skip(f"a record of unknown type {kind[:40]!r}" if kind else "a record without a type")

    # -- messages --------------------------------------------------------------------------------

    def _conversation(self, kind: str, record: dict[str, Any], to: RecordBuilder) -> None:
        content = content_of(record)
        if content is None:
            is_message = is_object(record.get("message"))
            to.skip("its message has no content" if is_message else "its message is not an object")
        elif kind == "assistant":
            self._assistant(record, content, to)
        elif record.get("isCompactSummary") is True:
            self._summary(record, content, to)
        else:
            self._user(record, content, to)

    def _user(self, record: dict[str, Any], content: list[Any], to: RecordBuilder) -> None:
        key = self.key(record)
        said: list[Any] = []
        results: list[dict[str, Any]] = []
        for block in content:
            is_result = isinstance(block, OBJECT) and block.get("type") == "tool_result"
            (results if is_result else said).append(block)
        if results and not said:
            self.go_back(record, to)
        for block in results:
            _result(key, block, record.get("toolUseResult"), to)
        if results and not said:
            return
        self.begin(record, to)
        if any(text.startswith(INTERRUPT) for text in texts_of(said)):
            to.conversation.interrupt_all(ABORTED)
        synthetic, ignored = bool(record.get("isMeta")), bool(record.get("isVisibleInTranscriptOnly"))
        parts = [user_part(block, to.batch, synthetic=synthetic, ignored=ignored) for block in said]
        added_ = ev.UserMessageAdded(to.fresh(_names(key)), synthetic=synthetic)
        _say(added_, parts, prompt_of(record), "user message", to)

    def _queued(self, record: dict[str, Any], content: list[Any], to: RecordBuilder) -> None:
        """Add a prompt that waited: it reaches the model here."""
        self.begin(record, to)
        message, title = to.fresh(_names(self.key(record))), prompt_of({"message": {"content": content}})
        parts = [user_part(block, to.batch, synthetic=False) for block in content]
        _say(ev.UserMessageAdded(message, delivery="queue"), parts, title, "queued prompt", to)
        to.conversation.add(to.time, ev.MessagePromoted(message))

    def _assistant(self, record: dict[str, Any], content: list[Any], to: RecordBuilder) -> None:
        message, key, conversation = record["message"], self.key(record), to.conversation
        foreign, name, cwd = message.get("id"), message.get("model"), record.get("cwd")
        model = Model(PROVIDER, name) if isinstance(name, str) and name else None
        answer = conversation.open
        if answer is None or not _is_of(answer, foreign):
            self.begin(record, to)
            to.begun = True
            started = ev.AssistantMessageStarted(
                to.fresh(_names(foreign if isinstance(foreign, str) and foreign else key)),
                conversation.last_user,
                model=model,
                cwd=cwd if isinstance(cwd, str) else None,
            )
            answer = conversation.answer(to.time, started)
            answer.foreign = foreign
        elif answer.foreign is None:  # told in an earlier append
            answer.foreign, answer.model = foreign, model
        answer.time = to.time
        for place, block in enumerate(content):
            self._block(key, place, block, to)
        answer.reason = reason_of(message.get("stop_reason")) or answer.reason
        _spend(answer, message.get("usage"), record.get("costUSD"), to)
        if record.get("isApiErrorMessage") is True:
            conversation.interrupt_all(MessageError("api", " ".join(texts_of(content, bare=False))))
        for early in self.early(record):
            for block in content_of(early) or ():
                if is_object(block) and block.get("tool_use_id") in conversation.calls:
                    _result(self.key(early), block, early.get("toolUseResult"), to)
        if conversation.open is not None and (self.over or _is_end(message, content)):
            conversation.supersede()

    def _block(self, key: str, place: int, block: Any, to: RecordBuilder) -> None:
        part = self.part(key, place) or to.next_part()
        text = block.get("text") if isinstance(block, OBJECT) and block.get("type") == "text" else block
        if isinstance(text, str):
            to.text(text, part=part)
        elif not isinstance(block, OBJECT):
            to.skip(f"content block {place} is not an object")
        elif not add_block(to.conversation, to.time, to.number, part, block):
            to.skip(f"content block {place} of an assistant message is of an unknown type or shape")

    # -- compaction ------------------------------------------------------------------------------

    def _compact(self, key: str, auto: bool, before: object, to: RecordBuilder, kept: tuple[str, ...] = ()) -> None:
        """Begin a compaction of everything so far; its summary comes with a later record."""
        conversation = to.conversation
        conversation.interrupt_all(None)
        if conversation.compaction is not None:
            conversation.add(to.time, ev.CompactionFailed(conversation.compaction[0], "no summary followed"))
        message = to.fresh(_names(key))
        self.begin_node(message)
        to.begun = True
        tokens = before if isinstance(before, int) and not isinstance(before, bool) and 0 <= before < 1 << 53 else None
        part = conversation.compact(to.time, message, auto=auto, before=tokens, kept=Kept(kept))
        conversation.compaction = (part, message)

    def _summary(self, record: dict[str, Any], content: list[Any], to: RecordBuilder) -> None:
        """Complete the compaction under way with its summary."""
        key, conversation = self.key(record), to.conversation
        if conversation.compaction is None:
            self._compact(key and f"{key}:marker", auto=False, before=None, to=to)
        assert conversation.compaction is not None
        part, asked = conversation.compaction
        conversation.compaction = None
        text, message = "\n\n".join(texts_of(content)), to.fresh(_names(key))
        self.begin_node(message)
        kinds: list[tuple[Text | Reasoning, str, str]] = [(Text(to.batch.content(text)), text, "text")]
        if not conversation.summary(to.time, part, asked, message, kinds):
            to.skip(COVERS_NOTHING)


def _say(added_: ev.UserMessageAdded, parts: list[UserPart | None], title: str, kind: str, to: RecordBuilder) -> None:
    """Add a user message of a `kind`; its `title` is the session's if that has none."""
    for number, part in enumerate(parts):
        if part is None:
            to.skip(f"content block {number} of a {kind} is not text, image or document")
    to.begun = True
    to.conversation.user(to.time, added_, parts, title)


def _clear(found: object, to: RecordBuilder) -> None:
    """Prune the results that a micro-compaction cleared."""
    metadata = found if is_object(found) else {}
    calls, freed = metadata.get("compactedToolIds"), metadata.get("tokensSaved")
    named = dict.fromkeys(name for name in (calls if is_array(calls) else ()) if isinstance(name, str))
    to.conversation.prune(to.time, list(named), MICRO, number_of(freed))


def _names(name: str) -> Sequence[str]:
    """Return the ids that a message may have, the one it should have first."""
    return (bounded_id(name), *(bounded_id(f"{name}#{copy}") for copy in range(2, COPIES))) if name else ()


def _is_end(message: dict[str, Any], content: list[Any]) -> bool:
    """Whether a record ends its answer: thoughts name the reason, too, but its text is last."""
    last = content[-1] if content else None
    return message.get("stop_reason") in _ENDS and is_object(last) and last.get("type") == "text"


def _is_of(answer: OpenAnswer, foreign: object) -> bool:
    """Whether a record with the message id `foreign` goes on with an open answer."""
    if not isinstance(foreign, str) or not foreign:
        return False
    if answer.foreign is not None:
        return answer.foreign == foreign
    return answer.id in _names(foreign)


def _spend(answer: OpenAnswer, usage: object, cost: object, to: RecordBuilder) -> None:
    """Record what a record's usage adds to the usage recorded for the answer."""
    before = to.conversation.spent(answer)
    tokens, spent = anthropic_usage(usage).tokens if is_object(usage) else before.tokens, price_of(cost)
    now = Usage(tokens, before.cost if spent is None else spent)
    if (more := added(before, now)) is not None:
        more = Usage(more.tokens, None if spent is None else more.cost)  # else a feed's prices tell it
        to.conversation.usage(to.time, more, purpose=purpose_of(before))
        answer.usage = now


# -- results -----------------------------------------------------------------------------------


def _result(key: str, block: dict[str, Any], extra: Any, to: RecordBuilder) -> None:
    """Tell a `tool_result` block of record `key`; `extra` is its `toolUseResult`."""
    conversation, name = to.conversation, text_of(block.get("tool_use_id"))
    text, files = result_of(block.get("content"), to.batch)
    fields: dict[str, Any] = extra if isinstance(extra, OBJECT) else {}
    is_long = any(isinstance(value, str) and len(value) > MAX_INLINE for value in fields.values())
    whole = dump(fields) if fields and not is_long else ""
    metadata = whole if 0 < len(whole) <= MAX_INLINE else None
    failed = bool(block.get("is_error"))
    interrupted = failed and (fields.get("interrupted") is True or text.startswith(INTERRUPT))
    note = ResultNote(key, fields.get("newTodos", _NO_TODOS))
    result = CallResult(text, failed, interrupted, metadata, files, note)
    late = name not in conversation.calls
    call = conversation.result(to.time, name, result, metadata=None if metadata is None else extra)
    if call is not None:
        if not late:  # a later call may have set newer ones
            set_todos(to.time, call, conversation)
    elif not conversation.hold(name, to.number, result):
        is_first = not name or conversation.has_called(name)
        to.skip("a tool result for a call that is not open" if is_first else "a second tool result for a call")


def set_todos(time: int, call: OpenCall, conversation: Conversation) -> None:
    """Set the todo list that a call of TodoWrite has written."""
    result = call.result
    if result is None or result.failed or not isinstance(result.note, ResultNote):
        return
    if conversation.tool_of(call) != "TodoWrite":
        return
    written = input_of(call).get("todos")
    todos = written if written is None or result.note.todos is _NO_TODOS else result.note.todos
    if is_array(todos):
        conversation.add(time, ev.TodosSet(_todos_of(todos)))


def input_of(call: OpenCall) -> dict[str, Any]:
    """Return the input of a call; an empty object when it is something else."""
    value = json.loads(call.input) if call.input else None
    return value if is_object(value) else {}


def _todos_of(todos: list[Any]) -> tuple[Todo, ...]:
    """Return the entries of a TodoWrite list that are objects."""
    return tuple(
        Todo(
            text_of(entry.get("content")),
            text_of(entry.get("status")) or "pending",
            text_of(entry.get("priority")),
            text_of(entry.get("id")),
        )
        for entry in todos
        if is_object(entry)
    )
