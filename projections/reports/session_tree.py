"""Trees of sessions: forks, sub-sessions and ancestors, as the catalog has them.

Reads no event.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from eventlog.history.ancestry import forked_from
from eventlog.history.catalog import SessionInfo
from eventlog.session.session import Session, Sessions


class ExportRange(NamedTuple):
    """A session of an export, and the last version of it to export."""

    session: Session
    upto: int


def descendants(store: Sessions, root: str) -> list[SessionInfo]:
    """Return the session, its forks and sub-sessions, and theirs.

    Reads the head of every session once.
    """
    children: dict[str, list[SessionInfo]] = {}
    for info in store.sessions():
        for origin in (info.fork_of, info.parent):
            if origin is not None:
                children.setdefault(origin, []).append(info)
    tree = {root: store.info(root)}
    waiting = [root]
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child.id not in tree:
                tree[child.id] = child
                waiting.append(child.id)
    return list(tree.values())


def whole_tree(store: Sessions, session: str) -> list[SessionInfo]:
    """Return every session of the tree that this session is in, the first session first."""
    seen = {session}
    info = store.info(session)
    while True:
        origin = info.fork_of or info.parent
        if origin is None or origin in seen or store.log.head(origin) is None:
            return descendants(store, info.id)
        seen.add(origin)
        info = store.info(origin)


def export_ranges(session: Session, *, tree: bool) -> Iterator[ExportRange]:
    """Yield the session and its ancestors; with `tree` its descendants and theirs, too.

    Ancestors come first, each up to the last version that is inherited.
    """
    store = session.store
    wanted = {session.id: session.version}
    if tree:
        wanted = {info.id: info.version for info in descendants(store, session.id)}
    order: dict[str, int] = {}
    for name, version in wanted.items():
        for info, last in _ancestors(store, name, version):
            order.setdefault(info.id, 0)
            order[info.id] = max(order[info.id], wanted.get(info.id, 0), last)
    for name, upto in order.items():
        yield ExportRange(store.session(name), upto)


def _ancestors(store: Sessions, name: str, version: int) -> list[tuple[SessionInfo, int]]:
    """Return the ancestors of a session, the oldest first, and the session itself.

    Each has the last version that the next one inherits, but at least its own first version: a fork
    names it.
    """
    chain = [(store.info(name), version)]
    for head, _ in islice(forked_from(store.log, name), 1, None):
        at = chain[-1][0].forked_at or 0
        info = store.info(head.session)
        chain.append((info, max(at, info.version - info.events + 1)))
    return chain[::-1]
