"""Lists of messages as the providers' APIs take them: recognising and reading the files.

The first messages of a file decide strictly which of these it is:

* an array of messages, or an object with such an array in `messages` (a request), `traj` or
  `history`;
* a reply: a chat completion, or an Anthropic message with its usage;
* one message a line; or one object of the kinds above a line, each of which is a conversation.

Arrays are read element by element.  Each message is a source record, numbered by its place (or its
line); what stands around them is record 0, `[member, object]`, with null in place of the array.
`document` puts them together again.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, NamedTuple

from eventlog.importers.common.importer import Report
from eventlog.importers.common.json_document import DamagedDocumentError, Document
from eventlog.importers.common.json_lines import (
    DamagedLineError,
    check_depth,
    dump,
    is_array,
    is_object,
    lines,
    parse,
    sound,
    text_or_empty,
)
from eventlog.importers.common.remainder import SourceRecord

__all__ = ["ANTHROPIC", "OPENAI", "ListedConversation", "conversations", "document", "family", "family_of"]

OPENAI = "openai"
ANTHROPIC = "anthropic"
MEMBERS = ("messages", "traj", "history")
"""Members that may have the messages."""
ALONE = "."
"""Member of a conversation that is one record instead of an array."""
START = 64 * 1024
"""Bytes of a file that are read at first to detect its shape."""
LONGEST = 8 * 1024 * 1024
"""Bytes that are read beyond `START` to have the first line whole."""
FURTHEST = 64 * 1024 * 1024
"""Bytes of a file in which a list of messages may begin."""
SAMPLE = 50
"""Messages that a format is detected from."""

_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
_ONLY_OPENAI = frozenset({"tool_calls", "tool_call_id", "function_call", "reasoning_content", "refusal"})
_OPENAI_BLOCKS = frozenset({"image_url", "input_audio", "file", "refusal", "input_text", "output_text", "input_image"})
_ANTHROPIC_BLOCKS = frozenset(
    {"image", "document", "thinking", "redacted_thinking", "tool_use", "tool_result", "server_tool_use"}
)


class ListedConversation(NamedTuple):
    """Conversation in a file; `name` is its place if there are several.

    `around` is what stands around the messages.
    """

    name: str
    member: str
    around: dict[str, Any]
    messages: Iterator[tuple[int, Any, bool]]
    """(number, message, whether it is plain)."""


class _Shape(NamedTuple):
    kind: str
    """"array", "object", "reply", "messages" (one a line), "conversations" (one a line), "none" for
    an object with no messages, or "".
    """
    member: str = ""
    family: str = ""


def document(sources: Iterable[SourceRecord]) -> Any:
    """Return the JSON document that the records came from: an array, or an object around it."""
    records = {source.line: source.record for source in sources}
    around = records.pop(0, None)
    messages = [records[number] for number in sorted(records)]
    if around is None:
        return messages
    member, value = around
    return messages[0] if member == ALONE else {**value, member: messages}


def family(start: bytes) -> str:
    """Return the provider whose messages a file begins with.

    `OPENAI`, `ANTHROPIC`, or "" for no list of messages.
    """
    return _shape(start).family


def family_of(file: BinaryIO) -> str:
    """Return the provider whose messages begin in a file's first `FURTHEST` bytes."""
    return _shape_of(file).family


# -- telling ---------------------------------------------------------------------------------------


def _shape_of(file: BinaryIO) -> _Shape:
    """Return the shape of a file, whose position stays the same."""
    begin = file.tell()
    start = file.read(START)
    if b"\n" not in start:
        start += file.readline(LONGEST)
    shape = _shape(start)
    if not shape.family and start.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in {b"{", b"["}:
        file.seek(begin)
        shape = _further(file, start) or shape
    file.seek(begin)
    return shape


def _further(file: BinaryIO, start: bytes) -> _Shape | None:
    """Return the shape of a document whose messages do not begin in its first bytes."""
    begin = file.tell()
    if start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
        detected = _family_of(_sample(_Bounded(file, FURTHEST)), {})
        return _Shape("array", family=detected) if detected else None
    for member, at in _arrays(file):
        file.seek(begin + at)
        detected = _family_of(_sample(_Bounded(file, FURTHEST)), {})
        if detected:
            return _Shape("object", member, detected)
    return None


class _Bounded(io.RawIOBase):
    """File that ends after a number of bytes."""

    def __init__(self, file: BinaryIO, most: int) -> None:
        super().__init__()
        self._file = file
        self._left = most

    def read(self, size: int = -1, /) -> bytes:
        """Read up to `size` bytes, or what is left."""
        data = self._file.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(data)
        return data


_OUTSIDE = re.compile(rb'["{}\[\]]')
_INSIDE = re.compile(rb'["\\]')
_MEMBER = re.compile(rb'"(' + "|".join(MEMBERS).encode() + rb')"\s*:\s*\[')


def _arrays(file: BinaryIO) -> list[tuple[str, int]]:
    """Return the arrays of a top object that may hold messages, with their byte offsets.

    Nothing is decoded.
    """
    found: list[tuple[str, int]] = []
    data = file.read(FURTHEST)
    at, depth = 0, 0
    while (token := _OUTSIDE.search(data, at)) is not None:
        at = token.end()
        character = token[0]
        if character == b'"':
            if depth == 1 and (member := _MEMBER.match(data, token.start())) is not None:
                found.append((member[1].decode(), member.end() - 1))
            while (inside := _INSIDE.search(data, at)) is not None and inside[0] != b'"':
                at = inside.end() + 1
            if inside is None:
                break
            at = inside.end()
        elif character in b"{[":
            depth += 1
        else:
            depth -= 1
            if not depth:
                break
    return found


def _shape(start: bytes) -> _Shape:
    data = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    first, _, rest = data.partition(b"\n")
    if data.startswith(b"["):
        detected = _family_of(_first_elements(data), {})
        # A whole array that has no messages, on the first of some lines, is a damaged line.
        return (
            _Shape("array", family=detected)
            if detected or not rest.strip() or _parsed(first) is None
            else _Shape("messages")
        )
    if not data.startswith(b"{"):
        return _Shape("")
    value = _parsed(first)
    if not is_object(value):
        found = _object(data)
        return found if found.kind or b"\n{" in data else _Shape("none")
    if not rest.strip():
        return _of_object(value)
    values = [found for found in map(_parsed, data.split(b"\n")[:SAMPLE]) if found is not None]
    if any(_is_message(found) and not _is_reply(found) for found in values):
        return _Shape("messages", family=_family_of(values, {}))
    shapes = [_of_object(found) if is_object(found) else _Shape("") for found in values]
    if not any(found.kind in {"object", "reply"} for found in shapes):
        return _Shape("messages")
    detected = shapes[0].family if all(found.family == shapes[0].family for found in shapes) else ""
    return _Shape("conversations", family=detected)


def _parsed(data: bytes) -> Any:
    try:
        return parse(data.strip())[0] if data.strip() else None
    except DamagedLineError:
        return None


def _first_elements(data: bytes) -> list[Any]:
    return _sample(io.BytesIO(data))


def _sample(file: Any) -> list[Any]:
    """Return the first elements of an array."""
    found: list[Any] = []
    try:
        for element in Document(file, "").elements():
            found.append(element)
            if len(found) == SAMPLE:
                break
    except DamagedDocumentError:
        pass
    return found


def _object(data: bytes) -> _Shape:
    """Return the shape of an object over several lines, by as much of it as there is."""
    around: dict[str, Any] = {}
    for member in MEMBERS:
        around.clear()
        messages: list[Any] = []
        try:
            for name, value in Document(io.BytesIO(data), member).members():
                if name == member:
                    messages.append(value)
                else:
                    around[name] = value
        except DamagedDocumentError:
            pass
        if messages and (detected := _family_of(messages[:SAMPLE], around)):
            return _Shape("object", member, detected)
    return _of_object(around)


def _of_object(value: dict[str, Any]) -> _Shape:
    if _is_reply(value):
        return _Shape("reply", family=ANTHROPIC if value.get("type") == "message" else OPENAI)
    for member in MEMBERS:
        found = value.get(member)
        if is_array(found) and found and (detected := _family_of(found[:SAMPLE], value)):
            return _Shape("object", member, detected)
    return _Shape("messages", family=_family_of([value], {})) if _is_message(value) else _Shape("")


def _is_reply(value: dict[str, Any]) -> bool:
    if value.get("object") == "chat.completion":
        return is_array(value.get("choices"))
    return value.get("type") == "message" and value.get("role") == "assistant" and is_array(value.get("content"))


def _is_message(value: object) -> bool:
    if not is_object(value) or text_or_empty(value.get("role")) not in _ROLES:
        return False
    content = value.get("content")
    if is_array(content):
        return all(
            isinstance(block, str) or (is_object(block) and isinstance(block.get("type"), str)) for block in content
        )
    return isinstance(content, str) or (content is None and bool(value.keys() & _ONLY_OPENAI))


def _family_of(messages: list[Any], around: dict[str, Any]) -> str:
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


# -- reading ---------------------------------------------------------------------------------------


def conversations(file: BinaryIO, report: Report) -> Iterator[ListedConversation]:
    """Yield the conversations of the file in order; each must be read before the next.

    Damage is reported.

    In an array or object, U+FFFD stands in the place of bytes that are not UTF-8, and each such
    place is reported: the messages after it are sound. A line of its own is not imported when it
    has some.
    """
    begin = file.tell()
    shape = _shape_of(file)
    if shape.kind == "array":
        yield ListedConversation("", "", {}, _numbered(Document(file, "", report.skip).elements(), report))
    elif shape.kind == "object":
        around = _around(file, shape.member, report)
        file.seek(begin)
        members = Document(file, shape.member, report.skip).members()
        yield ListedConversation(
            "", shape.member, around, _numbered((value for name, value in members if name == shape.member), report)
        )
    elif shape.kind == "reply":
        # Over lines or not: the whole file is one object.
        whole = dict(_sound(Document(file, "", report.skip).members(), report))
        yield from _inside("", whole, plain=_is_plain(whole))
    elif shape.kind == "conversations":
        for number, value, plain in _values(file, report):
            if is_object(value):
                yield from _inside(f":{number}", value, plain=plain)
            else:
                report.skip(number, "not an object")
    elif shape.kind == "none":
        report.skip(1, "no list of messages is found in it")
    else:
        yield ListedConversation("", "", {}, _values(file, report))


def _inside(name: str, value: dict[str, Any], *, plain: bool) -> Iterator[ListedConversation]:
    """Yield the conversation that one object is."""
    shape = _of_object(value)
    if shape.kind == "object":
        messages: list[Any] = value[shape.member]
        around = {**value, shape.member: None}
        yield ListedConversation(
            name, shape.member, around, ((number, found, plain) for number, found in enumerate(messages, start=1))
        )
    else:
        yield ListedConversation(name, ALONE, {}, iter([(1, value, plain)]))


def _around(file: BinaryIO, member: str, report: Report) -> dict[str, Any]:
    around: dict[str, Any] = {}
    try:
        for name, value in Document(file, member, lambda _line, _reason: None).members():
            around[name] = None
            if name != member and _is_shallow(1, value, report):
                around[name] = value
    except DamagedDocumentError:
        pass  # reported when the messages are read
    return around


def _sound(members: Iterator[tuple[str, Any]], report: Report) -> Iterator[tuple[str, Any]]:
    try:
        yield from (member for member in members if _is_shallow(1, member[1], report))
    except DamagedDocumentError as error:
        report.skip(error.line, error.reason)


def _numbered(elements: Iterator[Any], report: Report) -> Iterator[tuple[int, Any, bool]]:
    number = 0
    try:
        for number, value in enumerate(elements, start=1):  # the last number is the place of the damage
            if _is_shallow(number, value, report):
                yield number, value, _is_plain(value)
    except DamagedDocumentError as error:
        report.skip(error.line, f"{error.reason} (after {number} messages)")


def _is_shallow(number: int, value: Any, report: Report) -> bool:
    """Whether a value is not nested too deeply; reported if it is."""
    try:
        check_depth(value)
    except DamagedLineError as error:
        report.skip(number, str(error))
        return False
    return True


def _is_plain(value: Any) -> bool:
    """Whether `parse` would call the value plain."""
    try:
        again, plain = parse(dump(value).encode())
    except (DamagedLineError, UnicodeEncodeError, OverflowError):
        return False
    return plain and bool(again == value)


def _values(file: BinaryIO, report: Report) -> Iterator[tuple[int, Any, bool]]:
    for line in lines(file):
        found = sound(line, report)
        if found is not None:
            yield line.number, *found
