"""Feed of a Claude Code transcript: each entry once, a branch behind what it begins at.

A message whose parent is not in the newest node begins a branch, which is told behind a rollback to
the end of the parent's node. Entries of left branches stay, and are loaded in the order they came.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from eventlog import events as ev
from eventlog.adapters.claude_nodes import OPENING, Chosen, Nodes, Tip, kind_of
from eventlog.adapters.claude_uuids import UuidIndex, uuid_of
from eventlog.adapters.framework_feed import FrameworkFeed
from eventlog.adapters.odd_values import shown_in
from eventlog.append.backoff import Backoff
from eventlog.errors import ConflictError, RetryError
from eventlog.importers.claude_code.mapping import ClaudeCodeMapping
from eventlog.importers.claude_code.records import is_root
from eventlog.importers.common.builder import RecordBuilder
from eventlog.importers.common.json_lines import is_object
from eventlog.session.session import Session

Keep = Callable[[list[Any]], dict[str, str | bytes]]
"""Returns the values that are kept with entries."""


class TranscriptFeed(FrameworkFeed):
    """The entries of a transcript."""

    def __init__(self, session: Session, sidechain: bool) -> None:
        self._uuids = UuidIndex(session.store.log, session.id, self.read)
        self.mapping: _Mapping = _Mapping(self._uuids, sidechain=sidechain)
        super().__init__(session, self.mapping)
        self._nodes = self.mapping.nodes = Nodes(self, self._uuids, sidechain=sidechain)
        self.mapping.read_stored = self.read
        self._tips: dict[int, Tip] = {}
        """The newest node by the newest record, as the last caller left it."""

    def tell(self, entries: list[Any], keep: Callable[[], Keep], *, wait: float) -> None:
        """Tell those entries that are not stored yet, in one append unless a branch begins in it.

        `keep` is called for each attempt, and what it returns with the entries of each append. What
        an attempt that is refused has stored is taken out of `entries`.
        """
        backoff = Backoff()
        while True:
            newest = self._look()
            fresh = self._fresh(entries)
            tip = self._tips.pop(newest, None) or self._nodes.newest(self._index.numbers)
            self._tips.clear()
            kept, stored = keep(), 0
            self.mapping.begin_append(fresh)
            try:
                for after, piece, left in self._pieces(fresh, tip):
                    numbers = self.add(piece, after=after, keep=kept(piece), expected=newest, wait=wait)
                    self._uuids.take(piece, numbers)
                    newest, tip, stored = numbers[-1], left, stored + len(piece)
            except RetryError as error:
                entries[:] = fresh[stored:]
                if not isinstance(error, ConflictError) or not backoff.goes_on():  # another writer's entries
                    raise
            else:
                self._tips[newest] = tip
                return

    def _look(self) -> int:
        """Take in what other writers have told; return the newest effective record, 0 for none."""
        with self._lock:
            path = self.path(newest=1)
            self._uuids.advance(self._index.numbers, self._index.version)
        return path[0] if path else 0

    def _fresh(self, entries: list[Any]) -> list[Any]:
        """Return the entries that are not stored; one without a uuid is always another one."""
        found = {number for entry in entries if (number := self._uuids.number(uuid_of(entry))) is not None}
        seen = {uuid_of(entry) for entry in self.read(list(found))} if found else set[str]()
        fresh: list[Any] = []
        for entry in entries:
            uuid = uuid_of(entry)
            if not uuid or uuid not in seen:
                fresh.append(entry)
                seen.add(uuid)
        return fresh

    def _pieces(self, fresh: list[Any], tip: Tip) -> Iterator[tuple[int | None, list[Any], Tip]]:
        """Yield the entries in pieces, each with what it comes behind, and the newest node then."""
        piece: list[Any] = []
        after: int | None = None
        coming: set[str] = set()
        nodes, is_linked = self._nodes.opening(self._index.numbers)
        for entry in fresh:
            uuid, parent = uuid_of(entry), entry.get("parentUuid") if is_object(entry) else None
            kind, answer = kind_of(entry, tip.answer, sidechain=self.mapping.sidechain)
            has_come = parent in coming or self._uuids.number(parent) is not None
            root, branches = kind == "message" and is_root(entry), False
            if kind == "message":
                branches = tip.links.branches(uuid, parent, has_come=has_come, is_root=root, is_linked=is_linked)
            if branches:
                if piece:
                    yield after, piece, tip
                piece, after = [], 0 if root else self._end_of_node(parent)
                branches = after == 0 or (after is not None and not self._nodes.is_newest(after))
                after = after if branches else None
            elif kind == "inside" and self._leads_back(entry, parent, tip, {uuid_of(one) for one in piece}):
                if piece:
                    yield after, piece, tip
                piece, after = [], self._end_of_node(parent)
                branches = after is not None and not self._is_effective(after)
                after = after if branches else None
                if branches:
                    self.mapping.back.add(uuid)
            if kind in {"message", "node"}:
                nodes += 1
                is_linked = is_linked or (nodes <= OPENING and isinstance(parent, str))
            if uuid and tip.links.ends(uuid):
                self.mapping.overs.add(uuid)
            if not tip.links.follows(parent, has_come=has_come):
                self.mapping.unplaced.add(uuid)
            self.mapping.results[uuid] = tip.take(entry, kind, answer, has_come=has_come, is_branch=branches)
            coming.add(uuid)
            piece.append(entry)
        if piece:
            yield after, piece, tip

    def _leads_back(self, entry: Any, parent: object, tip: Tip, coming: Collection[str]) -> bool:
        """Whether results may be of a branch that was left: their parent is told, and not near."""
        if entry["type"] != "user" or parent in coming or self._uuids.number(parent) is None:
            return False
        return tip.links.branches("", parent, has_come=True, is_root=False)

    def _is_effective(self, number: int) -> bool:
        with self._reader.deciding() as state:
            return state.history.holds(number)

    def _end_of_node(self, uuid: object) -> int | None:
        self._look()
        return self._nodes.end(uuid, self._index.numbers) if isinstance(uuid, str) else None


class _Mapping(ClaudeCodeMapping):
    """The mapping of a feed that knows which entries came before."""

    nodes: Nodes
    read_stored: Callable[[list[int]], list[Any]]

    def __init__(self, uuids: UuidIndex, *, sidechain: bool) -> None:
        super().__init__(sidechain=sidechain)
        self._uuids = uuids
        self.begin_append([])

    def begin_append(self, entries: list[Any]) -> None:
        """Begin to tell these entries."""
        self._entries = {uuid_of(entry): entry for entry in entries}
        self._told: dict[str, str] = {}
        """The newest message as of each entry that is told, "" if no entry has begun one."""
        self._newest = ""
        self.overs: set[str] = set()
        """Entries with which a turn ends, as earlier ones say."""
        self.back: set[str] = set()
        """Entries with results that go back to a branch that was left."""
        self.unplaced: set[str] = set()
        """Entries that stand before one that they follow."""
        self.results: dict[str, list[str]] = {}
        """Entries with results that stand before the entry with their calls."""

    def read(self, record: Any, to: RecordBuilder) -> None:
        entry = shown_in(record)
        before, uuid = len(to.batch.items), uuid_of(entry)
        self.over: bool = uuid in self.overs
        self.in_order: bool = uuid not in self.unplaced
        super().read(entry, to)
        for _, event in to.batch.items[before:]:
            if isinstance(event, (ev.UserMessageAdded, ev.AssistantMessageStarted)):
                self._newest = event.message
        self._told[uuid] = self._newest

    def knows(self, uuid: object) -> bool:
        return uuid in self._told or self._uuids.number(uuid) is not None

    def go_back(self, record: dict[str, Any], to: RecordBuilder) -> None:
        if uuid_of(record) in self.back:
            to.conversation.supersede()

    def early(self, record: dict[str, Any]) -> list[dict[str, Any]]:
        if not (found := self.results.get(uuid_of(record))):
            return []
        told = [self._entries[uuid] for uuid in found if uuid in self._entries]
        numbers = (self._uuids.number(uuid) for uuid in found if uuid not in self._entries)
        stored = self.read_stored([number for number in numbers if number is not None])
        return [entry for entry in (*stored, *told) if is_object(entry)]

    def kept(self, uuids: Sequence[str], to: RecordBuilder) -> tuple[str, ...]:
        if not uuids:
            return ()
        found, is_open = self.nodes.kept(uuids)
        chosen = Chosen(uuids, is_open=is_open)
        for uuid, message in self._told.items():
            kind, _ = kind_of(self._entries.get(uuid), None, sidechain=self.sidechain)
            if chosen.take(uuid, kind):
                found.append(message or self.nodes.newest_message())
        if chosen.is_open:  # its last record is not there
            return ()
        return tuple(message for message in dict.fromkeys(found) if message and to.conversation.holds(message))
