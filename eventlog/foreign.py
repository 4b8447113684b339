"""What in a log is no conversation: streams that other programs keep there, such as `eventlog.recorder`.

Their cards and all their payloads begin with `FOREIGN`: 0xC1 twice.  MessagePack begins no value with that byte, and what
this engine writes for conversations has it at most once, before a MessagePack value (`codec.pack`).  So a head and a
commit each say by themselves whether they are a conversation's, whatever the session is called.
"""

from __future__ import annotations

from eventlog.log.base import Commit, Head

__all__ = ["FOREIGN", "REMAINS", "is_foreign"]

FOREIGN = b"\xc1\xc1"
REMAINS = FOREIGN + b"remains"
"""How the one stream begins that this engine writes of its own, which is never encrypted (`remains.py`)."""


def is_foreign(thing: Head | Commit) -> bool:
    """Whether a head or a commit belongs to something else than a conversation."""
    return (thing.card if isinstance(thing, Head) else thing.payload).startswith(FOREIGN)
