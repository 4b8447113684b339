"""A handle's own accepted and newly committed events, for followers of the session.

They come from the writer's memory: nothing is read back from the log, and nothing is committed.
"""

from __future__ import annotations

from collections.abc import Iterable

from eventlog.append.command import count_of
from eventlog.append.writer import SessionWriter
from eventlog.codec.decoded import DecodedCommit, Span
from eventlog.codec.deltas import DeltaRun


def uncommitted(writer: SessionWriter, after: int) -> list[Span]:
    """Return what is accepted and not handed over, beyond version `after`.

    Versions are those the events get if nothing comes between; positions are 0.
    Waits for a thread that is deciding right now.
    """
    with writer.lock:
        committed, queue = writer.committed, writer.queue
        if not committed.loaded:
            return []
        version, session, epoch = committed.state.version, writer.session, queue.epoch
        items = [item for command in queue.commands for item in command.items]
        first = version - count_of(items) + 1
        spans: list[Span] = []
        for item in items:
            time, event = (item.start, item) if isinstance(item, DeltaRun) else item
            span = Span(session, first, 0, time, epoch, event)
            spans.append(span)
            first = span.last + 1
        seen = max(after - version, 0)
        if streamed := writer.buffer.peek(seen):
            spans.append(Span(session, version + seen + 1, 0, streamed.start, epoch, streamed))
        beyond = (span.cut(after, None) for span in spans)
        return [span._replace(position=0) for span in beyond if span is not None]


def recent(writer: SessionWriter, after: int, upto: int | None = None) -> list[DecodedCommit] | None:
    """Return the appends of versions `after + 1 .. upto`; None unless all are recent and here.

    None if they are to be read from the log, or if something is accepted, which a reader commits
    first.
    """
    with writer.lock:
        queue, committed = writer.queue, writer.committed
        queue.is_followed = True
        ahead = writer.buffer.flat or queue.commands or queue.sent
        if ahead or not queue.recent or not committed.loaded or queue.failure is not None:
            return None
        newest = queue.recent[-1]
        if newest.last != committed.certain or (upto is not None and upto < newest.last):
            return None
        newer = [newest] if newest.first == after + 1 else _since(queue.recent, after)
        with writer.log.reading() as heads:
            head = heads.head(writer.session) if newer else None
        return newer if head is not None and head.version == newest.last else None


def _since(recent: Iterable[DecodedCommit], after: int) -> list[DecodedCommit]:
    """Return the appends beyond version `after`; none unless all of them are there."""
    newer: list[DecodedCommit] = []
    for decoded in recent:
        if newer and decoded.first != newer[-1].last + 1:
            newer = []
        if newer or decoded.first == after + 1:
            newer.append(decoded)
    return newer
