"""Calls and their outputs as items of the Responses API and of Codex have them."""

from __future__ import annotations

from typing import Any, NamedTuple

from eventlog.importers.common.conversation_parts import CallInput
from eventlog.importers.common.importer import ImportBatch
from eventlog.importers.common.json_lines import dump, is_array, is_object
from eventlog.importers.openai import items
from eventlog.streams.records import text_of
from eventlog.values import Attachment, Json

__all__ = ["CALLS", "OUTPUTS", "CallItem", "OutputItem", "call_of", "output_of"]

CALLS = frozenset({"function_call", "custom_tool_call", "local_shell_call", "tool_search_call", "tool_call"})
OUTPUTS = frozenset(
    {
        "function_call_output", "custom_tool_call_output", "local_shell_call_output", "tool_search_output", "tool_result",
        "function_result",
    }
)  # fmt: skip


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
    held: bool
    """Whether the record has this very text."""
    failed: bool = False
    interrupted: bool = False
    attachments: tuple[Attachment, ...] = ()


def call_of(kind: str, item: dict[str, Any], fallback: str) -> CallItem:
    """Return the call of an item whose type is in `CALLS`; `fallback` is an id for it."""
    name = text_of(item.get("id"))
    call = text_of(item.get("call_id")) or name or fallback
    function = item.get("function")
    tool = text_of(item.get("name"))
    arguments = item.get("arguments")
    if kind == "custom_tool_call":
        arguments = item.get("input")
    elif kind == "local_shell_call":
        tool, arguments = "local_shell", item.get("action")
    elif kind == "tool_search_call":
        tool = "tool_search"
    elif is_object(function):
        tool = tool or text_of(function.get("name"))
    fields = {"itemId": name, "namespace": text_of(item.get("namespace"))}
    provider = kind == "tool_search_call" and item.get("execution") == "server"
    return CallItem(call, tool, items.call_input(arguments), provider, items.metadata(fields))


def output_of(kind: str, item: dict[str, Any], batch: ImportBatch) -> OutputItem:
    """Return the result in an item whose type is in `OUTPUTS`."""
    call = text_of(item.get("call_id")) or (text_of(item.get("id")) if "local" in kind else "")
    if kind == "tool_search_output":
        return OutputItem(call, dump(item.get("tools", [])), held=False)
    found = item.get("output") if "output" in item else item.get("result")
    failed = False
    if is_object(found):
        failed = found.get("success") is False
        inner = found.get("content", found.get("text"))
        found = dump(found) if inner is None else inner
        if not isinstance(inner, str) and not is_array(inner):
            return OutputItem(call, text_of(found), held=False, failed=failed)
    if isinstance(found, str):
        interrupted = found == "aborted" or found.startswith("aborted by user")
        return OutputItem(call, found, held=True, failed=failed or interrupted, interrupted=interrupted)
    if is_array(found):
        texts = items.texts_of(found)
        text = "\n".join(texts)
        return OutputItem(call, text, len(texts) == 1, failed, attachments=items.attachments_of(found, batch))
    return OutputItem(call, "" if found is None else dump(found), held=False, failed=failed)
