"""What a store does to be kept, and to let go: backup, erasure, retention, scrub, vacuum.  The public methods of `Store` for them.

Each is a module of its own, imported when it is used: a program that only talks needs none of them.  For `store.py` only.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from eventlog.backup import Copied
    from eventlog.erasure import Choice, Retained
    from eventlog.repairing import Repaired
    from eventlog.rewriting import Rewritten
    from eventlog.store import Store

__all__ = ["Keeping", "repair", "restore"]


def repair(
    source: str | os.PathLike[str],
    into: str | os.PathLike[str],
    *,
    told: Callable[[int, int], None] | None = None,
) -> Repaired:
    """Save all that is sound of the damaged store at `source` into a new one at `into`; see `repairing.py`."""
    from eventlog.repairing import repair

    return repair(source, into, told=told)


def restore(
    source: str | os.PathLike[str],
    into: str | os.PathLike[str],
    *,
    position: int | None = None,
    told: Callable[[int, int], None] | None = None,
) -> Copied:
    """Make a store at `into` of a backup, as it was when `position` was its newest event; see `backup.py`."""
    from eventlog.backup import restore

    return restore(source, into, position=position, told=told)


class Keeping:
    """The part of a `Store` that is about its files as a whole; nothing else is one."""

    def backup(self, to: str | os.PathLike[str], *, told: Callable[[int, int], None] | None = None) -> Copied:
        """Copy what is committed by now into the directory `to`, while everybody goes on; see `backup.py`."""
        from eventlog.backup import backup

        store = cast("Store", self)
        store.usable()
        return backup(store.log, to, told=told)

    def erase(
        self, session: str, *, forks: Choice = "refuse", subsessions: Choice = "refuse", reason: str = ""
    ) -> tuple[str, ...]:
        """Erase a session, and what the choices say of its forks and sub-sessions; returns all ids.  See `erasure.py`."""
        from eventlog.erasure import erase

        store = cast("Store", self)
        store.usable(writing=True)
        return erase(store, session, forks=forks, subsessions=subsessions, reason=reason)

    def retain(
        self,
        *,
        age: int | None = None,
        count: int | None = None,
        size: int | None = None,
        scope: str | None = None,
        dry_run: bool = False,
    ) -> Retained:
        """Erase the sessions that are older, more, or larger than is to be kept; see `erasure.py`.

        With `dry_run` nothing is erased, and what is returned is what would be: also from a store opened for reading only.
        """
        from eventlog.erasure import retain, to_retain

        store = cast("Store", self)
        store.usable(writing=not dry_run)
        do = to_retain if dry_run else retain
        return do(store, age=age, count=count, size=size, scope=scope)

    def scrub(self) -> Rewritten:
        """Take what was redacted and erased out of every file; nobody else may have the store open.  See `scrubbing.py`."""
        from eventlog.scrubbing import scrub

        store = cast("Store", self)
        store.usable(writing=True)
        store.flush()
        return scrub(store)

    def vacuum(self) -> Rewritten:
        """Give the space of erased sessions back; nobody else may have the store open.  See `rewriting.py`."""
        from eventlog.rewriting import rewrite

        store = cast("Store", self)
        store.usable(writing=True)
        store.flush()
        return rewrite(store.log, shred=False, time=store.clock())
