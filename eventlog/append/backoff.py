"""Pauses of a session's writer: behind others' appends, and before an open pipeline.

An append is decided at a version, and the log refuses it once the session is elsewhere. The writer
then reads on, decides anew and submits again: at once for the first few times, later after a random
pause. The longer a writer has waited, the shorter is its pause, so that each gets its turn.
"""

from __future__ import annotations

import random
import time
from threading import get_ident

from eventlog.append.command import Unit
from eventlog.errors import BusyError

PATIENCE = 30.0
"""Seconds in which an append goes in, or its caller hears why it does not."""
EAGER = 3
"""Conflicts in a row after which a writer pauses before the next try."""
LONGEST = 0.03
"""Seconds of the first pause, at most."""
POLL = 0.002
"""Seconds between two looks whether another thread's pipeline has ended."""


class _Pause:
    """A moment in which others go on, waited for without the session's lock."""

    __slots__ = ()

    def _seconds(self) -> float:
        return POLL

    def wait(self) -> None:
        """Let the others go on for a moment."""
        time.sleep(self._seconds())

    async def waited(self) -> None:
        """Wait as `wait` does, without blocking the event loop."""
        import asyncio  # slow to import, and here it is loaded already

        await asyncio.sleep(self._seconds())


class Backoff(_Pause):
    """The conflicts in a row of one session's writer, and the pause before its next try."""

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

    def _seconds(self) -> float:
        return random.uniform(0, LONGEST * (EAGER + 1) / self.conflicts)


class Gate(_Pause):
    """A gate that one thread shuts while its pipeline is open: others wait before it.

    It is open again once its thread opens or forgets it.
    """

    __slots__ = ("__weakref__", "_since", "_thread", "unit")

    def __init__(self, unit: Unit) -> None:
        self.unit: Unit = unit
        """The pipeline's commands."""
        self._thread = get_ident()
        self._since = time.monotonic()

    def is_others(self) -> bool:
        """Return whether another thread has shut the gate."""
        return self._thread != get_ident()

    def require_patience(self) -> None:
        """Raise `BusyError` once the gate has been shut for too long."""
        if time.monotonic() > self._since + PATIENCE:
            raise BusyError(
                f"another thread's pipeline has been open for more than {PATIENCE:g} s; nothing of this command was"
                " written: end the pipeline, then repeat the command"
            )
