"""What a session holds, as far as a command must know it to be accepted: no texts, no I/O, no clock.

Facts are stamped with the version that made them and hold while that version is effective, so a rollback changes
no fact, only `history`, and a redo brings everything back by itself.  Because facts are only ever added, the newest
ones can be taken back (`retract`): that is how a handle may decide ahead of its commits.

Which event may follow is `admission.py`, how an event changes the facts is `evolution.py`; what the model sees is the business of
`projections`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec

from eventlog import events as ev
from eventlog.errors import NotFoundError
from eventlog.lineage import History
from eventlog.values import MessageError

__all__ = ["INTERRUPTED", "MessageFacts", "PartFacts", "State"]

INTERRUPTED = "[Tool execution was interrupted]"
"""The result of a call whose tool never came to an end (spec §4.4)."""

Changes: TypeAlias = tuple[tuple[int, str], ...]
"""(version, what it became), in order.  A tuple, because most facts change once or twice."""


class MessageFacts(msgspec.Struct, array_like=True):
    """What is known of a message.  `changes`: "finished", "removed"."""

    added: int
    user: bool
    summary: bool
    parts: list[str]
    steps: Changes = ()
    changes: Changes = ()


class PartFacts(msgspec.Struct, array_like=True):
    """What is known of a part.  `changes` holds its states after the first, and "removed"."""

    added: int
    message: str
    kind: str
    """"text", "reasoning", "tool", "compaction", "step", or "other" for parts that are complete at birth."""
    call: str
    first: str
    """State at birth: "open", "pending", "requested", "ended"."""
    changes: Changes = ()
    prunes: Changes = ()


class State(msgspec.Struct, array_like=True):
    """What a session holds, as far as commands need to know."""

    version: int = 0
    started: int = 0
    """Version of the event that began the session's own stream, 0 before."""
    archived: bool = False
    erased: bool = False
    last_message: str = ""
    messages: dict[str, MessageFacts] = msgspec.field(default_factory=dict[str, MessageFacts])
    parts: dict[str, PartFacts] = msgspec.field(default_factory=dict[str, PartFacts])
    pins: dict[str, list[tuple[int, str]]] = msgspec.field(default_factory=dict[str, list[tuple[int, str]]])
    opens: list[tuple[int, tuple[str, ...]]] = msgspec.field(default_factory=list[tuple[int, tuple[str, ...]]])
    """Which assistant messages were open, each time that changed."""
    compactions: list[tuple[int, str, str]] = msgspec.field(default_factory=list[tuple[int, str, str]])
    """(version, compaction part, state) in order."""
    interrupts: list[tuple[int, str]] = msgspec.field(default_factory=list[tuple[int, str]])
    """Interrupt requests, and what answered them."""
    history: History = msgspec.field(default_factory=History)
    undo: list[Any] = msgspec.field(default_factory=list[Any])
    """(version, callable) that take back the newest facts, oldest first; cut by `settle`, empty when stored."""

    # -- questions ---------------------------------------------------------------------------

    def message(self, message: str) -> MessageFacts:
        """The facts of an effective message that was not removed; `NotFoundError` otherwise."""
        facts = self.messages.get(message)
        if facts is None or not self.history.holds(facts.added) or self.now(facts.changes) == "removed":
            raise NotFoundError("message", message)
        return facts

    def part(self, part: str) -> PartFacts:
        """The facts of an effective part that was not removed; `NotFoundError` otherwise."""
        facts = self.parts.get(part)
        if facts is None or not self.history.holds(facts.added) or self.now(facts.changes) == "removed":
            raise NotFoundError("part", part)
        return facts

    def status(self, facts: PartFacts) -> str:
        """A part's state now."""
        return self.now(facts.changes) or facts.first

    def open_messages(self) -> tuple[str, ...]:
        """The assistant messages that are open now."""
        found = self._latest(self.opens)
        return self.opens[found][1] if found is not None else ()

    def open_compaction(self) -> str | None:
        """The compaction that is requested or running now, if there is one."""
        found = self._latest(self.compactions)
        if found is None:
            return None
        part = self.compactions[found][1]
        return part if self.status(self.parts[part]) in {"requested", "started"} else None

    def running_compaction(self) -> str | None:
        """The compaction that was started and has not ended, if there is one; others may have been requested since."""
        for version, part, status in reversed(self.compactions):
            if status == "started" and self.history.holds(version) and self.status(self.parts[part]) == "started":
                return part
        return None

    def interrupt_pending(self) -> bool:
        """Whether an interrupt was requested that nothing has answered."""
        return bool(self.interrupts) and self.interrupts[-1][1] == "requested"

    def closing(self, reason: str) -> list[ev.Event]:
        """The events that close what is open: text is kept, tools are interrupted, messages aborted (spec §9)."""
        closing: list[ev.Event] = []
        for message in self.open_messages():
            closing += self.closing_parts(message)
            closing.append(ev.MessageFinished(message, None, MessageError("aborted", reason)))
        compaction = self.running_compaction()
        if compaction is not None:
            closing.append(ev.CompactionFailed(compaction, reason))
        return closing

    def closing_parts(self, message: str) -> list[ev.Event]:
        """The events that close the open parts of an open message."""
        closing: list[ev.Event] = []
        for part in self.messages[message].parts:
            facts = self.parts[part]
            if not self.history.holds(facts.added):
                continue
            status = self.status(facts)
            if status == "open":
                closing.append(ev.PartEnded(part))
            elif facts.kind == "tool" and status in {"pending", "running"}:
                closing.append(ev.ToolFailed(part, INTERRUPTED, interrupted=True))
        return closing

    # -- facts ---------------------------------------------------------------------------------

    def skip(self, count: int) -> None:
        """Take in `count` deltas: they change no fact."""
        self.version += count

    def settle(self, version: int) -> None:
        """Versions up to `version` are committed: they will not be taken back."""
        if not self.undo or self.undo[-1][0] <= version:
            self.undo.clear()
            return
        kept = next((index for index, (at, _) in enumerate(self.undo) if at > version), len(self.undo))
        del self.undo[:kept]

    def retract(self, version: int) -> None:
        """Take back every event after `version`; none of them may be settled."""
        while self.undo and self.undo[-1][0] > version:
            self.undo.pop()[1]()
        self.version = version

    def now(self, changes: Sequence[tuple[int, str]]) -> str:
        """The newest effective entry of a fact's changes, "" if there is none."""
        for version, status in reversed(changes):
            if self.history.holds(version):
                return status
        return ""

    def _latest(self, entries: Sequence[tuple[Any, ...]]) -> int | None:
        """Index of the newest effective entry, found range by range: what is hidden may be long."""
        if entries and entries[-1][0] >= self.history.starts[-1]:
            return len(entries) - 1
        for first, last in self.history.newest_first():
            if not entries or last < entries[0][0]:
                return None
            index = bisect_right(entries, last, key=_version_of) - 1
            if index >= 0 and entries[index][0] >= first:
                return index
        return None

    def add(self, facts: list[Any], *fact: Any) -> None:
        """Add `(version, *fact)` to a list of facts."""
        facts.append((self.version, *fact))
        self.undo.append((self.version, facts.pop))

    def change(self, facts: MessageFacts | PartFacts, name: str, status: str) -> None:
        """Add `(version, status)` to the changes of a message or part."""
        before: Changes = getattr(facts, name)
        setattr(facts, name, (*before, (self.version, status)))
        self.undo.append((self.version, lambda: setattr(facts, name, before)))

    def set(self, name: str, value: object) -> None:
        """Set an attribute that no rollback touches."""
        before = getattr(self, name)
        setattr(self, name, value)
        self.undo.append((self.version, lambda: setattr(self, name, before)))

    def insert(self, facts: dict[str, Any], key: str, value: object) -> None:
        """Insert a new fact by its id."""
        facts[key] = value
        self.undo.append((self.version, lambda: facts.pop(key)))


def _version_of(entry: tuple[Any, ...]) -> int:
    version: int = entry[0]
    return version
