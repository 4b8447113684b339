"""The file of a search index: an SQLite database in the directory `derived` of a store.

It is derived: it may be deleted at any time and is then made again. A file is never changed into
another one. Where it is damaged, or is of another store or program, it is removed and one of a new
name takes its place, so a process that still has the old one open harms no other.

The words of a text are in `words`, a full-text table that stores no text. The number of a row says
when the text was said: the second, times `SLOTS`, and a free place in it. So the newest hits are
found first without looking at the others. `spent` has what each model call used, by day, `told`
where a reply began first, and `retold` where forks tell it again.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Generator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from threading import RLock

from eventlog.errors import BusyError, DamagedError, EventlogError, StorageError

MEMORY = ":memory:"
SLOTS = 16
"""Rows of a second; those over that take the next free number."""
_VERSION = 6
"""Version of the tables, and of what is a word: change it with either."""
_LOCK = "search.lock"
_LOCKED = ("SQLITE_BUSY", "SQLITE_LOCKED")
_UNWRITABLE = ("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM", "SQLITE_NOMEM")
_TABLES = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE reached (part INTEGER PRIMARY KEY, position INTEGER NOT NULL, tag BLOB NOT NULL);
CREATE TABLE streams (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, fork_of TEXT, scope INTEGER NOT NULL);
CREATE INDEX forks ON streams (fork_of) WHERE fork_of IS NOT NULL;
CREATE TABLE labels (id INTEGER PRIMARY KEY, name BLOB NOT NULL UNIQUE);
CREATE TABLE names (
    stream INTEGER NOT NULL, name INTEGER NOT NULL, begun INTEGER NOT NULL, kind INTEGER NOT NULL,
    tool INTEGER NOT NULL, said INTEGER, called INTEGER,
    field TEXT, first INTEGER, start INTEGER, chars INTEGER, mark INTEGER, before INTEGER, time INTEGER,
    PRIMARY KEY (stream, name)
) WITHOUT ROWID;
CREATE INDEX open ON names (stream) WHERE field IS NOT NULL;
CREATE TABLE texts (
    id INTEGER PRIMARY KEY, stream INTEGER NOT NULL, kind INTEGER NOT NULL, begun INTEGER NOT NULL,
    first INTEGER NOT NULL, start INTEGER NOT NULL, chars INTEGER NOT NULL, earlier INTEGER
);
CREATE TABLE rollbacks (stream INTEGER NOT NULL, version INTEGER NOT NULL, target INTEGER NOT NULL,
    PRIMARY KEY (stream, version)) WITHOUT ROWID;
CREATE TABLE removals (stream INTEGER NOT NULL, name INTEGER NOT NULL, version INTEGER NOT NULL,
    PRIMARY KEY (stream, name, version)) WITHOUT ROWID;
CREATE TABLE spent (
    day INTEGER NOT NULL, stream INTEGER NOT NULL, version INTEGER NOT NULL, model INTEGER NOT NULL,
    reply INTEGER NOT NULL, error INTEGER NOT NULL, call INTEGER NOT NULL, failed INTEGER NOT NULL,
    input INTEGER NOT NULL, output INTEGER NOT NULL, reasoning INTEGER NOT NULL,
    cache_read INTEGER NOT NULL, cache_write INTEGER NOT NULL, cost TEXT,
    PRIMARY KEY (day, stream, version)
) WITHOUT ROWID;
CREATE TABLE told (name INTEGER PRIMARY KEY, stream INTEGER NOT NULL, version INTEGER NOT NULL);
CREATE TABLE retold (name INTEGER NOT NULL, stream INTEGER NOT NULL, version INTEGER NOT NULL,
    PRIMARY KEY (name, stream, version)) WITHOUT ROWID;
CREATE TABLE crowded (second INTEGER PRIMARY KEY, next INTEGER NOT NULL);
CREATE VIRTUAL TABLE words USING fts5 (
    text, tags, content='', tokenize="unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'"
);
INSERT INTO words (words, rank) VALUES ('rank', 'bm25(1.0, 0.0)');
INSERT INTO words (words, rank) VALUES ('hashsize', 8388608);
"""


class StrayRowError(DamagedError):
    """A row of the index names an event that the log does not have, or that says no text."""


@contextmanager
def sqlite_errors(file: str) -> Generator[None]:
    """Turn errors of SQLite that no new file mends into those of this engine."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        name = getattr(error, "sqlite_errorname", "")
        if name.startswith(_LOCKED):
            raise BusyError(f"{file} is locked by another process") from error
        if name.startswith(_UNWRITABLE):
            raise StorageError(f"{file} cannot be written: {error} ({name})") from error
        raise


class IndexFile:
    """The connections of a process with the index of a store; one writes, one reads."""

    def __init__(self, directory: Path | None, store: bytes) -> None:
        """Open the index in a directory, or one in memory; `store` names store and edition."""
        self.store = store
        self.directory = directory
        self.lock: RLock = RLock()
        """Held while the writing connection is used."""
        self.read_lock: RLock = RLock() if directory is not None else self.lock
        """Held while the reading connection is used; in memory there is one for both."""
        self.path: Path | None = None
        self.closed: bool = False
        """Whether a thread has closed it, perhaps while another one searches."""
        self._inode = 0
        self.writer: sqlite3.Connection
        self.reader: sqlite3.Connection
        if directory is None:
            self.writer = self.reader = _connected(MEMORY)
            _begin(self.writer, store)
        else:
            self._open(directory)

    def _open(self, directory: Path) -> None:
        directory.mkdir(mode=0o700, exist_ok=True)
        with _alone(directory), sqlite_errors(f"the search index {directory}"):
            found = sorted(directory.glob("search-*.sqlite"))
            path = found[0] if found and self._opened(found[0]) else None
            for other in found:
                if other != path:
                    _remove(other)
            if path is None:
                path = directory / f"search-{os.urandom(8).hex()}.sqlite"
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
                with ExitStack() as opened:
                    self.writer = opened.enter_context(closing(_connected(path)))
                    _begin(self.writer, self.store)
                    self.reader = opened.enter_context(closing(_connected(path)))
                    opened.pop_all()
            self.path, self._inode = path, path.stat().st_ino

    def _opened(self, path: Path) -> bool:
        """Open a file that is there; False if it is damaged, or of another store or program."""
        with ExitStack() as opened:
            try:
                writer, reader = [opened.enter_context(closing(_connected(path))) for _ in range(2)]
                said = writer.execute("SELECT value FROM facts WHERE name = 'store'").fetchone()
                if writer.execute("PRAGMA user_version").fetchone()[0] == _VERSION and said == (self.store,):
                    self.writer, self.reader = writer, reader
                    opened.pop_all()
                    return True
            except Exception as error:
                if not is_damage(error):
                    raise
        return False

    @property
    def is_there(self) -> bool:
        """Whether the file is still the one of its directory."""
        if self.path is None:
            return True
        try:
            return self.path.stat().st_ino == self._inode
        except OSError:
            return False

    def discard(self) -> None:
        """Close the file and remove it, because it is damaged."""
        self.close()
        if self.directory is not None and self.path is not None:
            with suppress(OSError), _alone(self.directory):
                _remove(self.path)

    def close(self) -> None:
        """Close the connections; they are not used any more."""
        self.closed = True
        with self.lock, self.read_lock:
            self.reader.close()
            self.writer.close()


def is_damage(error: Exception) -> bool:
    """Return whether an error says that the file has wrong contents."""
    if isinstance(error, StrayRowError):
        return True
    if isinstance(error, (EventlogError, MemoryError, RecursionError, sqlite3.ProgrammingError)):
        return False
    name: str = getattr(error, "sqlite_errorname", "")
    is_question = name == "SQLITE_ERROR" and str(error).startswith("fts5: ")
    return not is_question and not name.startswith((*_LOCKED, *_UNWRITABLE))


def end_transaction(connection: sqlite3.Connection) -> None:
    """Take back what is open; an interrupt may have left it so."""
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def _connected(path: Path | str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=5.0)
    for setting in (
        "page_size=8192",
        "temp_store=memory",  # a temporary file would hold words
        "cache_size=-16000",
        "journal_mode=wal",
        "synchronous=normal",
    ):
        try:
            connection.execute(f"PRAGMA {setting}")
        except BaseException:
            connection.close()
            raise
    return connection


def _begin(connection: sqlite3.Connection, store: bytes) -> None:
    connection.executescript(f"BEGIN IMMEDIATE;{_TABLES}PRAGMA user_version={_VERSION};COMMIT;")
    connection.execute("INSERT INTO facts VALUES ('store', ?)", (store,))


@contextmanager
def _alone(directory: Path) -> Generator[None]:
    """Hold the lock under which files come and go."""
    lock = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _remove(path: Path) -> None:
    for ending in ("-wal", "-shm", ""):
        path.with_name(path.name + ending).unlink(missing_ok=True)
