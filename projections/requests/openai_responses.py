"""A view as a request of OpenAI's Responses API: `instructions` and `input` items.

The request obeys the rules of the API:

* Reasoning is sent as the item that it came from, with all its summaries (`itemId` and
  `reasoningEncryptedContent` of its metadata, as the AI SDK names them). Reasoning without an id,
  or with no item after it, is refused by the API and therefore omitted.
* A text keeps the id of its item; texts of a message with the same id are one item.
* A web search that OpenAI ran has its own item, if its input is a search action. Every other tool
  becomes `function_call` and `function_call_output`.
* Call ids have at most 64 characters and are unique in the request. No text is empty.

`openai.py` has Chat Completions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from projections.requests.calls import CallIds, Names
from projections.requests.files import data_of, file_id_of, is_web, placeholder
from projections.requests.metadata import is_object, of_provider, parsed, tool_name
from projections.requests.text import sendable
from projections.view.neutral import Call, File, NeutralMessage, Reasoning, Result, Text

__all__ = ["responses_request"]

Item: TypeAlias = dict[str, Any]

_LONGEST_ID = 64
_LONGEST_NAME = 128
_ACTIONS = {"search", "open_page", "find_in_page"}


def responses_request(messages: Iterable[NeutralMessage], system: Sequence[str] = ()) -> dict[str, Any]:
    """Return the part of a request that the view decides; `instructions` only if not empty."""
    request: dict[str, Any] = {}
    instructions = _instructions(system)
    if instructions:
        request["instructions"] = instructions
    ids = CallIds(r"[\x21-\x7e]+", _LONGEST_ID)
    request["input"] = [item for message in messages for item in _items(message, ids.names(message))]
    return request


def _instructions(system: Sequence[str]) -> str:
    return sendable("\n\n".join(segment for segment in system if segment))


def _items(message: NeutralMessage, names: Names) -> list[Item]:
    if message.role == "assistant":
        return _assistant(message, names)
    if message.role == "tool":
        return [_output(part, names) for part in message.parts if isinstance(part, Result)]
    content = [item for part in message.parts for item in _content(part)]
    return [{"type": "message", "role": "user", "content": content}] if content else []


def _content(part: object) -> list[Item]:
    if isinstance(part, Text) and part.text:
        return [{"type": "input_text", "text": sendable(part.text)}]
    return [_file(part)] if isinstance(part, File) else []


def _file(file: File) -> Item:
    """Return an image or a file, or a text for a file that the API does not accept."""
    data, uploaded = data_of(file), file_id_of(file)
    mime = file.mime if data is None else data.mime
    if mime.startswith("image/"):
        image: Item = {"type": "input_image", "detail": "auto"}
        if data is not None:
            return {**image, "image_url": f"data:{mime};base64,{data.base64}"}
        if is_web(file):
            return {**image, "image_url": sendable(file.url)}
        if uploaded is not None:
            return {**image, "file_id": uploaded}
    elif data is not None and not mime.startswith(("audio/", "video/")):
        name = sendable(file.filename or "document.pdf")
        return {"type": "input_file", "filename": name, "file_data": f"data:{mime};base64,{data.base64}"}
    elif is_web(file):
        return {"type": "input_file", "file_url": sendable(file.url)}
    elif uploaded is not None:
        return {"type": "input_file", "file_id": uploaded}
    return {"type": "input_text", "text": placeholder(file)}


def _assistant(message: NeutralMessage, names: Names) -> list[Item]:
    answers = {part.call: part for part in message.parts if isinstance(part, Result)}
    items: list[Item] = []
    for part in message.parts:
        if isinstance(part, Reasoning):
            _add_reasoning(items, part)
        elif isinstance(part, Text) and part.text:
            _add_text(items, part)
        elif isinstance(part, File):
            items.append({"type": "message", "role": "assistant", "content": placeholder(part)})
        elif isinstance(part, Call):
            answer = answers.get(part.call)
            search = _search(part)
            items.append(search or _call(part, names))
            if answer is not None and search is None:
                items.append(_output(answer, names))
    while items and items[-1]["type"] == "reasoning":
        items.pop()
    return items


def _add_reasoning(items: list[Item], part: Reasoning) -> None:
    own = of_provider(part.metadata, "openai")
    name, encrypted = own.get("itemId"), own.get("reasoningEncryptedContent")
    if not isinstance(name, str) or not name:
        return
    summary = [{"type": "summary_text", "text": sendable(part.text)}] if part.text else []
    last = items[-1] if items else {}
    if last.get("type") == "reasoning" and last["id"] == name:
        last["summary"] += summary
    else:
        last = {"type": "reasoning", "id": name, "summary": summary}
        items.append(last)
    if isinstance(encrypted, str):
        last["encrypted_content"] = encrypted


def _add_text(items: list[Item], part: Text) -> None:
    name = of_provider(part.metadata, "openai").get("itemId")
    text = sendable(part.text)
    if not isinstance(name, str) or not name:
        items.append({"type": "message", "role": "assistant", "content": text})
        return
    content = {"type": "output_text", "text": text, "annotations": list[Any]()}
    if items and items[-1]["type"] == "message" and items[-1].get("id") == name:
        items[-1]["content"].append(content)
    else:
        items.append({"type": "message", "id": name, "role": "assistant", "status": "completed", "content": [content]})


def _call(call: Call, names: Names) -> Item:
    item: Item = {
        "type": "function_call",
        "call_id": names[call.call],
        "name": tool_name(call.tool, _LONGEST_NAME),
        "arguments": sendable(call.input),
    }
    name = of_provider(call.metadata, "openai").get("itemId")
    if isinstance(name, str) and name.startswith("fc_"):
        item["id"] = name
    return item


def _search(call: Call) -> Item | None:
    """Return the item of a web search that OpenAI ran; None for any other call."""
    name = of_provider(call.metadata, "openai").get("itemId")
    if not call.provider_executed or not isinstance(name, str) or not name.startswith("ws_"):
        return None
    arguments = parsed(call.input)
    action = arguments.get("action", arguments) if is_object(arguments) else None
    if not is_object(action) or action.get("type") not in _ACTIONS:
        return None
    return {"type": "web_search_call", "id": name, "status": "completed", "action": action}


def _output(result: Result, names: Names) -> Item:
    text = sendable(result.output)
    output: str | list[Item] = text
    if result.files:
        output = [*([{"type": "input_text", "text": text}] if text else []), *map(_file, result.files)]
    return {"type": "function_call_output", "call_id": names[result.call], "output": output}
