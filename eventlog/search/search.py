"""Searches of a store, and usage by day: bring the index up to date, then ask it.

The index is a file beside the files of the store (`file.py`). Where no file may be written, and for
an encrypted store, whose words no file may have, it is in memory and has an upper bound.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from errno import EDQUOT, EIO, EMFILE, ENFILE, ENOENT, ENOMEM, ENOSPC
from fcntl import LOCK_SH, LOCK_UN, flock
from pathlib import Path
from sqlite3 import Connection
from threading import TIMEOUT_MAX, RLock
from typing import Any, TypeVar

from eventlog.errors import CallError, DamagedError, EventlogError, LimitError, StorageError
from eventlog.history.cursor import hit_place, hits_cursor, tags_at
from eventlog.log.contract import Log
from eventlog.models.catalogue import ModelCatalogue
from eventlog.search.asked import Asked, asked_for
from eventlog.search.catch_up import Follower, damaged_in, index_of, reached_in
from eventlog.search.file import IndexFile, end_transaction, is_damage, sqlite_errors
from eventlog.search.hit import SearchPage
from eventlog.search.results import Results
from eventlog.search.usage import UsageByDay, usage_by_day
from eventlog.validation import require, require_or_none, require_wait

MAX_MEMORY = 64_000_000
"""Most characters of a store, scope or session that is searched without an index file."""
_PASSING = (ENOSPC, EDQUOT, EMFILE, ENFILE, ENOMEM, EIO, ENOENT)
"""Errors that pass: an index in memory would be used for as long as the store is open."""
T = TypeVar("T")


class Searcher:
    """The index of a store, opened at the first search.  Safe across threads."""

    def __init__(self, log: Log, clock: Callable[[], int], require_open: Callable[[], None]) -> None:
        self._log = log
        self._clock = clock
        self._require_open = require_open
        self._lock = RLock()
        self._opened: tuple[IndexFile, Follower] | None = None

    def search(
        self, words: str, *, cursor: str | None = None, limit: int, wait: float | None, **filters: Any
    ) -> SearchPage:
        """Return a page of hits; see `Store.search`."""
        asked = asked_for(words, **filters)
        require(int, limit, "a limit is a whole number")
        if limit < 1:
            raise CallError(f"a page has one hit or more, not {limit}")
        place = None if cursor is None else hit_place(cursor, self._log, asked.fields)

        def page(reader: Connection, behind: int) -> SearchPage:
            results = Results(self._log, reader, asked, place)
            hits, last = results.hits(limit)
            following = None if last is None else hits_cursor(self._log, asked.fields, last)
            return SearchPage(tuple(hits), following, behind, results.damaged())

        return self._answer(page, wait, asked)

    def usage_by_day(
        self,
        models: ModelCatalogue,
        *,
        since: int | None,
        until: int | None,
        scope: str | None,
        model: str | None,
        wait: float | None,
    ) -> UsageByDay:
        """Return usage by day, scope and model; see `Store.usage_by_day`."""
        for text in (scope, model):
            require_or_none(str, text, "a scope and a model are str")
        for day in (since, until):
            require_or_none(int, day, "since and until are UTC milliseconds, whole numbers")

        def days(reader: Connection, behind: int) -> UsageByDay:
            found = usage_by_day(self._log, reader, models, since=since, until=until, scope=scope, model=model)
            return UsageByDay(found, behind, tuple(damaged_in(self._log, reader, scope)))

        return self._answer(days, wait, None)

    def _answer(self, ask: Callable[[Connection, int], T], wait: float | None, asked: Asked | None) -> T:
        """Bring the index up to date, and ask it while it stands still; make a damaged one anew.

        Words are `asked` for, or usage is. If the whole store is too much for an index in memory, a
        session or a scope gets one of its own, for this one question.
        """
        if wait is not None:
            require_wait(wait)
        self._log.require_keys()
        deadline = None if wait is None else time.monotonic() + min(max(wait, 0.0), TIMEOUT_MAX)
        was_damaged = False
        while True:
            self._require_open()
            with self._kept() as directory:
                index, follower = self._current(directory)
                try:
                    with sqlite_errors(f"the search index {index.path or 'in memory'}"):
                        try:
                            follower.catch_up(deadline, words=asked is not None)
                        except LimitError:
                            if asked is None or (asked.session is None and asked.scope is None):
                                raise
                            own, behind = index_of(self._log, asked, MAX_MEMORY, deadline)
                            with closing(own):
                                return ask(own.reader, behind)
                        with index.read_lock:
                            end_transaction(index.reader)
                            try:
                                index.reader.execute("BEGIN")
                                return ask(index.reader, follower.behind_of(index.reader))
                            finally:
                                end_transaction(index.reader)
                except StorageError:
                    if index.is_there:
                        raise  # else it was removed, so it cannot be written
                except Exception as error:
                    if index.closed:  # by another thread
                        continue
                    if index.path is None or not is_damage(error):
                        raise
                    self._discard(index)
                    if was_damaged:
                        if isinstance(error, EventlogError):
                            raise
                        raise StorageError(f"the search index {index.path} is damaged as soon as it is made") from error
                    was_damaged = True

    @contextmanager
    def _kept(self) -> Generator[Path | None]:
        """Give the directory of the index; no rewriting overwrites and removes it meanwhile."""
        while (directory := self._log.derived_directory) is not None:
            try:
                held = os.open(directory.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except OSError as error:
                if self._log.derived_directory != directory:
                    continue
                raise _unopened(directory, error) from error
            try:
                flock(held, LOCK_SH)
                if self._log.derived_directory == directory:
                    yield directory
                    return
            finally:
                flock(held, LOCK_UN)  # a child of `os.fork` may have inherited the file
                os.close(held)
        yield None

    def _current(self, directory: Path | None) -> tuple[IndexFile, Follower]:
        """Return the index of the store as it is now; open it, or open it anew."""
        with self._lock:
            if self._opened is not None:
                index = self._opened[0]
                if index.store == self._log.identity and index.directory in {None, directory} and index.is_there:
                    return self._opened
                self.close()
            index = self._open(directory)
            if not self._is_behind(index):
                index.discard()
                index = self._open(directory)
            most = MAX_MEMORY if index.directory is None else None
            self._opened = index, Follower(self._log, index, self._clock, most)
            return self._opened

    def _open(self, directory: Path | None) -> IndexFile:
        if directory is not None:
            try:
                return IndexFile(directory, self._log.identity)
            except OSError as error:
                if error.errno in _PASSING:
                    raise _unopened(directory, error) from error
        return IndexFile(None, self._log.identity)

    def _is_behind(self, index: IndexFile) -> bool:
        """Return whether the log still has what the index took in: it may have been restored."""
        try:
            with sqlite_errors(f"the search index {index.path}"):
                reached = reached_in(index.reader, self._log.partitions)
            last = self._log.last_positions()
            tags = tags_at(self._log, [position for position, _ in reached])
            return all(
                position <= last[partition] and tags[partition] == tag
                for partition, (position, tag) in enumerate(reached)
            )
        except Exception as error:
            if isinstance(error, DamagedError):  # the commit; what the log has there is not known
                return True
            if not is_damage(error):
                raise
            return False

    def _discard(self, index: IndexFile) -> None:
        with self._lock:
            if self._opened is not None and self._opened[0] is index:
                self._opened = None
                index.discard()

    def close(self) -> None:
        """Close the index; the next search opens it again."""
        with self._lock:
            opened, self._opened = self._opened, None  # first: an interrupt leaves no closed index behind
            if opened is not None:
                opened[0].close()


def _unopened(directory: Path, error: OSError) -> StorageError:
    return StorageError(f"the search index in {directory} cannot be opened: {error.strerror}")
