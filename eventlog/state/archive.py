"""Archive of the facts of older messages: packed, and found by id.

`fact_store.py` decides which messages are archived, and when.

* Those archived since the newest checkpoint are *cold*: packed one by one, in memory.
* The others lie in stored rows (`stored_facts.py`), which are read one by one when an id is asked
  for. A checkpoint adds the cold ones there.
* A message that was restored and changed is archived again; the newest row of its id counts.
* The greatest id of each length is known: one comparison shows that an id which grows with time is
  new, also beside ids of another program.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from eventlog.history.derived import found
from eventlog.state.chunk import Row, decode_row, encode_row
from eventlog.state.run import new_modulus
from eventlog.state.stored_facts import Growth, Source, StoredArchive, StoredFacts, StoredRows, grown


class FactArchive:
    """The archived facts of one session.  Not safe across threads: its owner has a lock."""

    __slots__ = ("_cold", "_grown", "_messages", "_modulus", "greatest", "stored")

    def __init__(self, stored: StoredFacts | None = None, modulus: int = 0) -> None:
        self.stored = stored
        """The rows stored before, None if there are none."""
        self._modulus = modulus or new_modulus()
        """That of the session's own stored archive, if it has one."""
        self.greatest: dict[int, str] = {}
        """No message or part has a greater id of the same length."""
        self._grown: StoredArchive | None = None
        """The archive that `growth` returned last."""
        self._cold: dict[str, bytes] = {}
        """The rows that are not stored, by message, in the order of archiving."""
        self._messages: dict[str, str] = {}
        """The message of each of their parts."""

    def __bool__(self) -> bool:
        return bool(self._cold) or self.stored is not None

    def __iter__(self) -> Iterator[Row]:
        """The newest facts of every message, the oldest first."""
        newest: dict[str, Row] = {}
        if self.stored is not None:
            newest = found(lambda: {row[0]: row for row in self.stored or ()}, self._rebuild)
        newest.update((row[0], row) for row in map(decode_row, self._cold.values()))
        return iter(newest.values())

    def add(self, rows: Iterable[Row]) -> None:
        """Archive some messages."""
        for row in rows:
            message, facts = row
            self._cold[message] = encode_row(row)
            self._messages.update(dict.fromkeys(facts.parts, message))
            for key in (message, *facts.parts):
                self.greatest[len(key)] = max(key, self.greatest.get(len(key), ""))

    def is_greatest(self, key: str) -> bool:
        """Whether an id is greater than all archived ones of its length: so it is none of them."""
        return key > self.greatest.get(len(key), "")

    def find(self, key: str) -> Row | None:
        """Find the message of this id, or with a part of this id, as it was archived last.

        The caller may change the row.
        """
        return found(self._find, self._rebuild, key)

    def growth(self, session: str) -> Growth:
        """Return what a checkpoint of a session stores, so that all of the archive is stored."""
        growth = found(
            lambda: grown(self.stored, session, map(decode_row, self._cold.values()), self._modulus), self._rebuild
        )
        self._grown = growth.archive
        return growth

    def mark_stored(self, rows: StoredRows, source: Source) -> None:
        """Note that what `growth` returned last is stored as the archive of a session."""
        if self._grown is None:  # a reader has archived it anew since: the next checkpoint stores it
            return
        if self.stored is None:
            self.stored = StoredFacts(rows, [])
        self.stored.grow(rows, source, self._grown)
        self._cold, self._messages = {}, {}

    def _find(self, key: str) -> Row | None:
        cold = self._cold.get(key) or self._cold.get(self._messages.get(key, ""))
        if cold is not None:
            return decode_row(cold)
        return None if self.stored is None else self.stored.find(key)

    def _rebuild(self) -> None:
        """Archive anew what was stored and is lost, from a replay."""
        assert self.stored is not None
        stored, newer, self.stored, self._grown = self.stored, self._cold, None, None
        self._cold = {}
        self.add(stored.rows.replayed(stored.upto).facts.all_messages())
        self._cold.update(newer)
