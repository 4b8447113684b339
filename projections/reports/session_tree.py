"""Which sessions belong together: forks and sub-sessions of one, the whole tree, and what an export takes along.

Reads no event, only what a list of sessions shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from eventlog.history.catalog import SessionInfo
from eventlog.session.session import Session, Sessions

__all__ = ["Member", "below", "exported", "whole_tree"]


class Member(NamedTuple):
    """A session of an export, and its last version that is exported."""

    session: Session
    upto: int


def below(store: Sessions, root: str) -> list[SessionInfo]:
    """The session and all that came of it: its forks and its sub-sessions, and theirs.  Looks at every session's head once."""
    children: dict[str, list[SessionInfo]] = {}
    for info in store.sessions():
        for origin in (info.fork_of, info.parent):
            if origin is not None:
                children.setdefault(origin, []).append(info)
    found = {root: store.info(root)}
    waiting = [root]
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child.id not in found:
                found[child.id] = child
                waiting.append(child.id)
    return list(found.values())


def whole_tree(store: Sessions, session: str) -> list[SessionInfo]:
    """Every session of the tree that this one is in, from the first one on."""
    seen = {session}
    info = store.info(session)
    while True:
        origin = info.fork_of or info.parent
        if origin is None or origin in seen or store.log.head(origin) is None:
            return below(store, info.id)
        seen.add(origin)
        info = store.info(origin)


def exported(session: Session, *, tree: bool) -> Iterator[Member]:
    """The session, with `tree` also what came of it, and before them what they were forked from, as far as they inherit it."""
    store = session.store
    wanted = {session.id: session.version}
    if tree:
        wanted = {info.id: info.version for info in below(store, session.id)}
    order: dict[str, int] = {}
    for name, version in wanted.items():
        for info, last in _ancestors(store, name, version):
            order.setdefault(info.id, 0)
            order[info.id] = max(order[info.id], wanted.get(info.id, 0), last)
    for name, upto in order.items():
        yield Member(store.session(name), upto)


def _ancestors(store: Sessions, name: str, version: int) -> list[tuple[SessionInfo, int]]:
    """A session and those it was forked from, the first of them first, each with its last version that counts here.

    Of a session whose own versions all lie behind the fork, the first stays: a fork names it.
    """
    info = store.info(name)
    found = [(info, version)]
    while info.fork_of is not None:
        at = info.forked_at or 0
        info = store.info(info.fork_of)
        found.append((info, max(at, info.version - info.events + 1)))
    return found[::-1]
