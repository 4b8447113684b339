"""Append to a log of the embedded engine, and leave it as a killed process does."""

from __future__ import annotations

from typing import Any

from eventlog.errors import PoisonedError
from eventlog.log.commit import Append, Committed
from eventlog.log.embedded.engine import EmbeddedLog


def put(log: EmbeddedLog, payload: bytes = b"p", session: str = "s", **more: Any) -> Committed:
    """Append and wait; start the session if needed."""
    given: dict[str, Any] = {"session": session, "payload": payload, "count": 1, "time": 1, **more}
    if log.head(session) is None:
        given["creates_at"] = 0
    return log.submit(Append(**given)).wait(30)


def abandon(log: EmbeddedLog) -> None:
    """Close without folding, as a killed process would leave the store."""
    log._partition.tail.poison = PoisonedError("the test pulls the plug")
    log.close()
