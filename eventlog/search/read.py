"""Texts of the index as they are in the log: cut from the events that say them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from eventlog import events as ev
from eventlog.codec.decoded import Span, spans_of
from eventlog.codec.deltas import DeltaRun
from eventlog.history.effective_history import StreamRange
from eventlog.log.contract import Log
from eventlog.search.commit_rows import deltas_of, reader_of
from eventlog.search.file import StrayRowError
from eventlog.search.said import KINDS, said_by
from eventlog.values import Tool

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


class TextReader:
    """Reads texts of a log; appends that were just read are not read again."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.damaged: set[str] = set()
        """Sessions of which a text could not be read."""
        self._spans: dict[str, list[Span]] = {}
        """Events of the append that was read last, by session."""

    def beginning(self, streams: Sequence[StreamRange], version: int) -> Beginning:
        """Return how the part that began at a version did."""
        for stream in streams:
            if stream.first <= version <= stream.last:
                span = self._span(stream.session, version)
                if span is not None and isinstance(span.item, ev.PartStarted):
                    kind = span.item.kind
                    return Beginning(span.item.message, span.item.part, kind.tool if isinstance(kind, Tool) else "")
        raise StrayRowError("the event that begins a part is missing", session=streams[-1].session, version=version)

    def text(self, session: str, row: Row, begun: Beginning, last: int) -> tuple[int, str]:
        """Return when a row's text was said, and the text as of version `last` of the stream.

        "" if it is not in the log any more.
        """
        span = self._span(session, row.first)
        if span is None:
            return 0, ""
        end = row.start + row.chars
        if isinstance(span.item, (DeltaRun, ev.PartDelta)):
            field = _FIELDS.get(KINDS[row.kind], "text")
            text = deltas_of(self._log, session, row.first, last, field=field, part=begun.part, characters=end)
            first = span.cut(row.first - 1, row.first)
            return span.time if first is None else first.time, text[row.start : end]
        text = said_by(span.item, begun.tool, reader_of(self._log, session, self.damaged.add))
        return span.time, text[row.start : end]

    def _span(self, session: str, version: int) -> Span | None:
        """Return the event of a version, or the run that it is in."""
        spans = self._spans.get(session)
        if not spans or not spans[0].first <= version <= spans[-1].last:
            commit = next(self._log.read(session, version - 1, version), None)
            spans = self._spans[session] = [] if commit is None else spans_of(commit)
            if not spans or not spans[0].first <= version <= spans[-1].last:
                return None
        return spans[bisect_right(spans, version, key=attrgetter("first")) - 1]
