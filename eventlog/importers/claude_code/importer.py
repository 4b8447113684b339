"""Importer of Claude Code sessions (JSONL, or one `{"loglines": […]}` document).

This module decides which session a record belongs to; `thread.py` turns it into events.

* The file's session is its first `sessionId`; without one, the path.  Sub-agents' records
  (`isSidechain`) are sessions of their own, named `SESSION:AGENT` or `SESSION:ROOT` after their
  first record, with the main session as parent.
* Events are in the order of lines.  A record belongs to its parent's node (`thread.py`); a record
  whose parent is unknown or null continues the file.  Branches become forks `SESSION:TIP`; the
  session itself follows the newest branch.
* Every readable record is stored so that `emit` gives it back, JSON-equal.  The report lists
  damaged lines, records that do not have a conversation's shape, and records of unknown types.  It
  does not list records of known types that are no part of a conversation.
* The session starts with the first user or assistant record, or after `PREAMBLE` other records; a
  file with fewer and none of those gives nothing.  The first prompt is the title until Claude Code
  gives one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

from eventlog import events as ev
from eventlog.importers.anthropic import blocks
from eventlog.importers.claude_code.records import ASIDE, CONVERSATION, ClaudeRecord, entries, is_claude_code, prompt_of
from eventlog.importers.claude_code.thread import INTERRUPT, Thread, input_of
from eventlog.importers.common.conversation_parts import ABORTED, OpenAnswer
from eventlog.importers.common.importer import ImportBatch, Report, bounded_id, path_identity
from eventlog.importers.common.json_lines import is_array, is_object, text_or_empty
from eventlog.importers.common.record_index import RecordIndex
from eventlog.values import MessageError, Origin

__all__ = ["ClaudeCode"]

NAME = "claude_code"
PREAMBLE = 64

AGENT_TOOLS = frozenset({"Task", "Agent"})
"""Tools that start a sub-agent."""
TURN_ENDS = frozenset({"stop_hook_summary", "turn_duration", "away_summary"})
"""System records that come when a turn is over."""


class ClaudeCode:
    """The importer."""

    name = NAME

    def detect(self, start: bytes, path: str) -> bool:
        """Whether one of the first lines is a Claude Code record; the name is ignored."""
        del path
        return is_claude_code(start)

    def read(self, file: BinaryIO, path: str, report: Report) -> Iterator[ImportBatch]:
        """Yield the file's events."""
        yield from _Reader(path, report).read(entries(file, report))


class _Reader:
    """One file while it is read."""

    def __init__(self, path: str, report: Report) -> None:
        self.path = path
        self.report = report
        self.threads: list[Thread] = []
        self.main: Thread | None = None
        self.agents: dict[str, Thread] = {}
        self.sidechain: Thread | None = None
        """The sub-session of the newest sidechain record."""
        self.positions = RecordIndex()
        """Record key to thread and node; also the ids of messages, with "m:" before them."""
        self.preamble: list[ClaudeRecord] = []
        self.begun = False
        self.session = ""
        self.version = ""
        self.time = 0
        self.forks: list[ImportBatch] = []
        self.titled = False

    def read(self, found: Iterator[ClaudeRecord]) -> Iterator[ImportBatch]:
        for entry in found:
            if self.begun:
                yield from self._read_record(entry)
                continue
            self.preamble.append(entry)
            if entry.kind in CONVERSATION or len(self.preamble) > PREAMBLE:
                self._begin()
                for early in self.preamble:
                    yield from self._read_record(early)
                self.preamble.clear()
        for entry in self.preamble:
            self.report.skip(entry.line, "no session begins: the file has no user or assistant record")
        for thread in self.threads:
            thread.early.close()
            if thread.batch.items:
                yield thread.pop_batch()

    # -- sessions --------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Find the session's id and first time among the records read so far."""
        self.begun = True
        records = [entry.record for entry in self.preamble if is_object(entry.record)]
        named = next((record["sessionId"] for record in records if isinstance(record.get("sessionId"), str)), "")
        self.session = named or path_identity(self.path)
        self.version = next((record["version"] for record in records if isinstance(record.get("version"), str)), "")
        self.time = next((entry.time for entry in self.preamble if entry.time is not None), 0)

    def _main(self, record: dict[str, Any]) -> Thread:
        if self.main is None:
            records = [record, *(early.record for early in self.preamble if is_object(early.record))]
            self.main = self._thread(self.session, records, ev.SessionStarted())
        return self.main

    def _thread(self, session: str, records: list[dict[str, Any]], started: ev.SessionStarted) -> Thread:
        directory = next((record["cwd"] for record in records if isinstance(record.get("cwd"), str)), "")
        origin = Origin(NAME, session, path_identity(self.path), self.version)
        event = ev.SessionStarted(
            started.title,
            "",
            directory,
            started.agent,
            None,
            bounded_id(started.parent) if started.parent else None,
            origin,
        )
        thread = Thread(bounded_id(session), len(self.threads), self.report, event, self.time)
        self.threads.append(thread)
        self.report.sessions.append(thread.session)
        return thread

    def _sub_session(self, entry: ClaudeRecord, record: dict[str, Any]) -> Thread:
        """Return the thread of a sidechain record: its agent's, its parent's, or a new one."""
        agent, parent = record.get("agentId"), record.get("parentUuid")
        if isinstance(agent, str) and agent:
            name = agent
        else:
            place = self._place(parent)
            if place is not None and place[0] is not self.main:
                self.sidechain = place[0]
                return place[0]
            if isinstance(parent, str) and place is None and self.sidechain is not None:
                return self.sidechain
            name = entry.key
        thread = self.agents.get(name)
        if thread is None:
            asked = record["message"].get("content") if is_object(record.get("message")) else None
            calls = self.main.calls.values() if self.main is not None and isinstance(asked, str) else ()
            inputs = (input_of(call) for call in calls if call.tool in AGENT_TOOLS)
            task = next((found for found in inputs if found.get("prompt") == asked), dict[str, Any]())
            title, agent = text_or_empty(task.get("description")), text_or_empty(task.get("subagent_type"))
            started = ev.SessionStarted(title, agent=agent, parent=self.session)
            thread = self.agents[name] = self._thread(f"{self.session}:{name}", [record], started)
        self.sidechain = thread
        return thread

    def _place(self, key: object) -> tuple[Thread, int] | None:
        """Return the thread and node of an earlier record."""
        found = self.positions.get(bounded_id(key)) if isinstance(key, str) and key else None
        return None if found is None else (self.threads[found >> 40], found & ((1 << 40) - 1))

    def _set_place(self, key: str, thread: Thread, node: int) -> None:
        self.positions.put(key, thread.number << 40 | node)

    # -- records ---------------------------------------------------------------------------------

    def _read_record(self, entry: ClaudeRecord) -> Iterator[ImportBatch]:
        """Add the events of one record, and its remainder."""
        if entry.time is not None:
            self.time = entry.time
        if is_object(entry.record):
            record = entry.record
            thread = self._record(entry, record)
        else:
            self.report.skip(entry.line, "not an object")
            thread = self._main({}) if not self.threads else self.threads[0]
            thread.remainder.plain = entry.plain
        thread.end_record(self.time, entry.line, entry.record)
        if self.forks:
            # A fork refers to its parent's versions so far, so the parent's batch goes first.
            yield thread.pop_batch()
            yield from self.forks
            self.forks = []
        elif thread.batch.full():
            yield thread.pop_batch()

    def _record(self, entry: ClaudeRecord, record: dict[str, Any]) -> Thread:
        side = record.get("isSidechain") is True and (entry.kind in CONVERSATION or "parentUuid" in record)
        thread = self._sub_session(entry, record) if side else self.main
        if thread is None:
            # A file with only sub-agents' records has no main session: other records go
            # to the first sub-agent's session.
            aside = self.threads and entry.kind not in CONVERSATION
            only_side = not self.threads and self._sidechain_first()
            thread = self.threads[0] if aside else self._sub_session(*only_side) if only_side else self._main(record)
        thread.remainder.plain = entry.plain
        if "uuid" in record and self.positions.get(entry.key) is not None:
            self.report.skip(entry.line, "a record with this uuid came before")
            return thread
        thread.on_branch(self.time, record.get("gitBranch"))
        if entry.kind in CONVERSATION:
            self._conversation(entry, record, thread)
        else:
            self._aside(entry, record, thread)
        return thread

    def _sidechain_first(self) -> tuple[ClaudeRecord, dict[str, Any]] | None:
        """Return the first message of the preamble, if it is a sub-agent's."""
        first = next((entry for entry in self.preamble if entry.kind in CONVERSATION), None)
        if first is None or not is_object(first.record):
            return None
        record = first.record
        return (first, record) if record.get("isSidechain") is True else None

    def _aside(self, entry: ClaudeRecord, record: dict[str, Any], thread: Thread) -> None:
        kind, time = entry.kind, self.time
        if kind == "system":
            subtype = text_or_empty(record.get("subtype"))
            if subtype == "compact_boundary":
                self._compact(entry, record, thread)
                return
            if subtype in TURN_ENDS and thread.open is not None:
                thread.supersede()
        elif kind == "summary":
            title = record.get("summary")
            if isinstance(title, str) and self._place(record.get("leafUuid")) is not None and not self.titled:
                thread.rename(time, title)
        elif kind == "custom-title":
            title = record.get("customTitle")
            if isinstance(title, str) and title:
                self.titled = True
                thread.rename(time, title)
        elif kind == "ai-title":
            title = record.get("aiTitle")
            if isinstance(title, str) and not self.titled:
                thread.rename(time, title)
        elif kind == "attachment":
            found = record.get("attachment")
            if is_object(found) and found.get("type") == "queued_command":
                self.report.skip(
                    entry.line, "a queued prompt that was sent as an attachment: kept, but not as a message"
                )
        elif kind not in ASIDE:
            self.report.skip(
                entry.line, f"a record of unknown type {kind[:40]!r}" if kind else "a record without a type"
            )
        if "uuid" in record:
            place = self._place(record.get("parentUuid"))
            at = place if place is not None and place[0] is thread else (thread, thread.node)
            self._set_place(entry.key, *at)

    def _conversation(self, entry: ClaudeRecord, record: dict[str, Any], thread: Thread) -> None:
        message = record.get("message")
        if not is_object(message):
            self.report.skip(entry.line, "its message is not an object")
            return
        fields = message
        content = fields.get("content")
        if isinstance(content, str):
            content = [content]
        if not is_array(content):
            self.report.skip(entry.line, "its message has no content")
            return
        found = content
        if entry.kind == "assistant":
            self._assistant(entry, record, fields, found, thread)
        elif record.get("isCompactSummary") is True:
            self._summary(entry, record, found, thread)
        else:
            self._user(entry, record, found, thread)

    def _fresh(self, wanted: str) -> str:
        """Return an unused message id: the wanted one, or one made from it."""
        name, number = wanted, 1
        while not self.positions.put(f"m:{name}", 0):
            number += 1
            name = bounded_id(f"{wanted}#{number}")
        return name

    def _advance(self, entry: ClaudeRecord, record: dict[str, Any], thread: Thread) -> None:
        """Begin a new message: on a branch if its parent is not in the newest node."""
        place = self._place(record.get("parentUuid"))
        if place is None or place[0] is not thread or place[1] == thread.node:
            thread.supersede()
            thread.begin_node(entry.key)
            return
        fork = thread.branch_off(self.time, place[1], entry.key)
        origin = Origin(NAME, f"{thread.session}:{fork.session}", path_identity(self.path), self.version)
        started = fork.items[0][1]
        assert isinstance(started, ev.SessionForked)
        fork.items[0] = (self.time, ev.SessionForked(started.parent, started.at, title=started.title, origin=origin))
        self.forks.append(fork)
        self.report.sessions.append(fork.session)

    def _user(self, entry: ClaudeRecord, record: dict[str, Any], content: list[Any], thread: Thread) -> None:
        said: list[Any] = []
        for block in content:
            if is_object(block) and block.get("type") == "tool_result":
                thread.tool_result(self.time, entry.line, entry.key, block, record.get("toolUseResult"))
            else:
                said.append(block)
        if not said and content:
            self._set_place(entry.key, thread, thread.node)
            return
        self._advance(entry, record, thread)
        texts = [block.get("text") if is_object(block) else block for block in said]
        if any(isinstance(text, str) and text.startswith(INTERRUPT) for text in texts):
            thread.interrupt_all(ABORTED)
        if not thread.title:
            thread.rename(self.time, prompt_of(record))
        thread.prompt(self.time, entry.line, self._fresh(entry.key), record, said)
        self._set_place(entry.key, thread, thread.node)

    def _assistant(
        self, entry: ClaudeRecord, record: dict[str, Any], message: dict[str, Any], content: list[Any], thread: Thread
    ) -> None:
        foreign = message.get("id")
        same = isinstance(foreign, str) and foreign and thread.open is not None and thread.open.foreign == foreign
        opened: OpenAnswer | None = thread.open if same else None
        if opened is None:
            self._advance(entry, record, thread)
            wanted = bounded_id(foreign) if isinstance(foreign, str) and foreign else entry.key
            opened = thread.start(self.time, self._fresh(wanted), foreign, message.get("model"), record.get("cwd"))
        thread.assistant(self.time, entry.line, entry.key, opened, content)
        for early in thread.arrived:  # records that follow an early result belong after its call
            self.positions.move(early, thread.number << 40 | thread.node)
        thread.arrived.clear()
        opened.reason = blocks.finish_reason(message.get("stop_reason")) or opened.reason
        thread.record_usage(self.time, opened, message.get("usage"), record.get("costUSD"))
        self._set_place(entry.key, thread, thread.node)
        if record.get("isApiErrorMessage") is True:
            texts = [block.get("text") for block in content if is_object(block)]
            words = " ".join(text for text in texts if isinstance(text, str))
            thread.interrupt_all(MessageError("api", words))

    def _compact(self, entry: ClaudeRecord, record: dict[str, Any], thread: Thread) -> None:
        found = record.get("compactMetadata")
        metadata = found if is_object(found) else {}
        auto = metadata.get("trigger") == "auto"
        thread.compact(self.time, self._fresh(entry.key), auto=auto, before=metadata.get("preTokens"))
        self._set_place(entry.key, thread, thread.node)

    def _summary(self, entry: ClaudeRecord, record: dict[str, Any], content: list[Any], thread: Thread) -> None:
        if thread.compaction is None:
            thread.compact(self.time, self._fresh(bounded_id(f"{entry.key}:marker")), auto=False, before=None)
        texts = [block.get("text") if is_object(block) else block for block in content]
        text = "\n\n".join(part for part in texts if isinstance(part, str))
        del record
        thread.summarize(self.time, self._fresh(entry.key), text)
        self._set_place(entry.key, thread, thread.node)
