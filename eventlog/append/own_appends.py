"""What a handle has accepted and committed itself, for those who follow the session.

Nothing is read back from the log for that, and nothing is handed over.
"""

from __future__ import annotations

from eventlog.append.pending import count_of
from eventlog.append.writer import SessionWriter
from eventlog.codec.decoded import DecodedCommit, Span
from eventlog.codec.deltas import DeltaRun

__all__ = ["recent", "uncommitted"]

KEPT_BYTES = 1 << 14
"""Encoded bytes of the largest append that is kept decoded."""


def uncommitted(writer: SessionWriter, after: int) -> list[Span]:
    """What is accepted and not handed over, beyond version `after`.

    It is told as it will be if nothing comes between; positions are 0.
    Waits for a thread that is deciding right now, and takes nothing away.
    """
    with writer.lock:
        if not writer.committed.loaded or writer.backlog.torn:
            return []
        version = writer.committed.state.version
        items = [item for command in writer.backlog.commands for item in command.items]
        first = version - count_of(items) + 1
        found: list[Span] = []
        for item in items:
            event = item if isinstance(item, DeltaRun) else item[1]
            time = item.start if isinstance(item, DeltaRun) else item[0]
            span = Span(writer.session, first, 0, time, writer.backlog.epoch, event)
            found.append(span)
            first = span.last + 1
        seen = max(after - version, 0)
        if streamed := writer.buffer.peek(seen):
            found.append(Span(writer.session, version + seen + 1, 0, streamed.start, writer.backlog.epoch, streamed))
        beyond = (span.cut(after, None) for span in found)
        return [span._replace(position=0) for span in beyond if span is not None]


def recent(writer: SessionWriter, after: int) -> list[DecodedCommit] | None:
    """The appends beyond version `after`, if this writer made all of them and not long ago.

    None: they are to be read.
    Hands nothing over, so it is quick; it says None if anything waits to be.
    """
    with writer.lock:
        writer.backlog.followed = True
        if writer.backlog.torn or writer.buffer.flat or writer.backlog.commands or writer.backlog.failure is not None:
            return None
        if writer.backlog.sent is not None:
            if not writer.backlog.sent.is_done():
                return None
            writer.catch_up()
        found: list[DecodedCommit] = []
        version = writer.committed.certain
        for sent in reversed(writer.backlog.landed):
            if sent.last != version or version <= after or len(sent.append.payload) > KEPT_BYTES:
                break
            version = sent.first - 1
            found.append(
                DecodedCommit(writer.session, sent.first, sent.last, sent.position, sent.append.epoch, sent.batch)
            )
        if not found or version != after:
            return None
        newest = found[0]
        if writer.log.last_position() != newest.position + newest.last - newest.first:  # another append, somewhere
            head = writer.log.head(writer.session)
            if head is None or head.version != writer.committed.certain:
                return None
        found.reverse()
        return found
