"""Something that another handle does right before a session takes its lease."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from eventlog.session.held_lease import Lease
from eventlog.session.session import Session


def before_lease(monkeypatch: pytest.MonkeyPatch, session: Session, call: Callable[[], object]) -> list[object]:
    """Have `call` made when a session takes its next lease; the list returned gets its result."""
    acquire, found = session.executor.acquire, list[object]()

    def late(**given: Any) -> Lease:
        monkeypatch.setattr(session.executor, "acquire", acquire)
        found.append(call())
        return acquire(**given)

    monkeypatch.setattr(session.executor, "acquire", late)
    return found
