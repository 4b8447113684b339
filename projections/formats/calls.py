"""Call ids as a provider takes them, and each message rendered once: what the formats with rules for ids share.

Not a format, and not the constraints of a view (`view/constraints.py`), which know single messages only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import Generic, TypeAlias, TypeVar

from projections.view.neutral import Call, NeutralMessage, Result

__all__ = ["CallIds", "Names", "Rendered"]

Names: TypeAlias = dict[str, str]
"""The ids that the calls and results of one message are sent with, by their own ids."""

T = TypeVar("T")
_KIND = re.compile("[A-Za-z]{1,20}_")


class CallIds:
    """Gives each call of a request an id of its own, walking the messages in order.

    Providers' ids are unique within a message only (spec §3), and a request may hold those of several providers.  A call keeps
    its id if that is allowed and not taken by an earlier call; else it gets one made of its own id and its message's, always
    the same, so that a later view begins as the earlier one did.
    """

    def __init__(self, allowed: str, longest: int) -> None:
        self._allowed = re.compile(allowed)
        self._longest = longest
        self._taken: set[str] = set()
        self._current: Names = {}

    def names(self, message: NeutralMessage) -> Names:
        """The ids for the next message of the request."""
        names: Names = {}
        for part in message.parts:
            if isinstance(part, Call):
                names[part.call] = self._current[part.call] = self._fresh(message.source, part.call)
            elif isinstance(part, Result):
                names[part.call] = self._current.get(part.call, part.call)
        return names

    def _fresh(self, source: str, call: str) -> str:
        name = call
        if not call or len(call) > self._longest or not self._allowed.fullmatch(call):
            name = ""
        attempt = 0
        kind = _KIND.match(call)
        while not name or name in self._taken:
            data = f"{source}\0{call}\0{attempt}".encode("utf-8", "surrogatepass")
            name = (kind[0] if kind else "call_") + sha256(data).hexdigest()[:24]
            attempt += 1
        self._taken.add(name)
        return name


class Rendered(Generic[T]):
    """What `make` gave for each message of the view before, so that the next view asks only for what is new in it."""

    __slots__ = ("_known", "_make")

    def __init__(self, make: Callable[[NeutralMessage, Names], T]) -> None:
        self._make = make
        self._known: dict[int, tuple[NeutralMessage, Names, T]] = {}

    def of(self, messages: Iterable[NeutralMessage], ids: CallIds) -> list[T]:
        """The messages of a view, rendered, in order."""
        fresh: dict[int, tuple[NeutralMessage, Names, T]] = {}
        found: list[T] = []
        for message in messages:
            names = ids.names(message)
            key = id(message)  # held by the entry, so no other message can have it
            entry = self._known.get(key)
            if entry is None or entry[1] != names:
                entry = (message, names, self._make(message, names))
            fresh[key] = entry
            found.append(entry[2])
        self._known = fresh
        return found
