"""The protocol of a peer, and how peers are found.

A peer stores *messages*: a turn is a user message and an assistant message with a tool call and its
result, in the form of its public interface. Most peers store nothing while an answer streams; those
that can are *streamers*, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from benchmarks.figures import Missing
from benchmarks.workloads import Turn


class Chat(Protocol):
    """One conversation in one store of a peer."""

    def seed(self, work: Sequence[Turn]) -> None:
        """Add turns in the quickest way of its interface, by default one by one; not measured."""
        for turn in work:
            self.turn(turn)

    def turn(self, turn: Turn) -> None:
        """Add one turn; as durable as the peer makes it when this returns."""
        ...

    def load(self) -> int:
        """Read all into the peer's own objects; return the number of messages or records."""
        ...

    def close(self) -> None:
        """Close the store."""
        ...


class Streamer(Protocol):
    """One answer that is stored while it streams."""

    def append(self, text: str) -> None:
        """Store one more delta."""
        ...

    def finish(self) -> None:
        """End the answer, durable when it returns, and close the store."""
        ...


class Peer(NamedTuple):
    """A library, or a plain way, to store conversations."""

    id: str
    title: str
    durable: bool
    """Whether a turn survives power loss when it returns."""
    package: str = ""
    """Module that it needs; "" for none."""
    install: str = ""
    """Command that installs it."""
    chat: Callable[[Path], Chat] | None = None
    """Opens the conversation in a directory, which is made if missing."""
    streamer: Callable[[Path], Streamer] | None = None
    """Opens a new streamed answer in a new directory; each delta is durable if the peer is."""
    note: str = ""
    """Explanation of its figures: additional work, or work left out."""
    quick: int | None = None
    """Messages beyond which a turn, loading or filling takes minutes; None for no such number."""


def imported(name: str) -> Any:
    """Import a module by its name: peers are optional, so no module may import them itself."""
    return import_module(name)


@cache
def missing(peer: Peer) -> Missing | None:
    """Return why a peer cannot be measured, or None if it can."""
    try:
        if peer.package:
            imported(peer.package)
    except Exception as error:  # noqa: BLE001 - any error of a package means that the peer is missing
        return Missing(peer.title, peer.install, f"{type(error).__name__}: {error}")
    return None
