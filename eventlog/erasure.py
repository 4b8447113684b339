"""Erasing whole sessions: recorded, at once out of every list and reach, and out of the files with the next `vacuum`.

What is left of an erased session is a tombstone: its id, the root of its hash tree, when, why, and what it cost.  A fork that is
kept goes on with what it inherited; what nobody inherited goes.  Not here: giving the space back (`rewriting.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import msgspec

from eventlog import events as ev
from eventlog.arguments import require
from eventlog.card import Card, card_of, evolve_card
from eventlog.codec import encode, pack
from eventlog.copying import digests_in
from eventlog.errors import CallError, ConflictError, KeyMissingError, LeaseHeldError, RefusedError, brief
from eventlog.foreign import is_foreign
from eventlog.lease import is_live, release_lease, take_lease
from eventlog.log.base import Append, Head
from eventlog.opening import forget_keys
from eventlog.reader import head_of

if TYPE_CHECKING:
    from eventlog.session import Session
    from eventlog.store import Store

__all__ = ["Choice", "Retained", "erase", "retain", "to_retain"]

Choice: TypeAlias = Literal["refuse", "keep", "cascade"]
_ATTEMPTS = 40


class Retained(msgspec.Struct, frozen=True):
    """What a retention did, or would do."""

    erased: tuple[str, ...]
    running: tuple[str, ...]
    """Sessions that should have gone, and are being run."""


class _Kin(NamedTuple):
    """The sessions of a store that are not erased: whose forks and sub-sessions they are."""

    heads: dict[str, Head]
    forks: dict[str, list[str]]
    subsessions: dict[str, list[str]]


def erase(
    store: Store, session: str, *, forks: Choice = "refuse", subsessions: Choice = "refuse", reason: str = ""
) -> tuple[str, ...]:
    """Erase a session; returns the ids of all that were erased.

    Its forks, and its sub-sessions, are kept (a fork with the history it inherited), erased with it, or make it
    `RefusedError`, which names them; nothing is erased then.  `LeaseHeldError` if one of them is being run.
    """
    for choice in (forks, subsessions):
        if choice not in {"refuse", "keep", "cascade"}:
            raise CallError(f"a choice is refuse, keep or cascade, not {brief(choice)}")
    head_of(store.log, session)
    going = _going(session, _kin(store), forks=forks, subsessions=subsessions)
    for name in going:
        _refuse_running(store, name)
    try:
        for name in going:
            _erase_one(store, name, reason)
    finally:
        forget_keys(store.log)
    return tuple(going)


def to_retain(
    store: Store,
    *,
    age: int | None = None,
    count: int | None = None,
    size: int | None = None,
    scope: str | None = None,
) -> Retained:
    """What `retain` would do now; erases nothing."""
    return _retained(store, _over(store, age=age, count=count, size=size, scope=scope), lambda _name: None)


def retain(
    store: Store,
    *,
    age: int | None = None,
    count: int | None = None,
    size: int | None = None,
    scope: str | None = None,
    reason: str = "retention",
) -> Retained:
    """Erase whole sessions with their sub-sessions: those longest without an event go first.

    What is left had an event in the last `age` milliseconds, is at most `count` sessions (sub-sessions not counted), and
    holds at most `size` bytes of events and large texts as they are stored, a text that two sessions have counted once.  Only
    sessions of `scope`, if one is given, are looked at.  Forks are kept.  A session that is being run stays.
    """
    trees = _over(store, age=age, count=count, size=size, scope=scope)
    try:
        return _retained(store, trees, lambda name: _erase_one(store, name, reason))
    finally:
        forget_keys(store.log)


def _retained(store: Store, trees: Sequence[Sequence[str]], erase_one: Callable[[str], None]) -> Retained:
    """Erase trees of sessions; one in which a session is being run, or begins to be, is left from there on."""
    erased: list[str] = []
    running: list[str] = []
    for tree in trees:
        try:
            for name in tree:
                _refuse_running(store, name)
            for name in tree:
                erase_one(name)
                erased.append(name)
        except LeaseHeldError as error:
            running.append(error.session)
    return Retained(tuple(erased), tuple(running))


def _over(store: Store, *, age: int | None, count: int | None, size: int | None, scope: str | None) -> list[list[str]]:
    """The sessions beyond these limits, each with its sub-sessions, the one longest without an event first."""
    if age is None and count is None and size is None:
        raise CallError("retention is by age, count or size: give at least one of them")
    for limit in (age, count, size):
        if limit is not None:
            require(int, limit, "age, count and size are whole numbers")
            if limit < 0:
                raise CallError("age, count and size are not less than zero")
    kin = _kin(store)
    trees: list[tuple[int, list[str]]] = []
    for name, head in kin.heads.items():
        card = card_of(head)
        if (card.parent is None or card.parent not in kin.heads) and (scope is None or card.scope == scope):
            tree = _going(name, kin, forks="keep", subsessions="cascade")
            trees.append((max(kin.heads[one].updated for one in tree), tree))
    trees.sort(key=lambda tree: (-tree[0], tree[1]))
    now = store.clock()
    bodies: set[bytes] = set()
    held = 0
    going: list[list[str]] = []
    for place, (updated, tree) in enumerate(trees):
        if size is not None:
            held += sum(_bytes_of(store, name, bodies) for name in tree)
        if (
            (age is not None and updated < now - age)
            or (count is not None and place >= count)
            or (size is not None and held > size)
        ):
            going.append(tree)
    going.reverse()
    return going


def _kin(store: Store) -> _Kin:
    kin = _Kin({}, {}, {})
    for head in store.log.heads():
        if is_foreign(head):
            continue
        card = card_of(head)
        if card.erased:
            continue
        kin.heads[head.session] = head
        if card.fork_of is not None:
            kin.forks.setdefault(card.fork_of, []).append(head.session)
        if card.parent is not None:
            kin.subsessions.setdefault(card.parent, []).append(head.session)
    return kin


def _going(session: str, kin: _Kin, *, forks: Choice, subsessions: Choice) -> list[str]:
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


def _refuse_running(store: Store, session: str) -> None:
    lease = head_of(store.log, session).lease
    if is_live(lease, store.clock()):
        raise LeaseHeldError(session, "its owner", lease.until)


def _erase_one(store: Store, session: str, reason: str) -> None:
    """Write the tombstone under a lease of its own, which ends whatever anybody was about to write."""
    handle = store.session(session)
    event = ev.SessionErased(reason)
    with _running(store, handle):
        for attempt in range(_ATTEMPTS):
            head = head_of(store.log, session)
            now = store.clock()
            card: Card = evolve_card(card_of(head), event)
            append = Append(
                session=session,
                payload=encode([(now, event)], now),
                count=1,
                time=now,
                card=pack(card),
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
def _running(store: Store, handle: Session) -> Generator[None]:
    """Hold the session's lease; of one whose key is gone, which cannot be read, the record alone."""
    try:
        handle.acquire()
    except KeyMissingError:
        if not store.info(handle.id).locked:
            raise
        taken = take_lease(store.log, handle.id, store.owner, ttl=store.lease_ttl, wait=0, clock=store.clock)
        try:
            yield
        finally:
            release_lease(store.log, handle.id, taken)
    else:
        try:
            yield
        finally:
            handle.abandon()


def _bytes_of(store: Store, session: str, counted: set[bytes]) -> int:
    """Bytes of a session's own events, and of the large texts in them that were not counted yet."""
    size = 0
    for commit in store.log.read(session):
        size += len(commit.payload)
        for name in digests_in(commit.stored or commit.payload) - counted:
            packed = store.log.engine.body(name)
            if packed is not None:
                counted.add(name)
                size += len(packed)
    return size
