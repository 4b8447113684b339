"""The bytes of a stored file: an image is shown, anything else is a download.

What a file says of itself counts for nothing: its first bytes decide. A picture that could run a
script (SVG) and a document (PDF) are never shown under this server's address.
"""

from __future__ import annotations

from base64 import b64decode
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from eventlog import events as ev
from eventlog.errors import NotFoundError
from eventlog.values import Attachment, File
from projections.exports.html_text import visible
from projections.requests.files import data_of
from projections.view import neutral

if TYPE_CHECKING:
    from projections.inspector.room import Room

_IMAGES = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))
"""First bytes of an image, and its type."""


class StoredFile(NamedTuple):
    """The bytes of a file, and the headers under which they are sent."""

    data: bytes
    headers: dict[str, str]


def attached(room: Room, part: str) -> list[dict[str, str]]:
    """Return type and name of each file of a call's result."""
    return [
        {"mime": visible(each.mime), "filename": visible(each.filename or "")} for each in _files(room, part, call=True)
    ]


def stored_file(room: Room, part: str, place: int) -> StoredFile:
    """Return a file of a part: its own, or that at a `place` of a call's result.

    `NotFoundError` if there is none, it was redacted, or it is an address and no data.
    """
    files = _files(room, part, call=False) or _files(room, part, call=True)
    if place >= len(files):
        raise NotFoundError("file of the part", part, session=room.session.id)
    file = files[place]
    found = data_of(neutral.File(file.mime, room.session.text(file.url), file.filename))
    if found is None:
        raise NotFoundError("data of the file", part, session=room.session.id)
    data = b64decode(found.base64)
    kind = _kind(data)
    headers = {
        "content-type": kind or "application/octet-stream",
        "content-security-policy": "default-src 'none'; sandbox",
        "x-content-type-options": "nosniff",
        "cache-control": "no-store",
    }
    if kind is None:
        name = quote(visible(file.filename or "file").encode(), safe="")
        headers["content-disposition"] = f"attachment; filename*=UTF-8''{name}"
    return StoredFile(data, headers)


def _files(room: Room, part: str, *, call: bool) -> list[File] | list[Attachment]:
    if part in room.redacted():
        return []
    version = room.history.attached.get(part) if call else room.session.reader.find(part)
    if version is None:
        return []
    event = next(iter(room.session.events(after=version - 1, upto=version))).event
    if isinstance(event, ev.ToolCompleted):
        return list(event.attachments)
    return [event.kind] if isinstance(event, ev.PartStarted) and isinstance(event.kind, File) else []


def _kind(data: bytes) -> str | None:
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for begin, kind in _IMAGES if data.startswith(begin)), None)
