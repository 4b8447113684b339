"""Erasing whole sessions: recorded, at once out of every list and reach, and out of the files with the next `vacuum`.

What is left of an erased session is a tombstone: its id, the root of its hash tree, when, why, and what it cost.  A fork that is
kept goes on with what it inherited; what nobody inherited goes.  Not here: giving the space back (`vacuum.py`).
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from eventlog import events as ev
from eventlog.codec.batch import encode, pack
from eventlog.codec.payload import is_foreign
from eventlog.errors import CallError, ConflictError, KeyMissingError, LeaseHeldError, RefusedError, brief
from eventlog.history.catalog import CatalogEntry, entry_of, evolve_entry
from eventlog.history.streams import head_of
from eventlog.log.contract import Append, Head
from eventlog.open_log import forget_keys
from eventlog.session.lease_record import release_lease, take_lease
from eventlog.session.owner import is_live
from eventlog.validation import require

if TYPE_CHECKING:
    from eventlog.session.session import Session, Sessions

__all__ = ["Choice", "erase"]

Choice: TypeAlias = Literal["refuse", "keep", "cascade"]
_ATTEMPTS = 40


class Kin(NamedTuple):
    """The sessions of a store that are not erased: whose forks and sub-sessions they are."""

    heads: dict[str, Head]
    forks: dict[str, list[str]]
    subsessions: dict[str, list[str]]


def erase(
    store: Sessions, session: str, *, forks: Choice = "refuse", subsessions: Choice = "refuse", reason: str = ""
) -> tuple[str, ...]:
    """Erase a session; returns the ids of all that were erased.

    Its forks, and its sub-sessions, are kept (a fork with the history it inherited), erased with it, or make it
    `RefusedError`, which names them; nothing is erased then.  `LeaseHeldError` if one of them is being run.
    """
    require(str, session, "an id is a str")
    require(str, reason, "a reason is a str")
    for choice in (forks, subsessions):
        if choice not in ("refuse", "keep", "cascade"):
            raise CallError(f"a choice is refuse, keep or cascade, not {brief(choice)}")
    head_of(store.log, session)
    going = erased_with(session, kin_of(store), forks=forks, subsessions=subsessions)
    for name in going:
        refuse_running(store, name)
    try:
        for name in going:
            erase_one(store, name, reason)
    finally:
        forget_keys(store.log)
    return tuple(going)


def kin_of(store: Sessions) -> Kin:
    kin = Kin({}, {}, {})
    for head in store.log.heads():
        if is_foreign(head):
            continue
        entry = entry_of(head)
        if entry.erased:
            continue
        kin.heads[head.session] = head
        if entry.fork_of is not None:
            kin.forks.setdefault(entry.fork_of, []).append(head.session)
        if entry.parent is not None:
            kin.subsessions.setdefault(entry.parent, []).append(head.session)
    return kin


def erased_with(session: str, kin: Kin, *, forks: Choice, subsessions: Choice) -> list[str]:
    """The sessions that go with one, what depends on others first."""
    found: dict[str, None] = {}
    waiting = [session]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found[name] = None
        for choice, related, word in (
            (forks, kin.forks.get(name, []), "forks"),
            (subsessions, kin.subsessions.get(name, []), "sub-sessions"),
        ):
            if choice == "refuse" and (others := sorted(set(related) - found.keys())):
                raise RefusedError(
                    f"session {name} has {word}: {', '.join(others)}",
                    expected=f"{word} to be kept, or erased with it",
                    session=name,
                )
            if choice == "cascade":
                waiting += related
    return list(reversed(found))


def refuse_running(store: Sessions, session: str) -> None:
    lease = head_of(store.log, session).lease
    if is_live(lease, store.clock()):
        raise LeaseHeldError(session, "its owner", lease.until)


def erase_one(store: Sessions, session: str, reason: str) -> None:
    """Write the tombstone under a lease of its own, which ends whatever anybody was about to write."""
    handle = store.session(session)
    event = ev.SessionErased(reason)
    with _running(store, handle):
        for attempt in range(_ATTEMPTS):
            head = head_of(store.log, session)
            now = store.clock()
            entry: CatalogEntry = evolve_entry(entry_of(head), event)
            append = Append(
                session=session,
                payload=encode([(now, event)], now),
                count=1,
                time=now,
                entry=pack(entry),
                expected=head.version,
                epoch=head.lease.epoch,
            )
            try:
                store.log.submit(append).wait()
                break
            except ConflictError:  # a message came, which needs no lease
                if attempt == _ATTEMPTS - 1:
                    raise
    store.let_go(session)


@contextmanager
def _running(store: Sessions, handle: Session) -> Generator[None]:
    """Hold the session's lease; of one whose key is gone, which cannot be read, the record alone."""
    try:
        handle.acquire()
    except KeyMissingError:
        if not store.info(handle.id).locked:
            raise
        taken = take_lease(store.log, handle.id, store.owner, ttl=store.lease_ttl, clock=store.clock)
        try:
            yield
        finally:
            release_lease(store.log, handle.id, taken)
    else:
        try:
            yield
        finally:
            handle.leases.abandon()
