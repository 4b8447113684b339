"""Feed of a framework, which takes odd values; its mapping sees their shown form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eventlog.adapters.odd_values import shown_in, told, value_of
from eventlog.importers.common.builder import RecordBuilder, RecordMapping
from eventlog.records.feed import Feed
from eventlog.records.read import Forgotten, Redacted
from eventlog.records.unseen import Seen


class FrameworkFeed(Feed):
    """The records of a framework's session."""

    def record_of(self, value: Any) -> Any:
        """Return the record of a value, packed if it is odd."""
        return told(value)[0]

    def _with_text(self, value: Any) -> tuple[Any, str]:
        return told(value)

    def seen(self, after: int) -> Seen | None:
        """Return that the model was sent the records up to the one that answers come behind."""
        return Seen(after)

    def value_of(self, record: Any) -> Any:
        """Return the value that was told as a record."""
        return value_of(record)

    def shown(self, numbers: Sequence[int]) -> list[tuple[int, Any]]:
        """Return records with their numbers, without those that were redacted or forgotten."""
        found = zip(numbers, self.read(numbers), strict=True)
        return [(number, value) for number, value in found if not isinstance(value, (Redacted, Forgotten))]


class Showing:
    """A mapping of records, whichever of them are odd."""

    def __init__(self, mapping: RecordMapping) -> None:
        self._mapping = mapping
        self.format: str = mapping.format

    def read(self, record: Any, to: RecordBuilder) -> None:
        """Tell what a record means, as far as it can be shown."""
        self._mapping.read(shown_in(record), to)
