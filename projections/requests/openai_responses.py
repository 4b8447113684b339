"""A view as a request of OpenAI's Responses API: `instructions` and `input` items.

The request obeys the rules of the API:

* Reasoning is sent as the item that it came from, with all its summaries (`itemId` and
  `reasoningEncryptedContent` of its metadata, as the AI SDK names them). Reasoning without an id,
  or with no item after it, is refused by the API and therefore omitted.
* A text or a call keeps the id of its item (`msg_`, `fc_`) right behind a reasoning item only:
  elsewhere its own reasoning may be missing, for which the API refuses the id. A text keeps its
  phase. Texts with the same id are one item.
* An item id has at most 64 characters, begins as its type demands, and is there once.
* A compaction that OpenAI made is sent back as it came, with nothing before it that it stands for.
* A web search that OpenAI ran has its own item, if its input is a search action and, in an answer
  with reasoning, right behind a reasoning item or another search: it needs its own. Every other
  tool becomes `function_call` and `function_call_output`.
* Call ids have at most 64 characters and are unique in the request. No text is empty.
* A file that the API does not take is named by a text; a text file is sent as a text.

`openai.py` has Chat Completions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from eventlog.streams.openai_responses import COMPACTION
from eventlog.values import Json
from projections.requests.call_ids import CallIds, Names
from projections.requests.files import data_of, file_id_of, is_web, mime_of, readable
from projections.requests.metadata import arguments_text, is_object, of_provider, parsed, tool_name
from projections.requests.servers import RESPONSES
from projections.requests.text import failure, sendable, summary_of
from projections.view.neutral import Call, File, NeutralMessage, Opaque, Reasoning, Result, Text

__all__ = ["responses_request"]

Item: TypeAlias = dict[str, Any]

_LONGEST_ID = 64
"""Characters of an item's id."""
_COMPACTED = {"id", "encrypted_content"}
"""Members of a compaction that the API takes."""
_ACTIONS = {"search", "open_page", "find_in_page"}


def responses_request(
    messages: Iterable[NeutralMessage], system: Sequence[str] = (), *, store: bool = True
) -> dict[str, Any]:
    """Return the part of a request that the view decides; `instructions` only if not empty.

    `store` says that OpenAI stores the answers; without, reasoning needs its encrypted content.
    """
    request: dict[str, Any] = {}
    instructions = _instructions(system)
    if instructions:
        request["instructions"] = instructions
    ids = CallIds(RESPONSES.ids, RESPONSES.longest_id)
    taken: set[str] = set()
    request["input"] = [
        item for message in messages for item in _items(message, ids.names(message), taken, store=store)
    ]
    return request


def _instructions(system: Sequence[str]) -> str:
    return sendable("\n\n".join(segment for segment in system if segment))


def _items(message: NeutralMessage, names: Names, taken: set[str], *, store: bool) -> list[Item]:
    if message.role == "assistant":
        return _Answer(names, taken, store=store).items(message)
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
    mime = mime_of(file, data)
    is_sent = data is not None and RESPONSES.takes(mime)
    at_address = is_web(file) and RESPONSES.takes(mime, address=True)
    url = f"data:{mime};base64,{data.base64}" if data is not None else sendable(file.url)
    if mime.startswith("image/"):
        image: Item = {"type": "input_image", "detail": "auto"}
        if is_sent or at_address:
            return {**image, "image_url": url}
        if uploaded is not None:
            return {**image, "file_id": uploaded}
    elif is_sent:
        return {"type": "input_file", "filename": sendable(file.filename or "document.pdf"), "file_data": url}
    elif at_address:
        return {"type": "input_file", "file_url": url}
    elif uploaded is not None:
        return {"type": "input_file", "file_id": uploaded}
    return {"type": "input_text", "text": readable(file)}


class _Answer:
    """The items of one assistant message; `taken` are the item ids of the request."""

    def __init__(self, names: Names, taken: set[str], *, store: bool) -> None:
        self._names = names
        self._taken = taken
        self._store = store
        self._items: list[Item] = []
        self._has_thought = False
        self._is_void = False
        """Whether reasoning that belongs to the next may be edited, or of another provider."""

    def items(self, message: NeutralMessage) -> list[Item]:
        """Return the items of the message."""
        answers = {part.call: part for part in message.parts if isinstance(part, Result)}
        self._has_thought = any(isinstance(part, Reasoning) for part in message.parts)
        for part in message.parts:
            if isinstance(part, Reasoning):
                self._add_reasoning(part)
            elif isinstance(part, Text) and part.text:
                self._add_text(part)
            elif isinstance(part, File):
                self._close_reasoning()
                self._add({"type": "message", "role": "assistant", "content": readable(part)})
            elif isinstance(part, Opaque):
                self._add(_compaction(part))
            elif isinstance(part, Call):
                self._add_call(part, answers.get(part.call))
        self._drop_reasoning()
        return self._items

    def _add(self, item: Item) -> None:
        self._items.append(item)
        self._is_void = False
        self._taken.update([item["id"]] if "id" in item else [])

    def _id(self, metadata: Json | None, kind: str) -> str | None:
        """Return the item id of a part if the API takes it here, else None."""
        name = of_provider(metadata, "openai").get("itemId")
        if not isinstance(name, str) or not name.startswith(kind) or len(name) > _LONGEST_ID or name in self._taken:
            return None
        return name

    @property
    def _last(self) -> Item:
        return self._items[-1] if self._items else {"type": ""}

    def _drop_reasoning(self) -> None:
        """Take away reasoning at the end, whose own item does not follow."""
        while self._last["type"] == "reasoning":
            self._items.pop()

    def _add_reasoning(self, part: Reasoning) -> None:
        own = of_provider(part.metadata, "openai")
        encrypted = own.get("reasoningEncryptedContent")
        summary = [{"type": "summary_text", "text": sendable(part.text)}] if part.text else []
        if self._last["type"] == "reasoning" and self._last["id"] == own.get("itemId"):
            self._last["summary"] += summary
            self._last.update({"encrypted_content": encrypted} if isinstance(encrypted, str) else {})
            return
        self._close_reasoning()
        name = self._id(part.metadata, "rs_")
        if name is None or self._is_void:
            self._drop_reasoning()  # it may be a part of the same item
            self._is_void = True
            return
        item: Item = {"type": "reasoning", "id": name, "summary": summary}
        if isinstance(encrypted, str):
            item["encrypted_content"] = encrypted
        self._add(item)

    def _close_reasoning(self) -> None:
        """Take away reasoning that has no cipher, if the API does not store it."""
        if not self._store and self._last["type"] == "reasoning" and not self._last.get("encrypted_content"):
            self._items.pop()

    def _add_text(self, part: Text) -> None:
        self._close_reasoning()
        own = of_provider(part.metadata, "openai")
        last, text, phase = self._last, sendable(part.text), own.get("phase")
        content = {"type": "output_text", "text": text, "annotations": list[Any]()}
        if last["type"] == "message" and "id" in last and last["id"] == own.get("itemId"):
            last["content"].append(content)
            last.update({"phase": phase} if isinstance(phase, str) else {})
            return
        name = self._id(part.metadata, "msg_") if last["type"] == "reasoning" else None
        item: Item = {"type": "message", "role": "assistant", "content": text}
        if name is not None:
            item |= {"id": name, "status": "completed", "content": [content]}
        if isinstance(phase, str):
            item["phase"] = phase
        self._add(item)

    def _add_call(self, call: Call, answer: Result | None) -> None:
        self._close_reasoning()
        search = _search_action(call)
        has_own = not self._has_thought or self._last["type"] in {"reasoning", "web_search_call"}
        name = self._id(call.metadata, "ws_") if search is not None and has_own else None
        if name is not None:
            self._add({"type": "web_search_call", "id": name, "status": "completed", "action": search})
            return
        item: Item = {
            "type": "function_call",
            "call_id": self._names[call.call],
            "name": tool_name(call.tool, RESPONSES.longest_name),
            "arguments": arguments_text(call.input),
        }
        name = self._id(call.metadata, "fc_") if self._last["type"] == "reasoning" else None
        self._add(item if name is None else {**item, "id": name})
        if answer is not None:
            self._add(_output(answer, self._names))


def _compaction(part: Opaque) -> Item:
    """Return the item of a compaction: as it came, or the summary of another provider's."""
    if part.kind != COMPACTION:
        return {"type": "message", "role": "assistant", "content": sendable(summary_of(part))}
    item = parsed(part.data)
    return {name: value for name, value in item.items() if name in _COMPACTED} | {"type": "compaction"}


def _search_action(call: Call) -> Item | None:
    """Return the action of a web search that OpenAI ran; None for any other call."""
    arguments = parsed(call.input)
    action = arguments.get("action", arguments) if is_object(arguments) else None
    return action if call.provider_executed and is_object(action) and action.get("type") in _ACTIONS else None


def _output(result: Result, names: Names) -> Item:
    text = sendable(failure(result.output) if result.error else result.output)
    output: str | list[Item] = text
    if result.files:
        output = [*([{"type": "input_text", "text": text}] if text else []), *map(_file, result.files)]
    return {"type": "function_call_output", "call_id": names[result.call], "output": output}
