"""Bytes and addresses of files, texts in place of files, and images that are too large."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from mimetypes import guess_type
from string import ascii_letters, digits
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from projections.requests.servers import Rules
from projections.requests.text import sendable
from projections.tokens.media import image_size
from projections.view.neutral import File
from projections.view.part_rendering import named

_BEGINNINGS = {"iVBORw0K": "image/png", "/9j/": "image/jpeg", "R0lGOD": "image/gif", "UklGR": "image/webp"}
"""First characters of an image's base64, and its type."""
_DIGITS = (ascii_letters + digits + "+/").encode()
_WEB = re.compile(r"https?://\S+")
_FIRST = 88_000
"""Characters of base64 that tell an image's size."""


class FileData(NamedTuple):
    """The bytes of a file as base64, and their MIME type."""

    mime: str
    base64: str


def data_of(file: File) -> FileData | None:
    """Return the bytes of a data URL; None for another, damaged or empty URL."""
    if not file.url.startswith("data:"):
        return None
    head, comma, data = file.url[5:].partition(",")
    kind, *parameters = head.split(";")
    if not comma or not data:
        return None
    if "base64" not in parameters:
        data = base64.b64encode(unquote_to_bytes(sendable(data))).decode()
    elif not _is_base64(data):
        return None
    mime = kind or file.mime
    mime = "image/jpeg" if mime == "image/jpg" else mime
    return FileData(_kind(data) or mime if mime.startswith("image/") else mime, data)


def _is_base64(data: str) -> bool:
    body = data.rstrip("=")
    is_whole = data.isascii() and len(data) % 4 == 0 and len(data) - len(body) <= 2
    return is_whole and not body.encode().translate(None, _DIGITS)


def _kind(data: str) -> str | None:
    """Return the type of an image by its first bytes: providers refuse one that says another."""
    return next((mime for begin, mime in _BEGINNINGS.items() if data.startswith(begin)), None)


def text_of(data: FileData) -> str:
    """Return the bytes as text."""
    try:
        return base64.b64decode(data.base64).decode("utf-8", "replace")
    except binascii.Error:
        return ""


def is_web(file: File) -> bool:
    """Return whether a provider can fetch the file itself."""
    return _WEB.fullmatch(file.url) is not None


def mime_of(file: File, data: FileData | None) -> str:
    """Return the MIME type of the bytes `data`, or of an address; "image/*" if not known."""
    if data is not None:
        return data.mime
    known = guess_type(file.url.partition("?")[0])[0] if file.mime.endswith("/*") else None
    return "image/jpeg" if file.mime == "image/jpg" else known or file.mime


def file_id_of(file: File) -> str | None:
    """Return the provider's id of an uploaded file, which importers store as `file:ID`."""
    if file.url.startswith("file:") and not file.url.startswith("file:/"):
        return sendable(file.url[5:]) or None
    return None


def placeholder(file: File) -> str:
    """Return the text in place of a file that cannot be sent."""
    return sendable(named(file.mime, file.filename).text)


def readable(file: File) -> str:
    """Return the text in place of a file that cannot be sent: its name, or its own text."""
    data = data_of(file)
    text = sendable(text_of(data)) if data is not None and data.mime.startswith("text/") else ""
    return f"{placeholder(file)}\n{text}" if text.strip() else placeholder(file)


def too_much(images: Sequence[FileData | None], rules: Rules) -> list[int]:
    """Return the places of images that `rules` do not admit, by their size and their number.

    Of too many images the oldest are. One that is sent as an address only counts.
    """
    left = dict(enumerate(images))
    found: list[int] = []

    def drop(places: Sequence[int]) -> None:
        found.extend(places)
        for place in places:
            del left[place]

    if rules.most_bytes is not None:
        drop([place for place, data in left.items() if data is not None and len(data.base64) > rules.most_bytes])
    is_crowded = rules.many_images is not None and len(left) > rules.many_images
    most_pixels = rules.many_pixels if is_crowded else rules.most_pixels
    drop([place for place, data in left.items() if _edge(data) > most_pixels])
    if rules.most_images is not None:
        drop([*left][: max(0, len(left) - rules.most_images)])
    return found


def _edge(data: FileData | None) -> int:
    """Return the longer edge of an image in pixels, 0 if its bytes do not tell it."""
    try:
        return 0 if data is None else max(image_size(base64.b64decode(data.base64[:_FIRST])) or (0,))
    except ValueError:
        return 0
