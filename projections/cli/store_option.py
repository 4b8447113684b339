"""The store and the session that a command is about.

The store is the directory that `--store` names, else EVENTLOG_STORE, else `eventlog` in the user's
data directory (`$XDG_DATA_HOME`, by default `~/.local/share`). Reading opens it read-only and
never makes one. The keys of an encrypted store are in the file that `--key-file` names, else
EVENTLOG_KEY_FILE; a new store is encrypted with them.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from projections.cli import output
from projections.cli.exits import UsageFault

if TYPE_CHECKING:
    import typer

    from eventlog import Session, Store

__all__ = [
    "KEY_VARIABLE",
    "VARIABLE",
    "key_file",
    "named_store",
    "reading",
    "reading_session",
    "session_of",
    "store_path",
    "writing",
    "writing_session",
]

VARIABLE = "EVENTLOG_STORE"
KEY_VARIABLE = "EVENTLOG_KEY_FILE"
_CANDIDATES = 5
"""How many candidates the error for an ambiguous id lists."""


def named_store(context: typer.Context) -> Path | None:
    """Return the store that an option or the environment names; None if neither does."""
    return _named(context, "store", VARIABLE)


def key_file(context: typer.Context) -> Path | None:
    """Return the file with the keys of the store; None if none is named."""
    return _named(context, "key_file", KEY_VARIABLE)


def _named(context: typer.Context, option: str, variable: str) -> Path | None:
    named: Path | None = context.find_root().params.get(option)
    if named is not None:
        return named
    path = os.environ.get(variable)
    return Path(path) if path else None


def store_path(context: typer.Context) -> Path:
    """Return the directory of the store to use."""
    named = named_store(context)
    if named is not None:
        return named
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "eventlog"


@contextmanager
def reading(context: typer.Context) -> Generator[Store]:
    """Open the store to read it."""
    output.note_warnings()
    with _opened(context, store_path(context), read_only=True) as store:
        yield store


@contextmanager
def writing(context: typer.Context, *, make: bool = False) -> Generator[Store]:
    """Open the store to write it; it must exist unless `make` is true."""
    from eventlog.errors import NotFoundError
    from eventlog.open_log import place_of

    path = store_path(context)
    if not make and not place_of(path).exists():
        raise NotFoundError("store", str(path))
    output.note_warnings()
    with _opened(context, path, read_only=False) as store:
        yield store


@contextmanager
def reading_session(context: typer.Context, name: str) -> Generator[Session]:
    """Open the store to read it, and find the session."""
    with reading(context) as store:
        yield session_of(store, name)


@contextmanager
def writing_session(context: typer.Context, name: str) -> Generator[Session]:
    """Open the store to write it, and find the session."""
    with writing(context) as store:
        yield session_of(store, name)


@contextmanager
def _opened(context: typer.Context, path: Path, *, read_only: bool) -> Generator[Store]:
    """Open the store; check its pages before reporting that an entry is not found.

    Damage in a page may hide the entry.
    """
    import eventlog
    from eventlog.errors import NotFoundError

    with eventlog.open(path, read_only=read_only, keys=key_file(context)) as store:
        try:
            yield store
        except NotFoundError as error:
            damage = store.log.probe()
            if damage:
                raise eventlog.errors.DamagedError(f"{damage[0]}; repair the store into a new one") from error
            raise


def session_of(store: Store, name: str) -> Session:
    """Return the session with this id, or the one whose id begins with it.

    Where several ids begin so, the shortest is meant if all others begin with it, as those of
    sidechains do; else a `UsageFault` lists the candidates.
    """
    if store.log.head(name) is not None:
        return store.session(name)
    candidates: list[str] = []
    for info in store.sessions(after=name):
        if not info.id.startswith(name):
            break
        candidates.append(info.id)
        if len(candidates) > _CANDIDATES and not info.id.startswith(candidates[0]):
            break
    if not all(other.startswith(candidates[0]) for other in candidates):
        listed = ", ".join(candidates[:_CANDIDATES]) + (", …" if len(candidates) > _CANDIDATES else "")
        from eventlog.errors import brief

        raise UsageFault(f"more than one session begins with {brief(name)}: {listed}; give more of the id")
    return store.session(candidates[0] if candidates else name)
