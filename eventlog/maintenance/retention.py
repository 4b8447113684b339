"""Retention: erase whole sessions by age, count or size, the least recently used first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from eventlog.errors import CallError, LeaseHeldError
from eventlog.history.catalog import entry_of, is_session
from eventlog.log.digests import digests_in
from eventlog.maintenance.erase import erase_one, erased_with, refuse_running
from eventlog.maintenance.gathered import erasing
from eventlog.validation import require, require_or_none

if TYPE_CHECKING:
    from eventlog.session.session import Sessions


class ExpiryResult(msgspec.Struct, frozen=True):
    """Result of an expiry."""

    erased: tuple[str, ...]
    running: tuple[str, ...]
    """Sessions that are beyond the limits, and running."""


def to_expire(
    store: Sessions,
    *,
    age: int | None = None,
    count: int | None = None,
    size: int | None = None,
    scope: str | None = None,
) -> ExpiryResult:
    """Return what `expire` would do now; erases nothing."""
    return _erase_trees(
        store, _trees_beyond_limits(store, age=age, count=count, size=size, scope=scope), lambda _name: None
    )


def expire(
    store: Sessions,
    *,
    age: int | None = None,
    count: int | None = None,
    size: int | None = None,
    scope: str | None = None,
    reason: str = "retention",
) -> ExpiryResult:
    """Erase whole sessions with their sub-sessions, those longest without an event first.

    What is left had an event in the last `age` milliseconds, is at most `count` sessions
    (sub-sessions not counted), and holds at most `size` bytes of events and large texts as they are
    stored, a text that two sessions have counted once. Only sessions of `scope`, if one is given,
    are looked at. Forks are kept. A session that is being run stays.
    """
    trees = _trees_beyond_limits(store, age=age, count=count, size=size, scope=scope)
    if not trees:
        return ExpiryResult((), ())
    with erasing(store):
        return _erase_trees(store, trees, lambda name: erase_one(store, name, reason))


def _erase_trees(store: Sessions, trees: Sequence[Sequence[str]], erase_one: Callable[[str], None]) -> ExpiryResult:
    """Erase trees of sessions; a tree ends at a session that is running."""
    erased: list[str] = []
    running: list[str] = []
    for tree in trees:
        try:
            for name in tree:
                refuse_running(store, name)
            for name in tree:
                erase_one(name)
                erased.append(name)
        except LeaseHeldError as error:
            running.append(error.session)
    return ExpiryResult(tuple(erased), tuple(running))


def _trees_beyond_limits(
    store: Sessions, *, age: int | None, count: int | None, size: int | None, scope: str | None
) -> list[list[str]]:
    """Return the sessions beyond the limits with their sub-sessions, the oldest first."""
    if age is None and count is None and size is None:
        raise CallError("retention is by age, count or size: give at least one of them")
    for limit in (age, count, size):
        if limit is not None:
            require(int, limit, "age, count and size are whole numbers")
            if limit < 0:
                raise CallError("age, count and size are not less than zero")
    require_or_none(str, scope, "a scope is a str")
    heads = {head.session: head for head in store.log.heads() if is_session(head) and not entry_of(head).erased}
    subsessions: dict[str, list[str]] = {}
    for name, head in heads.items():
        subsessions.setdefault(entry_of(head).parent or "", []).append(name)
    trees: list[tuple[int, list[str]]] = []
    for name, head in heads.items():
        entry = entry_of(head)
        if (entry.parent is None or entry.parent not in heads) and (scope is None or entry.scope == scope):
            tree = erased_with(
                [name], lambda _: (), lambda parent: subsessions.get(parent, ()), forks="keep", subsessions="cascade"
            )
            trees.append((max(heads[one].updated for one in tree), tree))
    trees.sort(key=lambda tree: (-tree[0], tree[1]))
    now = store.host.clock()
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


def _bytes_of(store: Sessions, session: str, counted: set[bytes]) -> int:
    """Return the bytes of a session's own events and of its large texts not counted yet."""
    size = 0
    for commit in store.log.read(session):
        size += len(commit.payload)
        for name in digests_in(commit.stored or commit.payload) - counted:
            packed = store.log.engine.body(name)
            if packed is not None:
                counted.add(name)
                size += len(packed)
    return size
