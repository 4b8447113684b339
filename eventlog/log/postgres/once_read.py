"""Heads that a thread has read in a block whose reads may be as of its beginning."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from threading import local
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eventlog.log.contract import Head

__all__ = ["OnceRead"]


class OnceRead(local):
    """The heads by session, of this thread alone; None outside of such a block."""

    def __init__(self) -> None:
        self.heads: dict[str, Head | None] | None = None

    @contextmanager
    def block(self) -> Generator[None]:
        """Remember heads until the outermost block ends."""
        outer = self.heads
        self.heads = {} if outer is None else outer
        try:
            yield
        finally:
            self.heads = outer

    def forget(self) -> None:
        """Forget them: this thread writes."""
        if self.heads is not None:
            self.heads.clear()
