"""Calls and their results as items of the Responses API and of Codex have them."""

from __future__ import annotations

from typing import Any, NamedTuple

from eventlog.importers.common.conversation_parts import CallInput
from eventlog.importers.common.importer import ImportBatch
from eventlog.importers.common.json_lines import dump, is_array, is_object
from eventlog.importers.openai import items
from eventlog.streams.records import metadata_of, text_of
from eventlog.values import Attachment, Json

__all__ = ["CallItem", "OutputItem", "call_of", "is_call", "is_output", "output_of"]

_OUTPUTS = frozenset({"tool_search_output", "tool_result", "function_result"})
"""Results whose items have other types than `…_output`, or another member."""
_PROVIDERS = frozenset(
    {"web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call"}
)
"""Calls that the provider runs, with their result in the item."""
_TOOLS = {"local_shell_call": "local_shell", "tool_search_call": "tool_search"}
_NAMED = frozenset({"function_call", "custom_tool_call", "tool_call", "mcp_call"})
_KNOWN = _NAMED | _PROVIDERS | _TOOLS.keys()
_INPUTS = ("arguments", "input", "action", "operation")
_RESULTS = ("error", "output", "outputs", "results", "tools", "result")
_MEDIA = {"png": "image/png", "jpeg": "image/jpeg", "webp": "image/webp"}


class CallItem(NamedTuple):
    """Call of an item."""

    id: str
    tool: str
    given: CallInput
    provider: bool
    metadata: Json | None


class OutputItem(NamedTuple):
    """Result of a call; `call` is "" when the item does not name it."""

    call: str
    text: str
    held: bool = True
    """Whether the record may have this very text."""
    failed: bool = False
    interrupted: bool = False
    attachments: tuple[Attachment, ...] = ()
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


def call_of(item: dict[str, Any], fallback: str) -> CallItem:
    """Return the call of an item; `fallback` is an id for it."""
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
    about = metadata_of(items.PROVIDER, itemId=text_of(item.get("id")), namespace=text_of(item.get("namespace")))
    environment = item.get("environment")
    hosted = is_object(environment) and text_of(environment.get("type")).startswith("container")
    provider = kind in _PROVIDERS or item.get("execution") == "server" or (kind == "shell_call" and hosted)
    return CallItem(_id_of(item) or fallback, tool, items.call_input(given), provider, about)


def output_of(item: dict[str, Any], batch: ImportBatch) -> OutputItem | None:
    """Return the result in an output, or in a call that the provider ran, else None."""
    kind, call = text_of(item.get("type")), text_of(item.get("call_id"))
    if kind in _PROVIDERS or not is_output(item):
        return _provided(kind, item, batch) if kind in _PROVIDERS else None
    if "local" in kind:
        call = call or text_of(item.get("id"))
    failed = item.get("status") == "failed" or bool(item.get("error"))
    found = item.get("output") if "output" in item else next((item[name] for name in _RESULTS if item.get(name)), None)
    if kind == "tool_search_output":
        return OutputItem(call, dump(item.get("tools", [])), held=False)
    if is_object(found):
        failed = failed or found.get("success") is False
        inner = found.get("content", found.get("text"))
        found = dump(found) if inner is None else inner
        if not isinstance(inner, str) and not is_array(inner):
            return OutputItem(call, text_of(found), held=False, failed=failed)
    if isinstance(found, str):
        interrupted = found == "aborted" or found.startswith("aborted by user")
        return OutputItem(call, found, failed=failed or interrupted, interrupted=interrupted)
    texts = items.texts_of(found)
    files = items.attachments_of(found, batch)
    if is_array(found) and (texts or files or not found):
        return OutputItem(call, "\n".join(texts), len(texts) == 1, failed, attachments=files)
    return OutputItem(call, "" if found is None else dump(found), held=False, failed=failed)


def _provided(kind: str, item: dict[str, Any], batch: ImportBatch) -> OutputItem:
    """Return the result of a call that the provider ran."""
    failed = item.get("status") == "failed" or bool(item.get("error"))
    if kind == "image_generation_call":
        data = text_of(item.get("result"))
        if not data:
            return OutputItem("", text_of(item.get("status")), held=False, failed=True)
        mime = _MEDIA.get(text_of(item.get("output_format")), "image/png")
        is_url = data.startswith(("http://", "https://", "data:"))
        image = Attachment(mime, batch.content(data if is_url else f"data:{mime};base64,{data}"))
        return OutputItem("", "", False, failed, attachments=(image,), data="" if is_url else data)
    found = next((item[name] for name in _RESULTS if item.get(name)), "")
    return OutputItem("", found if isinstance(found, str) else dump(found), failed=failed)
