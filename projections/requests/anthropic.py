"""A view as a request of Anthropic's Messages API: `system` blocks and `messages`.

Tool schemas and sampling are the caller's. The request obeys the rules of the API:

* User and assistant alternate, beginning with the user. Neighbours of one role become one message,
  and `OPENING` precedes a conversation that begins with the assistant.
* A call is answered in the next message, with results first. The calls of a message follow its
  other blocks.
* Call ids and tool names consist of `[A-Za-z0-9_-]`; call ids are unique in the request.
* No text is blank. A last assistant message (a prefill) does not end with white space, and no
  message ends with thinking.
* Thinking is sent with its signature, or as `redacted_thinking`. Other thinking, of another model
  or of an interrupted answer, is omitted.
* A compaction that Anthropic made is sent back as it came.
* A tool that Anthropic ran has its own blocks in the same message, if its result has the form that
  belongs to the tool. Otherwise (cleared, redacted, of another provider) it is an ordinary call
  with its result in the next message.
* At most 100 images are sent, the newest, each of at most 5 MB and 8,000 pixels, 2,000 where more
  than 20 are sent. Others, and files of types that the API does not take, are named by a text.
* At most four cache breakpoints: behind the system segments and at the end of user messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from eventlog.streams.anthropic import COMPACTION
from projections.requests.call_ids import CallIds, Names
from projections.requests.files import data_of, file_id_of, is_web, mime_of, placeholder, text_of, too_much
from projections.requests.metadata import arguments, is_array, is_object, of_provider, parsed, tool_name
from projections.requests.servers import ANTHROPIC
from projections.requests.text import failure, sendable, summary_of
from projections.view.neutral import Call, File, NeutralMessage, Opaque, Reasoning, Result, Text

__all__ = ["CONTINUE", "OPENING", "Cache", "anthropic_request"]

Block: TypeAlias = dict[str, Any]
Role: TypeAlias = Literal["user", "assistant"]

OPENING = "(The conversation begins with the assistant.)"
"""User message before a first assistant message, which the API refuses."""
CONTINUE = "Continue."
"""User message after a last assistant message, for models that accept no prefill."""

Cache: TypeAlias = Literal["none", "system", "prefix"]
"""Where cache breakpoints are set."""

_THINKING = {"thinking", "redacted_thinking"}
_SERVER_TOOLS: dict[str, tuple[str, tuple[str, ...]]] = {
    "web_search": ("web_search_tool_result", ("web_search_tool_result_error",)),
    "web_fetch": ("web_fetch_tool_result", ("web_fetch_result", "web_fetch_tool_result_error")),
    "code_execution": (
        "code_execution_tool_result",
        ("code_execution_result", "encrypted_code_execution_result", "code_execution_tool_result_error"),
    ),
    "bash_code_execution": (
        "bash_code_execution_tool_result",
        ("bash_code_execution_result", "bash_code_execution_tool_result_error"),
    ),
    "text_editor_code_execution": (
        "text_editor_code_execution_tool_result",
        (
            "text_editor_code_execution_view_result",
            "text_editor_code_execution_create_result",
            "text_editor_code_execution_str_replace_result",
            "text_editor_code_execution_tool_result_error",
        ),
    ),
    "tool_search_tool_regex": (
        "tool_search_tool_result",
        ("tool_search_tool_search_result", "tool_search_tool_result_error"),
    ),
    "tool_search_tool_bm25": (
        "tool_search_tool_result",
        ("tool_search_tool_search_result", "tool_search_tool_result_error"),
    ),
}
"""By tool that Anthropic runs: the type of its result block, and the types of its content."""
_SERVED = re.compile("srvtoolu_[a-zA-Z0-9_]+")
"""Ids of calls of such tools."""


class RoleBlocks(NamedTuple):
    """Blocks of one role, made from a neutral message or from a part of it."""

    role: Role
    blocks: list[Block]


def anthropic_request(
    messages: Iterable[NeutralMessage], system: Sequence[str] = (), *, prefill: bool = True, cache: Cache = "system"
) -> dict[str, Any]:
    """Return the part of a request that the view decides.

    `prefill` says whether the model accepts a last assistant message. `cache` sets breakpoints:
    "system" behind the first and the last system segment, "prefix" also at the end of the newest
    two user messages, which the next request begins with, "none" nowhere.
    """
    form = _Form()
    turns = [turn for message in messages for turn in form.role_blocks(message)]
    for place in too_much([data_of(file) for _, file in form.images], ANTHROPIC):
        block, file = form.images[place]
        block.clear()
        block.update({"type": "text", "text": placeholder(file)})
    joined: list[Block] = []
    for role, blocks in _alternating(turns, prefill=prefill):
        if joined and joined[-1]["role"] == role:
            joined[-1]["content"].extend(blocks)
        else:
            joined.append({"role": role, "content": [*blocks]})
    segments = _system(system)
    if cache != "none":
        ends = [*segments[:1], *segments[1:][-1:]]
        if cache == "prefix":
            asked = [message["content"][-1] for message in joined if message["role"] == "user"]
            ends += asked[-(ANTHROPIC.marks - len(ends)) :][-2:]
        for block in ends:
            block["cache_control"] = {"type": "ephemeral"}
    return {"system": segments, "messages": joined}


def _system(system: Sequence[str]) -> list[Block]:
    return [{"type": "text", "text": sendable(segment)} for segment in system if segment.strip()]


def _alternating(turns: list[RoleBlocks], *, prefill: bool) -> Iterator[RoleBlocks]:
    """Yield the blocks with opening and end, and the prefill stripped of white space."""
    if not turns:
        return
    if turns[0].role == "assistant":
        yield RoleBlocks("user", [{"type": "text", "text": OPENING}])
    yield from turns[:-1]
    last = turns[-1]
    if last.role == "assistant":
        end = last.blocks[-1]
        if end["type"] == "text" and end["text"] != end["text"].rstrip():
            last = RoleBlocks("assistant", [*last.blocks[:-1], {**end, "text": end["text"].rstrip()}])
    yield last
    if last.role == "assistant" and not prefill:
        yield RoleBlocks("user", [{"type": "text", "text": CONTINUE}])


# -- messages ----------------------------------------------------------------------------------


class _Form:
    """The blocks of one request, with its call ids and images."""

    def __init__(self) -> None:
        self._ids = CallIds(ANTHROPIC.ids, ANTHROPIC.longest_id)
        self.images: list[tuple[Block, File]] = []
        """The blocks of images, in the order of the request."""

    def role_blocks(self, message: NeutralMessage) -> list[RoleBlocks]:
        """Return the blocks of a message by role, without empty ones."""
        names = self._ids.names(message)
        if message.role == "assistant":
            return self._assistant(message, names)
        blocks: list[Block] = []
        for part in message.parts:
            if isinstance(part, Text):
                blocks.extend(_text(part.text))
            elif isinstance(part, File):
                blocks.append(self._file(part))
            elif isinstance(part, Result):
                blocks.append(self._result(part, names))
        return [RoleBlocks("user", blocks)] if blocks else []

    def _assistant(self, message: NeutralMessage, names: Names) -> list[RoleBlocks]:
        answers = {part.call: part for part in message.parts if isinstance(part, Result)}
        blocks: list[Block] = []
        calls: list[Block] = []
        results: list[Block] = []
        for part in message.parts:
            if isinstance(part, Text):
                blocks.extend(_text(part.text, of_provider(part.metadata, "anthropic").get("citations")))
            elif isinstance(part, Reasoning):
                blocks.extend(_thinking(part))
            elif isinstance(part, File):
                blocks.append({"type": "text", "text": placeholder(part)})
            elif isinstance(part, Opaque):
                blocks.extend(_compaction(part))
            elif isinstance(part, Call):
                answer = answers.get(part.call)
                served = _server_tool(part, answer, names[part.call]) if answer is not None else []
                blocks.extend(served)
                if not served:
                    calls.append(_call("tool_use", part, names[part.call]))
                    results.extend([self._result(answer, names)] if answer is not None else [])
        if not calls:
            while blocks and blocks[-1]["type"] in _THINKING:
                blocks.pop()
        turns = [RoleBlocks("assistant", blocks + calls), RoleBlocks("user", results)]
        return [turn for turn in turns if turn.blocks]

    def _file(self, file: File) -> Block:
        block = _file(file)
        if block["type"] == "image":
            self.images.append((block, file))
        return block

    def _result(self, result: Result, names: Names) -> Block:
        block: Block = {"type": "tool_result", "tool_use_id": names[result.call]}
        output = failure(result.output) if result.error else result.output
        content = _text(output)
        for file in result.files:
            content.append({"type": "text", "text": placeholder(file)} if result.error else self._file(file))
        if content:
            block["content"] = content
        if result.error:
            block["is_error"] = True
        return block


# -- blocks ------------------------------------------------------------------------------------


def _text(text: str, citations: object = None) -> list[Block]:
    if not text.strip():
        return []
    block: Block = {"type": "text", "text": sendable(text)}
    if isinstance(citations, list) and citations:
        block["citations"] = citations
    return [block]


def _thinking(part: Reasoning) -> list[Block]:
    own = of_provider(part.metadata, "anthropic")
    data, signature = own.get("redactedData"), own.get("signature")
    if isinstance(data, str) and data:
        return [{"type": "redacted_thinking", "data": data}]
    if isinstance(signature, str) and signature:
        return [{"type": "thinking", "thinking": sendable(part.text), "signature": signature}]
    return []


def _compaction(part: Opaque) -> list[Block]:
    """Return the block of a compaction: as it came, or the summary of another provider's."""
    return [parsed(part.data)] if part.kind == COMPACTION else _text(summary_of(part))


def _file(file: File) -> Block:
    """Return an image or document, or a text for a file that the API does not accept."""
    data, uploaded = data_of(file), file_id_of(file)
    mime = mime_of(file, data)
    source: Block | None = None
    is_image = mime.startswith("image/")
    if data is not None and mime.startswith("text/"):
        text = text_of(data)
        source = {"type": "text", "media_type": "text/plain", "data": text} if text.strip() else None
    elif data is not None and ANTHROPIC.takes(mime):
        source = {"type": "base64", "media_type": mime, "data": data.base64}
    elif is_web(file) and ANTHROPIC.takes(mime, address=True):
        source = {"type": "url", "url": sendable(file.url)}
    elif uploaded is not None:
        source = {"type": "file", "file_id": uploaded}
    if source is None:
        return {"type": "text", "text": placeholder(file)}
    if is_image:
        return {"type": "image", "source": source}
    block: Block = {"type": "document", "source": source}
    if file.filename:
        block["title"] = sendable(file.filename)
    return block


def _call(kind: str, call: Call, name: str) -> Block:
    return {
        "type": kind,
        "id": name,
        "name": tool_name(call.tool, ANTHROPIC.longest_name),
        "input": arguments(call.input),
    }


def _server_tool(call: Call, result: Result, name: str) -> list[Block]:
    """Return the blocks of a tool that Anthropic ran; none if it must be an ordinary call."""
    result_types = _SERVER_TOOLS.get(call.tool)
    if not call.provider_executed or result_types is None or not _SERVED.fullmatch(name):
        return []
    kind, contents = result_types
    content = parsed(result.output)
    if is_array(content):
        sound = kind == "web_search_tool_result" and all(_is_of(entry, ("web_search_result",)) for entry in content)
    else:
        sound = _is_of(content, contents)
    if not sound or not isinstance(parsed(call.input), dict):
        return []
    return [
        _call("server_tool_use", call, name),
        {"type": kind, "tool_use_id": name, "content": content},
    ]


def _is_of(value: object, kinds: tuple[str, ...]) -> bool:
    return is_object(value) and value.get("type") in kinds
