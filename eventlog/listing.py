"""What a list of sessions shows: one small record a session, from its head, without an event."""

from __future__ import annotations

from decimal import Decimal

import msgspec

from eventlog.card import card_of
from eventlog.log.base import Head
from eventlog.sealed import is_sealed
from eventlog.values import Origin

__all__ = ["SessionInfo", "info_of"]


class SessionInfo(msgspec.Struct, frozen=True):
    """What a list of sessions shows; times are UTC milliseconds."""

    id: str
    title: str
    parent: str | None
    """The session this one is a sub-session of."""
    scope: str
    created: int
    updated: int
    version: int
    events: int
    """Events of its own; what a fork inherited is not counted."""
    messages: int
    """Messages ever added to it, inherited ones not counted."""
    archived: bool
    directory: str = ""
    agent: str = ""
    origin: Origin | None = None
    fork_of: str | None = None
    forked_at: int | None = None
    tokens: int = 0
    """Tokens that were spent in it, on every branch; what a fork inherited is not counted."""
    cost: Decimal = Decimal(0)
    """US dollars, of the calls whose price is known; see `spent`."""
    unpriced: int = 0
    """Model calls whose price is not known."""
    erased: bool = False
    locked: bool = False
    """Whether it is encrypted and its key is not there: of what it says nothing is known."""
    calls: int = 0
    """Model calls whose usage was recorded in it."""

    @property
    def spent(self) -> Decimal | None:
        """US dollars that were spent in it, of the calls whose price is known; None if no call has one."""
        return self.cost if self.calls > self.unpriced else None


def info_of(head: Head) -> SessionInfo:
    """What the list shows of the session with this head."""
    card = card_of(head)
    return SessionInfo(
        id=head.session,
        title=card.title,
        parent=card.parent,
        scope=card.scope,
        created=head.created,
        updated=head.updated,
        version=head.version,
        events=head.version - head.base,
        messages=head.messages,
        archived=card.archived,
        directory=card.directory,
        agent=card.agent,
        origin=card.origin,
        fork_of=card.fork_of,
        forked_at=card.forked_at or None,
        tokens=card.tokens,
        cost=card.cost,
        unpriced=card.unpriced,
        erased=card.erased,
        locked=is_sealed(head.card),
        calls=card.calls,
    )
