"""Anthropic's content in our words."""

from __future__ import annotations

from typing import Any, NamedTuple

from eventlog.importers.common.importer import ImportBatch
from eventlog.importers.common.json_lines import dump, is_array, is_object
from eventlog.streams.records import text_of
from eventlog.values import Attachment, File

__all__ = [
    "PROVIDER",
    "ServerResult",
    "file_of",
    "result_of",
    "server_result",
]

PROVIDER = "anthropic"


def file_of(block: dict[str, Any], batch: ImportBatch) -> tuple[File, str] | None:
    """Return the file in an `image` or `document` block, and its data; None for other blocks.

    The data is the text of the block that the file holds, or "" for a reference.
    """
    source, kind_of_block = block.get("source"), text_of(block.get("type"))
    if kind_of_block not in {"image", "document"} or not is_object(source):
        return None
    fields = source
    title = block.get("title")
    name = title if isinstance(title, str) else None
    mime, data, url, file_id = (fields.get(key) for key in ("media_type", "data", "url", "file_id"))
    fallback = "image/*" if kind_of_block == "image" else "application/pdf"
    kind = mime if isinstance(mime, str) else fallback
    if fields.get("type") == "base64" and isinstance(data, str):
        return File(kind, batch.content(f"data:{kind};base64,{data}"), name), data
    if fields.get("type") == "text" and isinstance(data, str):
        return File(kind, batch.content(f"data:{kind},{data}"), name), data
    if isinstance(url, str):
        return File(kind, batch.content(url), name), ""
    if isinstance(file_id, str):
        return File(kind, batch.content(f"file:{file_id}"), name), ""
    return None


def result_of(content: object, batch: ImportBatch) -> tuple[str, tuple[Attachment, ...]]:
    """Return the text of a tool result, and its files."""
    if isinstance(content, str):
        return content, ()
    if not is_array(content):
        return "" if content is None else dump(content), ()
    texts: list[str] = []
    files: list[Attachment] = []
    for block in content:
        if isinstance(block, str):
            texts.append(block)
        elif is_object(block):
            fields = block
            found = file_of(fields, batch)
            if found is not None:
                file = found[0]
                files.append(Attachment(file.mime, file.url, file.filename))
            elif isinstance(fields.get("text"), str):
                texts.append(fields["text"])
            else:
                texts.append(dump(fields))
    return "\n".join(texts), tuple(files)


class ServerResult(NamedTuple):
    """Result of a tool that the provider ran."""

    call: str
    output: str
    failed: bool


def server_result(block: dict[str, Any]) -> ServerResult | None:
    """Return the result in a `…_tool_result` block of an assistant message; None for others."""
    kind, call = block.get("type"), block.get("tool_use_id")
    if not isinstance(kind, str) or not kind.endswith("tool_result") or not isinstance(call, str):
        return None
    content = block.get("content")
    failed = bool(block.get("is_error"))
    if is_object(content):
        failed = failed or str(content.get("type", "")).endswith("_error")
    return ServerResult(call, content if isinstance(content, str) else dump(content), failed)
