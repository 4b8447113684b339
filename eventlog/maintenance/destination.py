"""Directory that a backup or a restore is written to, held for one process meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from eventlog.errors import BusyError, CallError
from eventlog.log.embedded import generations
from eventlog.log.embedded.directory import refuse_inside_store, require_store_files
from eventlog.log.embedded.filesystem import make_directory, refuse_network_filesystem, remove_all
from eventlog.log.embedded.locks import Presence

Progress = Callable[[int, int], None]
_NAMES = frozenset({"format", "generation", "lock", "mark", "open", "turn", "unfinished"})


class BackupResult(msgspec.Struct, frozen=True):
    """Result of a backup or a restore."""

    cursor: str
    """The cursor behind the last event that was copied, for `restore` and `subscribe`."""
    sessions: int
    """Sessions in the copy, erased ones included."""
    events: int
    """Events that were copied now."""
    whole: bool
    """Whether everything was copied: there was no earlier copy to go on with."""


def clear(place: Path) -> None:
    """Remove what an earlier copy left: one that is written anew uses nothing of it."""
    for directory in generations.of(place).values():
        remove_all(directory)


@contextmanager
def destination(to: Path) -> Generator[None]:
    """Make the directory to copy into if need be, and hold it for this process alone."""
    refuse_network_filesystem(to)
    refuse_inside_store(to)
    if to.exists() and not to.is_dir():
        raise CallError(f"{to} is not a directory")
    make_directory(to)
    require_store_files(to)
    known = _NAMES.union(map(str, generations.of(to)))
    strangers = sorted(entry.name for entry in to.iterdir() if entry.name.removesuffix(".new") not in known)
    if strangers:
        raise CallError(f"{to} holds something else than a backup: {', '.join(strangers[:3])}")
    presence = Presence(to, read_only=False)
    try:
        if not presence.alone:
            raise BusyError(f"another process has {to} open")
        yield
    finally:
        presence.close()
