"""Shapes of files with lists of messages, detected from the first messages."""

from __future__ import annotations

import io
from typing import Any, BinaryIO, NamedTuple, cast

from eventlog.importers.common.json_document import SAMPLE, beginning
from eventlog.importers.common.json_lines import DamagedLineError, is_array, is_object, parse, read_beginning
from eventlog.streams.records import text_of

OPENAI = "openai"
ANTHROPIC = "anthropic"
MEMBERS = ("messages", "traj", "history")
"""Members that may have the messages."""
ALONE = "."
"""Member of a conversation that is one record instead of an array."""
FURTHEST = 64 * 1024 * 1024
"""Bytes of a file in which a list of messages may begin."""

_BLANK = b"\xef\xbb\xbf \t\r\n"

_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
_ONLY_OPENAI = frozenset({"tool_calls", "tool_call_id", "function_call", "reasoning_content", "refusal"})
_OPENAI_BLOCKS = frozenset({"image_url", "input_audio", "file", "refusal", "input_text", "output_text", "input_image"})
_ANTHROPIC_BLOCKS = frozenset(
    {"image", "document", "thinking", "redacted_thinking", "tool_use", "tool_result", "server_tool_use"}
)


class Shape(NamedTuple):
    """Shape of a file or line: its kind, the member with the messages, and their provider.

    `family` is `OPENAI`, `ANTHROPIC`, or "" for no list of messages.
    """

    kind: str
    """"array", "object", "reply", "messages", "conversations", "none" or "".

    "messages" has one message a line, "conversations" one conversation a line; "none" is an object
    without messages.
    """
    member: str = ""
    family: str = ""


def shape_of(file: BinaryIO) -> Shape:
    """Return the shape of a file, whose position stays the same.

    Its messages may begin anywhere in its first `FURTHEST` bytes.
    """
    begin = file.tell()
    start = read_beginning(file)
    shape = shape_of_start(start)
    if not shape.family and start.lstrip(_BLANK)[:1] in {b"{", b"["}:
        file.seek(begin)
        shape = _further(file, start) or shape
    file.seek(begin)
    return shape


def _further(file: BinaryIO, start: bytes) -> Shape | None:
    """Return the shape of a document whose messages do not begin in its first bytes."""
    if start.lstrip(_BLANK).startswith(b"["):
        detected = _family_of_messages(beginning(cast("BinaryIO", _Bounded(file)))[0], {})
        return Shape("array", family=detected) if detected else None
    shape = _object(file, whole=False)
    return shape if shape.kind == "object" else None


class _Bounded(io.RawIOBase):
    """Beginning of a file: its next `FURTHEST` bytes."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__()
        self._file = file
        self._left = FURTHEST

    def read(self, size: int = -1, /) -> bytes:
        """Read up to `size` bytes, or what is left."""
        data = self._file.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(data)
        return data


def shape_of_start(start: bytes) -> Shape:
    """Return the shape of a file that begins with these bytes."""
    data = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    first, _, rest = data.partition(b"\n")
    if data.startswith(b"["):
        detected = _family_of_messages(beginning(io.BytesIO(data))[0], {})
        # A complete array without messages on the first of several lines is a damaged line.
        return (
            Shape("array", family=detected)
            if detected or not rest.strip() or _parsed(first) is None
            else Shape("messages")
        )
    if not data.startswith(b"{"):
        return Shape("")
    value = _parsed(first)
    if not is_object(value):
        found = _object(io.BytesIO(data), whole=True)
        return found if found.kind or b"\n{" in data else Shape("none")
    if not rest.strip():
        return shape_of_object(value)
    values = [found for found in map(_parsed, data.split(b"\n")[:SAMPLE]) if found is not None]
    if any(_is_message(found) and not _is_reply(found) for found in values):
        return Shape("messages", family=_family_of_messages(values, {}))
    shapes = [shape_of_object(found) if is_object(found) else Shape("") for found in values]
    if not any(found.kind in {"object", "reply"} for found in shapes):
        return Shape("messages")
    detected = shapes[0].family if all(found.family == shapes[0].family for found in shapes) else ""
    return Shape("conversations", family=detected)


def _parsed(data: bytes) -> Any:
    try:
        return parse(data.strip())[0] if data.strip() else None
    except DamagedLineError:
        return None


def _object(file: BinaryIO, *, whole: bool) -> Shape:
    """Return the shape of an object over several lines, by its first messages."""
    begin = file.tell()
    around: dict[str, Any] = {}
    for member in MEMBERS:
        file.seek(begin)
        messages, around = beginning(cast("BinaryIO", _Bounded(file)), member, whole=whole)
        if messages and (detected := _family_of_messages(messages, around)):
            return Shape("object", member, detected)
    return shape_of_object(around)


def shape_of_object(value: dict[str, Any]) -> Shape:
    """Return the shape of one object."""
    if _is_reply(value):
        return Shape("reply", family=ANTHROPIC if value.get("type") == "message" else OPENAI)
    for member in MEMBERS:
        found = value.get(member)
        if is_array(found) and found and (detected := _family_of_messages(found[:SAMPLE], value)):
            return Shape("object", member, detected)
    return Shape("messages", family=_family_of_messages([value], {})) if _is_message(value) else Shape("")


def _is_reply(value: dict[str, Any]) -> bool:
    if value.get("object") == "chat.completion":
        return is_array(value.get("choices"))
    return value.get("type") == "message" and value.get("role") == "assistant" and is_array(value.get("content"))


def _is_message(value: object) -> bool:
    if not is_object(value) or text_of(value.get("role")) not in _ROLES:
        return False
    content = value.get("content")
    if is_array(content):
        return all(
            isinstance(block, str) or (is_object(block) and isinstance(block.get("type"), str)) for block in content
        )
    return isinstance(content, str) or (content is None and bool(value.keys() & _ONLY_OPENAI))


def _family_of_messages(messages: list[Any], around: dict[str, Any]) -> str:
    """Return the provider whose messages these are; "" if one of them is no message."""
    if not messages or not all(map(_is_message, messages)):
        return ""
    theirs = "system" in around and not any(message["role"] == "system" for message in messages)
    ours = False
    for message in messages:
        content = message.get("content")
        kinds = {block["type"] for block in (content if is_array(content) else []) if is_object(block)}
        ours = ours or bool(
            message.keys() & _ONLY_OPENAI or kinds & _OPENAI_BLOCKS or message["role"] not in {"user", "assistant"}
        )
        theirs = theirs or bool(kinds & _ANTHROPIC_BLOCKS)
    return "" if ours and theirs else ANTHROPIC if theirs else OPENAI
