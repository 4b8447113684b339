"""Facts about messages, parts and pins: the version that added each, and its changes.

Plain data; which event adds a fact is `evolve.py`.

The changes of a message, part or pin are a tuple of whole numbers, `version * 32 + code`, oldest
first: a tuple because most change once or twice, and numbers because a long session has millions.
The history decides which entries are effective.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

__all__ = ["CODES", "CODE_BITS", "CODE_MASK", "NAMES", "Changes", "MessageFacts", "PartFacts", "PinFacts"]

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
)
"""Changes of a message, step, part or pin.  Places are stored: add at the end, 32 at most."""
CODES = {name: code for code, name in enumerate(NAMES)}


class PartFacts(msgspec.Struct, array_like=True, gc=False):
    """Facts of a part.  `changes` has its states after the first, and "removed"."""

    added: int
    message: str
    kind: str
    """"text", "reasoning", "tool", "file", "compaction", "step", or "other"."""
    call: str
    first: str
    """State at birth: "open", "pending", "requested", "ended"."""
    changes: Changes = ()
    prunes: Changes = ()
    edits: Changes = ()
    """"edited" and "redacted": versions that a reader of the part must look at."""

    def newest(self) -> int:
        """The version of the newest fact."""
        return max(self.added, _newest(self.changes), _newest(self.prunes), _newest(self.edits))


class MessageFacts(msgspec.Struct, array_like=True, gc=False):
    """Facts of a message.  `changes`: "waiting", "promoted", "finished", "removed"."""

    added: int
    user: bool
    summary: bool
    parts: dict[str, PartFacts]
    """Its parts by id, in order, ineffective ones included."""
    steps: Changes = ()
    changes: Changes = ()

    def promotions(self) -> list[int]:
        """Versions that promoted the message, newest first."""
        promoted = CODES["promoted"]
        return [change >> CODE_BITS for change in reversed(self.changes) if change & CODE_MASK == promoted]

    def newest(self) -> int:
        """The version of the newest fact, those of its parts included."""
        own = (self.added, _newest(self.steps), _newest(self.changes))
        return max(*own, *(part.newest() for part in self.parts.values()))


class PinFacts(msgspec.Struct, array_like=True, gc=False):
    """Facts of a pin.  `changes`: "unpinned"."""

    added: int
    changes: Changes = ()


def _newest(changes: Changes) -> int:
    return changes[-1] >> CODE_BITS if changes else 0
