"""Exports of the page: a message as JSON or Markdown, a session as a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from eventlog.errors import CallError, NotFoundError
from eventlog.errors.base import brief
from projections.exports.html import html_pieces
from projections.exports.jsonl import jsonl_lines
from projections.exports.markdown import markdown_blocks, message_markdown
from projections.inspector.catalogue import number
from projections.inspector.large_text import MOST, beginnings
from projections.live.form import Form
from projections.transcript.transcript import Transcript

if TYPE_CHECKING:
    from collections.abc import Mapping

    from eventlog import Session, Store
    from projections.inspector.room import Room

_FORMATS: dict[str, tuple[str, str, Callable[[Session], Iterator[str | bytes]]]] = {
    "markdown": ("md", "text/markdown; charset=utf-8", markdown_blocks),
    "html": ("html", "text/html; charset=utf-8", html_pieces),
    "jsonl": ("jsonl", "application/jsonl", jsonl_lines),
}


class SessionFile(NamedTuple):
    """A session as a file that is downloaded, piece by piece."""

    pieces: Iterator[str | bytes]
    headers: dict[str, str]


def message_copies(room: Room, query: Mapping[str, str]) -> dict[str, Any]:
    """Return a message as JSON and as Markdown; its texts are cut where the page cuts them."""
    newest = room.session.version
    version, at = (number(query, name, newest, least=1, most=newest) for name in ("version", "at"))
    found = Transcript(room.session, at, texts=beginnings(room.session, MOST)).newest_first(version + 1)
    message = next(found, None)
    if message is None or message.version != version:
        raise NotFoundError("message of version", str(version), session=room.session.id)
    return {"json": Form(MOST).message(message), "markdown": message_markdown(message)}


def session_file(store: Store, query: Mapping[str, str]) -> SessionFile:
    """Return a session in a format; `CallError` for a format that there is none of."""
    name = query.get("format", "markdown")
    if name not in _FORMATS:
        raise CallError(f"format is one of {', '.join(_FORMATS)}, not {brief(name)}")
    session = store.session(query.get("session", ""))
    ending, kind, pieces = _FORMATS[name]
    file = quote(f"{session.id[:100]}.{ending}".encode("utf-8", "replace"), safe="")
    headers = {
        "content-type": kind,
        "content-disposition": f"attachment; filename*=UTF-8''{file}",
        "content-security-policy": "default-src 'none'; sandbox",
        "cache-control": "no-store",
    }
    return SessionFile(pieces(session), headers)
