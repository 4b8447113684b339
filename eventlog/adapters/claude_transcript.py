"""Feed of a Claude Code transcript: each entry once, a branch behind what it begins at.

A message whose parent is not in the newest node begins a branch, which is told behind a rollback to
the end of the parent's node. Entries of left branches stay, and are loaded in the order they came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from eventlog.adapters.claude_nodes import OPENING, Nodes, Tip, kind_of
from eventlog.adapters.claude_uuids import UuidIndex, uuid_of
from eventlog.adapters.framework_feed import FrameworkFeed
from eventlog.adapters.odd_values import shown_in
from eventlog.append.contention import Contention
from eventlog.errors import ConflictError, RetryError
from eventlog.importers.claude_code.mapping import ClaudeCodeMapping
from eventlog.importers.claude_code.records import is_root
from eventlog.importers.common.builder import RecordBuilder
from eventlog.importers.common.json_lines import is_object
from eventlog.session.session import Session

__all__ = ["Keep", "TranscriptFeed"]

Keep = Callable[[list[Any]], dict[str, str | bytes]]
"""Returns the values that are kept with entries."""


class TranscriptFeed(FrameworkFeed):
    """The entries of a transcript."""

    def __init__(self, session: Session, *, sidechain: bool) -> None:
        self._uuids = UuidIndex(session.store.log, session.id, self.read)
        self.mapping: _Mapping = _Mapping(self._uuids, sidechain=sidechain)
        super().__init__(session, self.mapping)
        self._nodes = Nodes(self, self._uuids, sidechain=sidechain)
        self._tips: dict[int, Tip] = {}
        """The newest node by the newest record, as the last caller left it."""

    def tell(self, entries: list[Any], keep: Callable[[], Keep], *, wait: float) -> None:
        """Tell those entries that are not stored yet, in one append unless a branch begins in it.

        `keep` is called for each attempt, and what it returns with the entries of each append. What
        an attempt that is refused has stored is taken out of `entries`.
        """
        contention = Contention()
        while True:
            newest = self._look()
            fresh = self._fresh(entries)
            tip = self._tips.pop(newest, None) or self._nodes.newest()
            self._tips.clear()
            kept, stored = keep(), 0
            self.mapping.told = set()
            try:
                for after, piece, left in self._pieces(fresh, tip):
                    numbers = self.add(piece, after=after, keep=kept(piece), expected=newest, wait=wait)
                    self._uuids.take(piece, numbers)
                    newest, tip, stored = numbers[-1], left, stored + len(piece)
            except RetryError as error:
                entries[:] = fresh[stored:]
                if not isinstance(error, ConflictError) or not contention.goes_on():  # another writer's entries
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
            kind, answer = kind_of(entry, tip, sidechain=self.mapping.sidechain)
            is_elsewhere = parent not in tip.uuids and (parent in coming or self._uuids.number(parent) is not None)
            is_first = is_linked and kind == "message" and is_root(entry)
            if is_first or (kind == "message" and is_elsewhere):
                if piece:
                    yield after, piece, tip
                piece, after = [], 0 if is_first else self._end_of_node(parent)
            if kind in {"message", "node"}:
                tip, nodes = Tip(answer), nodes + 1
                is_linked = isinstance(parent, str) if nodes == OPENING else is_linked
            if uuid and not (kind == "aside" and is_elsewhere):
                tip.uuids.add(uuid)
            coming.add(uuid)
            piece.append(entry)
        if piece:
            yield after, piece, tip

    def _end_of_node(self, uuid: object) -> int | None:
        self._look()
        number = self._uuids.number(uuid)
        return None if number is None else self._nodes.end(number, self._index.numbers)


class _Mapping(ClaudeCodeMapping):
    """The mapping of a feed that knows which entries came before."""

    def __init__(self, uuids: UuidIndex, *, sidechain: bool) -> None:
        super().__init__(sidechain=sidechain)
        self._uuids = uuids
        self.told: set[str] = set()
        """Uuids of entries of the append."""

    def read(self, record: Any, to: RecordBuilder) -> None:
        entry = shown_in(record)
        super().read(entry, to)
        self.told.add(uuid_of(entry))

    def knows(self, uuid: object) -> bool:
        return uuid in self.told or self._uuids.number(uuid) is not None
