"""Lasting refusals of each target, a model of a provider: its rate, and its own state.

They are part of the loop's state, so they are recorded with the replies that they ended.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec

from eventlog.session.failure import NOT_BEFORE
from eventlog.streams.refusals import OPAQUE, RATE
from eventlog.validation import json_value
from eventlog.values import MessageError

__all__ = ["RefusingTarget", "note_refusal", "refusing"]

MOST = 8
"""Targets that are kept."""


class RefusingTarget(msgspec.Struct, array_like=True):
    """The lasting refusals of a target."""

    not_before: int = 0
    """Time (UTC milliseconds) before which it is not asked: it refused for its rate."""
    state_from: int = 0
    """Place of the newest reply for which it refused its own state; earlier state is not sent."""
    state_before: int = 0
    """Place of the reply before it that was refused so."""


def refusing(targets: dict[str, RefusingTarget], target: str) -> RefusingTarget:
    """Return the refusals of a target; for "", of the newest that refused."""
    newest = next(reversed(targets.values()), None)
    return targets.get(target) or (newest if not target else None) or RefusingTarget()


def note_refusal(targets: dict[str, RefusingTarget], target: str, error: MessageError, place: int) -> None:
    """Keep what the refusal `error` of the reply at `place` says for later requests."""
    if error.name not in {OPAQUE, RATE}:
        return
    found = targets[target] = targets.pop(target, RefusingTarget())
    if error.name == RATE:
        found.not_before = not_before(error)
    else:
        found.state_before, found.state_from = found.state_from, place
    while len(targets) > MOST:
        del targets[next(iter(targets))]


def not_before(error: MessageError) -> int:
    """Return the time from which asking again makes sense, 0 if the error tells none."""
    try:
        data = json_value(error.data or "{}")
    except ValueError:  # of another program
        return 0
    time = cast("dict[str, Any]", data).get(NOT_BEFORE) if isinstance(data, dict) else None
    return time if isinstance(time, int) else 0
