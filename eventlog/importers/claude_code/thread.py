"""One session of a Claude Code file while it is read, with its branches.

`importer.py` decides whose record it is; `mapping.py` says what it means.

Messages are counted as *nodes*.  A new message that the links (`links.py`) place elsewhere begins a
branch: the versions before it become a fork, and this session is rolled back to the end of the
parent's node and goes on with the new branch, as Claude Code itself does.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from eventlog import events as ev
from eventlog.importers.claude_code.links import Links
from eventlog.importers.claude_code.mapping import ResultNote, set_todos
from eventlog.importers.common.conversation import Conversation
from eventlog.importers.common.conversation_parts import CallInput, OpenAnswer, OpenCall, UserPart
from eventlog.importers.common.importer import ImportBatch, Report, bounded_id, own_id
from eventlog.importers.common.json_lines import dump
from eventlog.values import MessageError, Reasoning, Text, Tool

__all__ = ["Thread"]

MAX_NAMES = 8192
"""Messages that a compaction may keep: more than a window of the model holds."""


class Thread(Conversation):
    """State of one session with branches while its file is read."""

    def __init__(self, session: str, number: int, report: Report, started: ev.SessionStarted, time: int) -> None:
        self.number = number
        self.ends = array("Q")
        """Version at the end of each node but the newest."""
        self.tip = ""
        """Key of the newest record of the conversation."""
        self.linked = False
        """Whether messages name their parents: one of the first two does."""
        self.links = Links()
        self.names: dict[int, str] = {}
        """Messages of the newest nodes."""
        self.arrived: list[str] = []
        """Keys of the records whose early results the current record's calls received."""
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
        self.done = {name: done for name, done in self.done.items() if done[1] <= node}
        self.cleared = {part: version for part, version in self.cleared.items() if version < self.ends[node]}
        self.names = {number: name for number, name in self.names.items() if number <= node}
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

    def user(self, time: int, event: ev.UserMessageAdded, parts: Iterable[UserPart | None]) -> None:
        """Add a user message; its node has begun."""
        super().user(time, event, parts)
        self._name(event.message)

    def summary(
        self, time: int, part: str, asked: str, message: str, kinds: Iterable[tuple[Text | Reasoning, str, str]]
    ) -> bool:
        """Complete a compaction with its summary; its node has begun."""
        self._name(message)
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

    def call(self, time: int, part: str, kind: Tool, given: CallInput) -> OpenCall:
        """Add a call to the open answer, with the effects of a result that came early."""
        call = super().call(time, part, kind, given)
        if call.result is not None:
            assert isinstance(call.result.note, ResultNote)
            self.arrived.append(call.result.note.key)
            set_todos(time, call, self)
        return call
