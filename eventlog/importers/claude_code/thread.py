"""One session of a Claude Code file while it is read: branches, and places of records.

`importer.py` decides whose record it is; `mapping.py` says what it means.

Messages are counted as *nodes*, in the order in which they come.  A new message that the links
(`parent_links.py`) place elsewhere begins a branch: the versions before it become a fork, and this
session is rolled back to the end of the parent's node and goes on with the new branch, as Claude
Code itself does. A branch may stand behind an older node of the same branch or of a left one.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, TypeAlias

from eventlog import events as ev
from eventlog.importers.claude_code.mapping import ResultNote, set_todos
from eventlog.importers.claude_code.parent_links import Links
from eventlog.importers.common.conversation import MAX_DONE, Conversation
from eventlog.importers.common.conversation_parts import CallInput, OpenAnswer, OpenCall, UserPart
from eventlog.importers.common.importer import ImportBatch, Report, bounded_id, own_id
from eventlog.importers.common.json_lines import dump
from eventlog.importers.common.record_index import RecordIndex
from eventlog.values import MessageError, Reasoning, Text, Tool


class Branches:
    """The nodes on the way to the newest one, and those of left branches."""

    def __init__(self) -> None:
        self._first = [0]
        """First node of each branch."""
        self._behind = [-1]
        """The node that each branch stands behind."""
        self._starts, self._ends = [0], [-1]
        """First and last nodes of the pieces of the way; the last piece has no end."""

    def __contains__(self, node: int) -> bool:
        """Whether a node is on the way to the newest one."""
        place = bisect_right(self._starts, node) - 1
        return place >= 0 and (node <= self._ends[place] or place == len(self._ends) - 1)

    def begin(self, node: int, behind: int) -> None:
        """Begin a branch with a new node."""
        self._first.append(node)
        self._behind.append(behind)
        starts, ends = [node], [-1]
        while behind >= 0:
            place = bisect_right(self._first, behind) - 1
            starts.append(self._first[place])
            ends.append(behind)
            behind = self._behind[place]
        self._starts, self._ends = starts[::-1], ends[::-1]


AGENT_TOOLS = frozenset({"Task", "Agent"})
"""Tools that start a sub-agent."""
MAX_NAMES = 8192
"""Messages that a compaction may keep: more than a window of the model holds."""


MAX_PAST = 2 * MAX_DONE
"""Calls that are known again when the file goes back to a branch that it left."""


_Status: TypeAlias = Literal["running", "interrupted", "done", "cleared"]


class _Past(NamedTuple):
    """A call and how it stood, each time with the node at which it came to that."""

    name: str
    call: OpenCall
    statuses: list[tuple[int, _Status]]


class Thread(Conversation):
    """State of one session with branches while its file is read."""

    def __init__(self, session: str, number: int, report: Report, started: ev.SessionStarted, time: int) -> None:
        self.number = number
        self.ends: array[int] = array("Q")
        """Version at the end of each node but the newest."""
        self.node: int = 0
        """Number of the newest node; node 0 is what stands before the first message."""
        self.tip: str = ""
        """Key of the newest record of the conversation."""
        self.linked = False
        """Whether messages name their parents: one of the first two does."""
        self.links: Links = Links()
        self.names: dict[int, str] = {}
        """Messages of the newest nodes, of all branches."""
        self.newest: set[int] = set()
        """The newest node, and the one whose results it has."""
        self.summaries: set[int] = set()
        """Nodes of summaries."""
        self.arrived: list[str] = []
        """Keys of the records whose early results the current record's calls received."""
        self.branch: str | None = None
        """Git branch of the newest record."""
        self.branches: Branches = Branches()
        self._past: dict[str, _Past] = {}
        """The newest calls of all branches, by their parts."""
        super().__init__(session, report, started, time)

    # -- branches ------------------------------------------------------------------------------

    def begin_node(self, key: str) -> None:
        """Begin the node of a new message."""
        self.ends.append(self.version)
        self.node += 1
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
        self.branches.begin(self.node, node)
        self._restore_calls()
        self.compaction: tuple[str, str] | None = None
        self.last_user: str | None = None
        return fork

    def _restore_calls(self) -> None:
        """Make calls and results what they were where the branch begins."""
        for found in (self.calls, self.interrupted, self.done):
            found.clear()
        waiting = dict[str, OpenAnswer]()
        for past in self._past.values():
            past.call.answer.calls.clear()
        for name, call, statuses in self._past.values():
            status: _Status | None = next((one for node, one in reversed(statuses) if node in self.branches), None)
            if status == "cleared":
                super().stands(name, call, "done")
                super().clear(name, call.part)
            elif status is not None:
                super().stands(name, call, status)
        for name, call in self.calls.items():
            call.answer.calls.add(name)
            waiting[call.answer.id] = call.answer
        self.waiting: list[OpenAnswer] = sorted(waiting.values(), key=lambda answer: answer.node)

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
        step = own_id(answer.id, f"finish{answer.finishes or ''}")
        answer.finishes += 1
        self.add(answer.time, ev.StepFinished(answer.id, step, answer.reason or ""))
        self.add(answer.time, ev.MessageFinished(answer.id, answer.reason, error))

    # -- messages ------------------------------------------------------------------------------

    def user(self, time: int, event: ev.UserMessageAdded, parts: Iterable[UserPart | None], title: str = "") -> None:
        """Add a user message; its node has begun."""
        super().user(time, event, parts, title)
        self._name(event.message)

    def summary(
        self, time: int, part: str, asked: str, message: str, kinds: Iterable[tuple[Text | Reasoning, str, str]]
    ) -> bool:
        """Complete a compaction with its summary; its node has begun."""
        self._name(message)
        self.summaries.add(self.node)
        return super().summary(time, part, asked, message, kinds)

    def _name(self, message: str) -> None:
        self.names[self.node] = message
        if len(self.names) > MAX_NAMES:
            del self.names[next(iter(self.names))]

    def answer(self, time: int, event: ev.AssistantMessageStarted) -> OpenAnswer:
        """Begin an assistant message; its node has begun."""
        answer = super().answer(time, event)
        answer.node = self.node
        self._name(event.message)
        return answer

    # -- calls ---------------------------------------------------------------------------------

    def stands(self, name: str, call: OpenCall, status: Literal["running", "interrupted", "done"]) -> None:
        """Note how a call stands at this node."""
        super().stands(name, call, status)
        if call.part not in self._past:
            kept = call.input if call.tool in {"TodoWrite", *AGENT_TOOLS} else ""
            self._past[call.part] = _Past(name, OpenCall(call.part, call.answer, call.tool, kept), [])
            if len(self._past) > MAX_PAST:
                over = (part for part, past in self._past.items() if past.statuses[-1][1] != "running")
                del self._past[next(over, next(iter(self._past)))]
        self._past[call.part].statuses.append((self.node, status))

    def clear(self, name: str, part: str) -> None:
        """Note that a result is cleared at this node."""
        super().clear(name, part)
        if part in self._past:
            self._past[part].statuses.append((self.node, "cleared"))

    def call(self, time: int, part: str, kind: Tool, given: CallInput) -> OpenCall:
        """Add a call to the open answer, with the effects of a result that came early."""
        call = super().call(time, part, kind, given)
        if call.result is not None:
            assert isinstance(call.result.note, ResultNote)
            self.arrived.append(call.result.note.key)
            set_todos(time, call, self)
        return call


_NODE = (1 << 40) - 1
_ASIDE = 1 << 40
"""Of a place: its node, whether it is that of no message, and above that its thread."""


class Places:
    """Places by the keys of records; `threads` are those of the file so far."""

    def __init__(self, threads: list[Thread]) -> None:
        self._threads = threads
        self._positions = RecordIndex()
        """Record key to the number of its place, and whether it is no message."""
        self._places = array("Q")
        """Thread and node of each message's record, shared by what follows it and is no message."""
        self._moved: dict[int, int] = {}
        """Where what follows the last message stands that a compaction keeps, by its place."""

    def has(self, key: str) -> bool:
        """Whether a record of this key came before."""
        return self._positions.get(key) is not None

    def of(self, uuid: object) -> tuple[Thread, int] | None:
        """Return the thread and node of an earlier record."""
        found = self._positions.get(bounded_id(uuid)) if isinstance(uuid, str) and uuid else None
        if found is None:
            return None
        at = self._moved.get(found >> 1, self._places[found >> 1])
        return self._threads[at >> 41], at & _NODE

    def add(self, key: str, thread: Thread, node: int, *, is_aside: bool) -> None:
        """Place a record at a node; `is_aside`: it is no message."""
        self._positions.move(key, len(self._places) << 1 | is_aside)
        self._places.append(thread.number << 41 | (_ASIDE if is_aside else 0) | node)

    def share(self, key: str, parent: str) -> None:
        """Place a record that is no message where its parent is."""
        self._positions.move(key, (self._positions.get(bounded_id(parent)) or 0) | 1)

    def follow(self, late: str, key: str, thread: Thread, node: int) -> None:
        """Move a record that stands before the record `key`, which it follows, to its node."""
        found = self._positions.get(late)
        if found is not None and self._places[found >> 1] & _ASIDE:
            self._positions.move(late, (self._positions.get(key) or 0) | 1)
        elif found is not None:
            self._places[found >> 1] = thread.number << 41 | node

    def move_tail(self, tail: str, thread: Thread) -> None:
        """Place what follows the last message that a compaction keeps behind the newest node."""
        found = self._positions.get(bounded_id(tail)) if tail else None
        if found is not None and self._places[found >> 1] >> 41 == thread.number:
            self._moved[found >> 1] = thread.number << 41 | thread.node

    def kept(self, uuids: Sequence[str], thread: Thread) -> tuple[str, ...]:
        """Return the messages of the records that a compaction keeps (`kept_of`)."""
        nodes: list[int] = []
        for uuid in filter(None, uuids):
            found = self._positions.get(bounded_id(uuid))
            at = 0 if found is None else self._places[found >> 1]
            is_here = found is not None and at >> 41 == thread.number and (at & _NODE) in thread.branches
            nodes.append(at & _NODE if is_here else -1)
            if uuid == uuids[0] and is_here and "" in uuids and (found or 0) & 1:
                nodes[-1] += 1  # the segment begins behind a record that is of no message
            elif "" not in uuids and (found or 0) & 1:
                nodes[-1] = -1
        if "" in uuids:
            between = range(nodes[0], nodes[1] + 1) if min(nodes) >= 0 else ()
            nodes = [node for node in between if node in nodes or node not in thread.summaries]
        return tuple(
            dict.fromkeys(thread.names[node] for node in nodes if node in thread.names and node in thread.branches)
        )
