"""Short ids: the beginning or the end of an id that is enough to name it.

A word names the id that it is, or the session of this name, as *format:key*. One of at least six
characters names the only id that begins with it, else the only one that ends with it. Ids that are
made here differ at their ends; those of other programs at either side. A number names a version,
and no message or part by a piece of its id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

from projections.cli import output
from projections.cli.exits import Fault

if TYPE_CHECKING:
    from eventlog import Session, Store
    from projections.transcript.message import TranscriptMessage
    from projections.window.retrieval.covered import CoveredMessage

LEAST = 6
"""Characters of the shortest piece of an id that names it."""
_LISTED = 5
"""How many candidates the error for an ambiguous word lists."""
_SHORTEST = 8
"""Characters of the shortest id that is shown."""
_GAINED = 4
"""Characters that a short id must save."""
_MANY = 20_000
"""Ids from which on each is shown whole: to compare so many takes too long."""


class ShortIds:
    """The shortest names of some ids that are unique among all."""

    def __init__(self, ids: Iterable[str]) -> None:
        self._ids: set[str] = set()
        self._known: dict[str, int] = {}
        for name in islice(ids, _MANY):
            if name in self._ids:
                continue
            self._ids.add(name)
            for short in {name[-_SHORTEST:], name[:_SHORTEST], name[-2 * _SHORTEST :]}:
                self._known[short] = self._known.get(short, 0) + 1

    def of(self, name: str) -> str:
        """Return the end of the id if that is unique, else its beginning, else all of it."""
        if len(name) <= _SHORTEST + _GAINED:
            return name
        for short in (name[-_SHORTEST:], name[:_SHORTEST], name[-2 * _SHORTEST :]):
            unique = self._known.get(short) == 1 and short not in self._ids
            if unique and len(self._ids) < _MANY and not is_number(short):
                return short
        return name

    def cell(self, name: str) -> output.Cell:
        """Return the id as a cell of a table."""
        return output.Cell(name, self.of(name))


def short_ids_of(messages: Iterable[TranscriptMessage | CoveredMessage]) -> ShortIds:
    """Return short names of the messages and their parts."""
    return ShortIds(name for message in messages for name in (message.id, *(part.id for part in message.parts)))


def session_of(store: Store, word: str) -> Session:
    """Return the session that a word names.

    Where several ids begin with it, the shortest is meant if all others begin with that, as those
    of sidechains do; else a `Fault` lists the candidates.
    """
    from eventlog.errors import NotFoundError

    format, _, key = word.partition(":")
    if key and store.log.head(word) is None:
        with suppress(NotFoundError):
            return store.open_session((format, key), create=False)
    if store.log.head(word) is not None or len(word) < LEAST:
        return store.session(word)
    how, found = "begins", list[str]()
    for info in store.sessions(after=word):
        if not info.id.startswith(word):
            break
        found.append(info.id)
        if len(found) > _LISTED and not info.id.startswith(found[0]):
            break
    if not found:
        how, found = "ends", [info.id for info in store.sessions() if info.id.endswith(word)]
    return store.session(_only(found, f"session {how}", word) or word)


def part_named(session: Session, word: str) -> str:
    """Return the id of the message or part that a word names, else the word itself.

    A note says which id a piece of it stands for.
    """
    if is_part(session, word) or len(word) < LEAST or is_number(word):
        return word
    ids = list(dict.fromkeys(_ids_in(session)))
    for how, is_match in (("begins", str.startswith), ("ends", str.endswith)):
        found = [name for name in ids if is_match(name, word)]
        if found:
            name = _only(found, f"message or part {how}", word) or word
            output.note(f"{word} is taken for {name}")
            return name
    return word


def is_part(session: Session, name: str) -> bool:
    """Return whether a message or part has this very id."""
    from eventlog.errors import NotFoundError

    try:
        session.reader.find(name)
    except NotFoundError:
        return False
    return True


def is_number(word: str) -> bool:
    """Return whether a word is a number, which names a version."""
    return word.isascii() and word.isdecimal()


def _only(found: list[str], what: str, word: str) -> str | None:
    """Return the one that is found, or that all others begin with; raises `Fault`."""
    if not all(other.startswith(found[0]) for other in found):
        from eventlog.errors.base import brief

        listed = ", ".join(found[:_LISTED]) + (", …" if len(found) > _LISTED else "")
        raise Fault(f"more than one {what} with {brief(word)}: {listed}; give more of the id")
    return found[0] if found else None


def _ids_in(session: Session) -> Iterator[str]:
    """Yield the ids of the messages and parts of a session, those that a rollback hides, too."""
    from eventlog import events as ev
    from eventlog.codec.deltas import DeltaRun

    for span in session.reader.spans(upto=session.version):
        match span.item:
            case DeltaRun():
                continue
            case ev.UserMessageAdded() | ev.AssistantMessageStarted():
                yield span.item.message
            case ev.PartStarted() | ev.StepStarted() | ev.CompactionRequested():
                yield span.item.part
            case _:
                continue
