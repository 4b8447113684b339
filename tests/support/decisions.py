"""Acting inside a commit of an engine with a queue, where it decides on an append."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from eventlog.log.append_checks import accept
from eventlog.log.embedded import batch
from eventlog.log.postgres import batch as postgres_batch

if TYPE_CHECKING:
    import pytest

    from eventlog.log.append_checks import PriorCommits
    from eventlog.log.commit import Append, Committed, Head

MARKED = 77
"""The time of the append at which to act."""


def at_decision(patch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Act where the engine decides on an append of the time `MARKED`."""

    def acting(past: PriorCommits, append: Append, head: Head | None) -> Committed | Head | None:
        if append.time == MARKED:
            act()
        return accept(past, append, head)

    patch.setattr(batch, "accept", acting)
    patch.setattr(postgres_batch, "accept", acting)
