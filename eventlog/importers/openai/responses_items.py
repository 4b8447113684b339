"""Items of a Responses stream: which are calls, and the input and result they end with."""

from __future__ import annotations

from typing import Any, NamedTuple

from eventlog.importers.common.importer import ImportBatch
from eventlog.importers.common.json_lines import dump, is_array, is_object
from eventlog.importers.openai import items
from eventlog.streams.records import text_of
from eventlog.values import Attachment

__all__ = ["ASIDE", "CallItem", "FinishedItem", "call_of", "finished_item"]

ASIDE = frozenset({"message", "reasoning", "mcp_list_tools", "mcp_approval_request"})
"""Types of items that are no calls."""
_PROVIDERS = frozenset(
    {"web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call"}
)
"""Calls that the provider runs, with their result in the item."""
_NAMED = frozenset({"function_call", "custom_tool_call", "mcp_call"})
_OUTPUTS = ("output", "outputs", "results", "tools", "result")
_MEDIA = {"png": "image/png", "jpeg": "image/jpeg", "webp": "image/webp"}


class CallItem(NamedTuple):
    """Call of an item, as far as the item's beginning has it."""

    id: str
    tool: str
    provider: bool


class FinishedItem(NamedTuple):
    """Input and result of a finished item; `input` is None for what was streamed."""

    input: str | None
    ended: bool
    output: str = ""
    failed: bool = False
    attachments: tuple[Attachment, ...] = ()


def call_of(item: dict[str, Any]) -> CallItem | None:
    """Return the call that an item is, or None."""
    kind = text_of(item.get("type"))
    if not kind.endswith("_call"):
        return None
    name = text_of(item.get("call_id")) or text_of(item.get("id"))
    if not name:
        return None
    tool = text_of(item.get("name")) if kind in _NAMED else kind.removesuffix("_call")
    environment = item.get("environment")
    hosted = is_object(environment) and text_of(environment.get("type")).startswith("container")
    provider = kind in _PROVIDERS or item.get("execution") == "server" or (kind == "shell_call" and hosted)
    return CallItem(name, tool, provider)


def finished_item(item: dict[str, Any], batch: ImportBatch) -> FinishedItem:
    """Return the input and the result of a finished item, a call or an output."""
    kind = text_of(item.get("type"))
    failed = item.get("status") == "failed" or bool(item.get("error"))
    if kind == "image_generation_call":
        data = text_of(item.get("result"))
        prompt = text_of(item.get("revised_prompt")) or text_of(item.get("prompt"))
        return FinishedItem(
            dump({"prompt": prompt} if prompt else {}), True, "", not data or failed, _image(item, data, batch)
        )
    found = item.get("error") or next((item[name] for name in _OUTPUTS if item.get(name) is not None), "")
    output = found if isinstance(found, str) else dump(found)
    return FinishedItem(_input(item), kind in _PROVIDERS or kind.endswith("_output"), output, failed)


def _image(item: dict[str, Any], data: str, batch: ImportBatch) -> tuple[Attachment, ...]:
    if not data:
        return ()
    mime = _MEDIA.get(text_of(item.get("output_format")), "image/png")
    url = data if data.startswith(("http://", "https://", "data:")) else f"data:{mime};base64,{data}"
    return (Attachment(mime, batch.content(url)),)


def _input(item: dict[str, Any]) -> str | None:
    arguments = item.get("arguments", item.get("input"))
    if isinstance(arguments, str) or is_object(arguments):
        return items.call_input(arguments).text
    for name in ("action", "operation"):
        if is_object(item.get(name)):
            return dump(item[name])
    if isinstance(item.get("code"), str):
        return dump({"code": item["code"]})
    if is_array(item.get("queries")):
        return dump({"queries": item["queries"]})
    return "{}" if item.get("type") in _PROVIDERS else None
