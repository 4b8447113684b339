"""A session's card: what a list of sessions shows of it, kept in its head so that no event need be read."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from eventlog import events as ev
from eventlog.codec import unpack
from eventlog.errors import DamagedError
from eventlog.log.base import Head
from eventlog.values import Origin

__all__ = ["ON_CARD", "Card", "card_of", "evolve_card"]

ON_CARD: tuple[type[ev.Base], ...] = (
    ev.SessionStarted,
    ev.SessionForked,
    ev.SessionRenamed,
    ev.SessionArchived,
    ev.SessionUnarchived,
    ev.SessionErased,
)
"""The events that `evolve_card` takes in."""


class Card(msgspec.Struct, frozen=True, array_like=True):
    """The facts of a session that outlive every rollback."""

    title: str = ""
    scope: str = ""
    directory: str = ""
    agent: str = ""
    parent: str | None = None
    archived: bool = False
    origin: Origin | None = None
    fork_of: str | None = None
    forked_at: int = 0
    erased: bool = False


def card_of(head: Head) -> Card:
    """The session's card; `DamagedError` if it cannot be read."""
    try:
        return unpack(head.card, Card)
    except DamagedError as error:
        raise DamagedError(error.message, session=head.session) from error


def evolve_card(card: Card, event: ev.Event) -> Card:
    """Return the card after an event: the same object for the many that do not change it."""
    if not isinstance(event, ON_CARD):
        return card
    if isinstance(event, ev.SessionStarted):
        return Card(event.title, event.scope, event.directory, event.agent, event.parent, origin=event.origin)
    if isinstance(event, ev.SessionForked):
        return Card(event.title, event.scope, origin=event.origin, fork_of=event.parent, forked_at=event.at)
    if isinstance(event, ev.SessionRenamed):
        return replace(card, title=event.title)
    if isinstance(event, (ev.SessionArchived, ev.SessionUnarchived)):
        return replace(card, archived=isinstance(event, ev.SessionArchived))
    if isinstance(event, ev.SessionErased):
        return replace(card, erased=True)
    return card
