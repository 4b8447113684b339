"""Where a file's bytes are, and what stands for a file that a format has no place for."""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from projections.formats.text import sendable
from projections.view.neutral import File

__all__ = ["Data", "data_of", "file_id_of", "is_web", "named", "text_of"]


class Data(NamedTuple):
    """The bytes of a file, as base64, and what they are."""

    mime: str
    base64: str


def data_of(file: File) -> Data | None:
    """The bytes in a data URL; None for another address, for a damaged one, and for no bytes at all."""
    if not file.url.startswith("data:"):
        return None
    head, comma, data = file.url[5:].partition(",")
    kind, *rest = head.split(";")
    if not comma or not data:
        return None
    if "base64" not in rest:
        data = base64.b64encode(unquote_to_bytes(sendable(data))).decode()
    elif not data.isascii():
        return None
    mime = kind or file.mime
    return Data("image/jpeg" if mime == "image/jpg" else mime, data)


def text_of(data: Data) -> str:
    """The bytes as text."""
    try:
        return base64.b64decode(data.base64).decode("utf-8", "replace")
    except binascii.Error:
        return ""


def is_web(file: File) -> bool:
    """Whether a provider can fetch the file itself."""
    return file.url.startswith(("https://", "http://"))


def file_id_of(file: File) -> str | None:
    """The provider's id of a file that was uploaded to it before: `file:ID`, as the importers keep it."""
    if file.url.startswith("file:") and not file.url.startswith("file:/"):
        return sendable(file.url[5:]) or None
    return None


def named(file: File) -> str:
    """The text that stands for a file that cannot be sent."""
    return sendable(f"[Attached {file.mime}: {file.filename or 'file'}]")
