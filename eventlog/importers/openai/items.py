"""OpenAI's content and calls as ours: items of Responses and of Codex, and chat messages."""

from __future__ import annotations

from typing import Any, NamedTuple

from eventlog.importers.common.conversation_parts import CallInput, CallResult, UserPart
from eventlog.importers.common.importer import ImportBatch
from eventlog.importers.common.json_lines import dump, is_array, is_object
from eventlog.streams.openai_responses import HOSTED, is_hosted
from eventlog.streams.records import is_whole, metadata_of, text_of
from eventlog.values import Attachment, File, Json, Text, Tool

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
            strange += not (block is None or (is_object(block) and is_stripped(block)))
        else:
            parts.append(UserPart(*found))
    return parts, strange


def is_stripped(block: dict[str, Any]) -> bool:
    """Whether a block is an image that is not there: recorders that strip media leave these."""
    return block.get("type") == "input_image" and block.get("image_url") is None


def attachments_of(content: object, batch: ImportBatch) -> tuple[Attachment, ...]:
    """Return the files in a tool's output."""
    found = (file_of(block, batch) for block in (content if is_array(content) else []) if is_object(block))
    return tuple(Attachment(entry[0].mime, entry[0].url, entry[0].filename) for entry in found if entry is not None)


def thoughts_of(item: dict[str, Any]) -> list[str]:
    """Return the texts of a reasoning item."""
    return [*texts_of(item.get("summary")), *texts_of(item.get("content"))]


def reasoning_of(item: dict[str, Any], texts: list[str]) -> list[tuple[str, Json | None, str]]:
    """Return these texts of a reasoning item, each with its metadata; the last has the cipher."""
    secret, name = text_of(item.get("encrypted_content")), text_of(item.get("id"))
    said = texts or ([""] if secret else [])
    owned = [*[""] * (len(said) - 1), secret]
    return [
        (text, metadata_of(PROVIDER, itemId=name, reasoningEncryptedContent=own), own)
        for text, own in zip(said, owned, strict=False)
    ]


_OUTPUTS = frozenset({"tool_search_output", "tool_result", "function_result"})
"""Results whose items have other types than `…_output`, or another member."""
_TOOLS = {"local_shell_call": "local_shell", "tool_search_call": "tool_search"}
_NAMED = frozenset({"function_call", "custom_tool_call", "tool_call", "mcp_call"})
_KNOWN = _NAMED | HOSTED | _TOOLS.keys()
_INPUTS = ("arguments", "input", "action", "operation")
_RESULTS = ("error", "output", "outputs", "results", "tools", "result")
_MEDIA = {"png": "image/png", "jpeg": "image/jpeg", "webp": "image/webp"}


class OutputItem(NamedTuple):
    """Result of a call; `call` is "" when the item does not name it."""

    call: str
    result: CallResult
    held: bool = True
    """Whether the record may have this very text."""
    data: str = ""
    """The text of the record that the attachment holds."""


def is_call(item: dict[str, Any]) -> bool:
    """Whether an item is a call; one of an unknown type needs an id."""
    kind = text_of(item.get("type"))
    return kind in _KNOWN or (kind.endswith("_call") and bool(_id_of(item)))


def is_output(item: dict[str, Any]) -> bool:
    """Whether an item is the result of a call."""
    kind = text_of(item.get("type"))
    return kind in _OUTPUTS or kind.endswith("_output")


def _id_of(item: dict[str, Any]) -> str:
    return text_of(item.get("call_id")) or text_of(item.get("id"))


def call_of(item: dict[str, Any], fallback: str) -> tuple[Tool, CallInput]:
    """Return the call of an item, and its input; `fallback` is an id for it."""
    kind, function = text_of(item.get("type")), item.get("function")
    tool = text_of(item.get("name")) if kind in _NAMED else _TOOLS.get(kind, kind.removesuffix("_call"))
    given = next((item[name] for name in _INPUTS if item.get(name) is not None), None)
    if kind == "image_generation_call":
        prompt = text_of(item.get("revised_prompt")) or text_of(item.get("prompt"))
        given = {"prompt": prompt} if prompt else None
    elif given is None:
        given = next(({name: item[name]} for name in ("code", "queries") if item.get(name) is not None), None)
    if is_object(function) and not tool:
        tool = text_of(function.get("name"))
    about = metadata_of(PROVIDER, itemId=text_of(item.get("id")), namespace=text_of(item.get("namespace")))
    return Tool(_id_of(item) or fallback, tool, is_hosted(item), about), call_input(given)


def output_of(item: dict[str, Any], batch: ImportBatch) -> OutputItem | None:
    """Return the result in an output, or in a call that the provider ran, else None."""
    kind, call = text_of(item.get("type")), text_of(item.get("call_id"))
    if kind in HOSTED:
        return _provided(kind, item, batch)
    if not is_output(item):
        return None
    if "local" in kind:
        call = call or text_of(item.get("id"))
    failed = item.get("status") == "failed" or bool(item.get("error"))
    found = item.get("output") if "output" in item else next((item[name] for name in _RESULTS if item.get(name)), None)
    if kind == "tool_search_output":
        return OutputItem(call, CallResult(dump(item.get("tools", []))), held=False)
    if is_object(found):
        failed = failed or found.get("success") is False
        inner = found.get("content", found.get("text"))
        found = dump(found) if inner is None else inner
        if not isinstance(inner, str) and not is_array(inner):
            return OutputItem(call, CallResult(text_of(found), failed), held=False)
    if isinstance(found, str):
        interrupted = found == "aborted" or found.startswith("aborted by user")
        return OutputItem(call, CallResult(found, failed or interrupted, interrupted))
    texts = texts_of(found)
    files = attachments_of(found, batch)
    if is_array(found) and (texts or files or not found):
        return OutputItem(call, CallResult("\n".join(texts), failed, attachments=files), len(texts) == 1)
    return OutputItem(call, CallResult("" if found is None else dump(found), failed), held=False)


def _provided(kind: str, item: dict[str, Any], batch: ImportBatch) -> OutputItem:
    """Return the result of a call that the provider ran."""
    failed = item.get("status") == "failed" or bool(item.get("error"))
    if kind == "image_generation_call":
        data = text_of(item.get("result"))
        if not data:
            return OutputItem("", CallResult(text_of(item.get("status")), failed=True), held=False)
        mime = _MEDIA.get(text_of(item.get("output_format")), "image/png")
        is_url = data.startswith(("http://", "https://", "data:"))
        image = Attachment(mime, batch.content(data if is_url else f"data:{mime};base64,{data}"))
        return OutputItem("", CallResult("", failed, attachments=(image,)), held=False, data="" if is_url else data)
    found = next((item[name] for name in _RESULTS if item.get(name)), "")
    return OutputItem("", CallResult(found if isinstance(found, str) else dump(found), failed))
