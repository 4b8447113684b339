"""Backoff of a session's writer whose appends come too late.

An append is decided at a version, and the log refuses it once the session is elsewhere. The writer
then reads on, decides anew and submits again: at once for the first few times, later after a random
pause. The longer a writer has waited, the shorter is its pause, so that each gets its turn.
"""

from __future__ import annotations

import random
import time

__all__ = ["Backoff"]

PATIENCE = 30.0
"""Seconds in which an append goes in, or its caller hears of the conflict."""
EAGER = 3
"""Conflicts in a row after which a writer pauses before the next try."""
LONGEST = 0.03
"""Seconds of the first pause, at most."""


class Backoff:
    """The conflicts in a row of one session's writer, and the pause before its next try.

    Waited for as an append is, without the session's lock.
    """

    __slots__ = ("_since", "conflicts")

    def __init__(self) -> None:
        self.conflicts: int = 0
        """How many appends in a row met another writer's."""
        self._since = 0.0

    @property
    def asks_for_pause(self) -> bool:
        """Whether a pause is due before the next try."""
        return self.conflicts > EAGER

    def note(self) -> bool:
        """Note a conflict; return whether to try again."""
        now = time.monotonic()
        if not self.conflicts:
            self._since = now
        self.conflicts += 1
        return now - self._since < PATIENCE

    def goes_on(self) -> bool:
        """Note a conflict, and pause if that is due; False if its caller is to hear of it."""
        if not self.note():
            return False
        if self.asks_for_pause:
            self.wait()
        return True

    def end(self) -> None:
        """Begin anew: an append went in, or its caller was told of the conflict."""
        self.conflicts = 0

    def wait(self) -> None:
        """Let other writers go on for a moment."""
        time.sleep(self._pause())

    async def waited(self) -> None:
        """Wait as `wait` does, without blocking the event loop."""
        import asyncio  # slow to import, and here it is loaded already

        await asyncio.sleep(self._pause())

    def _pause(self) -> float:
        return random.uniform(0, LONGEST * (EAGER + 1) / self.conflicts)
