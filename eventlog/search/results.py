"""Hits of one search, asked of an index that stands still.

The texts that it finds are matched by the full-text engine that has the index, in a table of its
own in memory, so a word is the same to both.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import islice
from typing import NamedTuple

from eventlog.codec.surrogates import readable
from eventlog.errors import DamagedError
from eventlog.history.effective_history import END
from eventlog.log.contract import Log
from eventlog.search.asked import Asked, label_of
from eventlog.search.catch_up import damaged_in
from eventlog.search.file import SLOTS, StrayRowError
from eventlog.search.hit import SearchHit
from eventlog.search.read import Beginning, Row, TextReader
from eventlog.search.rows import name_of, second_of
from eventlog.search.said import KINDS
from eventlog.search.sight import Sights, Viewer
from eventlog.search.spacing import CLOSE, OPEN, original_ranges, spaced

_TABLE = (
    "CREATE VIRTUAL TABLE words USING fts5 "
    "(text, tokenize=\"unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'\")"
)
_BEFORE, _LONGEST = 60, 240
"""Characters before the first word that was found, and of a snippet."""
_REACH = 20
"""Characters in which a snippet looks for a space to begin or end at."""


def matched(texts: Sequence[str], match: str) -> list[list[tuple[int, int]]]:
    """Return where the words are in each text; an empty list where not all of them are."""
    found: list[list[tuple[int, int]]] = [[] for _ in texts]
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        connection.execute(_TABLE)
        connection.execute("BEGIN")
        connection.executemany(
            "INSERT INTO words (rowid, text) VALUES (?, ?)", ((place, spaced(text)) for place, text in enumerate(texts))
        )
        question = "SELECT rowid, highlight(words, 0, ?, ?) FROM words WHERE words MATCH ?"
        for place, marked in connection.execute(question, (OPEN, CLOSE, match)):
            found[place] = original_ranges(texts[int(place)], marked)
    finally:
        connection.close()
    return found


class Cut(NamedTuple):
    """A piece of a text, and where the words are in it."""

    text: str
    found: tuple[tuple[int, int], ...]
    before: bool
    after: bool


def cut_around(text: str, found: Sequence[tuple[int, int]]) -> Cut:
    """Cut a text around the first words that were found."""
    first, last = _best(found)
    begin = max(first - _BEFORE, 0)
    if begin:
        space = text.find(" ", begin, min(begin + _REACH, first))
        begin = begin if space < 0 else space + 1
    end = min(max(begin + _LONGEST, min(last, first + _LONGEST)), len(text))
    if end < len(text):
        space = text.rfind(" ", max(end - _REACH, last), end)
        end = end if space < 0 else space
    inside = tuple((low - begin, min(high, end) - begin) for low, high in found if low >= begin and low < end)
    return Cut(text[begin:end], inside, begin > 0, end < len(text))


def _best(found: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Return a stretch of a snippet's length that has the most of what was found."""
    if not found:
        return 0, 0
    most, best, end = 0, found[0], 0
    room = _LONGEST - _BEFORE
    for place, (first, _) in enumerate(found):
        while end < len(found) and found[end][1] <= first + room:
            end += 1
        if end - place > most:
            most, best = end - place, (first, found[end - 1][1])
    return best


_END = 1 << 62
"""Over every row number."""
_AT_ONCE = 32
"""Texts that are cut together."""
RANKED = 200_000
"""Most texts that are weighed against each other, the newest ones."""
_ROW = "SELECT id, stream, kind, begun, first, start, chars FROM texts WHERE id = ?"


class _Found(NamedTuple):
    """A row that may be shown, and what the log says of it."""

    place: int
    row: Row
    viewer: Viewer
    begun: Beginning
    time: int
    text: str


class Results:
    """Hits of a search from a place on: a row number, or a count if it is ranked."""

    def __init__(self, log: Log, connection: sqlite3.Connection, asked: Asked, place: int | None) -> None:
        self._log = log
        self._connection = connection
        self._asked = asked
        self._place = place
        self._sights = Sights(log, connection, asked.session)
        self._expression = asked.expression(connection, self._sights.streams)
        self._reader = TextReader(log)
        self._sessions: dict[int, str] = {}
        self._seen: set[tuple[int, int, int]] = set()
        """Texts of which a piece was passed already."""
        self._open = {row.whole: row for row in self._open_rows()}
        """Texts that still stream and have the words."""

    def hits(self, limit: int) -> tuple[list[SearchHit], int | None]:
        """Return the first hits, and the place behind the last one if there are more."""
        hits: list[SearchHit] = []
        place = 0
        candidates = self._candidates()
        while group := list(islice(candidates, min(limit + 1 - len(hits), _AT_ONCE))):
            where = matched([found.text for found in group], self._asked.match)
            for found, ranges in zip(group, where, strict=True):
                if not ranges:  # it is not in the log any more
                    continue
                if len(hits) == limit:
                    return hits, place
                hits.append(self._hit(found, ranges))
                place = found.place
        return hits, None

    def _hit(self, found: _Found, ranges: list[tuple[int, int]]) -> SearchHit:
        cut = cut_around(found.text, ranges)
        row, begun, viewer = found.row, found.begun, found.viewer
        return SearchHit(
            session=viewer.session,
            version=row.first,
            time=found.time,
            kind=KINDS[row.kind],
            message=begun.message,
            part=begun.part,
            tool=begun.tool,
            snippet=readable(cut.text),
            found=cut.found,
            before=cut.before or row.start > 0,
            after=cut.after,
            rolled_back=not viewer.holds(row.first),
            removed=viewer.removed(begun.message, begun.part),
        )

    def _candidates(self) -> Iterator[_Found]:
        """Yield what may be a hit, in order; each part and kind once."""
        asked = self._asked
        for place, row in self._ranked() if asked.ranked else self._newest():
            if row.whole in self._seen or (not row.open and row.whole in self._open):
                continue
            session = self._session(row.stream)
            sight = self._sights.of(session)
            seen = sight.viewer(row.first)
            if seen is None:
                continue
            viewer, last = seen
            if asked.rolled_back is not None and asked.rolled_back == viewer.holds(row.first):
                continue
            read = self._read(session, row, viewer, last)
            if read is None or sight.hides(read[0].part, row.begun, row.first):
                continue
            begun, time, text = read
            if not text or time < (asked.since or time) or (asked.until is not None and time >= asked.until):
                continue
            if last < END and not self._has_words(text):  # the session has a beginning of what streamed
                continue
            self._seen.add(row.whole)
            if asked.ranked or self._is_newest(session, row, begun, viewer, last):
                yield _Found(place, row, viewer, begun, time, text)

    def _read(self, session: str, row: Row, viewer: Viewer, last: int) -> tuple[Beginning, int, str] | None:
        """Return how the part of a row began, and when it said which text; None if damaged.

        The text is that of version `last` of the stream.
        """
        try:
            begun = self._reader.beginning(viewer.streams, row.begun)
            return begun, *self._reader.text(session, row, begun, last)
        except StrayRowError:
            raise
        except DamagedError:
            self._reader.damaged.add(session)
            return None

    def damaged(self) -> tuple[str, ...]:
        """Return the sessions that were asked of which something could not be read."""
        streams = self._sights.streams
        found = {*damaged_in(self._log, self._connection, self._asked.scope), *self._reader.damaged}
        return tuple(sorted(name for name in found if streams is None or name in streams))

    # -- rows ----------------------------------------------------------------------------------

    def _ranked(self) -> Iterator[tuple[int, Row]]:
        """Yield rows, the best first: those that still stream, then by rank; with their count."""
        done = self._place or 0
        for count, row in enumerate(self._by_rank(), 1):
            if count > done:
                yield count, row
            else:
                self._seen.add(row.whole)

    def _by_rank(self) -> Iterator[Row]:
        yield from self._open.values()
        first, last = self._bounds()
        if self._expression is not None:
            question = (
                "SELECT rowid FROM words WHERE words MATCH ? AND rowid >= ? AND rowid < ?"
                " ORDER BY rowid DESC LIMIT 1 OFFSET ?"
            )
            found = self._connection.execute(question, (self._expression, first, last, RANKED)).fetchone()
            first = first if found is None else found[0] + 1
        yield from self._rows("words MATCH ? AND rowid >= ? AND rowid < ? ORDER BY rank", first, last)

    def _newest(self) -> Iterator[tuple[int, Row]]:
        """Yield rows, the newest first, with their numbers."""
        first, last = self._bounds()
        last = last if self._place is None else min(last, self._place)
        stored = self._rows("words MATCH ? AND rowid >= ? AND rowid < ? ORDER BY rowid DESC", first, last)
        opened = sorted((row for row in self._open.values() if row.id < last), key=lambda row: -row.id)
        for row in merge(stored, opened, key=lambda row: -row.id):
            yield row.id, row

    def _bounds(self) -> tuple[int, int]:
        """Return the row numbers between which texts of the time asked for are."""
        first = 0 if self._asked.since is None else second_of(self._asked.since) * SLOTS
        if self._asked.until is None:
            return first, _END
        late = self._connection.execute("SELECT value FROM facts WHERE name = 'late'").fetchone()
        return first, (second_of(self._asked.until) + 1 + (int(late[0]) if late else 0)) * SLOTS

    def _rows(self, condition: str, *values: int) -> Iterator[Row]:
        if self._expression is None:
            return
        question = f"SELECT rowid FROM words WHERE {condition}"  # noqa: S608 - no caller's text
        for (id,) in self._connection.execute(question, (self._expression, *values)):
            found = self._connection.execute(_ROW, (id,)).fetchone()
            if found is not None:
                yield Row(*found)

    def _open_rows(self) -> Iterator[Row]:
        """Yield the texts that still stream and have the words; they are read in the log."""
        asked, texts, rows = self._asked, list[str](), list[Row]()
        question = (
            "SELECT n.stream, n.kind, n.begun, n.first, n.start, n.chars, n.field, n.time, n.tool, s.name, s.scope"
            " FROM names n JOIN streams s ON s.id = n.stream WHERE n.field IS NOT NULL"
        )
        labels = [None if name is None else label_of(self._connection, name) for name in (asked.scope, asked.tool)]
        for stream, kind, begun, first, start, chars, field, time, tool, session, scope in self._connection.execute(
            question
        ).fetchall():
            said = KINDS.index("call") if field == "input" else kind
            wanted = (
                (asked.kinds is None or said in asked.kinds)
                and (asked.scope is None or labels[0] == scope)
                and (asked.tool is None or labels[1] == tool)
                and (self._sights.streams is None or session in self._sights.streams)
            )
            seen = self._sights.of(session).viewer(first) if wanted else None
            if seen is not None:
                row = Row(second_of(time) * SLOTS, stream, said, begun, first, start, chars - start, open=True)
                rows.append(row)
                read = self._read(session, row, *seen)
                texts.append("" if read is None else read[2])
        for row, found in zip(rows, matched(texts, asked.match) if texts else (), strict=True):
            if found:
                yield row

    def _is_newest(self, session: str, row: Row, begun: Beginning, viewer: Viewer, last: int) -> bool:
        """Return whether no later piece of its text has the words: that one is the hit."""
        if row.open:
            return True
        column = "called" if KINDS[row.kind] == "call" else "said"
        question = f"SELECT {column} FROM names WHERE stream = ? AND name = ?"  # noqa: S608
        found = self._connection.execute(question, (row.stream, name_of("part", begun.part))).fetchone()
        later = None if found is None else found[0]
        while later is not None and later != row.id:
            if later > row.id and self._shows_words(session, later, viewer, last):
                return False
            later = self._connection.execute("SELECT earlier FROM texts WHERE id = ?", (later,)).fetchone()[0]
        return True

    def _shows_words(self, session: str, id: int, viewer: Viewer, last: int) -> bool:
        """Whether a row has the words, in what it says up to version `last` of its stream."""
        question = "SELECT 1 FROM words WHERE words MATCH ? AND rowid = ?"
        is_hit = self._connection.execute(question, (self._expression, id)).fetchone() is not None
        if not is_hit or last == END:
            return is_hit
        row = Row(*self._connection.execute(_ROW, (id,)).fetchone())
        read = self._read(session, row, viewer, last) if row.first <= last else None
        return read is not None and self._has_words(read[2])

    def _has_words(self, text: str) -> bool:
        return bool(matched([text], self._asked.match)[0])

    def _session(self, stream: int) -> str:
        if stream not in self._sessions:
            question = "SELECT name FROM streams WHERE id = ?"
            self._sessions[stream] = self._connection.execute(question, (stream,)).fetchone()[0]
        return self._sessions[stream]
