"""Digests of views: what an audit compares with the request that is rebuilt."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import TYPE_CHECKING, TypeAlias

from projections.replay.canonical import pack
from projections.view.messages import Messages

if TYPE_CHECKING:
    from projections.view.neutral import NeutralMessage

RENDERER = "neutral/1"
"""Name and version of the neutral form, part of every digest."""

Shown: TypeAlias = tuple[str, str | None]
"""A view's target, and the part of the compaction that it begins with."""


def digest_of(
    messages: Iterable[NeutralMessage],
    system: tuple[str, ...],
    tools: str | None,
    renderer: str | None = None,
    *,
    format: str | None = None,
    shown: Shown = ("", None),
) -> bytes:
    """Return the SHA-256 of a request in its neutral form, whose version is hashed, too.

    `renderer` names that version, today's by default; `shown` are the view's target and boundary.
    """
    found = sha256(_head(system, tools, format, renderer, shown))
    for message in messages:
        found.update(pack(message))
    return found.digest()


class RunningDigest:
    """Hashes views that follow each other; their common beginning is hashed once.

    Safe across threads.
    """

    def __init__(self) -> None:
        self._kept = (b"", Messages([]), sha256())
        """The newest view's head and final messages, and their hash, which is not updated again."""

    def of(
        self, messages: Messages, system: tuple[str, ...], tools: str | None, *, format: str | None, shown: Shown
    ) -> bytes:
        """Return the digest of a view; the arguments are those of `digest_of`."""
        head, final = _head(system, tools, format, None, shown), messages.final
        known, done, found = self._kept
        if head == known and final.begins_with(done):
            found = found.copy()
        else:
            done, found = Messages([]), sha256(head)
        for message in final.since(len(done)):
            found.update(pack(message))
        self._kept = head, final, found
        found = found.copy()
        for message in messages.since(len(final)):
            found.update(pack(message))
        return found.digest()


def _head(system: tuple[str, ...], tools: str | None, format_: str | None, renderer: str | None, shown: Shown) -> bytes:
    return pack([renderer or RENDERER, system, tools, format_, *shown])
