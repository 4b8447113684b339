"""Files in the content of LangChain's messages."""

from __future__ import annotations

from typing import Any

from eventlog.importers.common.builder import RecordBuilder
from eventlog.importers.common.json_lines import is_object
from eventlog.streams.records import text_of
from eventlog.values import File

__all__ = ["file_in"]

_MIMES = {"image": "image/*", "image_url": "image/*", "audio": "audio/*", "video": "video/*"}


def file_in(block: dict[str, Any], to: RecordBuilder) -> File | None:
    """Return the file of a block as OpenAI, Anthropic or LangChain spell it; None for no file."""
    found = _mime_and_url(block)
    return None if found is None else File(found[0], to.batch.content(found[1]))


def _mime_and_url(block: dict[str, Any]) -> tuple[str, str] | None:
    kind = text_of(block.get("type"))
    inner: Any = block.get("source") or block.get(kind)
    fields: dict[str, Any] = {**block, **inner} if is_object(inner) else dict(block)
    mime = text_of(fields.get("mime_type") or fields.get("media_type")) or _MIMES.get(kind)
    data = fields.get("base64") or fields.get("data") or fields.get("file_data")
    url = inner if isinstance(inner, str) else fields.get("url")
    name = fields.get("file_id") or fields.get("id")
    if isinstance(url, str) and url:
        mime = url[5:].partition(";")[0] if url.startswith("data:") else mime
        return mime or "application/octet-stream", url
    if isinstance(data, str) and data:
        mime = mime or "application/octet-stream"
        return mime, data if data.startswith("data:") else f"data:{mime};base64,{data}"
    if kind in {*_MIMES, "file", "document"} and isinstance(name, str) and name:
        return mime or "application/octet-stream", f"file:{name}"
    return None
