"""A walk through a session's versions, each state folded from the one before: for whoever looks at many versions, in order.

Not the replay of one (`replay.py`), whose loop this uses where a fold cannot go on.  No checkpoint is used, so what is found here depends
on events alone.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from projections.projection import Projection, Source
from projections.replay import go_on, replay

__all__ = ["Walk"]

S = TypeVar("S")


class Walk(Generic[S]):
    """The state right after a version; going on costs the events in between, going back a whole replay."""

    def __init__(self, projection: Projection[S], source: Source) -> None:
        self._projection = projection
        self._source = source
        self.state = projection.initial()
        self.version = 0

    def to(self, version: int) -> S:
        """The state right after `version`, as it was then; it is changed by the next call."""
        found = None
        if version >= self.version:
            found = go_on(self._projection, self._source, self.state, self.version, version)
        if found is None:
            found = replay(self._projection, self._source, version)
        self.state, self.version = found
        return self.state
