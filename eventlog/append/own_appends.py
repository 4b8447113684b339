"""A handle's own accepted and newly committed events, for followers of the session.

They come from the writer's memory: nothing is read back from the log, and nothing is committed.
"""

from __future__ import annotations

from eventlog.append.pending import count_of
from eventlog.append.writer import SessionWriter
from eventlog.codec.decoded import DecodedCommit, Span
from eventlog.codec.deltas import DeltaRun

__all__ = ["recent", "uncommitted"]


def uncommitted(writer: SessionWriter, after: int) -> list[Span]:
    """Return what is accepted and not handed over, beyond version `after`.

    Versions are those the events get if nothing comes between; positions are 0.
    Waits for a thread that is deciding right now.
    """
    with writer.lock:
        committed, backlog = writer.committed, writer.backlog
        if not committed.loaded:
            return []
        version, session, epoch = committed.state.version, writer.session, backlog.epoch
        items = [item for command in backlog.commands for item in command.items]
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


def recent(writer: SessionWriter, after: int) -> list[DecodedCommit] | None:
    """Return the appends beyond version `after`, if this writer made all of them not long ago.

    None if they are to be read from the log, or if something is accepted, which a reader commits
    first.
    """
    with writer.lock:
        backlog, committed = writer.backlog, writer.committed
        backlog.is_followed = True
        if writer.is_ahead or not committed.loaded or backlog.failure is not None:
            return None
        version = committed.certain
        newer: list[DecodedCommit] = []
        for decoded in reversed(backlog.recent):
            if decoded.last != version or version <= after:
                break
            newer.append(decoded)
            version = decoded.first - 1
        head = writer.log.head(writer.session) if newer and version == after else None
        return newer[::-1] if head is not None and head.version == committed.certain else None
