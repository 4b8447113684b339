"""Command state of a session: the facts that decide whether a command is allowed.

No texts, no I/O, no clock. A fact carries the version that made it and holds while that version is
effective. So a rollback changes no fact, only `history`, and a redo brings everything back. Facts
are only added, so the newest can be taken back (`retract`): this lets a handle decide before
earlier appends are committed.

Facts of messages and parts lie in `fact_store.py`; a checkpoint of the state is `stored.py`. Which
event may follow is `rules.py`; how an event changes the facts is `evolve.py`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from operator import delitem, itemgetter
from typing import Any

from eventlog.errors import NotFoundError
from eventlog.history.effective_history import END, History, has_seen
from eventlog.history.ranges import Range, covers, shared
from eventlog.state.fact_store import FactMap, FactStore
from eventlog.state.facts import CODE_BITS, CODE_MASK, CODES, NAMES, Changes, MessageFacts, PartFacts, PinFacts
from eventlog.state.version_log import VersionLog

GOES_ON = ("tool-calls", "tool_calls", "tool_use", "unknown", None)
"""Reasons of a finished reply after which the model is called again."""
LOGS = ("opens", "users", "counts", "removals", "files", "asks", "tools", "titles")
"""The attributes of a state that are a `VersionLog`."""
_OF_RESULT = CODES["pruned"], CODES["restored"]
_OF_ARGUMENTS = CODES["arguments-pruned"], CODES["arguments-restored"]


class State:
    """The facts of a session that commands are decided against."""

    def __init__(self) -> None:
        self.version: int = 0
        self.skipped: int = 0
        """Deltas that were applied in one step with others since the state was read or stored."""
        self.started: int = 0
        """Version of the event that began the session's own stream, 0 before."""
        self.erased: bool = False
        self.queued: bool = False
        """Whether any message ever waited to be promoted."""
        self.last_message: str = ""
        self.pins: dict[str, PinFacts] = {}
        self.opens: VersionLog = VersionLog("opens")
        """Which assistant messages were open, each time that changed."""
        self.users: VersionLog = VersionLog("users")
        """The user messages, each where it was added and where it was promoted."""
        self.counts: VersionLog = VersionLog("counts")
        """How many messages were visible, each time that changed but by a rollback."""
        self.asks: VersionLog = VersionLog("asks")
        """Which calls were asked and have no result, each time that changed."""
        self.tools: VersionLog = VersionLog("tools")
        """The events that recorded the tools."""
        self.titles: VersionLog = VersionLog("titles")
        """The events that gave a title, rolled back or not."""
        self.removals: VersionLog = VersionLog("removals")
        """Removals of messages, each with the version that added the message."""
        self.forgotten: tuple[Range, ...] = ()
        """Versions of forgotten records. Of a fork's parents those that its owner knows of."""
        self.hidden: int | None = None
        """By how much these lower the number of visible messages; None: count it when asked."""
        self.files: VersionLog = VersionLog("files")
        """The events that tell of file states: snapshots and patches."""
        self.compactions: list[tuple[int, str, str]] = []
        """(version, compaction part, state) in order."""
        self.interrupts: list[tuple[int, str]] = []
        """Interrupt requests, and what answered them."""
        self.history: History = History()
        self.undo: list[tuple[Any, ...]] = []
        """(version, function, its arguments) that take back the newest facts, oldest first; cut by
        `commit_to`.
        """
        self.facts: FactStore = FactStore()
        self.hot_messages: dict[str, MessageFacts] = self.facts.hot_messages
        self.hot_parts: dict[str, PartFacts] = self.facts.hot_parts
        self.messages: FactMap[MessageFacts] = self.facts.messages
        self.parts: FactMap[PartFacts] = self.facts.parts

    # -- questions ---------------------------------------------------------------------------

    def message(self, message: str) -> MessageFacts:
        """The facts of an effective message that was not removed; `NotFoundError` otherwise."""
        facts = self.hot_messages.get(message) or self.facts.archived_message(message)
        if facts is None or not self.is_there(facts):
            raise self._missing("message", message, facts)
        return facts

    def part(self, part: str) -> PartFacts:
        """The facts of an effective part that was not removed; `NotFoundError` otherwise."""
        facts = self.hot_parts.get(part) or self.facts.archived_part(part)
        if facts is None or not self.is_there(facts):
            raise self._missing("part", part, facts)
        return facts

    def is_there(self, facts: MessageFacts | PartFacts) -> bool:
        """Whether a message or part is effective, and was not removed."""
        is_effective = facts.added >= self.history.starts[-1] or self.history.holds(facts.added)
        return is_effective and not (facts.changes and self.now(facts.changes) == "removed")

    def _missing(self, kind: str, name: str, facts: MessageFacts | PartFacts | None) -> NotFoundError:
        """Return the error that says whether a message or part was ever there."""
        gone = "" if facts is None else "removed" if self.history.holds(facts.added) else "rolled back"
        return NotFoundError(kind, name, gone=gone)

    def has_message(self, message: str) -> bool:
        """Whether a message was ever added under this id, effective or not."""
        if message in self.hot_messages:
            return True
        return not self.facts.archive.is_greatest(message) and self.facts.archived_message(message) is not None

    def has_part(self, part: str) -> bool:
        """Whether a part was ever added under this id, effective or not."""
        if part in self.hot_parts:
            return True
        return not self.facts.archive.is_greatest(part) and self.facts.archived_part(part) is not None

    def status(self, facts: PartFacts) -> str:
        """The effective state of a part."""
        changes = facts.changes
        if not changes:
            return facts.first
        newest = changes[-1]
        if newest >> CODE_BITS >= self.history.starts[-1]:
            return NAMES[newest & CODE_MASK]
        return self.now(changes) or facts.first

    def made_at(self, facts: PartFacts) -> list[tuple[int, int]]:
        """Ranges of versions with the events of a part, its deltas included."""
        singly = [facts.added, *(change >> CODE_BITS for change in (*facts.changes, *facts.prunes, *facts.edits))]
        ranges = [(version, version) for version in singly]
        grows = facts.kind in {"text", "reasoning"} and facts.first == "open"
        if grows or (facts.kind == "tool" and self.status(facts) != "completed"):
            is_open = self.status(facts) in {"open", "pending", "running"}
            ranges.append((facts.added, self.version if is_open else facts.changes[-1] >> CODE_BITS))
        return ranges

    @property
    def visible(self) -> int:
        """The number of effective messages that were not removed or forgotten."""
        if not self.forgotten:
            return self.counted
        if self.hidden is None:
            self.hidden = self._count_hidden()
        return self.counted - self.hidden

    def _count_hidden(self) -> int:
        """Count messages of forgotten records that are there, less those that others removed.

        A forgotten record that had removed a message shows that one again.
        """
        ranges = shared(self.history.at(self.version), self.forgotten)
        hidden = len(self.counts.among(ranges)) - len(self.removals.among(ranges))
        for version, (added,) in self.removals.newest_first(self.history):
            hidden -= covers(self.forgotten, version) or covers(self.forgotten, int(added))
        return hidden

    @property
    def counted(self) -> int:
        """The number of effective messages that were not removed, with forgotten ones."""
        newest = self.counts.newest(self.history)
        return int(newest[0]) if newest else 0

    def open_messages(self) -> tuple[str, ...]:
        """The assistant messages that are open now."""
        return self.opens.newest(self.history)

    def last_user(self, upto: int = END) -> str | None:
        """The newest user message up to version `upto` that is there, and does not wait."""
        recent = self.users.recent
        if recent and upto >= recent[-1][0] >= self.history.starts[-1]:  # as it mostly is
            (message,) = recent[-1][1]
            if self.now(self.messages[message].changes) in {"", "promoted"}:
                return message
        return next((message for place, message in self.user_messages() if place <= upto), None)

    def user_messages(self) -> Iterator[tuple[int, str]]:
        """Yield places and ids of the user messages that count and do not wait, newest first."""
        for version, (message,) in self.users.newest_first(self.history):
            facts = self.messages[message]
            if self.now(facts.changes) in {"", "promoted"} and version == self.place(facts):
                yield version, message

    def place(self, message: MessageFacts) -> int:
        """The version that put a message into the conversation: its promotion, else its birth."""
        if not message.changes:
            return message.added
        return next(filter(self.history.holds, message.promotions()), message.added)

    def has_seen(self, reply: MessageFacts, message: MessageFacts) -> bool:
        """Whether an effective reply has seen an effective message of a user."""
        return has_seen(reply.added, reply.seen, self.place(message))

    def answered(self, message: str) -> bool:
        """Whether an effective assistant message that was not removed has seen this one."""
        asked = self.messages[message]
        for version, names in self.opens.newest_first(self.history):
            if version <= asked.added:
                return False
            replies = (self.messages[name] for name in names)
            if any(self.has_seen(facts, asked) and self.now(facts.changes) != "removed" for facts in replies):
                return True
        return False

    def replies(self) -> Iterator[tuple[str, MessageFacts]]:
        """Yield the effective replies that were not removed, without summaries, newest first."""
        for version, names in self.opens.newest_first(self.history):
            for name in names:
                facts = self.messages[name]
                if facts.added == version and not facts.summary and self.now(facts.changes) != "removed":
                    yield name, facts

    def open_compaction(self) -> str | None:
        """The compaction that is requested or running now, if there is one."""
        newest = self._latest(self.compactions)
        if newest is None:
            return None
        part = self.compactions[newest][1]
        return part if self.status(self.parts[part]) in {"requested", "started"} else None

    def compaction_in_force(self) -> tuple[str, int] | None:
        """The latest completed compaction in force, and the version that completed it.

        Neither undone, nor its marker removed.
        """
        for version, part, status in reversed(self.compactions):
            if status != "completed" or not self.history.holds(version):
                continue
            facts = self.parts[part]
            if self.status(facts) == "completed" and self.now(self.messages[facts.message].changes) != "removed":
                return part, version
        return None

    def running_compaction(self) -> str | None:
        """The compaction that was started and has not ended; others may be requested since."""
        for version, part, status in reversed(self.compactions):
            if status == "started" and self.history.holds(version) and self.status(self.parts[part]) == "started":
                return part
        return None

    def interrupt_pending(self, since: int = 0) -> bool:
        """Whether an interrupt was requested after version `since` that nothing has answered."""
        return bool(self.interrupts) and self.interrupts[-1][1] == "requested" and self.interrupts[-1][0] > since

    def in_step(self, message: str) -> bool:
        """Whether a model call of the message has begun, and not ended."""
        steps = self.messages[message].steps
        return bool(steps) and self.now(steps) == "started"

    def now(self, changes: Changes) -> str:
        """The newest effective entry of a fact's changes, "" if there is none."""
        if not changes:
            return ""
        newest = changes[-1]
        if newest >> CODE_BITS >= self.history.starts[-1]:
            return NAMES[newest & CODE_MASK]
        for change in reversed(changes):
            if self.history.holds(change >> CODE_BITS):
                return NAMES[change & CODE_MASK]
        return ""

    def is_pruned(self, part: PartFacts, *, arguments: bool = False) -> bool:
        """Whether a prune of the part is in force: of its `arguments`, or of the rest."""
        pruned, restored = _OF_ARGUMENTS if arguments else _OF_RESULT
        mine = tuple([change for change in part.prunes if change & CODE_MASK in (pruned, restored)])
        return bool(mine) and self.now(mine) == NAMES[pruned]

    # -- facts ---------------------------------------------------------------------------------

    def skip(self, count: int) -> None:
        """Apply `count` deltas: they change no fact."""
        self.version += count
        self.skipped += count - 1

    def commit_to(self, version: int) -> None:
        """Drop the undo log up to `version`, which is committed; archive older messages."""
        undo = self.undo
        if not undo or undo[-1][0] <= version:
            undo.clear()
        else:
            del undo[: next(index for index, entry in enumerate(undo) if entry[0] > version)]
        if len(self.hot_messages) >= self.facts.archive_at:
            for name in LOGS:
                getattr(self, name).pack(version)
            staying = {*self.open_messages(), self.last_message}
            self.facts.archive_older(staying, version if undo else None)

    def retract(self, version: int) -> None:
        """Take back every event after `version`; none of them may be committed."""
        undo = self.undo
        while undo and undo[-1][0] > version:
            entry = undo.pop()
            entry[1](*entry[2:])
        self.version = version
        self.hidden = None

    def forget(self, ranges: tuple[Range, ...]) -> None:
        """Take in all versions that are forgotten, those of its parents included."""
        if ranges != self.forgotten:
            self.forgotten, self.hidden = ranges, None

    def add(self, facts: list[Any], *fact: Any) -> None:
        """Add `(version, *fact)` to a list of facts."""
        facts.append((self.version, *fact))
        self.undo.append((self.version, delitem, facts, -1))

    def change(self, facts: MessageFacts | PartFacts | PinFacts, name: str, status: str) -> None:
        """Add a change to the `changes`, `steps`, `prunes` or `edits` of a message, part or pin."""
        before: Changes = getattr(facts, name)
        setattr(facts, name, (*before, self.version << CODE_BITS | CODES[status]))
        self.undo.append((self.version, setattr, facts, name, before))

    def set(self, name: str, value: object) -> None:
        """Set an attribute that no rollback touches."""
        self.undo.append((self.version, setattr, self, name, getattr(self, name)))
        setattr(self, name, value)

    def insert(self, facts: dict[str, Any], key: str, value: object) -> None:
        """Insert a new fact by its id."""
        facts[key] = value
        self.undo.append((self.version, delitem, facts, key))

    def insert_message(self, message: str, facts: MessageFacts) -> None:
        """Insert a new message, which is the last now."""
        self.hot_messages[message] = facts
        self.undo.append((self.version, delitem, self.hot_messages, message))
        self.set("last_message", message)

    def insert_part(self, part: str, facts: PartFacts) -> None:
        """Insert a new part, the last of its message."""
        message = self.hot_messages.get(facts.message)
        parts = self.messages[facts.message].parts if message is None else message.parts
        parts[part] = self.hot_parts[part] = facts
        self.undo += ((self.version, delitem, place, part) for place in (parts, self.hot_parts))

    def _latest(self, entries: Sequence[tuple[Any, ...]]) -> int | None:
        """Index of the newest effective entry, found range by range: hidden ranges may be long."""
        if entries and entries[-1][0] >= self.history.starts[-1]:
            return len(entries) - 1
        for first, last in self.history.newest_first():
            if not entries or last < entries[0][0]:
                return None
            index = bisect_right(entries, last, key=itemgetter(0)) - 1
            if index >= 0 and entries[index][0] >= first:
                return index
        return None
