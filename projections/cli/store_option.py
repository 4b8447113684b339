"""The store and the session that a command is about.

The store is the directory that `--store` names, else EVENTLOG_STORE, else `eventlog` in the user's
data directory (`$XDG_DATA_HOME`, by default `~/.local/share`). Reading opens it read-only and
never makes one. The keys of an encrypted store are in the file that `--key-file` names, else
EVENTLOG_KEY_FILE; a new store is encrypted with them.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from projections.cli import output
from projections.cli.short_ids import session_of

if TYPE_CHECKING:
    from eventlog import Session, Store
    from projections.cli.grammar import Context

__all__ = [
    "KEY_VARIABLE",
    "VARIABLE",
    "key_file",
    "named_store",
    "reading",
    "reading_session",
    "session_candidates",
    "store_path",
    "writing",
    "writing_session",
]

_COMPLETED = 200
"""Ids that a shell is given to choose from."""
VARIABLE = "EVENTLOG_STORE"
KEY_VARIABLE = "EVENTLOG_KEY_FILE"


def named_store(context: Context) -> Path | None:
    """Return the store that an option or the environment names; None if neither does."""
    return _named(context.store, VARIABLE)


def key_file(context: Context) -> Path | None:
    """Return the file with the keys of the store; None if none is named."""
    return _named(context.key_file, KEY_VARIABLE)


def _named(given: Path | None, variable: str) -> Path | None:
    path = os.environ.get(variable)
    return given or (Path(path) if path else None)


def store_path(context: Context) -> Path:
    """Return the directory of the store to use."""
    named = named_store(context)
    if named is not None:
        return named
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "eventlog"


@contextmanager
def reading(context: Context) -> Generator[Store]:
    """Open the store to read it."""
    output.note_warnings()
    with _opened(context, store_path(context), read_only=True) as store:
        yield store


@contextmanager
def writing(context: Context, *, make: bool = False) -> Generator[Store]:
    """Open the store to write it; it must exist unless `make` is true."""
    from eventlog.errors import NotFoundError
    from eventlog.open_log import directory_of

    path = store_path(context)
    if not make and not directory_of(path).exists():
        raise NotFoundError("store", str(path))
    output.note_warnings()
    with _opened(context, path, read_only=False) as store:
        yield store


@contextmanager
def reading_session(context: Context, name: str) -> Generator[Session]:
    """Open the store to read it, and find the session."""
    with reading(context) as store:
        yield session_of(store, name)


@contextmanager
def writing_session(context: Context, name: str) -> Generator[Session]:
    """Open the store to write it, and find the session; a note says which one."""
    with writing(context) as store:
        session = session_of(store, name)
        if session.id != name:
            output.note(f"{name} is taken for session {session.id}")
        yield session


@contextmanager
def _opened(context: Context, path: Path, *, read_only: bool) -> Generator[Store]:
    """Open the store; check its pages before reporting that an entry is not found.

    Damage in a page may hide the entry.
    """
    import eventlog
    from eventlog.errors import NotFoundError
    from projections.cli.holders import naming_holders

    with eventlog.open(path, read_only=read_only, keys=key_file(context)) as store:
        try:
            with naming_holders(store, path):
                yield store
        except NotFoundError as error:
            damage = store.log.probe()
            if damage:
                raise eventlog.errors.DamagedError(f"{damage[0]}; repair the store into a new one") from error
            raise


def session_candidates(context: Context, beginning: str) -> Iterator[tuple[str, str]]:
    """Yield the ids that begin with a text, or the newest sessions, with their titles."""
    with reading(context) as store:
        if not beginning:
            yield from ((info.id, info.title) for info in store.newest_sessions(limit=_COMPLETED).sessions)
            return
        if store.log.head(beginning) is not None:
            yield beginning, store.info(beginning).title
        for info in islice(store.sessions(after=beginning), _COMPLETED):
            if not info.id.startswith(beginning):
                return
            yield info.id, info.title
