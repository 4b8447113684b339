"""The store and the session that a command is about.

The store is the directory, or the address of a server, that `--store` names, else EVENTLOG_STORE,
else `eventlog` in the user's data directory (`$XDG_DATA_HOME`, by default `~/.local/share`).
Reading opens it read-only and never makes one. The keys of an encrypted store are in the file that
`--key-file` names, else EVENTLOG_KEY_FILE; a new store is encrypted with them.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from itertools import islice, takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from projections.cli import output
from projections.cli.screen import safe
from projections.cli.short_ids import session_of

if TYPE_CHECKING:
    import click
    from click.shell_completion import CompletionItem

    from eventlog import Session, SessionInfo, Store

_COMPLETED = 200
"""Ids that a shell is given to choose from."""
VARIABLE = "EVENTLOG_STORE"
KEY_VARIABLE = "EVENTLOG_KEY_FILE"


class Context:
    """The store and the key file that a call names on either side of its command."""

    store: Path | str | None = None
    key_file: Path | None = None


def named_store(context: Context) -> Path | str | None:
    """Return the store that an option or the environment names; None if neither does."""
    from eventlog.open_log import is_server

    said = os.environ.get(VARIABLE)
    return context.store or (said if is_server(said) else _path(VARIABLE))


def key_file(context: Context) -> Path | None:
    """Return the file with the keys of the store; None if none is named."""
    return context.key_file or _path(KEY_VARIABLE)


def _path(variable: str) -> Path | None:
    path = os.environ.get(variable)
    return Path(path) if path else None


def store_path(context: Context) -> Path | str:
    """Return the directory or address of the store to use; `shown` makes a text of it."""
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
    from eventlog.open_log import is_store, shown

    path = store_path(context)
    if not make and not is_store(path):
        raise NotFoundError("store", shown(path))
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
def _opened(context: Context, path: Path | str, *, read_only: bool) -> Generator[Store]:
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


def session_items(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Return the ids that begin with a text, or the newest sessions, with their titles.

    Of an error nothing is said: the user is typing.
    """
    from click.shell_completion import CompletionItem

    with suppress(Exception), reading(ctx.obj) as store:
        return [
            CompletionItem(safe(info.id, one_line=True), help=safe(info.title, one_line=True))
            for info in _beginning_with(store, incomplete)
        ]
    return []


def _beginning_with(store: Store, text: str) -> Iterator[SessionInfo]:
    if not text:
        yield from store.newest_sessions(limit=_COMPLETED).sessions
        return
    if store.log.head(text) is not None:
        yield store.info(text)
    yield from takewhile(lambda info: info.id.startswith(text), islice(store.sessions(after=text), _COMPLETED))
