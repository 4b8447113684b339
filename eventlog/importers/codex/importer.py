"""Importer of Codex rollouts (JSONL, one record a line), older shapes included.

* The file's session is the id in its `session_meta`, if that is the first record; else the path.  A
  sub-agent's session has its parent's id.  A forked session's file repeats what it was forked from:
  it is a session of its own, with the other's id in its metadata (`forked_from`).
* The model has seen the `response_item`s; `Duplicates` handles the `event_msg`s that repeat
  them. An event that ends a call gives its progress, and whether it failed; the item with the
  output gives its result. A command whose exit code is not 0 failed.
* An answer (assistant message) is what the model wrote in one request: it is over when it has a
  result, or its tokens were counted.  What Codex itself puts into the history (developer's
  messages, the environment) become synthetic user messages.
* `compacted` covers everything before it; the messages it keeps are added again after the summary.
  Without a summary that can be read, as when the provider keeps it encrypted, it covers nothing,
  and no message is added again.
  `thread_rolled_back` goes back to before the turns it drops.
* Every readable record is stored so that `emit` gives it back, JSON-equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

from eventlog import events as ev
from eventlog.importers.codex.items import ALL_KINDS, Rollout, is_failed, progress_of
from eventlog.importers.codex.records import CodexRecord, ScreenEvent, entries, is_codex, parent_of, summary_of
from eventlog.importers.common.conversation import Conversation
from eventlog.importers.common.conversation_parts import ABORTED, COVERS_NOTHING, added
from eventlog.importers.common.importer import GrowingImporter, ImportBatch, Report, Skipped, bounded_id, path_identity
from eventlog.importers.common.json_lines import dump, is_array, is_object
from eventlog.importers.common.record_index import RecordIndex
from eventlog.importers.openai import items
from eventlog.streams.openai_responses import COMPACTIONS
from eventlog.streams.records import metadata_of, number_of, text_of
from eventlog.streams.tokens import responses_usage
from eventlog.values import MessageError, Origin, Reasoning, Text, Tokens, Usage

NAME = "codex"
MAX_NOTE = 1024
"""Longest JSON text of a call's progress that is kept in an event."""

ASIDE = frozenset(
    {
        "account/rateLimits/updated", "agent_reasoning_section_break", "codex/event/raw_item", "collab_agent_interaction_end",
        "collab_agent_spawn_end", "collab_close_end", "collab_resume_end", "collab_waiting_end", "context_compacted",
        "dynamic_tool_call_request", "entered_review_mode", "exited_review_mode", "guardian_assessment", "image_generation_end",
        "sub_agent_activity", "task_started", "thread_goal_updated", "thread_settings_applied", "turn_started", "undo_completed",
        "undo_started", "view_image_tool_call", "web_search_end",
    }
)  # fmt: skip
"""Known types of `event_msg` that add nothing to what the items have."""
OUTER_ASIDE = frozenset({"world_state", "inter_agent_communication_metadata", "state", "repeated"})


class _Reader:
    """One file while it is read, also as it grows."""

    conversation: Conversation
    rollout: Rollout

    def __init__(self, path: str, report: Report) -> None:
        self.path = path
        self.report = report
        self.begun = False
        self.has_meta = False
        """Whether the session's own data were read."""
        self.total = Usage(Tokens())
        """Usage of the session, as Codex last reported it."""
        self.context: int | None = None
        """Tokens of the latest request."""
        self._seen = RecordIndex()

    def read(self, file: BinaryIO, after: int = 0) -> Iterator[ImportBatch]:
        """See `RecordReader`."""
        for entry in entries(file, self.report, self._seen, after):
            if not self.begun:
                self._begin(entry)
            self.read_record(entry)
            if self.conversation.batch.full():
                yield self.conversation.pop_batch()
        if self.begun and self.conversation.batch.items:
            yield self.conversation.pop_batch()

    def unsettled(self) -> Iterator[Skipped]:
        """See `RecordReader`."""
        if self.begun:
            for event in self.rollout.duplicates.waiting():
                yield Skipped(event.line, f"an event with a text of the {event.kind} whose item has not come")
            yield from self.conversation.early.unsettled()

    def _begin(self, first: CodexRecord) -> None:
        """Begin the session with the first record."""
        self.begun = True
        meta = first.payload if first.kind == "session_meta" else {}
        identity = text_of(meta.get("id")) or path_identity(self.path)
        time = first.time or 0
        parent, agent = parent_of(meta)
        started = ev.SessionStarted(
            directory=text_of(meta.get("cwd")),
            agent=agent,
            parent=bounded_id(parent) if parent else None,
            origin=Origin(NAME, identity, path_identity(self.path), text_of(meta.get("cli_version"))),
        )
        self.conversation = Conversation(bounded_id(identity), self.report, started, time)
        self.report.sessions.append(self.conversation.session)
        provider = text_of(meta.get("model_provider")) or items.PROVIDER
        self.rollout = Rollout(self.conversation, provider, started.directory, time)

    # -- records ---------------------------------------------------------------------------------

    def read_record(self, entry: CodexRecord) -> None:
        """Add the events of one record, and its remainder."""
        if entry.time is not None:
            self.rollout.time = entry.time
        self.rollout.begin(entry.line)
        self.conversation.remainder.plain = entry.plain
        if not is_object(entry.record):
            self.report.skip(entry.line, "not an object")
        elif entry.kind in {"response_item", "event_msg", "compacted", "session_meta", "turn_context"}:
            if entry.payload:
                self._record(entry.kind, entry.line, entry.payload)
            else:
                self.report.skip(entry.line, "its payload is not an object, or empty")
        elif entry.kind not in OUTER_ASIDE:
            kind = entry.kind[:40]
            self.report.skip(entry.line, f"a record of unknown type {kind!r}" if kind else "a record without a type")
        self.conversation.end_record(self.rollout.time, entry.line, entry.record)

    def _record(self, kind: str, line: int, payload: dict[str, Any]) -> None:
        if kind == "response_item":
            self.rollout.item(payload)
        elif kind == "event_msg":
            self._event(line, payload)
        elif kind == "turn_context":
            self.rollout.settings(payload, "effort")
        elif kind == "compacted":
            self._compacted(line, payload)
        else:
            self._meta(payload)

    def _meta(self, meta: dict[str, Any]) -> None:
        if self.has_meta:
            return
        self.has_meta = True
        base = meta.get("base_instructions")
        header = text_of(base.get("text") if is_object(base) else base)
        rest = text_of(meta.get("instructions"))
        if header or rest:
            self.conversation.remainder.move(header, "header")
            self.conversation.add(
                self.rollout.time,
                ev.SystemPromptSet(self.conversation.batch.content(header), self.conversation.batch.content(rest)),
            )
        tools = meta.get("dynamic_tools")
        if is_array(tools) and tools:
            self.conversation.remainder.move_value(tools, "schemas")
            self.conversation.add(self.rollout.time, ev.ToolsSet(self.conversation.batch.content(dump(tools))))
        git = meta.get("git")
        notes = {"git_branch": git.get("branch") if is_object(git) else None, "forked_from": meta.get("forked_from_id")}
        for key, value in notes.items():
            if isinstance(value, str) and value:
                self.conversation.add(self.rollout.time, ev.MetadataSet(key, dump(value)))

    # -- events ------------------------------------------------------------------------------------

    def _event(self, line: int, event: dict[str, Any]) -> None:
        kind = text_of(event.get("type"))
        self.rollout.limits(event.get("model_context_window"))
        if kind == "user_message":
            self.rollout.add_unmatched(ALL_KINDS)
            self._screen_event(line, "user", event.get("message"), event.get("images"))
        elif kind == "agent_message":
            self._screen_event(line, "assistant", event.get("message"))
        elif kind in {"agent_reasoning", "agent_reasoning_raw_content"}:
            self._screen_event(line, "reasoning", event.get("text"))
        elif kind == "item_completed":
            self._completed(line, event.get("item"))
        elif kind == "token_count":
            self._tokens(event.get("info"))
        elif kind in {"task_complete", "turn_complete", "turn.completed"}:
            self._turn_over(event)
        elif kind == "turn_aborted":
            self.rollout.add_unmatched(ALL_KINDS)
            self.conversation.interrupt_all(ABORTED)
        elif kind in {"error", "stream_error"}:
            self.rollout.add_unmatched(ALL_KINDS)
            self._failed(event)
        elif kind == "thread_name_updated":
            self.rollout.titled = True
            self.conversation.rename(self.rollout.time, text_of(event.get("thread_name")))
        elif kind == "thread_rolled_back":
            self._roll_back(event.get("num_turns"))
        elif kind.endswith(("_end", "_response")) and kind not in ASIDE:
            self._end(line, event.get("call_id"), event)
        elif kind not in ASIDE:
            self.report.skip(line, f"an event of unknown type {kind[:40]!r}" if kind else "an event without a type")
        if kind == "thread_settings_applied" and is_object(event.get("thread_settings")):
            self.rollout.settings(event["thread_settings"], "reasoning_effort")

    def _screen_event(self, line: int, kind: str, text: object, images: object = None) -> None:
        if not isinstance(text, str):
            self.report.skip(line, "an event without its text")
            return
        urls = tuple(url for url in (images if is_array(images) else []) if isinstance(url, str))
        self.rollout.duplicates.add_event(ScreenEvent(kind, text, line, self.rollout.time, urls))

    def _completed(self, line: int, item: object) -> None:
        """Handle a finished item, as newer versions report it to the screen."""
        if not is_object(item):
            self.report.skip(line, "a completed item that is not an object")
            return
        kind, name = text_of(item.get("type")), item.get("id")
        if kind == "UserMessage":
            self._screen_event(line, "user", "".join(items.texts_of(item.get("content"))))
        elif kind == "AgentMessage":
            self._screen_event(line, "assistant", "".join(items.texts_of(item.get("content"))))
        elif kind == "Reasoning":
            for text in items.texts_of(item.get("summary_text")):
                self._screen_event(line, "reasoning", text)
        elif kind in {"CommandExecution", "McpToolCall", "FileChange", "DynamicToolCall"}:
            self._end(line, name, item)

    def _end(self, line: int, name: object, event: dict[str, Any]) -> None:
        """Handle the end of a call on the screen; its result comes as an item."""
        call = self.conversation.calls.get(name) if isinstance(name, str) else None
        if call is not None and isinstance(name, str):
            if is_failed(event):
                self.rollout.failing.add(name)
            note = dump(progress_of(event))
            if len(note) <= MAX_NOTE:
                self.conversation.add(self.rollout.time, ev.ToolProgress(call.part, metadata=note))
        elif not isinstance(name, str) or self.rollout.ids.get(f"c:{name}") is None:
            self.report.skip(line, "the end of a call that the conversation does not have: kept, but not as a part")

    def _tokens(self, info: object) -> None:
        if not is_object(info):
            return
        self.rollout.limits(info.get("model_context_window"))
        total, last = info.get("total_token_usage"), info.get("last_token_usage")
        if is_object(total):
            before, self.total = self.total, responses_usage(total)
            if before == self.total:
                return
            usage = responses_usage(last) if is_object(last) else added(before, self.total)
        elif is_object(last):
            usage = responses_usage(last)
        elif "prompt" in info or "completion" in info:
            usage = Usage(Tokens(number_of(info.get("prompt")), number_of(info.get("completion"))))
        else:
            return
        if usage is None or usage.tokens in {Tokens(), Tokens(total=0)}:
            return
        self.context = usage.tokens.total
        self.conversation.usage(self.rollout.time, usage)
        self.rollout.ended = self.conversation.open is not None

    def _turn_over(self, event: dict[str, Any]) -> None:
        self.rollout.add_unmatched(ALL_KINDS)
        usage, error = event.get("usage"), event.get("error")
        if is_object(usage):
            self.conversation.usage(self.rollout.time, responses_usage(usage))
        if is_object(error) and self.conversation.open is not None:
            self.conversation.interrupt_all(_error(error))
        self.conversation.supersede()

    def _failed(self, event: dict[str, Any]) -> None:
        inner = event.get("error")
        self.rollout.opened()
        self.conversation.interrupt_all(_error(inner if is_object(inner) else event))

    def _roll_back(self, turns: object) -> None:
        dropped = min(number_of(turns), len(self.rollout.prompts))
        if not dropped:
            return
        self.rollout.add_unmatched(ALL_KINDS)
        self.conversation.add(self.rollout.time, ev.RolledBack(self.rollout.prompts[-dropped]))
        del self.rollout.prompts[-dropped:]
        self.conversation.abandon()
        self.rollout.model, self.rollout.window, self.rollout.ended = None, 0, False

    # -- compaction --------------------------------------------------------------------------------

    def _compacted(self, line: int, record: dict[str, Any]) -> None:
        self.rollout.add_unmatched(ALL_KINDS)
        found = record.get("replacement_history")
        history = [item for item in (found if is_array(found) else []) if is_object(item)]
        text = text_of(record.get("message")) or summary_of(history)
        opaque = next((item for item in history if text_of(item.get("type")) in COMPACTIONS), None)
        if opaque is not None and not text:
            self.rollout.compact(opaque, history)
            return
        part = self.conversation.compact(
            self.rollout.time, f"line-{line}:marker", auto=self.conversation.open is not None, before=self.context
        )
        kinds: list[tuple[Text | Reasoning, str, str]] = []
        if text:
            kinds.append((Text(self.conversation.batch.content(text)), text, "text"))
        for item in history:
            secret = text_of(item.get("encrypted_content"))
            if text_of(item.get("type")) in COMPACTIONS and secret:
                name = text_of(item.get("id"))
                metadata = metadata_of(items.PROVIDER, itemId=name, reasoningEncryptedContent=secret)
                kinds.append((Reasoning(metadata=metadata), secret, "born_secret"))
        said = self.conversation.summary(self.rollout.time, part, f"line-{line}:marker", f"line-{line}", kinds)
        if not said:
            self.report.skip(line, COVERS_NOTHING)  # the view shows the messages where they were said
            return
        for number, item in enumerate(history):
            if item.get("type") == "message":
                self._again(line, number, item, text)

    def _again(self, line: int, number: int, item: dict[str, Any], summary: str) -> None:
        """Add a message that a compaction left, unless it is the summary."""
        content, name = item.get("content"), f"line-{line}:{number}"
        texts = items.texts_of(content)
        if summary and any(summary in text for text in texts):
            return
        if item.get("role") != "assistant":
            said, _ = items.user_parts(content, self.conversation.batch, synthetic=True)
            if said:
                self.rollout.say(f"{name}:again", said, synthetic=True)
        elif texts:
            message = ev.AssistantMessageStarted(f"{name}:again", self.conversation.last_user, model=self.rollout.model)
            self.conversation.answer(self.rollout.time, message)
            for place, text in enumerate(texts):
                self.conversation.text(self.rollout.time, f"{name}:again:{place}", text)
            self.conversation.supersede()


def _error(fields: dict[str, Any]) -> MessageError:
    names = [fields.get(key) for key in ("codex_error_info", "kind", "code")]
    name = next((name for name in names if isinstance(name, str) and name), "api")
    words = [fields.get(key) for key in ("message", "text")]
    return MessageError(name, next((text for text in words if isinstance(text, str)), ""), dump(fields))


CODEX = GrowingImporter(NAME, is_codex, _Reader)
