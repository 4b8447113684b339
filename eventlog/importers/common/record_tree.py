"""Tree of records in which a conversation goes back and goes on from an earlier record.

One branch after the other is told, in the order of the records. A record that stands behind another
than the latest one begins with `RolledBack`: the history is again the one right after its parent,
and the branch that was left stays readable at its versions.
"""

from __future__ import annotations

from array import array
from copy import copy
from typing import NamedTuple

from msgspec.structs import replace

from eventlog import events as ev
from eventlog.importers.common.conversation import Conversation
from eventlog.importers.common.conversation_parts import OpenAnswer, OpenCall
from eventlog.importers.common.record_index import RecordIndex

MAX_WAITING = 128
"""Newest places that keep the answers which wait there for results of their calls."""


class _Waiting(NamedTuple):
    """Copies of the answers with calls that have no result, and these calls."""

    answers: tuple[OpenAnswer, ...]
    calls: dict[str, OpenCall]


_NOTHING = _Waiting((), {})


class RecordTree:
    """The records told so far, and the one that is told now."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._places = RecordIndex()
        """Number of the place right behind each record."""
        self._versions = array("Q")
        """Version of each place."""
        self._users: list[str | None] = []
        """Newest user message of each place."""
        self._waiting: dict[int, _Waiting] = {}
        self._returns = 0
        self._new = ""
        self.latest: str = ""
        """The record that the conversation stands behind."""

    def __contains__(self, node: str) -> bool:
        return self._places.get(node) is not None

    def begin(self, time: int, node: str, parent: str | None) -> bool:
        """Begin a record that stands behind another, None for the latest; False if it is unknown.

        Behind an unknown one it stands behind the latest, too.
        """
        known = parent is None or parent == self.latest or self.go_back(time, parent)
        self._new = node
        return known

    def go_back(self, time: int, node: str) -> bool:
        """Make the conversation stand right behind an earlier record; False if it is unknown."""
        place = self._places.get(node)
        if place is None:
            return False
        conversation = self._conversation
        conversation.add(time, ev.RolledBack(self._versions[place]))
        conversation.abandon()
        conversation.last_user = self._users[place]
        self.latest = node
        self._returns += 1  # an answer is finished once on each branch, by a part of another name
        left = self._waiting.get(place, _NOTHING)
        copies = {answer.id: replace(_copied(answer), finishes=self._returns) for answer in left.answers}
        conversation.waiting = [answer for answer in copies.values() if answer.calls]
        for answer in copies.values():
            if not answer.calls:
                conversation.open = answer
                conversation.supersede()
        for name, call in left.calls.items():
            if call.answer.id in copies:
                conversation.calls[name] = replace(call, answer=copies[call.answer.id])
        return True

    def end_record(self) -> None:
        """End the record that was begun, after all its events."""
        if self._new:
            self.mark(self._new)
            self.latest, self._new = self._new, ""

    def mark(self, node: str) -> None:
        """Note how the conversation stands now, under the name of a node."""
        conversation = self._conversation
        place = len(self._versions)
        self._places.move(node, place)
        self._versions.append(conversation.version)
        self._users.append(conversation.last_user)
        answers = [*conversation.waiting, *([conversation.open] if conversation.open is not None else [])]
        if answers:
            self._waiting[place] = _Waiting(tuple(map(_copied, answers)), dict(conversation.calls))
            if len(self._waiting) > MAX_WAITING:
                del self._waiting[next(iter(self._waiting))]


def _copied(answer: OpenAnswer) -> OpenAnswer:
    return replace(answer, calls=copy(answer.calls), call_ids=copy(answer.call_ids))
