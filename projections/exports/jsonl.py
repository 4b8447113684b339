"""Export sessions as event JSONL, without loss; the importer `event_jsonl` reads it.

`eventlog/importers/event_jsonl/reader.py` describes the format. At most one append or one body is
in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from eventlog.codec.decoded import events_of
from eventlog.codec.deltas import DeltaRun
from eventlog.codec.large_texts import BYTES
from eventlog.codec.redaction import blank_all, bodies_of
from eventlog.events import SCHEMA
from eventlog.history.ranges import covers
from eventlog.importers.event_jsonl.reader import VERSION, line_of
from eventlog.integrity.fork_anchor import portable
from eventlog.log.commit import Commit
from eventlog.session.session import Session, Sessions
from eventlog.values import Body
from projections.reports.session_tree import ExportRange, export_ranges

__all__ = ["jsonl_lines"]

LINE_EVENTS = 1_000
"""Events in a line, at most; a larger append continues on the next line."""
LINE_CHARACTERS = 1 << 20
"""Characters of a body, or bytes of one that is no text, in a line, at most."""


def jsonl_lines(session: Session, *, tree: bool = False) -> Iterator[bytes]:
    """Yield the lines of the file as bytes, each with its line feed.

    The sessions that this one was forked from come before it, up to what it inherits. `tree`
    includes its forks and sub-sessions, and theirs. Raises `DamagedError` where the store cannot be
    read.
    """
    sessions = events = 0
    yield line_of({"eventlog": VERSION, "schema": SCHEMA})
    for member in export_ranges(session, tree=tree):
        sessions += 1
        for line, count in _stream(member):
            events += count
            yield line
    yield line_of({"end": {"sessions": sessions, "events": events}})


def _stream(member: ExportRange) -> Iterator[tuple[bytes, int]]:
    """Yield the lines of one session, each with its number of events."""
    session, upto = member
    base = session.version - session.info.events
    yield line_of({"session": session.id, "first": base + 1}), 0
    written: set[bytes] = set()
    for commit in session.store.log.read(session.id, base, upto):
        yield from _append(session, commit, base, upto, written)


def _append(session: Session, commit: Commit, base: int, upto: int, written: set[bytes]) -> Iterator[tuple[bytes, int]]:
    """Yield the lines of one append: its new bodies, then its events.

    The events of forgotten versions have no content.
    """
    store, forgotten = session.store, session.reader.forgotten()
    first = commit.first
    entries: list[tuple[int, object]] = []
    time = 0
    for recorded in events_of(commit, base, upto):
        if not entries:
            time = recorded.time
        elif len(entries) == LINE_EVENTS:
            yield line_of({"version": first, "time": time, "events": entries, "more": True}), len(entries)
            first, entries, time = recorded.version, [], recorded.time
        event = blank_all(recorded.event) if covers(forgotten, recorded.version) else recorded.event
        assert not isinstance(event, DeltaRun)
        for body in bodies_of(event):
            if body.digest not in written:
                written.add(body.digest)
                yield from ((line, 0) for line in _body(store, commit.session, body))
        entries.append((recorded.time - time, portable(event)))
    if entries:
        line: dict[str, Any] = {"version": first, "time": time, "events": entries}
        if commit.request is not None:
            line["request"] = commit.request
        yield line_of(line), len(entries)


def _body(store: Sessions, session: str, body: Body) -> Iterator[bytes]:
    content = store.host.data(body, session) if body.characters == BYTES else store.text(body, session)
    field = "data" if body.characters == BYTES else "text"
    for start in range(0, len(content), LINE_CHARACTERS) or (0,):
        line: dict[str, Any] = {"body": body.digest.hex(), field: content[start : start + LINE_CHARACTERS]}
        if start + LINE_CHARACTERS < len(content):
            line["more"] = True
        yield line_of(line)
