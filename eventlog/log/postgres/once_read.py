"""Heads and values that a thread has read in a block of `reading`."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from threading import local
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eventlog.log.commit import Head
    from eventlog.log.contract import HeadReader


class OnceRead(local):
    """Heads and values that this thread alone read; None outside of such a block."""

    def __init__(self) -> None:
        self.heads: dict[str, Head | None] | None = None
        """Heads by session."""
        self.values: dict[bytes, bytes] | None = None
        """Derived values that came along with their keys."""

    @contextmanager
    def block(self) -> Generator[None]:
        """Remember what is read until the outermost block ends."""
        outer = self.heads, self.values
        if self.heads is None:
            self.heads, self.values = {}, {}
        try:
            yield
        finally:
            self.heads, self.values = outer

    def forget(self) -> None:
        """Forget them: this thread writes."""
        if self.heads is not None and self.values is not None:
            self.heads.clear()
            self.values.clear()


class RecalledHeads:
    """A reader of heads that asks the log only for those that its thread has not read yet."""

    def __init__(self, log: HeadReader, once: OnceRead) -> None:
        self._log = log
        self._once = once

    def head(self, session: str) -> Head | None:
        """Return the session's head, as old as the block at most."""
        once = self._once.heads
        return once[session] if once is not None and session in once else self._log.head(session)
