"""What a peer is asked to do, and how it is found.  No peer is here.

A peer keeps *messages*: a turn is a user message and an assistant message with a tool call and its result, handed over in
whatever form its public interface takes.  Most keep nothing while an answer streams; those that can are *streamers* too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Protocol

from benchmarks.figures import Missing
from benchmarks.workloads import Turn

__all__ = ["Chat", "Peer", "PeerError", "Streamer", "imported", "missing"]


class PeerError(Exception):
    """The peer's package is there and does not do its work on this machine."""


class Chat(Protocol):
    """One conversation in one store of a peer."""

    def seed(self, work: Sequence[Turn]) -> None:
        """Put these turns there the quickest way its interface has; not measured."""
        ...

    def turn(self, turn: Turn) -> None:
        """Add one turn, kept as the peer keeps things when it returns."""
        ...

    def load(self) -> int:
        """Read the whole conversation into the peer's own objects.

        Returns how many messages or records that were.
        """
        ...

    def close(self) -> None:
        """Let go of the store."""
        ...


class Streamer(Protocol):
    """One answer that is kept while it streams."""

    def append(self, text: str) -> None:
        """Keep one more delta."""
        ...

    def finish(self) -> None:
        """The answer is complete, and the store is closed."""
        ...


class Peer(NamedTuple):
    """A way to keep conversations."""

    id: str
    title: str
    durable: bool
    """Whether a turn survives power loss when it returns."""
    package: str = ""
    """The module it needs, "" for none."""
    install: str = ""
    """How to get it."""
    chat: Callable[[Path], Chat] | None = None
    """Open the conversation in a directory, which is made if it is not there."""
    streamer: Callable[[Path], Streamer] | None = None
    """Open a new streamed answer in a new directory."""
    server: bool = False
    """Whether it has a process of its own, which may not start on every machine."""
    note: str = ""
    """What has to be known to read its figures: what it does besides, or leaves out."""
    quick: int | None = None
    """Messages beyond which a turn, loading or filling takes minutes.

    None if they never do.
    """


def imported(name: str) -> Any:
    """A module by its name: peers are optional, so nothing may import them by itself."""
    return import_module(name)


@cache
def missing(peer: Peer) -> Missing | None:
    """Why a peer cannot be measured, or None if it can.

    Its package must be there, and its server, if it has one, must start.
    """
    try:
        if peer.package:
            imported(peer.package)
        if peer.server and peer.chat is not None:
            with TemporaryDirectory(prefix="everdelta-peer-") as directory:
                peer.chat(Path(directory) / "trial").close()
    except Exception as error:  # noqa: BLE001 - whatever a package raises when it is imported or started, the peer is not there
        return Missing(peer.title, peer.install, f"{type(error).__name__}: {error}")
    return None
