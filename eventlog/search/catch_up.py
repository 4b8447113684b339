"""Bringing an index up to date with its log, in transactions of a bounded size.

Each transaction reads where the index stands, so any number of processes may do this at once: each
commit is taken in once. What a process that was killed had not committed is taken in by the next.
A commit that is damaged is left out, and the index notes its session.
"""

from __future__ import annotations

import sqlite3
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from threading import TIMEOUT_MAX

from eventlog.errors import DamagedError, LimitError
from eventlog.history.ancestry import forked_from
from eventlog.history.catalog import entry_of
from eventlog.history.cursor import tag_of
from eventlog.history.session_page import sessions_of
from eventlog.log.commit import Commit, Head
from eventlog.log.contract import Log
from eventlog.search.asked import Asked
from eventlog.search.commit_rows import Update
from eventlog.search.file import IndexFile, end_transaction
from eventlog.search.rows import DAMAGED, Rows
from eventlog.search.sight import Sights

_COMMITS = 512
"""Commits asked for at a time."""
_CHARACTERS = 8_000_000
"""Characters of a transaction, about."""
_SECONDS = 0.5
"""Seconds of a transaction, about, while a caller waits for no longer than a time."""
IDLE = 600_000
"""Milliseconds after which a text that still streams is taken in as far as it goes."""
_LOCKED = ("SQLITE_BUSY", "SQLITE_LOCKED")


class Follower:
    """Takes what is committed into an index."""

    def __init__(self, log: Log, index: IndexFile, clock: Callable[[], int], most: int | None = None) -> None:
        """`most` is how many characters the index may have at most; None for no limit."""
        self._log = log
        self._index = index
        self._clock = clock
        self._most = most
        self._reached: list[tuple[int, bytes]] | None = None
        """Where the index stood in each partition when this process last looked."""
        self._next_idle = 0
        self._refused: LimitError | None = None
        self._owners: dict[tuple[int | None, int | None], str | None] = {}
        """Sessions of damaged commits, by version and position."""

    def behind_of(self, connection: sqlite3.Connection) -> int:
        """Return how many committed events the index has not taken in, as a connection sees it."""
        return self._missing(reached_in(connection, self._log.partitions))

    def _missing(self, reached: Sequence[tuple[int, bytes]]) -> int:
        return sum(max(last - done, 0) for last, (done, _) in zip(self._log.last_positions(), reached, strict=True))

    def catch_up(self, deadline: float | None, *, words: bool) -> None:
        """Take in what is committed, until a time of the monotonic clock at the latest.

        `LimitError` if `words` are wanted, and there are more than the index may have; what was
        used by day is taken in all the same.
        """
        if self._refused is not None and words:
            raise self._refused
        try:
            self._take_in(deadline)
        except LimitError:
            if words:
                raise
            self._take_in(deadline)

    def _take_in(self, deadline: float | None) -> None:
        index = self._index
        while self._reached is None or self._missing(self._reached) or self._clock() >= self._next_idle:
            left = -1.0 if deadline is None else max(deadline - time.monotonic(), 0.0)
            try:
                if not index.lock.acquire(timeout=min(left, TIMEOUT_MAX)) or index.closed or not self._step(deadline):
                    return
            finally:
                try:  # noqa: SIM105 - `suppress` is a call, and may be interrupted
                    index.lock.release()
                except RuntimeError:  # it was not acquired; an interrupt may come right behind it
                    pass
            if deadline is not None and time.monotonic() >= deadline:
                return

    def _step(self, deadline: float | None) -> bool:
        """Do one transaction; False if another process held the index for too long."""
        writer = self._index.writer
        try:
            if not self._begin(writer, deadline):
                return False
            rows = Rows(writer)
            reached = reached_in(writer, self._log.partitions)
            update = Update(self._log, rows, words=self._refused is None)
            until = None if deadline is None else time.monotonic() + _SECONDS
            for partition in range(len(reached)):
                self._partition(partition, reached, update, rows, until)
            now = self._clock()
            if now >= self._next_idle:
                update.close_open(now - IDLE)
                self._next_idle = now + IDLE // 10
            self._refuse_too_much(writer, rows)
            rows.flush()
            writer.executemany(
                "REPLACE INTO reached VALUES (?, ?, ?)", [(part, *done) for part, done in enumerate(reached)]
            )
            writer.execute("COMMIT")
        except BaseException:
            self._reached = None
            end_transaction(writer)
            raise
        self._reached = reached
        return True

    def _begin(self, writer: sqlite3.Connection, deadline: float | None) -> bool:
        """Begin to write; False if another process does, and goes on for too long."""
        end_transaction(writer)
        while True:
            left = 5.0 if deadline is None else min(max(deadline - time.monotonic(), 0.0), 5.0)
            writer.execute(f"PRAGMA busy_timeout = {int(left * 1000)}")
            try:
                writer.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if not error.sqlite_errorname.startswith(_LOCKED):
                    raise
                if deadline is not None:
                    return False
            else:
                return True

    def _partition(
        self, partition: int, reached: list[tuple[int, bytes]], update: Update, rows: Rows, until: float | None
    ) -> None:
        """Take in the next commits of a partition."""
        limit = _COMMITS
        while rows.characters < _CHARACTERS and (until is None or time.monotonic() < until):
            done = reached[partition][0]
            last = self._log.last_positions()[partition]
            try:
                commits = self._log.commits_after(done, limit, partition=partition)
            except DamagedError as error:
                if limit == 1:  # it is the next one
                    rows.note_damage(self._owner(error))
                    reached[partition] = self._end_of(error, partition, done, last), b""
                limit = max(limit // 8, 1)
                continue
            for commit in commits:
                _take(update, rows, commit, commit.first - 1 + max(done - commit.position + 1, 0))
                reached[partition] = commit.last_position, tag_of(commit)
                if rows.characters >= _CHARACTERS:
                    return
            full, limit = limit, min(limit * 8, _COMMITS)
            if len(commits) < full:
                if reached[partition][0] < last:  # the newest events are gone: they were erased
                    reached[partition] = last, b""
                return

    def _end_of(self, error: DamagedError, partition: int, done: int, last: int) -> int:
        """Return the last position of the damaged commit behind `done`; at least the next one.

        How many events it has is not known: where they end is found by bisection.
        """

        def is_behind(position: int) -> bool:
            try:
                self._log.commits_after(position, 1, partition=partition)
            except DamagedError as found:
                return (found.version, found.position) != (error.version, error.position)
            return True

        if error.position is None:
            return done + 1
        step = 1
        while done + step < last and not is_behind(done + step):
            step *= 2
        places = range(done + step // 2 + 1, min(done + step, last) + 1)
        return places.start + bisect_left(places, True, key=is_behind)

    def _owner(self, error: DamagedError) -> str | None:
        """Return the session of a damaged commit that was read by its position; None if unknown."""
        place = error.version, error.position
        if error.session is None and None not in place and place not in self._owners:
            self._owners[place] = next(
                (head.session for head in self._log.heads() if _place_of_damage(self._log, head, error) == place), None
            )
        return error.session or self._owners.get(place)

    def _refuse_too_much(self, writer: sqlite3.Connection, rows: Rows) -> None:
        if self._most is None or self._refused is not None:
            return
        found = writer.execute("SELECT value FROM facts WHERE name = 'characters'").fetchone()
        size = (0 if found is None else int(found[0])) + rows.characters
        if size > self._most:
            self._refused = _too_much("a store", size, self._most)
            raise self._refused
        writer.execute("REPLACE INTO facts VALUES ('characters', ?)", (size,))


def _too_much(place: str, size: int, most: int) -> LimitError:
    advice = ": search a `session` or a `scope` with less, or a backup in a directory"
    return LimitError(f"characters of {place} that is searched without an index file", size, most, advice)


def index_of(log: Log, asked: Asked, most: int, deadline: float | None) -> tuple[IndexFile, int]:
    """Return an index in memory of a session or scope, and the events that it lacks.

    It has what these inherited, too, where no other session shows that: of a scope from erased
    sessions. The newest sessions come first, always in one order, so that a page goes on at its
    place. `LimitError` if it would have more than `most` characters.
    """
    streams: dict[str, Head] = {}
    for name in sessions_of(log, asked.scope or "") if asked.session is None else [asked.session]:
        for head, _ in forked_from(log, name):
            if asked.session is not None or head.session == name or entry_of(head).erased:
                streams[head.session] = head
    index, behind = IndexFile(None, log.identity), 0
    rows = Rows(index.writer)
    update = Update(log, rows)
    index.writer.execute("BEGIN")
    for head in sorted(streams.values(), key=lambda head: (-head.created, head.session)):
        done = head.base
        try:
            for commit in log.read(head.session, done, head.version):
                if deadline is not None and time.monotonic() >= deadline:
                    behind += head.version - done
                    break
                _take(update, rows, commit, commit.first - 1)
                done = commit.last
                if rows.characters > most:
                    raise _too_much("sessions", rows.characters, most)
        except DamagedError:
            rows.note_damage(head.session)
    rows.flush()
    return index, behind


def _take(update: Update, rows: Rows, commit: Commit, after: int) -> None:
    """Take in what can be read of a commit behind version `after`."""
    try:
        update.take(commit, after)
    except DamagedError:
        rows.note_damage(commit.session)


def _place_of_damage(log: Log, head: Head, error: DamagedError) -> tuple[int | None, int | None] | None:
    """Return the version and position of the damage in a session that begins at the error's."""
    assert error.version is not None
    try:
        next(log.read(head.session, error.version - 1, error.version), None)
    except DamagedError as found:
        return found.version, found.position
    return None


def damaged_in(log: Log, connection: sqlite3.Connection, scope: str | None) -> list[str]:
    """Return the sessions, of a scope or all, of which an index lacks what can be shown."""
    question = "SELECT substr(name, ?) FROM facts WHERE substr(name, 1, ?) = ? ORDER BY name"
    size = len(DAMAGED)
    found = (str(name) for (name,) in connection.execute(question, (size + 1, size, DAMAGED)))
    heads, sights = ((name, log.head(name)) for name in found), Sights(log, connection, None)
    return [
        name
        for name, head in heads
        if head is not None
        and scope in {None, entry_of(head).scope}
        and (not entry_of(head).erased or sights.of(name).viewers)
    ]


def reached_in(connection: sqlite3.Connection, partitions: int) -> list[tuple[int, bytes]]:
    """Return where an index stands in each partition."""
    reached: list[tuple[int, bytes]] = [(0, b"")] * partitions
    for part, position, tag in connection.execute("SELECT part, position, tag FROM reached"):
        reached[part] = position, tag
    return reached
