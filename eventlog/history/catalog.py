"""A session's catalog entry: the facts that a list of sessions shows."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from eventlog import events as ev
from eventlog.codec.batch import decode_value
from eventlog.codec.payload import decode_encrypted_value, is_encrypted, is_foreign
from eventlog.codec.surrogates import readable
from eventlog.errors import DamagedError
from eventlog.history.ranges import Range, merged
from eventlog.log.commit import Head
from eventlog.values import Origin, Tokens

TITLES = "titles of the session"
"""Stands among redacted parts for the titles that the session had before."""
QUIET_EVENTS: frozenset[type[ev.Base]] = frozenset(
    (
        ev.SessionRenamed,
        ev.SessionArchived,
        ev.SessionUnarchived,
        ev.MetadataSet,
        ev.PartRedacted,
        ev.ValuePut,
        ev.ValueDropped,
        ev.NameGiven,
        ev.NameFreed,
        ev.NoteSet,
        ev.RecordForgotten,
    )
)
"""The events that are no activity: a session keeps its place in lists."""


class CatalogEntry(msgspec.Struct, frozen=True, array_like=True):
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
    calls: int = 0
    """Model calls whose usage was recorded here."""
    tokens: int = 0
    """Tokens of these calls, every kind counted once."""
    cost: Decimal = Decimal(0)
    """US dollars, of the calls whose price is known."""
    unpriced: int = 0
    """Calls whose price is not known."""
    reason: str = ""
    """The reason of its erasure."""
    redacted: tuple[str, ...] = ()
    """Redacted parts of this session, also for its forks, which read them here; and `TITLES`."""
    shelf: bool = False
    """Whether it is a shelf: in no list of sessions."""
    name: tuple[str, str] | None = None
    """Format and key of its name."""
    note: str = ""
    """The embedder's note."""
    valued: int = 0
    """Values put and dropped here: an index of its values that knows of fewer is behind."""
    answered: int = 0
    """The version right after which its writer knew of nothing that a loop has to do.

    Derived: no event says it, and a list that does not find it reads the session. See `as_said`.
    """
    forgotten: tuple[Range, ...] = ()
    """Versions forgotten here, also for its forks, which read them here."""


def as_said(entry: CatalogEntry) -> CatalogEntry:
    """Return the entry as the events of its session say it, without what is derived."""
    return replace(entry, answered=0) if entry.answered else entry


SHELF = "shelf"
"""How the id of a shelf begins, before `:` or `~`: no session is given such an id."""

ENTRIES = 1024
"""Decoded entries that are kept: one command reads the entry of its session several times."""
_LEAST, _MOST = -(1 << 63), (1 << 64) - 1
"""The range of a catalog entry's integers: a sum stays within it."""


def entry_of(head: Head) -> CatalogEntry:
    """Return the session's catalog entry; of an encrypted one the clear part.

    `DamagedError` if it cannot be read.
    """
    data = head.entry
    try:
        if is_encrypted(data):
            data = decode_encrypted_value(data).clear
            return _decoded(data) if data else CatalogEntry()
        return _decoded(data)
    except DamagedError as error:
        raise DamagedError(error.message, session=head.session) from error


@lru_cache(ENTRIES)
def _decoded(data: bytes) -> CatalogEntry:
    return decode_value(data, CatalogEntry)


def is_shelf(head: Head) -> bool:
    """Return whether this is the head of a shelf, dropped ones included."""
    return is_shelf_id(head.session) and entry_of(head).shelf


def is_session(head: Head) -> bool:
    """Return whether this is the head of a session, erased or locked ones included."""
    return not is_foreign(head) and not is_shelf_id(head.session)


def is_shelf_id(session: str) -> bool:
    """Return whether an id is one of those that are left to shelves."""
    return session.startswith((f"{SHELF}:", f"{SHELF}~"))


def evolve_entry(entry: CatalogEntry, event: ev.Event) -> CatalogEntry:
    """Return the catalog entry after an event; the same object if nothing changes."""
    change = _CHANGES.get(type(event))
    return entry if change is None else change(entry, event)


def _spent(entry: CatalogEntry, event: ev.UsageRecorded) -> CatalogEntry:
    cost = event.usage.cost
    return replace(
        entry,
        calls=entry.calls + (not event.more),
        tokens=max(_LEAST, min(entry.tokens + _all(event.usage.tokens), _MOST)),
        cost=entry.cost + (cost or 0),
        unpriced=entry.unpriced + (cost is None and not event.more),
    )


def _erased(entry: CatalogEntry, event: ev.SessionErased) -> CatalogEntry:
    return replace(
        entry, title="", scope="", directory="", agent="", origin=None, erased=True, reason=event.reason, name=None,
        note="", answered=0,
    )  # fmt: skip


def _redacted(entry: CatalogEntry, event: ev.PartRedacted) -> CatalogEntry:
    return entry if event.part in entry.redacted else replace(entry, redacted=(*entry.redacted, event.part))


def _renamed(entry: CatalogEntry, event: ev.SessionRenamed) -> CatalogEntry:
    entry = replace(entry, title=event.title)
    is_marked = event.part != TITLES or TITLES in entry.redacted
    return entry if is_marked else replace(entry, redacted=(*entry.redacted, TITLES))


def _started(_: CatalogEntry, event: ev.SessionStarted) -> CatalogEntry:
    return CatalogEntry(event.title, event.scope, event.directory, event.agent, event.parent, origin=event.origin)


def _forked(_: CatalogEntry, event: ev.SessionForked) -> CatalogEntry:
    return CatalogEntry(event.title, event.scope, origin=event.origin, fork_of=event.parent, forked_at=event.at)


def _valued(entry: CatalogEntry, _: ev.ValuePut | ev.ValueDropped) -> CatalogEntry:
    return replace(entry, valued=entry.valued + 1)


_CHANGES: dict[type, Callable[[CatalogEntry, Any], CatalogEntry]] = {
    ev.SessionStarted: _started,
    ev.SessionForked: _forked,
    ev.SessionRenamed: _renamed,
    ev.SessionArchived: lambda entry, _: replace(entry, archived=True),
    ev.SessionUnarchived: lambda entry, _: replace(entry, archived=False),
    ev.SessionErased: _erased,
    ev.UsageRecorded: _spent,
    ev.PartRedacted: _redacted,
    ev.ShelfStarted: lambda _, event: CatalogEntry(event.name, shelf=True),
    ev.ValuePut: _valued,
    ev.ValueDropped: _valued,
    ev.NameGiven: lambda entry, event: replace(entry, name=(event.format, event.key)),
    ev.NameFreed: lambda entry, _: replace(entry, name=None),
    ev.NoteSet: lambda entry, event: replace(entry, note=event.note),
    ev.RecordForgotten: lambda entry, event: replace(entry, forgotten=merged((*entry.forgotten, *event.ranges))),
}
CATALOG_EVENTS = frozenset(_CHANGES)
"""The events that change a catalog entry."""


def _all(tokens: Tokens) -> int:
    """Return the provider's total, else the sum (reasoning is part of the output)."""
    if tokens.total is not None:
        return tokens.total
    return tokens.input + tokens.output + tokens.cache_read + tokens.cache_write


SessionState: TypeAlias = Literal["running", "unfinished", "asked", "waiting", "unknown"]
"""The state of a session in a list.

running: a task holds its lease. unfinished: a loop has to go on with it (`Store.unfinished`).
asked: it goes on once a person has answered for calls. waiting: nothing is pending. unknown: its
key is missing.
"""


class SessionInfo(msgspec.Struct, frozen=True):
    """The listed facts of a session; times are UTC milliseconds.

    `updated` is that of the last activity, `QUIET_EVENTS` left out. `tokens`, `calls` of models and
    `cost`, in US dollars, are what was spent in it, on every branch, without what a fork inherited;
    `unpriced` calls have no known price. `messages` are those neither removed nor rolled back, of a
    fork the inherited ones, too; `events` are its own. `locked` says that it is encrypted and its
    key is missing. On a page of `Store.newest_sessions`, `state` says whether a loop runs it, or
    has to go on with it. In `title`, `directory`, `agent` and `note` U+FFFD stands for a lone
    surrogate, as half an emoji is; the events keep it.
    """

    id: str
    title: str
    parent: str | None
    """The session that this is a sub-session of."""
    scope: str
    created: int
    updated: int
    version: int
    events: int
    messages: int
    """Messages of forgotten records are not counted.

    Where a record was forgotten in a fork's parent after the fork, the fork's total follows with
    its next append. Of a session that only an earlier program wrote to: all messages that were
    added to it.
    """
    archived: bool
    directory: str = ""
    agent: str = ""
    origin: Origin | None = None
    fork_of: str | None = None
    forked_at: int | None = None
    tokens: int = 0
    cost: Decimal = Decimal(0)
    unpriced: int = 0
    erased: bool = False
    locked: bool = False
    calls: int = 0
    name: tuple[str, str] | None = None
    """Format and key of the name that it has; see `Store.open_session`."""
    note: str = ""
    """The embedder's note; see `Session.set_note`."""
    state: SessionState | None = None

    @property
    def spent(self) -> Decimal | None:
        """US dollars of the calls whose price is known; None if no call has one."""
        return self.cost if self.calls > self.unpriced else None


def info_of(head: Head) -> SessionInfo:
    """Return the listed facts of the session with this head."""
    entry, locked = entry_of(head), is_encrypted(head.entry)
    return SessionInfo(
        id=head.session,
        title=readable(entry.title),
        parent=entry.parent,
        scope="" if locked else entry.scope,  # what is in clear is no scope, but a name of one
        created=head.created,
        updated=head.updated,
        version=head.version,
        events=head.version - head.base,
        messages=head.messages,
        archived=entry.archived,
        directory=readable(entry.directory),
        agent=readable(entry.agent),
        origin=entry.origin,
        fork_of=entry.fork_of,
        forked_at=entry.forked_at or None,
        tokens=entry.tokens,
        cost=entry.cost,
        unpriced=entry.unpriced,
        erased=entry.erased,
        locked=locked,
        calls=entry.calls,
        name=entry.name,
        note=readable(entry.note),
    )
