"""Texts of the index as they are in the log: cut from the events that say them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from eventlog import events as ev
from eventlog.codec.deltas import DeltaRun
from eventlog.errors import DamagedError
from eventlog.history.lineage import StreamRange
from eventlog.history.streams import stream_spans
from eventlog.log.contract import Log
from eventlog.search.said import KINDS, said_by
from eventlog.search.update import deltas_of, reader_of
from eventlog.values import Tool

__all__ = ["Beginning", "Row", "beginning", "text_of"]

_FIELDS = {"call": "input", "result": "output"}


class Row(NamedTuple):
    """A text, or a piece of one, that the index has."""

    id: int
    stream: int
    kind: int
    begun: int
    first: int
    start: int
    chars: int
    open: bool = False
    """Whether it still streams, so that the index has no words of it."""

    @property
    def whole(self) -> tuple[int, int, int]:
        """Stream, kind and beginning, which all pieces of one text share."""
        return self.stream, self.kind, self.begun


class Beginning(NamedTuple):
    """How a part began."""

    message: str
    part: str
    tool: str


def beginning(log: Log, streams: Sequence[StreamRange], version: int) -> Beginning:
    """Return how the part that began at a version did."""
    for stream in streams:
        if stream.first <= version <= stream.last:
            for span in stream_spans(log, stream.session, version - 1, version):
                if isinstance(span.item, ev.PartStarted):
                    kind = span.item.kind
                    return Beginning(span.item.message, span.item.part, kind.tool if isinstance(kind, Tool) else "")
    raise DamagedError("the event that begins a part is missing", session=streams[-1].session, version=version)


def text_of(log: Log, session: str, row: Row, begun: Beginning) -> tuple[int, str]:
    """Return when a row's text was said, and the text; "" if it is not in the log any more."""
    for span in stream_spans(log, session, row.first - 1, row.first):
        end = row.start + row.chars
        if isinstance(span.item, (DeltaRun, ev.PartDelta)):
            field = _FIELDS.get(KINDS[row.kind], "text")
            text = deltas_of(log, session, row.first, field=field, part=begun.part, characters=end)
        else:
            text = said_by(span.item, begun.tool, reader_of(log, session))
        return span.time, text[row.start : end]
    return 0, ""
