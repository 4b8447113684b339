"""Commands that are waited for together: what they have accepted, and where the wait is.

Made by `Handle.pipeline` and `Handle.collecting`; what accepts and waits is `appender.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import local
from types import TracebackType
from typing import Self

from eventlog import events as ev
from eventlog.append.appender import Appender
from eventlog.append.pending import Accepted

__all__ = ["Pipeline"]


class Pipeline:
    """What the commands inside a `with session.pipeline()` have accepted; waits for all of it at the end of the outermost.

    What is not committed when that wait raises never will be; `PartlyCommittedError` says how much is.
    """

    __slots__ = ("_accepted", "_appender", "_depth", "_outer", "_places", "_waits")

    def __init__(self, appender: Appender, places: local, *, waits: bool) -> None:
        self._appender = appender
        self._accepted: list[Accepted] = []
        self._places = places
        """Where a thread's commands look for the pipeline they are in."""
        self._waits = waits
        self._depth = 0
        self._outer: Pipeline | None = None

    def __enter__(self) -> Self:
        if not self._depth:
            self._outer = getattr(self._places, "pipeline", None)
            self._places.pipeline = self
        self._depth += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if not self._depth:
            self._places.pipeline = self._outer
            if not self._waits:
                if kind is not None and self._accepted:
                    self._appender.wake()  # nobody waits, so nothing else would have it flushed
            elif kind is None:
                self.wait()

    def accept(self, items: Sequence[tuple[int, ev.Event]], bodies: Mapping[bytes, bytes] | None) -> None:
        """Accept one command.  What the caller waits for right after needs no background flush."""
        self._accepted.append(self._appender.accept(items, bodies, owned=True, wake=self._waits))

    def wait(self) -> None:
        """Block until all of it is durable; raises what went wrong first."""
        try:
            self._appender.settle(self._accepted)
        except BaseException:
            self._appender.wake()  # an interrupted wait: what it was for is flushed all the same
            raise

    async def settled(self) -> None:
        """The same for asyncio."""
        try:
            await self._appender.settled(self._accepted)
        except BaseException:
            self._appender.wake()
            raise
