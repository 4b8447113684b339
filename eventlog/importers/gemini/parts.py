"""Gemini's parts as ours: texts, thoughts, calls, their responses, and files."""

from __future__ import annotations

from typing import Any

from eventlog.importers.common.builder import RecordBuilder
from eventlog.importers.common.conversation_parts import CallInput, CallResult, UserPart
from eventlog.importers.common.json_lines import dump, is_array, is_object
from eventlog.streams.records import metadata_of, object_of, text_of
from eventlog.values import Attachment, File, Text

PROVIDER = "google"


def parts_of(content: object) -> list[Any]:
    """Return the parts of a content: a text or a part alone, or an array of both."""
    if is_object(content) and "parts" in content:
        content = content["parts"]
    if content is None or content == "":
        return []
    return content if is_array(content) else [content]


def file_of(part: dict[str, Any], to: RecordBuilder) -> UserPart | None:
    """Return the file of an `inlineData` or `fileData` part; None for another part."""
    inline, given = object_of(part.get("inlineData")), object_of(part.get("fileData"))
    data, uri = inline.get("data"), given.get("fileUri")
    if isinstance(data, str):
        mime = text_of(inline.get("mimeType")) or "application/octet-stream"
        return UserPart(File(mime, to.batch.content(f"data:{mime};base64,{data}")), data, "file")
    if isinstance(uri, str):
        mime = text_of(given.get("mimeType")) or "application/octet-stream"
        return UserPart(File(mime, to.batch.content(uri)), uri, "url")
    return None


def user_parts(content: object, to: RecordBuilder, *, synthetic: bool = False) -> list[UserPart]:
    """Return the texts and files of a user's content; other parts than responses are reported."""
    found: list[UserPart] = []
    for place, part in enumerate(parts_of(content)):
        text = part.get("text") if is_object(part) else part
        if isinstance(text, str):
            found.append(UserPart(Text(to.batch.content(text), synthetic), text, "text"))
            continue
        file = file_of(part, to) if is_object(part) else None
        if file is not None:
            found.append(file)
        elif not (is_object(part) and "functionResponse" in part):
            to.skip(f"part {place} of a user message is neither a text nor a file")
    return found


def answer_parts(content: object, to: RecordBuilder) -> None:
    """Add the parts of a model's content to the open answer."""
    for place, part in enumerate(parts_of(content)):
        text = part.get("text") if is_object(part) else part
        made = is_object(part)
        signature = text_of(part.get("thoughtSignature")) if made else ""
        metadata = metadata_of(PROVIDER, thoughtSignature=signature)
        found = object_of(part.get("functionCall")) if made else {}
        if found:
            call(to, found, f"call-{to.number}-{place}", metadata)
        elif isinstance(text, str) and made and part.get("thought"):
            to.reasoning(text, metadata=metadata)
        elif isinstance(text, str):
            to.text(text, metadata=metadata)
        elif made and (file := file_of(part, to)) is not None and isinstance(file.kind, File):
            to.file(file.kind, file.held, file.field)
        else:
            to.skip(f"part {place} of an answer is of an unknown type")


def call(to: RecordBuilder, found: dict[str, Any], fallback: str, metadata: str | None = None) -> str:
    """Add a `functionCall` to the open answer; return its id, `fallback` if it has none."""
    name, given = text_of(found.get("id")) or fallback, found.get("args")
    held = CallInput(dump(given), given, "input") if is_object(given) else CallInput("{}")
    return to.call(name, text_of(found.get("name")), held, metadata=metadata)


def responses(content: object) -> list[dict[str, Any]]:
    """Return the `functionResponse`s of a content."""
    found = (object_of(part.get("functionResponse")) for part in parts_of(content) if is_object(part))
    return [response for response in found if response]


def response_of(found: dict[str, Any], files: list[UserPart]) -> tuple[CallResult, bool]:
    """Return the result in a `functionResponse`, and whether the record has its very text."""
    value = object_of(found.get("response"))
    failed = "error" in value
    said = value.get("error" if failed else "output")
    attachments = tuple(
        Attachment(file.kind.mime, file.kind.url) for file in files if isinstance(file.kind, File) and not failed
    )
    if isinstance(said, str):
        return CallResult(said, failed, attachments=attachments), True
    return CallResult(dump(value) if value else "", failed, attachments=attachments), False
