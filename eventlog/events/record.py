"""Events that keep records of frameworks, data of imports, and facts of an embedder."""

from __future__ import annotations

from eventlog.events.base import Base
from eventlog.values import Content, Json

__all__ = ["Custom", "ForeignKept", "RecordForgotten", "RecordKept"]

# -- records: not undone -------------------------------------------------------------------------


class RecordKept(Base, frozen=True, array_like=True, tag="rk"):
    """A record ends here: `events` before it say what it means, `rest` has what is left.

    The version of this event is the record's number. `rest` is JSON, with null in place of what
    these events have; `moved` says where that is (`records/read.py`).
    """

    format: str
    rest: Content
    events: int = 0
    moved: Content = ""


class RecordForgotten(Base, frozen=True, array_like=True, tag="rf"):
    """The events in these ranges of versions must not be shown any more, in any view.

    They are those of records, with their ends; first and last version of each range, ascending.
    """

    ranges: tuple[tuple[int, int], ...]


# -- beside the conversation ---------------------------------------------------------------------


class ForeignKept(Base, frozen=True, array_like=True, tag="fk"):
    """Data of an imported record that no other event has, kept for exports.

    `of` is "session", "line:N", or the id of a message or part.
    """

    of: str
    data: Content


class Custom(Base, frozen=True, array_like=True, tag="cx"):
    """An embedder's own fact; undone by rollback like the messages around it."""

    namespace: str
    data: Json
