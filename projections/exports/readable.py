"""For exports that people read: messages in order, facts of a session, marks.

Transcripts are read from the end. So a text waits in a temporary file until all before it are told.
"""

from __future__ import annotations

from collections.abc import Iterator
from tempfile import TemporaryFile
from typing import BinaryIO

from eventlog.session.session import Session
from eventlog.session.status import state_of
from projections.reports.usage import cost_words, own_total
from projections.reports.wording import counted, moment
from projections.transcript.message import TranscriptMessage, TranscriptPart
from projections.transcript.transcript import Transcript

SILENT = frozenset(("step-start", "step-finish", "snapshot"))
"""Kinds of parts that are omitted."""


def backwards(texts: Iterator[str]) -> Iterator[str]:
    """Yield the texts in reverse; one of them is in memory at a time."""
    with TemporaryFile() as file:
        places: list[tuple[int, int]] = []
        for text in texts:
            data = text.encode()
            places.append((file.tell(), len(data)))
            file.write(data)
        yield from (_read(file, *place) for place in reversed(places))


def _read(file: BinaryIO, start: int, size: int) -> str:
    file.seek(start)
    return file.read(size).decode()


def own_messages(session: Session, base: int) -> Iterator[TranscriptMessage]:
    """Yield the messages that began after version `base`, newest first."""
    for message in Transcript(session).newest_first():
        if message.version <= base:
            return
        yield message


def facts(session: Session) -> dict[str, str]:
    """Return what the head of an export says; a cost that is not recorded takes a pass."""
    info, head = session.info, session.store.log.head(session.id)
    cost = f"${info.spent}" if info.spent is not None else ""
    state = "" if head is None else state_of(session.store.registry, head, info)
    found = {
        "session": info.id,
        "scope": info.scope,
        "directory": info.directory,
        "agent": info.agent,
        "sub-session of": info.parent or "",
        "fork of": f"{info.fork_of} at version {info.forked_at}" if info.fork_of else "",
        "imported from": f"{info.origin.format} {info.origin.foreign_id}" if info.origin else "",
        "begun": when(info.created),
        "last activity": when(info.updated),
        "size": f"{counted(info.messages, 'message')}, {counted(info.events, 'event')}",
        "tokens": f"{info.tokens:,}" if info.tokens else "",
        "cost": cost_words(own_total(session), session.store.host.models.date) if info.unpriced else cost,
        "state": state if state in {"running", "unfinished", "asked"} else "",
        "archived": "yes" if info.archived else "",
    }
    return {name: value for name, value in found.items() if value}


def marks(message: TranscriptMessage) -> list[str]:
    """Return what became of a message."""
    found = [name for name in ("synthetic", "removed", "summary") if getattr(message, name)]
    found += ["covered by a compaction"] if message.covered else []
    return found + (["unfinished"] if message.role == "assistant" and message.finished is None else [])


def description(part: TranscriptPart) -> str:
    """Return a part that is neither text nor a call in words."""
    return " ".join(word for word in (part.title, part.mime, part.filename or "", part.text) if word)


def when(milliseconds: int) -> str:
    """Return a time in UTC; "" if it is not known."""
    return moment(milliseconds, zone=" UTC", unknown="")
