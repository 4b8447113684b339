"""Open a log: in memory or in a directory, encrypted or not.

An encrypted store notes `encryption 1 KEY CHECK` in its file `format`: the name of the store's own
key, and a check value of that key. Copies and repairs have the same note; one that lost it with its
`format` has `encryption 1`, and accepts any keys. A store is encrypted from its beginning or never.
The encryption modules are loaded when a store needs them.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from eventlog.errors import CallError, DamagedError, KeysError, NotFoundError, StorageError, TooNewError
from eventlog.history.session_lists import lists_of
from eventlog.log.contract import Log

if TYPE_CHECKING:
    from pathlib import Path

    from eventlog.encryption.family import Family
    from eventlog.encryption.key_ring import KeyRing
    from eventlog.encryption.keys import KeySource
    from eventlog.log.embedded.engine import EmbeddedLog
    from eventlog.log.postgres.engine import PostgresLog

LOST_NOTE = "1"
"""The note of a store whose own key is not known any more."""
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/|\s*[a-z_]+\s*=")
"""Beginning of a URL, also when `Path` has made one slash of two, or of a keyword string.

For a directory of such a name write `./name`.
"""
_SERVER = re.compile(r"postgres(ql)?://|\s*[a-z_]+\s*=")
_PASSWORD = re.compile(r"://[^?@]*:[^?]*@|(^|[\s?&])(ssl)?password\s*=")


def open_log(
    path: str | os.PathLike[str],
    *,
    read_only: bool = False,
    keys: KeySource | None = None,
    **options: Any,
) -> Log:
    """Open the log at `path`, made if it is not there, or one in memory: `memory:`.

    Other options are those of `Options`, for a directory. With `keys` the log is encrypted
    (`encryption/keys.py`); `KeysError` if it is not, or the keys are not its own. An encrypted log
    opened without keys can be listed, verified and copied. `CallError` for a `path` that names no
    directory, such as the address of a server.
    """
    options = {"lists_of": lists_of, "read_only": read_only, **options}
    if is_server(path):
        return _on_server(str(path), keys, options)
    place = directory_of(path)
    if str(place) == "memory:":
        return _in_memory(keys)
    from eventlog.log.embedded import directory, engine

    ring = None if keys is None else _ring(keys, place)
    if ring is not None and not read_only and not (place / "format").exists():
        _make(place, ring, options)
    log = engine.open_log(place, **options)
    return _as_noted(log, log.path, lambda: directory.encryption_of(log.path), ring)


def is_server(path: object) -> bool:
    """Return whether this is the address of a PostgreSQL server, as libpq reads it.

    That is a URL, or a keyword string such as `service=chats`; a `Path` is always a directory.
    """
    return isinstance(path, str) and _SERVER.match(path) is not None


def has_password(path: object) -> bool:
    """Return whether this is the address of a server with a password in it."""
    return is_server(path) and _PASSWORD.search(str(path)) is not None


def shown(path: str | os.PathLike[str]) -> str:
    """Return a directory, or the address of a server without its secrets, for a person."""
    if not is_server(path):
        return os.fspath(path)
    with driver():
        from eventlog.log.postgres import address
    return address.shown(str(path))


def is_store(path: str | os.PathLike[str]) -> bool:
    """Return whether there is a store at a directory or an address, or something that was one."""
    if not is_server(path):
        return directory_of(path).exists()
    with driver():
        from eventlog.log.postgres import opening
    return opening.settings_of(str(path)) is not None


def server_log(log: Log) -> PostgresLog | None:
    """Return the engine of a log on a server, None of another one; loads no driver."""
    module = sys.modules.get("eventlog.log.postgres.engine")
    engine = log.engine
    return cast("PostgresLog", engine) if module is not None and isinstance(engine, module.PostgresLog) else None


def _on_server(address: str, keys: KeySource | None, options: dict[str, Any]) -> Log:
    """Open the log on a server, made if it is not there; encrypted if there are keys."""
    with driver():
        from eventlog.log.postgres import opening
    ring = None if keys is None else _ring(keys, None)
    made = None
    if ring is not None and not options["read_only"] and not opening.settings_of(address):
        made = ring.make()
    log = opening.open_log(address, encryption="" if made is None else note_of(made), **options)
    if ring is not None and made is not None and log.settings.encryption != note_of(made):
        ring.destroy(made.id)  # another process made the log
    return _as_noted(log, "the store on this server", lambda: log.settings.encryption, ring)


def format_of(path: str | os.PathLike[str]) -> tuple[int, int]:
    """Return the format of the store at a directory or an address, and the newest one known."""
    if not is_server(path):
        from eventlog.log.embedded import directory
        from eventlog.log.embedded.journal.frames import FORMAT_VERSION

        return directory.format_of(directory_of(path)), FORMAT_VERSION
    with driver():
        from eventlog.log.postgres import opening, schema
    found = opening.settings_of(str(path))
    if found is None:
        raise NotFoundError("store", shown(path))
    return found.version, schema.VERSION


@contextmanager
def driver() -> Generator[None]:
    """Say what to install, where a block imports the driver of the server and it is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise CallError(
            f"a store on a server needs {error.name}, which is not installed: pip install '.[postgres]'"
        ) from None


def _ring(keys: KeySource, place: Path | None) -> KeyRing:
    from eventlog.encryption.key_ring import KeyRing, keys_from

    return KeyRing(keys_from(keys, place))


def _as_noted(log: EmbeddedLog | PostgresLog, place: Path | str, note: Callable[[], str], ring: KeyRing | None) -> Log:
    """Return a log as its note says, plain or encrypted with the keys of `ring`, or close it.

    Without a ring an encrypted log can be listed, verified and copied.
    """
    try:
        with _typed(place):
            noted = note()
            if ring is None and not noted:
                return log
            from eventlog.encryption.key_ring import KeyRing
            from eventlog.encryption.log import EncryptedLog

            own = None if ring is None else _own(place, noted, ring)
            return EncryptedLog(log, ring or KeyRing(None), own)
    except BaseException:
        log.close()
        raise


def note_of(own: Family) -> str:
    """Return the note of an encrypted store, with the name of its own key."""
    return f"1 {own.id.hex()} {own.check()}"


def directory_of(path: str | os.PathLike[str]) -> Path:
    """The directory of a path; `CallError` for an address of a server or a wrong type."""
    from pathlib import Path

    try:
        text = os.fspath(path)
    except TypeError:
        raise CallError(f"a path is a str or a Path, not {type(path).__name__}") from None
    if type(text) is not str:
        raise CallError(f"a path is a str or a Path, not {type(path).__name__}")
    if "\0" in text:
        raise CallError("a path has no NUL in it")
    address = _ADDRESS.match(text)
    if address is not None:
        raise CallError(
            f"a directory of this machine is wanted, and {f'{address[1]}://' if address[1] else 'this'} is the address"
            " of a server; a store on PostgreSQL is a str that libpq reads, and a directory of such a name ./name"
        )
    return Path(text)


def _in_memory(keys: KeySource | None) -> Log:
    from eventlog.log.memory import MemoryLog

    log = MemoryLog(lists_of)
    if keys is None:
        return log
    from eventlog.encryption.log import EncryptedLog

    ring = _ring(keys, None)
    return EncryptedLog(log, ring, ring.make())


@contextmanager
def _typed(place: Path | str) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(f"{place} cannot be opened: {error.strerror or error}") from error


def _make(place: Path, ring: KeyRing, options: dict[str, Any]) -> None:
    """Make an encrypted store, unless another process makes one meanwhile."""
    from eventlog.log.embedded import directory
    from eventlog.log.embedded.options import Options

    own = ring.make()
    note = note_of(own)
    with _typed(place):
        try:
            directory.prepare(place, Options(**options), note)
        finally:
            if not (place / "format").exists() or directory.encryption_of(place) != note:
                ring.destroy(own.id)  # nothing was ever encrypted with it


def _own(path: Path | str, note: str, ring: KeyRing) -> Family | None:
    """The store's own key, which shows that these are its keys; None if its name is lost."""
    if not note:
        raise KeysError(f"{path} is not encrypted: open it without keys")
    version, *fields = note.split(" ")
    if version.isdigit() and version != "1":
        raise TooNewError(f"{path} is encrypted in format {version[:20]}, this program reads format 1")
    if note == LOST_NOTE:
        return None
    try:
        id, check = fields
        own = ring.find(bytes.fromhex(id))
    except ValueError:
        raise DamagedError(f"the format file of {path} is damaged") from None
    if own is None or own.check() != check:
        raise KeysError(f"these are not the keys of {path}")
    return own
