"""Importer of Claude Code sessions (JSONL, or one `{"loglines": […]}` document).

This module decides which session a record belongs to, and where branches begin; `mapping.py` says
what it means.

* The file's session is its first `sessionId`; without one, the path.  Sub-agents' records
  (`isSidechain`) are sessions of their own, named `SESSION:AGENT` or `SESSION:ROOT` after their
  first record, with the main session as parent.
* Events are in the order of lines.  A record belongs to its parent's node (`thread.py`), which may
  stand behind it (`parent_links.py`); a record whose parent never comes continues the file. So
  does one without a parent, unless it is a prompt of a file one of whose first two messages has
  one: it begins the conversation anew.  Branches become forks `SESSION:TIP`; the session itself
  follows the newest branch.
* Every readable record is stored so that `emit` gives it back, JSON-equal.  The report lists
  damaged lines, records that do not have a conversation's shape, and records of unknown types.  It
  does not list records of known types that are no part of a conversation.
* The session starts with the first user or assistant record, or after `PREAMBLE` other records; a
  file with fewer and none of those gives nothing.  The first prompt is the title until Claude Code
  gives one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, BinaryIO

from eventlog import events as ev
from eventlog.importers.claude_code.mapping import TURN_ENDS, ClaudeCodeMapping, input_of
from eventlog.importers.claude_code.records import (
    CONVERSATION,
    ClaudeRecord,
    content_of,
    entries,
    is_claude_code,
    is_document,
    is_message,
    is_root,
    kept_of,
)
from eventlog.importers.claude_code.thread import AGENT_TOOLS, Places, Thread
from eventlog.importers.common.builder import RecordBuilder
from eventlog.importers.common.importer import (
    GrowingImporter,
    ImportBatch,
    Report,
    Skipped,
    bounded_id,
    own_id,
    path_identity,
)
from eventlog.importers.common.json_lines import OBJECT, is_object
from eventlog.importers.common.record_index import RecordIndex
from eventlog.streams.records import text_of
from eventlog.values import Origin

NAME = "claude_code"
PREAMBLE = 64


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
        self.places = Places(self.threads)
        self.messages = RecordIndex()
        """Ids of messages."""
        self.preamble: list[ClaudeRecord] = []
        self.begun = False
        self.session = ""
        self.version = ""
        self.time = 0
        self.forks: list[ImportBatch] = []
        self.place: tuple[Thread, int] | None = None
        """Thread and node of the parent of the record that is read."""
        self.builder: _ThreadBuilder | None = None
        """Takes what the records of the newest record's thread mean."""
        self._followers: set[str] = set()
        """Records that waited for the message that begins."""
        self.mapping = _FileMapping(self)

    def read(self, file: BinaryIO, after: int = 0) -> Iterator[ImportBatch]:
        """See `RecordReader`."""
        found = entries(file, self.report, after)
        for entry in found if self.begun else chain(self._early(found), found):
            thread = self._read_record(entry)
            if self.forks:
                # A fork refers to its parent's versions so far, so the parent's batch goes first.
                yield thread.pop_batch()
                yield from self.forks
                self.forks = []
            elif thread.batch.full():
                yield thread.pop_batch()
        for thread in self.threads:
            if thread.batch.items:
                yield thread.pop_batch()

    def unsettled(self) -> Iterator[Skipped]:
        """See `RecordReader`."""
        for entry in self.preamble:
            yield Skipped(entry.line, "no session begins: the file has no user or assistant record")
        for thread in self.threads:
            yield from thread.early.unsettled()

    # -- sessions --------------------------------------------------------------------------------

    def _early(self, found: Iterator[ClaudeRecord]) -> Iterator[ClaudeRecord]:
        """Yield the first records, once one of them begins the session."""
        for entry in found:
            self.preamble.append(entry)
            if is_message(entry.record) or len(self.preamble) > PREAMBLE:
                self.begun = True
                self._begin()
                yield from self.preamble
                self.preamble.clear()
                return

    def _begin(self) -> None:
        """Find the session's id and first time among the records read so far."""
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
            place = self.places.of(parent)
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
            title, agent = text_of(task.get("description")), text_of(task.get("subagent_type"))
            started = ev.SessionStarted(title, agent=agent, parent=self.session)
            thread = self.agents[name] = self._thread(f"{self.session}:{name}", [record], started)
        self.sidechain = thread
        return thread

    # -- records ---------------------------------------------------------------------------------

    def _read_record(self, entry: ClaudeRecord) -> Thread:
        """Add the events of one record, and its remainder; return its thread."""
        if entry.time is not None:
            self.time = entry.time
        if isinstance(entry.record, OBJECT):
            thread = self._record(entry, entry.record)
        else:
            self.report.skip(entry.line, "not an object")
            thread = self._main({}) if not self.threads else self.threads[0]
            thread.remainder.plain = entry.plain
        thread.end_record(self.time, entry.line, entry.record)
        return thread

    def _record(self, entry: ClaudeRecord, record: dict[str, Any]) -> Thread:
        side = record.get("isSidechain") is True and (is_message(record) or "parentUuid" in record)
        thread = self._sub_session(entry, record) if side else self.main
        if thread is None:
            # A file with only sub-agents' records has no main session: other records go
            # to the first sub-agent's session.
            aside = self.threads and not is_message(record)
            only_side = not self.threads and self._sidechain_first()
            thread = self.threads[0] if aside else self._sub_session(*only_side) if only_side else self._main(record)
        thread.remainder.plain = entry.plain
        if "uuid" in record and self.places.has(entry.key):
            self.report.skip(entry.line, "a record with this uuid came before")
            return thread
        thread.on_branch(self.time, record.get("gitBranch"))
        node = thread.node
        parent = record.get("parentUuid")
        self.place = self.places.of(parent) if parent else None
        self.mapping.over = thread.links.ends(record.get("uuid"))
        self.mapping.in_order = thread.links.follows(parent, has_come=self.place is not None)
        self._followers = set()
        builder = self.builder
        if builder is None or builder.conversation is not thread:
            builder = self.builder = _ThreadBuilder(thread, self)
        builder.number, builder.time = entry.line, self.time
        self.mapping.entry, self.mapping.thread = entry, thread
        self.mapping.read(record, builder)
        if node < thread.node <= 2:
            thread.linked = thread.linked or isinstance(parent, str)
        self._place_record(entry, record, thread, begun=node < thread.node)
        return thread

    def _sidechain_first(self) -> tuple[ClaudeRecord, dict[str, Any]] | None:
        """Return the first message of the preamble, if it is a sub-agent's."""
        first = next((entry for entry in self.preamble if is_message(entry.record)), None)
        if first is None or not is_object(first.record):
            return None
        record = first.record
        return (first, record) if record.get("isSidechain") is True else None

    def _place_record(self, entry: ClaudeRecord, record: dict[str, Any], thread: Thread, *, begun: bool) -> None:
        """Note where a record is that others may name as their parent."""
        at, uuid, parent, place = thread.node, entry.uuid, record.get("parentUuid"), self.place
        has_come = place is not None
        followers: Iterable[str] = ()
        is_aside = False
        if entry.kind == "system" and record.get("subtype") == "compact_boundary":
            kept = kept_of(record)
            followers = thread.links.node(uuid, kept[-1] if kept else "")
            self.places.move_tail(thread.links.tail, thread)
        elif entry.kind == "user" and record.get("isCompactSummary") is True and begun:
            self.places.move_tail(thread.links.tail, thread)
            followers = thread.links.node(uuid)
        elif begun:
            followers = self._followers
        elif entry.kind in CONVERSATION and content_of(record) is not None:
            followers = thread.links.inside(uuid, parent, has_come=has_come)
        elif "uuid" not in record or entry.kind in CONVERSATION:
            return
        else:
            is_aside = True
            ends = text_of(record.get("subtype")) in TURN_ENDS
            followers = thread.links.aside(uuid, parent, has_come=has_come, ends=ends)
        if is_aside and place is not None and place[0] is thread:
            at = place[1]
            self.places.share(entry.key, text_of(parent))
        else:
            self.places.add(entry.key, thread, at, is_aside=is_aside)
        for late in (*thread.arrived, *map(bounded_id, followers)):  # records that stand before the one they follow
            self.places.follow(late, entry.key, thread, at)
        thread.arrived.clear()

    def advance(self, entry: ClaudeRecord, record: dict[str, Any], thread: Thread) -> None:
        """Begin a new message where the links place it."""
        place, parent = self.place, record.get("parentUuid")
        uuid, has_come = entry.uuid, place is not None
        root, links = is_root(record), thread.links
        branches = links.branches(uuid, parent, has_come=has_come, is_root=root, is_linked=thread.linked)
        if root and branches:
            place = thread, 0
        branches = branches and place is not None and place[0] is thread and place[1] not in thread.newest
        self._followers = links.message(uuid, parent, has_come=has_come, is_branch=branches)
        if not branches or place is None:
            thread.supersede()
            thread.begin_node(entry.key)
            thread.newest = {thread.node}
            return
        self._branch_off(entry, thread, place[1])

    def go_back(self, entry: ClaudeRecord, record: dict[str, Any], thread: Thread) -> None:
        """Go back to the branch of results, if the conversation has left it."""
        place, parent = self.place, record.get("parentUuid")
        if place is None or place[0] is not thread or place[1] in thread.branches:
            return
        if not thread.links.follows(parent, has_come=True):
            return
        self._followers = thread.links.message(entry.uuid, parent, has_come=True, is_branch=True)
        self._branch_off(entry, thread, place[1])
        thread.newest.add(place[1])

    def _branch_off(self, entry: ClaudeRecord, thread: Thread, node: int) -> None:
        """Begin a branch behind a node; the one that is left becomes a fork."""
        fork = thread.branch_off(self.time, node, entry.key)
        thread.newest = {thread.node}
        origin = Origin(NAME, f"{thread.session}:{fork.session}", path_identity(self.path), self.version)
        started = fork.items[0][1]
        assert isinstance(started, ev.SessionForked)
        fork.items[0] = (self.time, ev.SessionForked(started.parent, started.at, title=started.title, origin=origin))
        self.forks.append(fork)
        self.report.sessions.append(fork.session)


class _ThreadBuilder(RecordBuilder):
    """Takes what one record of a thread means."""

    conversation: Thread

    def __init__(self, thread: Thread, reader: _Reader) -> None:
        super().__init__(thread)
        self._reader = reader

    def fresh(self, wanted: Sequence[str]) -> str:
        """Return an unused message id: the first that is wanted, or one made from it."""
        name, number = wanted[0], 1
        while not self._reader.messages.put(name, 0):
            number += 1
            name = bounded_id(f"{wanted[0]}#{number}")
        return name


class _FileMapping(ClaudeCodeMapping):
    """The mapping of the records of a file, which have lines and branches."""

    entry: ClaudeRecord
    thread: Thread

    def __init__(self, reader: _Reader) -> None:
        super().__init__(sidechain=True)  # the records of each are told apart already
        self._reader = reader

    def key(self, record: dict[str, Any]) -> str:
        del record
        return self.entry.key

    def part(self, key: str, place: int) -> str:
        return own_id(key, str(place))

    def knows(self, uuid: object) -> bool:
        return self._reader.places.of(uuid) is not None

    def kept(self, uuids: Sequence[str], to: RecordBuilder) -> tuple[str, ...]:
        del to
        return self._reader.places.kept(uuids, self.thread)

    def begin(self, record: dict[str, Any], to: RecordBuilder) -> None:
        del to
        self._reader.advance(self.entry, record, self.thread)

    def begin_node(self, message: str) -> None:
        self.thread.begin_node(message)
        self.thread.newest = {self.thread.node}

    def go_back(self, record: dict[str, Any], to: RecordBuilder) -> None:
        del to
        self._reader.go_back(self.entry, record, self.thread)


CLAUDE_CODE = GrowingImporter(NAME, is_claude_code, _Reader, is_document)
