"""Messages that a reply has seen: a recorded version decides, not the order of events.

`AssistantMessageStarted.seen` is the version up to which the history was sent to the model. The
place of a message is the version that put it into the conversation: its promotion, else its birth.
All that is said of questions and answers asks `has_seen`, and compares no versions itself.
"""

from __future__ import annotations

__all__ = ["has_seen", "seen_upto"]


def seen_upto(began: int, seen: int | None) -> int:
    """Return the version up to which a reply that began at `began` has seen the history.

    `seen` is what its first event says; None (imports, records): all that stands before it.
    """
    return began - 1 if seen is None else seen


def has_seen(began: int, seen: int | None, place: int) -> bool:
    """Return whether a reply has seen the message at `place`; the rest as in `seen_upto`."""
    return place <= seen_upto(began, seen)
