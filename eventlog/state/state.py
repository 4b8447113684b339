"""What a session holds, as far as a command must know it to be accepted: no texts, no I/O, no clock.

Facts are stamped with the version that made them and hold while that version is effective, so a rollback changes
no fact, only `history`, and a redo brings everything back by itself.  Because facts are only ever added, the newest
ones can be taken back (`retract`): that is how a handle may decide ahead of its commits.

A long session has millions of facts that hardly anything asks for.  So only the newest messages are objects; those that
are over lie packed (`archive.py`) and come back when an event or a reader speaks of them.  Nobody sees the difference.  A checkpoint
has them apart, too (`stored.py`), so that opening a session costs the same whatever the length of its history.

Which event may follow is `rules.py`, how an event changes the facts is `evolve.py`; what the model sees is the business of
`projections`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from threading import RLock
from typing import Any, TypeVar

import msgspec

from eventlog import events as ev
from eventlog.errors import NotFoundError
from eventlog.history.lineage import History
from eventlog.state.archive import FactArchive
from eventlog.state.facts import CODE_BITS, CODE_MASK, CODES, NAMES, Changes, MessageFacts, PartFacts, PinFacts
from eventlog.state.stored import ArchivedFacts, ArchiveSummary, Piece, StoredState, digest_of, plain_of
from eventlog.state.version_log import Entry, VersionLog
from eventlog.values import INTERRUPTED, MessageError

__all__ = ["MessageFacts", "PartFacts", "State"]

WARM = 64
"""Messages that are never packed: the newest."""
CHUNK = 32
"""Messages that are packed together, and how many more than `WARM` there are before that happens."""

F = TypeVar("F")


class Facts(Mapping[str, F]):
    """The facts of all messages, or of all parts, by id, whether they lie packed or not."""

    __slots__ = ("_all", "_find", "_warm")

    def __init__(
        self, warm: dict[str, F], find: Callable[[str], F | None], every: Callable[[], Iterator[tuple[str, F]]]
    ) -> None:
        self._warm = warm
        self._find = find
        self._all = every

    def __getitem__(self, key: str) -> F:
        found = self._warm.get(key)
        if found is None:
            found = self._find(key)
        if found is None:
            raise KeyError(key)
        return found

    def __contains__(self, key: object) -> bool:
        return key in self._warm or (isinstance(key, str) and self._find(key) is not None)

    def __iter__(self) -> Iterator[str]:
        """Unpacks everything, bit by bit: for tests and tools."""
        return (key for key, _ in self._all())

    def __len__(self) -> int:
        return sum(1 for _ in self._all())


class State:
    """What a session holds, as far as commands need to know."""

    __slots__ = (
        "_lock",
        "_pack_at",
        "_packed",
        "_thawed",
        "archived",
        "compactions",
        "erased",
        "history",
        "interrupts",
        "last_message",
        "messages",
        "opens",
        "parts",
        "pieces",
        "pins",
        "started",
        "undo",
        "users",
        "version",
        "warm_messages",
        "warm_parts",
    )

    def __init__(self) -> None:
        self.version = 0
        self.started = 0
        """Version of the event that began the session's own stream, 0 before."""
        self.archived = False
        self.erased = False
        self.last_message = ""
        self.pins: dict[str, PinFacts] = {}
        self.opens = VersionLog()
        """Which assistant messages were open, each time that changed."""
        self.users = VersionLog()
        """The user messages."""
        self.compactions: list[tuple[int, str, str]] = []
        """(version, compaction part, state) in order."""
        self.interrupts: list[tuple[int, str]] = []
        """Interrupt requests, and what answered them."""
        self.history = History()
        self.undo: list[tuple[Any, ...]] = []
        """(version, function, its arguments) that take back the newest facts, oldest first; cut by `settle`."""
        self.pieces: tuple[Piece, ...] = ()
        """Where what is packed is kept, as far as it is."""
        self.warm_messages: dict[str, MessageFacts] = {}
        self.warm_parts: dict[str, PartFacts] = {}
        """The parts of the warm messages, and no others."""
        self._packed = FactArchive()
        self._lock = RLock()
        """Held to pack, and to look into what is packed: readers have no other lock."""
        self._pack_at = WARM + CHUNK
        self._thawed: dict[str, int] = {}

        self.messages: Facts[MessageFacts] = Facts(self.warm_messages, self._thawed_message, self._all_messages)
        self.parts: Facts[PartFacts] = Facts(self.warm_parts, self._thawed_part, self._all_parts)

    # -- questions ---------------------------------------------------------------------------

    def message(self, message: str) -> MessageFacts:
        """The facts of an effective message that was not removed; `NotFoundError` otherwise."""
        facts = self.warm_messages.get(message) or self._thawed_message(message)
        if (
            facts is None
            or not (facts.added >= self.history.starts[-1] or self.history.holds(facts.added))
            or (facts.changes and self.now(facts.changes) == "removed")
        ):
            raise NotFoundError("message", message)
        return facts

    def part(self, part: str) -> PartFacts:
        """The facts of an effective part that was not removed; `NotFoundError` otherwise."""
        facts = self.warm_parts.get(part) or self._thawed_part(part)
        if (
            facts is None
            or not (facts.added >= self.history.starts[-1] or self.history.holds(facts.added))
            or (facts.changes and self.now(facts.changes) == "removed")
        ):
            raise NotFoundError("part", part)
        return facts

    def has_message(self, message: str) -> bool:
        """Whether a message was ever added under this id, effective or not."""
        if message in self.warm_messages:
            return True
        return message <= self._packed.greatest_message and self._thawed_message(message) is not None

    def has_part(self, part: str) -> bool:
        """Whether a part was ever added under this id, effective or not."""
        if part in self.warm_parts:
            return True
        return part <= self._packed.greatest_part and self._thawed_part(part) is not None

    def status(self, facts: PartFacts) -> str:
        """A part's state now."""
        changes = facts.changes
        if not changes:
            return facts.first
        newest = changes[-1]
        if newest >> CODE_BITS >= self.history.starts[-1]:
            return NAMES[newest & CODE_MASK]
        return self.now(changes) or facts.first

    def made_at(self, facts: PartFacts) -> list[tuple[int, int]]:
        """Ranges of versions at which a part became what it is: its beginning, changes, prunes, edits, deltas and end."""
        singly = [facts.added, *(change >> CODE_BITS for change in (*facts.changes, *facts.prunes, *facts.edits))]
        ranges = [(version, version) for version in singly]
        grows = facts.kind in {"text", "reasoning"} and facts.first == "open"
        if grows or (facts.kind == "tool" and self.status(facts) != "completed"):
            is_open = self.status(facts) in {"open", "pending", "running"}
            ranges.append((facts.added, self.version if is_open else facts.changes[-1] >> CODE_BITS))
        return ranges

    def open_messages(self) -> tuple[str, ...]:
        """The assistant messages that are open now."""
        recent = self.opens.recent
        if recent and recent[-1][0] >= self.history.starts[-1]:  # as it mostly is
            return recent[-1][1]
        return self.opens.newest(self.history)

    def last_user(self) -> str | None:
        """The newest effective user message that was not removed and does not wait."""
        recent = self.users.recent
        if recent and recent[-1][0] >= self.history.starts[-1]:  # as it mostly is
            (message,) = recent[-1][1]
            if self.now(self.messages[message].changes) in {"", "promoted"}:
                return message
        for _, (message,) in self.users.newest_first(self.history):
            if self.now(self.messages[message].changes) in {"", "promoted"}:
                return message
        return None

    def answered(self, message: str) -> bool:
        """Whether an effective assistant message that was not removed came after this one."""
        added = self.messages[message].added
        for version, names in self.opens.newest_first(self.history):
            if version <= added:
                return False
            found = (self.messages[name] for name in names)
            if any(facts.added > added and self.now(facts.changes) != "removed" for facts in found):
                return True
        return False

    def open_compaction(self) -> str | None:
        """The compaction that is requested or running now, if there is one."""
        found = self._latest(self.compactions)
        if found is None:
            return None
        part = self.compactions[found][1]
        return part if self.status(self.parts[part]) in {"requested", "started"} else None

    def compaction_in_force(self) -> tuple[str, int] | None:
        """The latest completed compaction that was neither undone nor had its marker removed, and the version that completed it."""
        for version, part, status in reversed(self.compactions):
            if status != "completed" or not self.history.holds(version):
                continue
            facts = self.parts[part]
            if self.status(facts) == "completed" and self.now(self.messages[facts.message].changes) != "removed":
                return part, version
        return None

    def running_compaction(self) -> str | None:
        """The compaction that was started and has not ended, if there is one; others may have been requested since."""
        for version, part, status in reversed(self.compactions):
            if status == "started" and self.history.holds(version) and self.status(self.parts[part]) == "started":
                return part
        return None

    def interrupt_pending(self, since: int = 0) -> bool:
        """Whether an interrupt was requested after version `since` that nothing has answered."""
        return bool(self.interrupts) and self.interrupts[-1][1] == "requested" and self.interrupts[-1][0] > since

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
        for part, facts in self.messages[message].parts.items():
            if not self.history.holds(facts.added):
                continue
            status = self.status(facts)
            if status == "open":
                closing.append(ev.PartEnded(part))
            elif facts.kind == "tool" and status in {"pending", "running"}:
                closing.append(ev.ToolFailed(part, INTERRUPTED, interrupted=True))
        return closing

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

    # -- facts ---------------------------------------------------------------------------------

    def skip(self, count: int) -> None:
        """Take in `count` deltas: they change no fact."""
        self.version += count

    def settle(self, version: int) -> None:
        """Versions up to `version` are committed: they will not be taken back."""
        undo = self.undo
        if not undo or undo[-1][0] <= version:
            undo.clear()
        else:
            del undo[: next(index for index, entry in enumerate(undo) if entry[0] > version)]
        if len(self.warm_messages) >= self._pack_at:
            self._pack(version)

    def retract(self, version: int) -> None:
        """Take back every event after `version`; none of them may be settled."""
        undo = self.undo
        while undo and undo[-1][0] > version:
            entry = undo.pop()
            entry[1](*entry[2:])
        self.version = version

    def add(self, facts: list[Any], *fact: Any) -> None:
        """Add `(version, *fact)` to a list of facts."""
        facts.append((self.version, *fact))
        self.undo.append((self.version, _drop_last, facts))

    def change(self, facts: MessageFacts | PartFacts | PinFacts, name: str, status: str) -> None:
        """Add what became of a message, part or pin to its `changes`, `steps` or `prunes`."""
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
        self.undo.append((self.version, _drop, facts, key))

    def insert_message(self, message: str, facts: MessageFacts) -> None:
        """Insert a new message, which is the last now."""
        self.warm_messages[message] = facts
        self.undo.append((self.version, _take_back, self.warm_messages, message, self, self.last_message))
        self.last_message = message

    def insert_part(self, part: str, facts: PartFacts) -> None:
        """Insert a new part, the last of its message."""
        message = self.warm_messages.get(facts.message)
        parts = self.messages[facts.message].parts if message is None else message.parts
        parts[part] = self.warm_parts[part] = facts
        self.undo.append((self.version, _take_out, part, parts, self.warm_parts))

    # -- stored ----------------------------------------------------------------------------------

    def encode(self, *, whole: bool = True) -> tuple[bytes, bytes]:
        """The state as a checkpoint has it, and the piece to keep beside it (b"" if there is none), to be told of by `keep`.

        The piece has all that is packed (`whole`, which reads what was not read yet), or what no other piece has.  Without the way
        back, so all of it must be committed.
        """
        with self._lock:
            opens, users, packed = self.opens, self.users, self._packed
            warm = list(self.warm_messages.items())
            if not (packed or opens.begins or users.begins):
                return self._encode(opens.recent, users.recent, warm, None), b""
            if whole:
                below = ArchivedFacts(packed.stored(), opens.packed(), users.packed())
            else:
                below = ArchivedFacts(packed.added(), opens.added(), users.added())
            piece = msgspec.msgpack.encode(below) if whole or below.packed.chunks or below.opens or below.users else b""
            pieces = list(self._pieces_with(piece, whole=whole))
            known = ArchiveSummary(packed.greatest_message, packed.greatest_part, opens.begins, users.begins, pieces)
            return self._encode(opens.recent, users.recent, warm, known), piece

    def keep(self, piece: bytes, *, whole: bool) -> None:
        """What `encode` gave is kept."""
        with self._lock:
            self.pieces = self._pieces_with(piece, whole=whole)
            for packed in (self._packed, self.opens, self.users):
                packed.keep()

    def _pieces_with(self, piece: bytes, *, whole: bool) -> tuple[Piece, ...]:
        before = () if whole else self.pieces
        return (*before, (self.version, digest_of(piece))) if piece else before

    def canonical(self) -> bytes:
        """The same bytes for every state that holds the same facts, however much of it is packed: for comparing."""
        messages = sorted(self._all_messages(), key=lambda row: (row[1].added, row[0]))
        return self._encode(self.opens.whole(), self.users.whole(), messages, None)

    def _encode(
        self, opens: list[Entry], users: list[Entry], warm: list[tuple[str, MessageFacts]], known: ArchiveSummary | None
    ) -> bytes:
        return msgspec.msgpack.encode(
            StoredState(
                self.version,
                self.started,
                self.archived,
                self.erased,
                self.last_message,
                self.pins,
                opens,
                users,
                self.compactions,
                self.interrupts,
                self.history,
                warm,
                known,
            )
        )

    @staticmethod
    def decode(data: bytes, find: Callable[[State, Sequence[Piece]], Sequence[ArchivedFacts]]) -> State:
        """The state that was encoded; `msgspec.MsgspecError` if it is none.

        `find` is asked for what is packed when that is first needed, with this state and the pieces it lies in.
        """
        plain = plain_of(data)
        state = State()
        state.version, state.started = plain.version, plain.started
        state.archived, state.erased, state.last_message = plain.archived, plain.erased, plain.last_message
        state.pins, state.opens, state.users = plain.pins, VersionLog(plain.opens), VersionLog(plain.users)
        state.compactions, state.interrupts, state.history = plain.compactions, plain.interrupts, plain.history
        for name, facts in plain.warm:
            state._warm(name, facts)
        known = plain.known
        if known is not None:
            state.pieces = tuple(known.pieces)
            load = partial(state._load, find, state.pieces)
            state._packed.later(load, known.greatest_message, known.greatest_part)
            state.opens.later(load, known.opens_begin)
            state.users.later(load, known.users_begin)
        return state

    def _load(self, find: Callable[[State, Sequence[Piece]], Sequence[ArchivedFacts]], pieces: Sequence[Piece]) -> None:
        """Read what is packed, unless another thread just did."""
        with self._lock:
            if self._packed.is_later:
                found = find(self, pieces)
                self._packed.follow(*(piece.packed for piece in found))
                self.opens.follow([entry for piece in found for entry in piece.opens])
                self.users.follow([entry for piece in found for entry in piece.users])

    def below(self, other: State) -> ArchivedFacts:
        """What `other` should have packed, which is of the same history, out of this state: everything but what `other` has of timelines."""
        packed = FactArchive()
        rows = list(self._all_messages())
        for start in range(0, len(rows), CHUNK):
            packed.add(rows[start : start + CHUNK])
        return ArchivedFacts(
            packed.stored(), self.opens.before(other.opens.oldest()), self.users.before(other.users.oldest())
        )

    # -- packing ---------------------------------------------------------------------------------

    def _pack(self, settled: int) -> None:
        """Pack the older messages that are closed and whose facts are all of versions up to `settled`."""
        self.opens.pack(settled)
        self.users.pack(settled)
        staying = {*self.open_messages(), self.last_message}
        all_settled = not self.undo
        with self._lock:
            rows: list[tuple[str, MessageFacts]] = []
            for name, facts in list(self.warm_messages.items())[:-WARM]:
                if name in staying or not (all_settled or facts.newest() <= settled):
                    continue
                if name in self._thawed and facts.newest() == self._thawed[name]:
                    self._cool(name, facts)
                    continue
                rows.append((name, facts))
                if len(rows) == CHUNK:
                    self._packed.add(rows)
                    for row in rows:
                        self._cool(*row)
                    rows.clear()
            self._pack_at = len(self.warm_messages) + CHUNK

    def _cool(self, name: str, facts: MessageFacts) -> None:
        """Let go of the objects of a message that is packed."""
        self._thawed.pop(name, None)
        del self.warm_messages[name]
        for part in facts.parts:
            del self.warm_parts[part]

    def _warm(self, name: str, facts: MessageFacts) -> None:
        self.warm_parts.update(facts.parts)
        self.warm_messages[name] = facts

    def _thaw(self, key: str) -> None:
        """Bring back the message that has this id, or whose part has it, if it is packed."""
        found = self._packed.find(key)
        if found is not None and found[0] not in self.warm_messages:
            self._warm(*found)
            self._thawed[found[0]] = found[1].newest()

    def _thawed_message(self, message: str) -> MessageFacts | None:
        if not self._packed:
            return None
        with self._lock:
            if message not in self.warm_messages:
                self._thaw(message)
            return self.warm_messages.get(message)

    def _thawed_part(self, part: str) -> PartFacts | None:
        if not self._packed:
            return None
        with self._lock:
            if part not in self.warm_parts:
                self._thaw(part)
            return self.warm_parts.get(part)

    def _all_messages(self) -> Iterator[tuple[str, MessageFacts]]:
        with self._lock:
            warm = dict(self.warm_messages)
            yield from (row for row in self._packed if row[0] not in warm)
        yield from warm.items()

    def _all_parts(self) -> Iterator[tuple[str, PartFacts]]:
        for _, facts in self._all_messages():
            yield from facts.parts.items()

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


def _drop_last(facts: list[Any]) -> None:
    facts.pop()


def _drop(facts: dict[str, Any], key: str) -> None:
    del facts[key]


def _take_back(messages: dict[str, MessageFacts], message: str, state: State, before: str) -> None:
    del messages[message]
    state.last_message = before


def _take_out(part: str, *places: dict[str, PartFacts]) -> None:
    for place in places:
        del place[part]


def _version_of(entry: tuple[Any, ...]) -> int:
    version: int = entry[0]
    return version
