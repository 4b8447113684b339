"""Where the store is, and which session is meant.

The store is named by `--store`, else by the environment variable EVENTLOG_STORE, else it is the directory `eventlog` in
the user's data directory (`$XDG_DATA_HOME`, by default `~/.local/share`).  Reading opens it read-only and never makes one.
The keys of an encrypted store are in the file named by `--key-file`, else by EVENTLOG_KEY_FILE; a store that is made with one is encrypted.
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

__all__ = ["KEY_VARIABLE", "VARIABLE", "key_file", "named_store", "reading", "session_of", "store_path", "writing"]

VARIABLE = "EVENTLOG_STORE"
KEY_VARIABLE = "EVENTLOG_KEY_FILE"
_SHOWN = 5
"""How many candidates an ambiguous session id is answered with."""


def named_store(context: typer.Context) -> Path | None:
    """The store that was named by option or environment; None if neither was."""
    return _named(context, "store", VARIABLE)


def key_file(context: typer.Context) -> Path | None:
    """The file with the keys of the store; None if none was named."""
    return _named(context, "key_file", KEY_VARIABLE)


def _named(context: typer.Context, option: str, variable: str) -> Path | None:
    named: Path | None = context.find_root().params.get(option)
    if named is not None:
        return named
    path = os.environ.get(variable)
    return Path(path) if path else None


def store_path(context: typer.Context) -> Path:
    """The store to use."""
    named = named_store(context)
    if named is not None:
        return named
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "eventlog"


@contextmanager
def reading(context: typer.Context) -> Generator[Store]:
    """The store, opened to be read."""
    output.note_warnings()
    with _opened(context, store_path(context), read_only=True) as store:
        yield store


@contextmanager
def writing(context: typer.Context, *, make: bool = False) -> Generator[Store]:
    """The store, opened to be written; it must be there unless `make` is true."""
    from eventlog.errors import NotFoundError
    from eventlog.open_log import place_of

    path = store_path(context)
    if not make and not place_of(path).exists():
        raise NotFoundError("store", str(path))
    output.note_warnings()
    with _opened(context, path, read_only=False) as store:
        yield store


@contextmanager
def _opened(context: typer.Context, path: Path, *, read_only: bool) -> Generator[Store]:
    """The store; where something is not found in it, its pages are walked first: damage there may hide an entry."""
    import eventlog
    from eventlog.errors import NotFoundError

    with eventlog.open(path, read_only=read_only, keys=key_file(context)) as store:
        try:
            yield store
        except NotFoundError as error:
            wrong = store.log.probe()
            if wrong:
                raise eventlog.errors.DamagedError(f"{wrong[0]}; repair the store into a new one") from error
            raise


def session_of(store: Store, name: str) -> Session:
    """The session of this id, or the only one whose id begins with `name`, or the one that all others of these begin with."""
    if store.log.head(name) is not None:
        return store.session(name)
    found: list[str] = []
    for info in store.sessions(after=name):
        if not info.id.startswith(name):
            break
        found.append(info.id)
        if len(found) > _SHOWN and not info.id.startswith(found[0]):
            break
    if not all(other.startswith(found[0]) for other in found):
        listed = ", ".join(found[:_SHOWN]) + (", …" if len(found) > _SHOWN else "")
        from eventlog.errors import brief

        raise UsageFault(f"more than one session begins with {brief(name)}: {listed}; give more of the id")
    return store.session(found[0] if found else name)
