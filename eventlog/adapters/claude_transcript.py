"""Feed of a transcript of Claude Code: each entry once, branches behind the entry they begin at.

As in an imported file, messages are *nodes*: what follows a message and begins none is of its node.
A message whose parent is not in the newest node begins a branch, which is told behind a rollback to
the end of the parent's node. Entries of left branches stay, and are loaded in the order they came.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Any

from eventlog import events as ev
from eventlog.adapters.claude_uuids import UuidIndex, uuid_of
from eventlog.append.contention import Contention
from eventlog.errors import ConflictError
from eventlog.importers.claude_code.mapping import ClaudeCodeMapping
from eventlog.importers.claude_code.records import CONVERSATION, content_of, is_prompt, is_root
from eventlog.importers.common.builder import RecordBuilder
from eventlog.importers.common.json_lines import is_object
from eventlog.records.feed import Feed
from eventlog.records.read import events_of, stored_records
from eventlog.session.session import Session

__all__ = ["Keep", "TranscriptFeed"]

PIECE = 32
"""Records that are read together in search of the beginning or end of a node."""
OPENING = 2
"""Messages that show whether entries name their parents."""
Keep = Callable[[list[Any]], dict[str, str | bytes]]
"""Returns the values that are kept with entries."""


class _Tip:
    """The newest node: uuids of its entries, and the message id of its answer."""

    def __init__(self, answer: object = None) -> None:
        self.uuids: set[str] = set()
        self.answer = answer


class TranscriptFeed(Feed):
    """The entries of a transcript."""

    def __init__(self, session: Session, *, sidechain: bool) -> None:
        self.mapping: _Mapping = _Mapping(self, sidechain=sidechain)
        super().__init__(session, self.mapping)
        self._uuids = UuidIndex(session.store.log, session.id, self.read)
        self._tips: dict[int, _Tip] = {}
        """The newest node by the newest record, as the last caller left it."""

    def tell(self, entries: list[Any], keep: Callable[[], Keep], *, wait: float) -> None:
        """Tell those entries that are not stored yet, in one append unless a branch begins in it.

        `keep` is called for each attempt, and what it returns with the entries of each append.
        """
        contention = Contention()
        while True:
            newest = self._look()
            fresh = self._fresh(entries)
            tip = self._tips.pop(newest, None) or self._newest_node()
            self._tips.clear()
            kept, stored = keep(), 0
            self.mapping.told = set()
            try:
                for after, piece, left in self._pieces(fresh, tip):
                    numbers = self.add(piece, after=after, keep=kept(piece), expected=newest, wait=wait)
                    with self._lock:
                        self._uuids.take(piece, numbers)
                    newest, tip, stored = numbers[-1], left, stored + len(piece)
            except ConflictError:  # another writer's entries
                entries = fresh[stored:]
                if not contention.goes_on():
                    raise
            else:
                self._tips[newest] = tip
                return

    def number(self, uuid: object) -> int | None:
        """Return the number of the entry of a uuid, None if there is none."""
        with self._lock:
            return self._uuids.number(uuid) if isinstance(uuid, str) else None

    def _look(self) -> int:
        """Take in what other writers have told; return the newest effective record, 0 for none."""
        with self._lock:
            path = self.path(newest=1)
            self._uuids.advance(self._index.numbers, self._index.version)
        return path[0] if path else 0

    def _fresh(self, entries: list[Any]) -> list[Any]:
        """Return the entries that are not stored; one without a uuid is always another one."""
        found = {number for entry in entries if (number := self.number(uuid_of(entry))) is not None}
        seen = {uuid_of(entry) for entry in self.read(list(found))} if found else set[str]()
        fresh: list[Any] = []
        for entry in entries:
            uuid = uuid_of(entry)
            if not uuid or uuid not in seen:
                fresh.append(entry)
                seen.add(uuid)
        return fresh

    # -- branches --------------------------------------------------------------------------------

    def _pieces(self, fresh: list[Any], tip: _Tip) -> Iterator[tuple[int | None, list[Any], _Tip]]:
        """Yield the entries in pieces, each with what it comes behind, and the newest node then."""
        coming: set[str] = set()
        piece: list[Any] = []
        after: int | None = None
        nodes, is_linked = self._opening()
        for entry in fresh:
            uuid, parent = uuid_of(entry), entry.get("parentUuid") if is_object(entry) else None
            kind, answer = self._kind(entry, tip)
            is_elsewhere = parent not in tip.uuids and (parent in coming or self.number(parent) is not None)
            is_first = kind == "message" and is_linked and is_root(entry)
            if is_first or (kind == "message" and is_elsewhere):
                if piece:
                    yield after, piece, tip
                number = self.number(parent)
                piece, after = [], 0 if is_first else self._end_of_node(number) if number is not None else None
            if kind in {"message", "node"}:
                tip, nodes = _Tip(answer), nodes + 1
                is_linked = isinstance(parent, str) if nodes == OPENING else is_linked
            if uuid and not (kind == "aside" and is_elsewhere):
                tip.uuids.add(uuid)
            coming.add(uuid)
            piece.append(entry)
        if piece:
            yield after, piece, tip

    def _kind(self, entry: Any, tip: _Tip) -> tuple[str, object]:
        """Return "message", "node", "inside" or "aside", and the message id of an answer.

        A node is the request for a compaction, or its summary: it begins where the newest ends.
        """
        if not is_object(entry):
            return "aside", None
        if entry.get("type") == "system" and entry.get("subtype") == "compact_boundary":
            return "node", None
        content = content_of(entry) if entry.get("type") in CONVERSATION else None
        if content is None or (entry.get("isSidechain") is True and not self.mapping.sidechain):
            return "aside", None
        if entry["type"] == "assistant":
            answer = entry["message"].get("id")
            return "inside" if answer and answer == tip.answer else "message", answer
        if entry.get("isCompactSummary") is True:
            return "node", None
        return "message" if is_prompt(content) else "inside", None

    def _opening(self) -> tuple[int, bool]:
        """Return how many messages began, of the first two, and whether the second has a parent."""
        nodes = 0
        for place in range(0, len(self._index.numbers), PIECE):
            piece = self._index.numbers[place : place + PIECE]
            for begins, entry in zip(self._begun(piece), self.read(piece), strict=True):
                nodes += begins
                if nodes == OPENING:
                    return nodes, is_object(entry) and isinstance(entry.get("parentUuid"), str)
        return nodes, False

    def _newest_node(self) -> _Tip:
        """Read the newest node back to its beginning."""
        tip, taken = _Tip(), 0
        while True:
            path = self.path(newest=taken + PIECE)
            piece = path[: len(path) - taken]
            for begins, entry in zip(reversed(self._begun(piece)), reversed(self.read(piece)), strict=True):
                tip.uuids.add(uuid_of(entry))
                if begins:
                    tip.answer = self._kind(entry, tip)[1]
                    return tip
            taken += len(piece)
            if len(piece) < PIECE:
                return tip

    def _end_of_node(self, number: int) -> int | None:
        """Return the last record of an entry's node; None if it is the newest one."""
        (entry,) = self.read([number])
        while is_object(entry) and self._kind(entry, _Tip())[0] == "aside":
            parent = self.number(entry.get("parentUuid"))
            if parent is None or parent >= number:
                break
            number = parent
            (entry,) = self.read([number])
        self._look()
        with self._lock:
            told = self._index.numbers[bisect_right(self._index.numbers, number) :]
        for place in range(0, len(told), PIECE):
            piece = told[place : place + PIECE]
            for begins, one in zip(self._begun(piece), piece, strict=True):
                if begins:
                    return number
                number = one
        return None

    def _begun(self, numbers: list[int]) -> list[bool]:
        """Return of each record whether it begins a message."""
        found = stored_records(self.session.store.log, self.session.reader.ancestry(), numbers)
        begins = (ev.UserMessageAdded, ev.AssistantMessageStarted)
        return [any(isinstance(event, begins) for event in events_of(record)) for record in found]


class _Mapping(ClaudeCodeMapping):
    """The mapping of a feed that knows which entries came before."""

    def __init__(self, feed: TranscriptFeed, *, sidechain: bool) -> None:
        super().__init__(sidechain=sidechain)
        self._feed = feed
        self.told: set[str] = set()
        """Uuids of entries of the append."""

    def read(self, record: Any, to: RecordBuilder) -> None:
        super().read(record, to)
        self.told.add(uuid_of(record))

    def knows(self, uuid: object) -> bool:
        return uuid in self.told or self._feed.number(uuid) is not None
