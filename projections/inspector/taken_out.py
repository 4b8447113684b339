"""Files that leave the page: stored ones, sessions, a message as JSON or Markdown.

What a file says of itself counts for nothing: its first bytes decide whether it is shown, or a
download. A picture that could run a script (SVG) and a document (PDF) are never shown under this
server's address.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from starlette.responses import Response, StreamingResponse

from eventlog import events as ev
from eventlog.errors import CallError, NotFoundError
from eventlog.errors.base import brief
from eventlog.values import Attachment, File
from projections.exports.html import html_pieces
from projections.exports.html_text import visible
from projections.exports.jsonl import jsonl_lines
from projections.exports.markdown import markdown_blocks, message_markdown
from projections.inspector.catalogue import Query
from projections.inspector.large_text import MOST, beginnings
from projections.requests.files import data_of
from projections.server.live_pages import number
from projections.transcript.message_json import Form
from projections.transcript.transcript import Transcript
from projections.view import neutral

if TYPE_CHECKING:
    from eventlog import Session, Store
    from projections.inspector.room import Room

_IMAGES = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))
"""First bytes of an image, and its type."""
_SEALED = {"content-security-policy": "default-src 'none'; sandbox", "cache-control": "no-store"}
"""Headers of an answer in which nothing runs, and that nothing keeps."""
_FORMATS: dict[str, tuple[str, str, Callable[[Session], Iterator[str | bytes]]]] = {
    "markdown": ("md", "text/markdown", markdown_blocks),
    "html": ("html", "text/html", html_pieces),
    "jsonl": ("jsonl", "application/jsonl", jsonl_lines),
}


def attached(room: Room, part: str) -> list[dict[str, str]]:
    """Return type and name of each file of a call's result."""
    return [{"mime": visible(each.mime), "filename": visible(each.filename or "")} for each in _files(room, part)]


def stored_file(room: Room, query: Query) -> Response:
    """Return a file of a part: its own, or that at a place, `index`, of a call's result.

    `NotFoundError` if there is none, it was redacted, or it is an address and no data.
    """
    part, place = query.get("part", ""), number(query, "index", 0)
    files = _files(room, part)
    if place >= len(files):
        raise NotFoundError("file of the part", part, session=room.session.id)
    file = files[place]
    found = data_of(neutral.File(file.mime, room.session.text(file.url), file.filename))
    if found is None:
        raise NotFoundError("data of the file", part, session=room.session.id)
    data = b64decode(found.base64)
    kind = _kind(data)
    headers = _SEALED | ({} if kind else _download(visible(file.filename or "file")))
    return Response(data, headers=headers, media_type=kind or "application/octet-stream")


def _download(name: str) -> dict[str, str]:
    """Return the header that makes an answer a file of this name."""
    return {"content-disposition": f"attachment; filename*=UTF-8''{quote(name.encode('utf-8', 'replace'), safe='')}"}


def _files(room: Room, part: str) -> list[File] | list[Attachment]:
    if part in room.redacted():
        return []
    begun, ended = room.recorded(room.session.reader.find(part)).event, None
    if isinstance(begun, ev.PartStarted) and isinstance(begun.kind, File):
        return [begun.kind]
    if part in room.history.attached:
        ended = room.recorded(room.history.attached[part]).event
    return list(ended.attachments) if isinstance(ended, ev.ToolCompleted) else []


def _kind(data: bytes) -> str | None:
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for begin, kind in _IMAGES if data.startswith(begin)), None)


def message_copies(room: Room, query: Query) -> dict[str, Any]:
    """Return a message as JSON and as Markdown; its texts are cut where the page cuts them."""
    version, at = room.asked(query, "version"), room.asked(query)
    found = Transcript(room.session, at, texts=beginnings(room.session, MOST)).newest_first(version + 1)
    message = next(found, None)
    if message is None or message.version != version:
        raise NotFoundError("message of version", str(version), session=room.session.id)
    return {"json": Form(MOST).message(message), "markdown": message_markdown(message)}


def session_file(store: Store, query: Query) -> Response:
    """Return a session in a format; `CallError` for a format that there is none of."""
    name = query.get("format", "markdown")
    if name not in _FORMATS:
        raise CallError(f"format is one of {', '.join(_FORMATS)}, not {brief(name)}")
    session = store.session(query.get("session", ""))
    ending, kind, pieces = _FORMATS[name]
    headers = _SEALED | _download(f"{session.id[:100]}.{ending}")
    return StreamingResponse(pieces(session), headers=headers, media_type=kind)
