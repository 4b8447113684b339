"""Nodes of a transcript, as in an imported file: a message, and what follows it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any

from eventlog import events as ev
from eventlog.adapters.claude_uuids import TAIL, UuidIndex, uuid_of
from eventlog.importers.claude_code.mapping import TURN_ENDS
from eventlog.importers.claude_code.parent_links import AGE, Links
from eventlog.importers.claude_code.records import CONVERSATION, content_of, is_prompt, kept_of, queued_prompt
from eventlog.importers.common.json_lines import is_object
from eventlog.records.feed import Feed
from eventlog.records.read import events_of, stored_records
from eventlog.streams.records import text_of

PIECE = 32
"""Records that are read together in search of the beginning or end of a node."""
OPENING = 2
"""Messages that show whether entries name their parents."""


class Tip:
    """The newest node and the gaps behind it, and the message id of its answer."""

    def __init__(self) -> None:
        self.links: Links = Links()
        self.answer: object = None
        self._calls: dict[str, str] = {}
        """Newest calls and results, with the entry of a result whose call has not come, else ""."""

    def take(self, entry: Any, kind: str, answer: object, *, has_come: bool, is_branch: bool = False) -> list[str]:
        """Take an entry of a kind; return the entries with results that came before its calls."""
        uuid, parent = uuid_of(entry), entry.get("parentUuid") if is_object(entry) else None
        if kind in {"message", "node"}:
            self.answer = answer
        if kind == "message" or is_branch:
            self.answer = answer
            self.links.message(uuid, parent, has_come=has_come, is_branch=is_branch)
        elif kind == "node":
            kept = kept_of(entry) if entry["type"] == "system" else ()
            self.links.node(uuid, kept[-1] if kept else "")
        elif kind == "inside":
            self.links.inside(uuid, parent, has_come=has_come)
        elif uuid and not (is_object(entry) and text_of(entry.get("type")) in CONVERSATION):
            ends = text_of(entry.get("subtype")) in TURN_ENDS
            if ends and self.links.follows(parent, has_come=has_come):
                self.answer = None
            self.links.aside(uuid, parent, has_come=has_come, ends=ends)
        return self._early(uuid, content_of(entry) or []) if kind in {"message", "inside"} else []

    def _early(self, uuid: str, content: list[Any]) -> list[str]:
        found: list[str] = []
        for block in filter(is_object, content):
            name = text_of(block.get("tool_use_id"))
            if block.get("type") == "tool_result" and name:
                self._calls.setdefault(name, uuid)
            elif name := text_of(block.get("id")):
                found.append(self._calls.pop(name, ""))
                self._calls[name] = ""
        while len(self._calls) > 2 * AGE:
            del self._calls[next(iter(self._calls))]
        return list(filter(None, dict.fromkeys(found)))


def kind_of(entry: Any, newest: object, *, sidechain: bool) -> tuple[str, object]:
    """Return "message", "node", "inside" or "aside", and the message id of an answer.

    A node is the request for a compaction, or its summary: it begins where the newest ends.
    `newest` is the message id of the newest answer.
    """
    if not is_object(entry):
        return "aside", None
    if entry.get("type") == "system" and entry.get("subtype") == "compact_boundary":
        return "node", None
    is_said = entry.get("isSidechain") is not True or sidechain
    if is_said and queued_prompt(entry) is not None:
        return "message", None
    content = content_of(entry) if text_of(entry.get("type")) in CONVERSATION else None
    if content is None or not is_said:
        return "aside", None
    if entry["type"] == "assistant":
        answer = entry["message"].get("id")
        return "inside" if answer and answer == newest else "message", answer
    if entry.get("isCompactSummary") is True:
        return "node", None
    return "message" if is_prompt(content) else "inside", None


class Chosen:
    """Chooses records, told in order, that a compaction keeps (`kept_of`)."""

    def __init__(self, uuids: Sequence[str], *, is_open: bool = False) -> None:
        self._uuids = uuids
        self._is_segment = "" in uuids
        self.is_open: bool = is_open
        """Whether the segment has begun and not ended."""

    def take(self, uuid: str, kind: str) -> bool:
        """Take the next record, of a kind; return whether it is one of a message that is kept."""
        return self._takes(uuid) and kind != "aside" and (kind != "node" or uuid in self._uuids)

    def _takes(self, uuid: str) -> bool:
        if not self._is_segment:
            return bool(uuid) and uuid in self._uuids
        is_kept = self.is_open = self.is_open or uuid == self._uuids[0]
        if is_kept and uuid == self._uuids[-1]:
            self.is_open = False
        return is_kept


class Nodes:
    """The nodes of what a feed has stored."""

    def __init__(self, feed: Feed, uuids: UuidIndex, *, sidechain: bool) -> None:
        self._feed = feed
        self._uuids = uuids
        self._sidechain = sidechain
        self._is_linked: bool | None = None
        """Whether one of the first two messages has a parent, once there are two."""

    def opening(self, told: list[int]) -> tuple[int, bool]:
        """Return how many messages began, of the first two, and whether one has a parent."""
        if self._is_linked is not None:
            return OPENING, self._is_linked
        nodes, is_linked = 0, False
        for place in range(0, len(told), PIECE):
            piece = told[place : place + PIECE]
            for begun, entry in zip(self._begun(piece), self._feed.read(piece), strict=True):
                nodes += bool(begun)
                is_linked = is_linked or (bool(begun) and is_object(entry) and isinstance(entry.get("parentUuid"), str))
                if nodes == OPENING:
                    self._is_linked = is_linked
                    return nodes, is_linked
        return nodes, is_linked

    def newest(self, told: list[int]) -> Tip:
        """Read the newest nodes, as far back as a gap may be open, and take their entries again."""
        taken: list[int] = []
        while True:
            path = self._feed.path(newest=len(taken) + PIECE)
            piece = path[: len(path) - len(taken)]
            begun = self._begun(piece)
            for place in range(len(piece) - 1, -1, -1):
                taken.insert(0, piece[place])
                at = bisect_left(told, piece[place])
                is_branch = place > 0 and told[at - 1] != piece[place - 1]
                if begun[place] and (is_branch or len(taken) > 2 * AGE):
                    return self._tip(taken)
            if len(piece) < PIECE:
                return self._tip(taken)

    def _tip(self, numbers: list[int]) -> Tip:
        tip = Tip()
        begun = self._begun(numbers)
        for number, begins, entry in zip(numbers, begun, self._feed.read(numbers), strict=True):
            found = self._uuids.number(entry.get("parentUuid")) if is_object(entry) else None
            kind, answer = kind_of(entry, tip.answer, sidechain=self._sidechain)
            kind = "message" if kind == "inside" and begins else kind
            has_come = found is not None and found < number
            tip.take(entry, kind, answer, has_come=has_come)
        return tip

    def end(self, uuid: str, told: list[int]) -> int | None:
        """Return the last record of an entry's node; None if it is the newest one, or unknown."""
        boundary = self._uuids.number(f"{TAIL}{uuid}")
        number = boundary or self._uuids.number(uuid)
        while boundary is None and number is not None:
            (entry,) = self._feed.read([number])
            kind, _ = kind_of(entry, None, sidechain=self._sidechain)
            named = entry.get("parentUuid") if is_object(entry) else None
            parent = self._uuids.number(named)
            if parent is None or parent == number or (kind != "aside" and (kind != "inside" or parent < number)):
                break
            boundary = self._uuids.number(f"{TAIL}{named}") if kind == "aside" else None
            number = boundary or parent
        waits = boundary is not None
        """Whether the summary is to come behind which children of the last kept message stand."""
        for place in range(bisect_right(told, number or 0), len(told), PIECE) if number is not None else ():
            piece = told[place : place + PIECE]
            for begun, before, one in zip(self._begun(piece), self._before(piece), piece, strict=True):
                if begun and not (waits and self._is_summary(one)):
                    return number
                if not begun and before > (number or 0) and self._goes_back(number or 0, before):
                    return number
                waits, number = waits and not begun, one
        return None

    def is_newest(self, number: int) -> bool:
        """Whether a record is effective, and no message stands behind it."""
        taken = 0
        while piece := self._feed.path(newest=taken + PIECE)[: -taken or None]:
            behind = piece[bisect_right(piece, number) :]
            if any(self._begun(behind)):
                return False
            if len(behind) < len(piece):
                return piece[-len(behind) - 1] == number
            taken += len(piece)
        return False

    def _before(self, numbers: list[int]) -> list[int]:
        """Return the versions before the first events of records."""
        session = self._feed.session
        found = stored_records(session.store.log, session.reader.ancestry(), numbers)
        return [record[1] - record[2].events - 1 for record in found]

    def _goes_back(self, after: int, version: int) -> bool:
        """Whether a rollback stands between two records: the second goes back to another branch."""
        found = self._feed.session.reader.events(after, version)
        return any(isinstance(recorded.event, ev.RolledBack) for recorded in found)

    def _is_summary(self, number: int) -> bool:
        (entry,) = self._feed.read([number])
        return is_object(entry) and entry.get("isCompactSummary") is True

    def kept(self, uuids: Sequence[str]) -> tuple[list[str], bool]:
        """Return the stored messages of the records that a compaction keeps.

        And whether they are of a segment whose end is not stored.
        """
        named = uuids[:1] if "" in uuids else uuids
        first = min((number for uuid in named if (number := self._uuids.number(uuid)) is not None), default=None)
        path = self._feed.path() if first is not None else []
        at = bisect_left(path, first or 0)
        while at > 0 and not any(self._begun(path[at : at + 1])):
            at -= 1
        chosen = Chosen(uuids)
        found: list[str] = []
        message = ""
        for place in range(at, len(path), PIECE):
            piece = path[place : place + PIECE]
            for begun, entry in zip(self._begun(piece), self._feed.read(piece), strict=True):
                message = begun or message
                if chosen.take(uuid_of(entry), kind_of(entry, None, sidechain=self._sidechain)[0]):
                    found.append(message)
        return found, chosen.is_open

    def newest_message(self) -> str:
        """Return the newest stored message, "" if there is none."""
        taken = 0
        while piece := self._feed.path(newest=taken + PIECE)[: -taken or None]:
            found = [message for message in self._begun(piece) if message]
            if found or len(piece) < PIECE:
                return found[-1] if found else ""
            taken += len(piece)
        return ""

    def _begun(self, numbers: list[int]) -> list[str]:
        """Return of each record the message that it begins, "" if it begins none."""
        session = self._feed.session
        found = stored_records(session.store.log, session.reader.ancestry(), numbers)
        begins = (ev.UserMessageAdded, ev.AssistantMessageStarted)
        return [
            next((event.message for event in events_of(record) if isinstance(event, begins)), "") for record in found
        ]
