"""The server's clock, as far as this process knows it from the answers of the server."""

from __future__ import annotations

import time


class ServerClock:
    """By how much the server's clock is ahead of this machine's, in microseconds.

    An answer says what time it was between sending and receiving, so the difference lies in a
    range; it is moved only if it is outside. No answer moves it by more than a round trip.
    """

    def __init__(self) -> None:
        self._ahead = 0

    @staticmethod
    def local() -> int:
        """Return the time of this machine."""
        return time.time_ns() // 1000

    def learn(self, server: int, sent: int) -> None:
        """Take in the server's time in an answer to what was sent at a local time."""
        self._ahead = min(max(self._ahead, server - self.local()), server - sent)

    def nanoseconds(self) -> int:
        """Return UTC nanoseconds of the server."""
        return time.time_ns() + self._ahead * 1000
