"""OpenAI's content and calls as ours: Responses items and chat messages."""

from __future__ import annotations

from typing import Any

from eventlog.importers.common.conversation_parts import CallInput, UserPart
from eventlog.importers.common.importer import ImportBatch
from eventlog.importers.common.json_lines import dump, is_array, is_object
from eventlog.streams.records import is_whole, text_of
from eventlog.values import Attachment, File, Text

__all__ = ["PROVIDER", "attachments_of", "call_input", "file_of", "texts_of", "user_parts"]

PROVIDER = "openai"
_TEXTS = frozenset({"text", "input_text", "output_text", "summary_text", "reasoning_text", "refusal", "Text"})


def call_input(arguments: object) -> CallInput:
    """Return a call's input; a value that is no object becomes the member `input` of one."""
    if isinstance(arguments, str):
        if not arguments:
            return CallInput("{}")
        if arguments.strip() and is_whole(arguments):
            return CallInput(arguments, arguments, "arguments")
        return CallInput(dump({"input": arguments}), arguments, "raw")
    if arguments is None:
        return CallInput("{}")
    if is_object(arguments):
        return CallInput(dump(arguments), arguments, "input")
    return CallInput(dump({"input": arguments}))


def texts_of(content: object) -> list[str]:
    """Return the texts in a message's content, in order."""
    if isinstance(content, str):
        return [content]
    found: list[str] = []
    for block in content if is_array(content) else []:
        if isinstance(block, str):
            found.append(block)
        elif is_object(block) and text_of(block.get("type")) in _TEXTS:
            text = block.get("text", block.get("refusal"))
            if isinstance(text, str):
                found.append(text)
    return found


def file_of(block: dict[str, Any], batch: ImportBatch) -> tuple[File, str, str] | None:
    """Return the file in a content block, the text it holds and its field; None for no file.

    Responses have `input_image` (a URL as a text) and `input_file`, chat has `image_url` (an
    object), `input_audio` and `file`.
    """
    kind = text_of(block.get("type"))
    if kind in {"input_image", "image_url"}:
        found = block.get("image_url")
        url = found.get("url") if is_object(found) else found
        name = block.get("file_id")
        if isinstance(url, str) and url:
            return File(_mime(url, "image/*"), batch.content(url)), url, "url"
        return (File("image/*", f"file:{name}"), "", "") if isinstance(name, str) else None
    if kind == "input_audio" and is_object(block.get("input_audio")):
        audio = block["input_audio"]
        data, form = audio.get("data"), audio.get("format")
        if isinstance(data, str):
            mime = f"audio/{form}" if isinstance(form, str) else "audio/*"
            return File(mime, batch.content(f"data:{mime};base64,{data}")), data, "file"
        return None
    if kind in {"input_file", "file"}:
        inner = block.get("file")
        fields = inner if is_object(inner) else block
        data, url, name = fields.get("file_data"), fields.get("file_url"), fields.get("file_id")
        filename = fields.get("filename")
        label = filename if isinstance(filename, str) else None
        for found in (data, url):
            if isinstance(found, str) and found:
                return File(_mime(found, "application/octet-stream"), batch.content(found), label), found, "url"
        if isinstance(name, str):
            return File("application/octet-stream", f"file:{name}", label), "", ""
    return None


def _mime(url: str, fallback: str) -> str:
    head = url[:100]
    return head[5:].partition(";")[0].partition(",")[0] or fallback if head.startswith("data:") else fallback


def user_parts(content: object, batch: ImportBatch, *, synthetic: bool) -> tuple[list[UserPart], int]:
    """Return the parts of a user message, and the number of unknown blocks."""
    parts: list[UserPart] = []
    strange = 0
    blocks: list[Any] = content if is_array(content) else [content]
    for block in blocks:
        text = block if isinstance(block, str) else None
        if is_object(block) and text_of(block.get("type")) in _TEXTS:
            text = block.get("text")
        if isinstance(text, str):
            parts.append(UserPart(Text(batch.content(text), synthetic), text, "text"))
            continue
        found = file_of(block, batch) if is_object(block) else None
        if found is None:
            strange += not (block is None or (is_object(block) and _empty(block)))
        else:
            parts.append(UserPart(*found))
    return parts, strange


def _empty(block: dict[str, Any]) -> bool:
    """Whether a block is an image that is not there: recorders that strip media leave these."""
    return block.get("type") == "input_image" and block.get("image_url") is None


def attachments_of(content: object, batch: ImportBatch) -> tuple[Attachment, ...]:
    """Return the files in a tool's output."""
    found = (file_of(block, batch) for block in (content if is_array(content) else []) if is_object(block))
    return tuple(Attachment(entry[0].mime, entry[0].url, entry[0].filename) for entry in found if entry is not None)
