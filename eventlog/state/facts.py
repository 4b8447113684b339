"""Facts about messages, parts and pins: the version that added each, and its changes.

Plain data; which event adds a fact is `evolve.py`.

The changes of a message, part or pin are a tuple of whole numbers, `version * 32 + code`, oldest
first: a tuple because most change once or twice, and numbers because a long session has millions.
The history decides which entries are effective.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import msgspec

Changes: TypeAlias = tuple[int, ...]
"""`version << CODE_BITS | code`, oldest first."""

CODE_BITS = 5
CODE_MASK = (1 << CODE_BITS) - 1
NAMES = (
    "finished",
    "removed",
    "ended",
    "running",
    "completed",
    "failed",
    "requested",
    "started",
    "undone",
    "pruned",
    "restored",
    "unpinned",
    "waiting",
    "promoted",
    "edited",
    "redacted",
    "interrupted",
    "replaced",
    "returned",
    "arguments-pruned",
    "arguments-restored",
    "asked",
    "allowed",
)
"""Changes of a message, step, part or pin.  Places are stored: add at the end, 32 at most."""
CODES = {name: code for code, name in enumerate(NAMES)}


class PartFacts(msgspec.Struct, array_like=True, gc=False):
    """Facts of a part.  `changes` has its states after the first, and "removed"."""

    added: int
    message: str
    kind: str
    """Kind of the part; "ignored" is a user's text that is not sent.

    "text", "ignored", "reasoning", "tool", "file", "subtask", "opaque", "compaction", "step", or
    "other".
    """
    call: str
    first: str
    """State at birth: "open", "pending", "requested", "ended"."""
    changes: Changes = ()
    prunes: Changes = ()
    edits: Changes = ()
    """"edited", "redacted", and of its media "replaced" and "returned".

    These are versions that a reader of the part must look at.
    """

    def newest(self) -> int:
        """The version of the newest fact."""
        return max(self.added, _newest(self.changes), _newest(self.prunes), _newest(self.edits))

    def as_of(self, version: int) -> PartFacts:
        """The facts up to version `version`, which is not before the one that added the part."""
        changes, prunes, edits = (_as_of(column, version) for column in (self.changes, self.prunes, self.edits))
        return PartFacts(self.added, self.message, self.kind, self.call, self.first, changes, prunes, edits)


class MessageFacts(msgspec.Struct, array_like=True, gc=False):
    """Facts of a message.  `changes`: "waiting", "promoted", "finished", "removed"."""

    added: int
    user: bool
    summary: bool
    parts: dict[str, PartFacts]
    """Its parts by id, in order, ineffective ones included."""
    steps: Changes = ()
    changes: Changes = ()
    seen: int | None = None
    """`AssistantMessageStarted.seen` of a reply."""

    def promotions(self) -> Iterator[int]:
        """Versions that promoted the message, newest first."""
        return versions_of(self.changes, "promoted")

    def newest(self) -> int:
        """The version of the newest fact, those of its parts included."""
        own = (self.added, _newest(self.steps), _newest(self.changes))
        return max(*own, *(part.newest() for part in self.parts.values()))

    def as_of(self, version: int) -> MessageFacts | None:
        """The facts up to version `version`; None if the message was added after it."""
        if self.added > version:
            return None
        parts = {name: part.as_of(version) for name, part in self.parts.items() if part.added <= version}
        steps, changes = _as_of(self.steps, version), _as_of(self.changes, version)
        return MessageFacts(self.added, self.user, self.summary, parts, steps, changes, self.seen)


class PinFacts(msgspec.Struct, array_like=True, gc=False):
    """Facts of a pin.  `changes`: "unpinned"."""

    added: int
    changes: Changes = ()

    def as_of(self, version: int) -> PinFacts | None:
        """The facts up to version `version`; None if the pin was added after it."""
        return None if self.added > version else PinFacts(self.added, _as_of(self.changes, version))


def versions_of(changes: Changes, name: str) -> Iterator[int]:
    """Yield the versions of a kind of change, newest first."""
    code = CODES[name]
    return (change >> CODE_BITS for change in reversed(changes) if change & CODE_MASK == code)


def _as_of(changes: Changes, version: int) -> Changes:
    return tuple(change for change in changes if change >> CODE_BITS <= version)


def _newest(changes: Changes) -> int:
    return changes[-1] >> CODE_BITS if changes else 0
