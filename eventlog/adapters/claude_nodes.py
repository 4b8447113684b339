"""Nodes of a transcript, as in an imported file: a message, and what follows it."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

from eventlog import events as ev
from eventlog.adapters.claude_uuids import UuidIndex, uuid_of
from eventlog.importers.claude_code.records import CONVERSATION, content_of, is_prompt
from eventlog.importers.common.json_lines import is_object
from eventlog.records.feed import Feed
from eventlog.records.read import events_of, stored_records

__all__ = ["OPENING", "Nodes", "Tip", "kind_of"]

PIECE = 32
"""Records that are read together in search of the beginning or end of a node."""
OPENING = 2
"""Messages that show whether entries name their parents."""


class Tip:
    """The newest node: uuids of its entries, and the message id of its answer."""

    def __init__(self, answer: object = None) -> None:
        self.uuids: set[str] = set()
        self.answer = answer


def kind_of(entry: Any, tip: Tip, *, sidechain: bool) -> tuple[str, object]:
    """Return "message", "node", "inside" or "aside", and the message id of an answer.

    A node is the request for a compaction, or its summary: it begins where the newest ends.
    """
    if not is_object(entry):
        return "aside", None
    if entry.get("type") == "system" and entry.get("subtype") == "compact_boundary":
        return "node", None
    content = content_of(entry) if entry.get("type") in CONVERSATION else None
    if content is None or (entry.get("isSidechain") is True and not sidechain):
        return "aside", None
    if entry["type"] == "assistant":
        answer = entry["message"].get("id")
        return "inside" if answer and answer == tip.answer else "message", answer
    if entry.get("isCompactSummary") is True:
        return "node", None
    return "message" if is_prompt(content) else "inside", None


class Nodes:
    """The nodes of what a feed has stored."""

    def __init__(self, feed: Feed, uuids: UuidIndex, *, sidechain: bool) -> None:
        self._feed = feed
        self._uuids = uuids
        self._sidechain = sidechain
        self._is_linked: bool | None = None
        """Whether the second message has a parent, once there is one."""

    def opening(self, told: list[int]) -> tuple[int, bool]:
        """Return how many messages began, of the first two, and whether the second has a parent."""
        if self._is_linked is not None:
            return OPENING, self._is_linked
        nodes = 0
        for place in range(0, len(told), PIECE):
            piece = told[place : place + PIECE]
            for begins, entry in zip(self._begun(piece), self._feed.read(piece), strict=True):
                nodes += begins
                if nodes == OPENING:
                    self._is_linked = is_object(entry) and isinstance(entry.get("parentUuid"), str)
                    return nodes, self._is_linked
        return nodes, False

    def newest(self) -> Tip:
        """Read the newest node back to its beginning."""
        tip, taken = Tip(), 0
        while True:
            path = self._feed.path(newest=taken + PIECE)
            piece = path[: len(path) - taken]
            for begins, entry in zip(reversed(self._begun(piece)), reversed(self._feed.read(piece)), strict=True):
                tip.uuids.add(uuid_of(entry))
                if begins:
                    tip.answer = kind_of(entry, tip, sidechain=self._sidechain)[1]
                    return tip
            taken += len(piece)
            if len(piece) < PIECE:
                return tip

    def end(self, number: int, told: list[int]) -> int | None:
        """Return the last record of an entry's node; None if it is the newest one."""
        (entry,) = self._feed.read([number])
        while is_object(entry) and kind_of(entry, Tip(), sidechain=self._sidechain)[0] == "aside":
            parent = self._uuids.number(entry.get("parentUuid"))
            if parent is None or parent >= number:
                break
            number = parent
            (entry,) = self._feed.read([number])
        for place in range(bisect_right(told, number), len(told), PIECE):
            piece = told[place : place + PIECE]
            for begins, one in zip(self._begun(piece), piece, strict=True):
                if begins:
                    return number
                number = one
        return None

    def _begun(self, numbers: list[int]) -> list[bool]:
        """Return of each record whether it begins a message."""
        session = self._feed.session
        found = stored_records(session.store.log, session.reader.ancestry(), numbers)
        begins = (ev.UserMessageAdded, ev.AssistantMessageStarted)
        return [any(isinstance(event, begins) for event in events_of(record)) for record in found]
