"""Rules of the AI SDK's `ModelMessage`s."""

from __future__ import annotations

from typing import Any

from tests.request_rules import common
from tests.request_rules.common import Object, objects

PARTS = {
    "user": {"text", "image", "file"},
    "assistant": {"text", "file", "reasoning", "tool-call", "tool-result", "tool-approval-request"},
    "tool": {"tool-result", "tool-approval-response"},
}
MEMBERS: dict[str, set[str]] = {
    "text": {"text"},
    "reasoning": {"text"},
    "image": {"image"},
    "file": {"data", "mediaType"},
    "tool-call": {"toolCallId", "toolName", "input"},
    "tool-result": {"toolCallId", "toolName", "output"},
}
OPTIONAL = {"image": {"mediaType"}, "file": {"filename"}, "tool-call": {"providerExecuted"}}
OUTPUTS = {"text": str, "json": object, "error-text": str, "error-json": object, "content": list}


def broken(body: Object) -> list[str]:
    """The rules that `messages` of a body break."""
    messages = objects(body.get("messages"))
    found = common.unsendable(body)
    open_: dict[Any, bool] = {}
    made: list[Any] = []
    for message in messages:
        role, content = message.get("role"), message.get("content")
        if message.keys() - {"role", "content", "providerOptions"}:
            found.append(f"members of a message: {[*message]}")
        if role in ("user", "system"):
            found += [f"the call {id!r} has no result" for id, served in open_.items() if not served]
            open_ = {}
        if role == "system":
            found += ["the system prompt is no text, or empty"] if not isinstance(content, str) or not content else []
            continue
        if role not in PARTS or not content:
            found.append(f"a message of {role} without content")
        for part in objects(content):
            found += _part(part, str(role))
            if part.get("type") == "tool-call":
                open_[part.get("toolCallId")] = bool(part.get("providerExecuted"))
                made.append(part.get("toolCallId"))
            elif part.get("type") == "tool-result" and open_.pop(part.get("toolCallId"), None) is None:
                found.append(f"a result without its call {part.get('toolCallId')!r}")
    found += [f"the call {id!r} has no result" for id, served in open_.items() if not served]
    return found + common.twice("the call", made)


def _part(part: Object, role: str) -> list[str]:
    kind = str(part.get("type"))
    if kind not in PARTS.get(role, ()):
        return [f"{kind} by {role}"]
    needed, allowed = MEMBERS.get(kind, set()), OPTIONAL.get(kind, set()) | {"type", "providerOptions"}
    found: list[str] = []
    if needed - part.keys() or part.keys() - needed - allowed:
        found.append(f"members of a {kind}: {[*part]}")
    if kind == "text" and not part.get("text"):
        found.append("a text is empty")
    options = part.get("providerOptions", {})
    if not common.is_object(options) or not all(map(common.is_object, options.values())):
        found.append("the options of providers are no objects")
    output: Any = part.get("output")
    if kind == "tool-result":
        value = output.get("value") if common.is_object(output) else None
        if not common.is_object(output) or not isinstance(value, OUTPUTS.get(output.get("type"), ())):  # type: ignore[arg-type]
            return [*found, "the output is of no known type"]
        found += [fault for item in objects(value) if output["type"] == "content" for fault in _item(item)]
    return found


def _item(item: Object) -> list[str]:
    if item.get("type") == "text":
        return [] if isinstance(item.get("text"), str) else ["a text is none"]
    if item.get("type") != "media" or not item.get("mediaType"):
        return [f"{item.get('type')} in an output, or no type of media"]
    return common.bad_data(str(item["mediaType"]), item.get("data"))
