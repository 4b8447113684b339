"""What an engine is that keeps everything for everybody: the part of `base.Log` that only a log before another one has more to say of.

Imported by the engines only.
"""

from __future__ import annotations

from typing import Self

__all__ = ["Undivided"]


class Undivided:
    """Every session has the same bodies and derived values, under the names that they are given."""

    @property
    def engine(self) -> Self:
        """This log keeps its own."""
        return self

    def of(self, session: str) -> Self:
        """What is one session's here is everybody's."""
        del session
        return self

    def name(self, digest: bytes) -> bytes:
        """A body is called by its hash."""
        return digest
