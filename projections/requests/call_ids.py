"""Call ids as a provider accepts them.

Shared by the formats that have rules for ids across messages.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import TypeAlias

from projections.view.neutral import Call, NeutralMessage, Result

Names: TypeAlias = dict[str, str]
"""By own id, the ids that the calls and results of one message are sent with."""

_HASH = 24
"""Characters of the hash in a new id."""
_KIND = re.compile("[A-Za-z]{1,20}_")


class CallIds:
    """Gives each call of a request a unique id, message by message.

    Ids of providers are unique within a message only, and a request may have those of several
    providers. A call keeps its id if it is allowed and no earlier call has it. Otherwise it gets a
    hash of its own id and its message's, which never changes, so that a later view begins as the
    earlier one did.
    """

    def __init__(self, allowed: str, longest: int) -> None:
        self._allowed = re.compile(allowed)
        self._longest = longest
        self._taken: set[str] = set()
        self._current: Names = {}

    def names(self, message: NeutralMessage) -> Names:
        """Return the ids for the next message of the request."""
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
        while not name or name in self._taken:
            data = f"{source}\0{call}\0{attempt}".encode("utf-8", "surrogatepass")
            kind = _KIND.match(call)
            prefix = kind[0] if kind else "call_"
            name = (prefix if len(prefix) + _HASH <= self._longest else "") + sha256(data).hexdigest()[:_HASH]
            name = name[: self._longest]
            attempt += 1
        self._taken.add(name)
        return name
