"""Texts in reverse, from a temporary file: transcripts are read from the end."""

from __future__ import annotations

from collections.abc import Iterator
from tempfile import TemporaryFile
from typing import BinaryIO

from eventlog.session.session import Session
from projections.transcript.message import TranscriptMessage
from projections.transcript.transcript import Transcript


def backwards(texts: Iterator[str]) -> Iterator[str]:
    """Yield the texts in reverse; one of them is in memory at a time."""
    with TemporaryFile() as file:
        places: list[tuple[int, int]] = []
        for text in texts:
            data = text.encode()
            places.append((file.tell(), len(data)))
            file.write(data)
        yield from (_read(file, *place) for place in reversed(places))


def own_messages(session: Session, base: int) -> Iterator[TranscriptMessage]:
    """Yield the messages that began after version `base`, newest first."""
    for message in Transcript(session).newest_first():
        if message.version <= base:
            return
        yield message


def _read(file: BinaryIO, start: int, size: int) -> str:
    file.seek(start)
    return file.read(size).decode()
