"""Export sessions as an SQLite file that people query.

Sessions, messages, parts, calls, usage and events are tables; large texts are in them whole. Lone
surrogates become U+FFFD. Money is text, so that no cent is lost. The export is for reading: event
JSONL is what an importer takes.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from eventlog import events as ev
from eventlog.codec.decoded import Recorded
from eventlog.codec.deltas import DeltaRun
from eventlog.codec.redaction import blank, untitled
from eventlog.errors import AlreadyExistsError, DamagedError
from eventlog.events import LASTING
from eventlog.history.ancestry import forked_from
from eventlog.history.catalog import TITLES, entry_of
from eventlog.history.forgotten import untitled_ranges
from eventlog.history.ranges import covers
from eventlog.logger import logger
from eventlog.search.file import sqlite_errors
from eventlog.session.session import Session
from projections.exports.readable import own_messages
from projections.reports.event_json import event_record
from projections.reports.usage import UsageTotals, own_total
from projections.reports.wording import DAY
from projections.requests.text import sendable
from projections.transcript.message import TranscriptMessage, TranscriptPart

__all__ = ["write_sqlite"]

_TABLES = """
CREATE TABLE sessions (
    id TEXT PRIMARY KEY, title TEXT NOT NULL, scope TEXT NOT NULL, directory TEXT NOT NULL, agent TEXT NOT NULL,
    parent TEXT, fork_of TEXT, forked_at INTEGER, created TEXT, updated TEXT, version INTEGER NOT NULL,
    messages INTEGER NOT NULL, calls INTEGER NOT NULL, tokens INTEGER NOT NULL, cost TEXT, unpriced INTEGER NOT NULL,
    estimate TEXT, archived INTEGER NOT NULL,
    origin_format TEXT, origin_id TEXT, name TEXT, note TEXT NOT NULL
);
CREATE TABLE messages (
    session TEXT NOT NULL REFERENCES sessions (id), id TEXT NOT NULL, version INTEGER NOT NULL, role TEXT NOT NULL,
    created TEXT, finished TEXT, agent TEXT NOT NULL, model TEXT, reason TEXT, error TEXT, synthetic INTEGER NOT NULL,
    summary INTEGER NOT NULL, removed INTEGER NOT NULL, covered_by TEXT, PRIMARY KEY (session, id)
);
CREATE TABLE parts (
    session TEXT NOT NULL, message TEXT NOT NULL, id TEXT NOT NULL, place INTEGER NOT NULL, kind TEXT NOT NULL,
    text TEXT NOT NULL, title TEXT NOT NULL, mime TEXT NOT NULL, filename TEXT, synthetic INTEGER NOT NULL,
    removed INTEGER NOT NULL, redacted INTEGER NOT NULL, pruned INTEGER NOT NULL, open INTEGER NOT NULL,
    PRIMARY KEY (session, id), FOREIGN KEY (session, message) REFERENCES messages (session, id)
);
CREATE TABLE calls (
    session TEXT NOT NULL, part TEXT NOT NULL, message TEXT NOT NULL, call TEXT NOT NULL, tool TEXT NOT NULL,
    title TEXT NOT NULL, status TEXT NOT NULL, input TEXT NOT NULL, output TEXT NOT NULL, error TEXT NOT NULL,
    attachments TEXT NOT NULL, arguments_pruned INTEGER NOT NULL, started TEXT, ended TEXT, answered_by TEXT, PRIMARY KEY (session, part),
    FOREIGN KEY (session, part) REFERENCES parts (session, id)
);
CREATE TABLE usage (
    session TEXT NOT NULL REFERENCES sessions (id), version INTEGER NOT NULL, time TEXT, message TEXT, purpose TEXT NOT NULL,
    model TEXT, input INTEGER NOT NULL, output INTEGER NOT NULL, reasoning INTEGER NOT NULL, cache_read INTEGER NOT NULL,
    cache_write INTEGER NOT NULL, total INTEGER, cost TEXT, estimate TEXT, failed INTEGER NOT NULL,
    more INTEGER NOT NULL,
    PRIMARY KEY (session, version)
);
CREATE TABLE events (
    session TEXT NOT NULL REFERENCES sessions (id), version INTEGER NOT NULL, time TEXT, kind TEXT NOT NULL,
    effective INTEGER NOT NULL, data TEXT NOT NULL, PRIMARY KEY (session, version)
);
CREATE INDEX calls_by_tool ON calls (tool);
CREATE INDEX events_by_kind ON events (kind);
"""
_RAN = """UPDATE calls SET started = coalesce(started, ?), ended = coalesce(?, ended),
    answered_by = coalesce(?, answered_by) WHERE part = ? AND session = ?"""


def write_sqlite(sessions: Iterable[Session], path: Path, *, inherited: bool) -> None:
    """Write sessions into a new file; `inherited` includes the history that a fork inherited.

    Without it a fork has what was said in it, and the rest is that of its parent, and a damaged
    session is left out with a warning.
    """
    if path.exists() and path.stat().st_size:
        raise AlreadyExistsError("file", str(path))
    path.touch()  # says why it cannot be made, which SQLite does not
    with sqlite_errors(str(path)), closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = OFF")  # an unfinished file is thrown away
        connection.execute("PRAGMA synchronous = OFF")
        connection.executescript(f"BEGIN;{_TABLES}")
        for session in sessions:
            try:
                _write(connection, session, 0 if inherited else session.version - session.info.events)
            except DamagedError:
                if inherited:
                    raise
                for table in ("messages", "parts", "calls", "usage", "events"):
                    connection.execute(f"DELETE FROM {table} WHERE session = ?", (session.id,))  # noqa: S608
                connection.execute("DELETE FROM sessions WHERE id = ?", (session.id,))
                logger().warning("a damaged session is left out; `eventlog verify` names it")
        connection.execute("COMMIT")
        connection.execute("ANALYZE")


def _write(connection: sqlite3.Connection, session: Session, base: int) -> None:
    name, version = session.id, session.version
    messages = 0
    for message in own_messages(session, base):
        messages += not message.removed
        _insert(connection, "messages", _message(name, message))
        for place, part in enumerate(message.parts, 1):
            _insert(connection, "parts", _part(name, message.id, place, part))
            if part.kind == "tool":
                _insert(connection, "calls", _call(name, message.id, part))
    _insert(connection, "sessions", _session(session, messages))
    effective = session.reader.effective_ranges(version)
    redacted = {part for head, _ in forked_from(session.store.log, name) for part in entry_of(head).redacted} - {TITLES}
    hidden = untitled_ranges(session.store.log, session.reader.ancestry())
    for recorded in session.events(base, version):
        shown = untitled(recorded.event) if covers(hidden, recorded.version) else recorded.event
        event = blank(shown, redacted, digests=False)
        assert not isinstance(event, DeltaRun)
        record = event_record(replace(recorded, event=event))
        counts = isinstance(event, LASTING) or covers(effective, recorded.version)
        data = json.dumps(record["event"], ensure_ascii=False)
        time = _time(recorded.time)
        _insert(connection, "events", (name, recorded.version, time, record["kind"], counts, data))
        if isinstance(event, ev.UsageRecorded):
            _insert(connection, "usage", _usage(session, recorded, event))
        if counts and (ran := _ran(time, event)) is not None:
            connection.execute(_RAN, (*ran, name))


def _insert(connection: sqlite3.Connection, table: str, row: tuple[Any, ...]) -> None:
    places = ", ".join("?" * len(row))
    clean = [sendable(cell) if isinstance(cell, str) else cell for cell in row]
    connection.execute(f"INSERT INTO {table} VALUES ({places})", clean)  # noqa: S608  # no caller's text


def _session(session: Session, messages: int) -> tuple[Any, ...]:
    info = session.info
    origin, name = info.origin, info.name
    sums = own_total(session) if info.unpriced else UsageTotals()
    return (
        info.id, info.title, info.scope, info.directory, info.agent, info.parent, info.fork_of, info.forked_at,
        _time(info.created), _time(info.updated), info.version, messages, info.calls, info.tokens,
        None if info.spent is None else str(info.spent), info.unpriced,
        str(sums.estimate) if sums.estimated else None, info.archived,
        None if origin is None else origin.format, None if origin is None else origin.foreign_id,
        None if name is None else ":".join(name), info.note,
    )  # fmt: skip


def _message(session: str, message: TranscriptMessage) -> tuple[Any, ...]:
    error = message.error
    return (
        session, message.id, message.version, message.role, _time(message.created), _time(message.finished),
        message.agent, None if message.model is None else str(message.model), message.reason,
        None if error is None else f"{error.name}: {error.message}", message.synthetic, message.summary,
        message.removed, message.covered,
    )  # fmt: skip


def _part(session: str, message: str, place: int, part: TranscriptPart) -> tuple[Any, ...]:
    return (
        session, message, part.id, place, part.kind, part.text, part.title, part.mime, part.filename, part.synthetic,
        part.removed, part.redacted, part.pruned, part.open,
    )  # fmt: skip


def _call(session: str, message: str, part: TranscriptPart) -> tuple[Any, ...]:
    return (
        session, part.id, message, part.call, part.tool, part.title,
        "interrupted" if part.interrupted else part.status, part.input, part.text, part.error,
        "\n".join(part.attachments), part.arguments_pruned, None, None, None,
    )  # fmt: skip


def _ran(time: str | None, event: ev.Event) -> tuple[Any, ...] | None:
    """Return what an event says of the run of a call, for `_RAN`."""
    match event:
        case ev.ToolRunning():
            return time, None, None, event.part
        case ev.ToolCompleted() | ev.ToolFailed():
            return None, time, None, event.part
        case ev.CallAnswered():
            return None, None, event.by or None, event.part
        case _:
            return None


def _usage(session: Session, recorded: Recorded, event: ev.UsageRecorded) -> tuple[Any, ...]:
    tokens, cost = event.usage.tokens, event.usage.cost
    price = None if cost is not None else session.store.host.models.price(event.model, tokens)
    return (
        session.id, recorded.version, _time(recorded.time), event.message, event.purpose,
        None if event.model is None else str(event.model), tokens.input, tokens.output, tokens.reasoning,
        tokens.cache_read, tokens.cache_write, tokens.total, None if cost is None else str(cost),
        None if price is None else str(price.cost), event.failed, event.more,
    )  # fmt: skip


def _time(milliseconds: int | None) -> str | None:
    """Return a time as SQLite and others understand it, in UTC; None if it is not known."""
    if milliseconds is None or 0 <= milliseconds < DAY:
        return None
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    except (ValueError, OverflowError, OSError):
        return None
