"""Feed of a framework, which takes odd values; its mapping sees their shown form."""

from __future__ import annotations

from typing import Any

from eventlog.adapters.odd_values import record_of, shown_in, value_of
from eventlog.importers.common.builder import RecordBuilder, RecordMapping
from eventlog.records.feed import Feed
from eventlog.records.unseen import Seen

__all__ = ["FrameworkFeed", "Showing"]


class FrameworkFeed(Feed):
    """The records of a framework's session."""

    def record_of(self, value: Any) -> Any:
        """Return the record of a value, packed if it is odd."""
        return record_of(value)

    def seen(self, after: int) -> Seen | None:
        """Return that the model was sent the records up to the one that answers come behind."""
        return Seen(after)

    def value_of(self, record: Any) -> Any:
        """Return the value that was told as a record."""
        return value_of(record)


class Showing:
    """A mapping of records, whichever of them are odd."""

    def __init__(self, mapping: RecordMapping) -> None:
        self._mapping = mapping
        self.format: str = mapping.format

    def read(self, record: Any, to: RecordBuilder) -> None:
        """Tell what a record means, as far as it can be shown."""
        self._mapping.read(shown_in(record), to)
