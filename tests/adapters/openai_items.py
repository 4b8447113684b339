"""Random items of the OpenAI Agents SDK, and what a model is shown of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any

from hypothesis import strategies as st

from projections import ModelView
from projections.view.neutral import Call, Result, Text

INTERRUPTED = "[Tool execution was interrupted]"
Shown = tuple[str, ...]
KINDS = st.lists(
    st.sampled_from(["user", "user", "parts", "assistant", "easy", "reasoning", "call", "call", "output", "search", "compaction", "system", "system"]),
    min_size=1,
    max_size=5,
)  # fmt: skip


class Talk:
    """Makes items; outputs are those of calls that were made and have none."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def items(self, kinds: Iterable[str], before: Sequence[Any]) -> list[Any]:
        """Return items of these kinds that come behind others."""
        items: list[Any] = []
        for kind in kinds:
            made = self._item(kind, [*before, *items])
            items += [] if made is None else [made]
        return items

    def _item(self, kind: str, before: list[Any]) -> Any:
        number = next(self._numbers)
        text = f"{kind} {number} é\ud800"
        match kind:
            case "user":
                return {"role": "user", "content": text}
            case "parts":
                return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
            case "assistant":
                block: dict[str, Any] = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
                return {
                    "id": f"msg_{number}",
                    "type": "message",
                    "role": "assistant",
                    "status": "completed",
                    "content": [block],
                }
            case "system":
                return {"role": "system" if number % 3 else "developer", "content": text}
            case "easy":
                return {"role": "assistant", "content": text}
            case "reasoning":
                return {"id": f"rs_{number}", "type": "reasoning", "summary": [{"type": "summary_text", "text": text}]}
            case "call":
                arguments = f'{{"n": {number}}}'
                return {"type": "function_call", "call_id": f"call_{number}", "name": "look", "arguments": arguments}
            case "search":
                return {
                    "type": "web_search_call",
                    "id": f"ws_{number}",
                    "status": "completed",
                    "action": {"type": "search", "query": text},
                }
            case "compaction":
                return {"type": "compaction", "id": f"cmp_{number}", "encrypted_content": text}
            case _:
                pass
        waiting = _waiting(before)
        if not waiting:
            return None
        return {"type": "function_call_output", "call_id": waiting[number % len(waiting)], "output": text}


def _waiting(items: Iterable[Any]) -> list[str]:
    """Return the calls without an output."""
    calls: dict[str, None] = {}
    for item in items:
        if item.get("type") == "function_call":
            calls[item["call_id"]] = None
        elif item.get("type") == "function_call_output":
            calls.pop(item["call_id"], None)
    return list(calls)


def listed(items: Sequence[Any]) -> list[Shown]:
    """Return what a model is shown of items: texts and calls in order, a call with its output."""
    outputs = {item["call_id"]: item["output"] for item in items if item.get("type") == "function_call_output"}
    shown: list[Shown] = []
    begun = False
    for item in items:
        kind = item.get("type", "message")
        if kind == "message":
            content = item["content"]
            texts = [content] if isinstance(content, str) else [block["text"] for block in content]
            roles = {"system": "user" if begun else "prompt", "developer": "user", "assistant": "assistant"}
            role = roles.get(item["role"], "user")
            shown += [(role, text) for text in texts]
        elif kind == "function_call":
            call = item["call_id"]
            shown.append(("call", call, item["name"], item["arguments"], outputs.get(call, INTERRUPTED)))
        begun = begun or kind != "compaction"
    return shown


def viewed(view: ModelView) -> list[Shown]:
    """Return the same of a view."""
    parts = [(message.role, part) for message in view.messages for part in message.parts]
    outputs = {part.call: part.output for _, part in parts if isinstance(part, Result)}
    shown: list[Shown] = [("prompt", text) for text in view.system if text]
    for role, part in parts:
        if isinstance(part, Text):
            shown.append((role, part.text))
        elif isinstance(part, Call) and not part.provider_executed:
            shown.append(("call", part.call, part.tool, part.input, outputs[part.call]))
    return shown
