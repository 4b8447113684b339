"""Lists of LangChain messages, and what a model is shown of them and of a view."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage

from eventlog.importers.common.json_lines import dump
from projections import ModelView
from projections.view.neutral import Call, File, Reasoning, Result, Text

INTERRUPTED = "[Tool execution was interrupted]"
Shown = tuple[str, ...]


def _texts(content: Any) -> list[str]:
    blocks = [content] if isinstance(content, str) else content
    texts = [block if isinstance(block, str) else block.get("text") for block in blocks]
    return [text for text in texts if text]


def _blocks(role: str, content: Any) -> list[Shown]:
    shown: list[Shown] = []
    for block in [content] if isinstance(content, str) else content:
        if isinstance(block, str) or block.get("type") == "text":
            text = block if isinstance(block, str) else block["text"]
            shown += [(role, text)] if text else []
        elif block["type"] in {"reasoning", "thinking"}:
            shown.append((role, "thinks", block[block["type"]]))
        elif block["type"] in {"image_url", "image", "file"}:
            shown.append((role, "file"))
    return shown


def listed(messages: Sequence[BaseMessage]) -> list[Shown]:
    """Return the system prompt, texts, files, and calls with their results, in order."""
    shown: list[Shown] = []
    begun = False
    called: Counter[str] = Counter()
    for place, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            if called[message.tool_call_id]:
                called[message.tool_call_id] -= 1
            else:  # of no call before it, or one more
                begun = True
                shown += _blocks("user", message.content)
            continue
        prompts = isinstance(message, SystemMessage) and not begun
        begun = True
        if prompts:
            shown = [("prompt", "".join(_texts(message.content)))]
            continue
        shown += _blocks("assistant" if isinstance(message, AIMessage) else "user", message.content)
        for call in message.tool_calls if isinstance(message, AIMessage) else ():
            results = (
                other
                for other in messages[place:]
                if isinstance(other, ToolMessage) and other.tool_call_id == call["id"]
            )
            found = next(results, None)
            output = INTERRUPTED if found is None else "\n".join(_texts(found.content))
            shown.append(("call", str(call["id"]), call["name"], dump(call["args"]), output))
            called[str(call["id"])] = 1
    return shown


def viewed(view: ModelView) -> list[Shown]:
    """Return the same of a view."""
    prompt = "".join(view.system)
    shown: list[Shown] = [("prompt", prompt)] if prompt else []
    parts = [(message.role, part) for message in view.messages for part in message.parts]
    outputs = {id(part): part.output for _, part in parts if isinstance(part, Result)}
    return shown + list(_parts(parts, outputs))


def _parts(parts: Sequence[tuple[str, Any]], outputs: Any) -> Iterable[Shown]:
    del outputs
    for place, (role, part) in enumerate(parts):
        if isinstance(part, Text):
            yield (role, part.text)
        elif isinstance(part, Reasoning):
            yield (role, "thinks", part.text)
        elif isinstance(part, File):
            yield (role, "file")
        elif isinstance(part, Call):
            results = (other for _, other in parts[place:] if isinstance(other, Result) and other.call == part.call)
            yield ("call", part.call, part.tool, part.input, next(results).output)
