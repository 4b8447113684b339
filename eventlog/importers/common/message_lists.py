"""Lists of messages as the providers' APIs take them: recognising and reading the files.

The first messages of a file decide strictly which of these it is:

* an array of messages, or an object with such an array in `messages` (a request), `traj` or
  `history`;
* a reply: a chat completion, or an Anthropic message with its usage;
* one message a line; or one object of the kinds above a line, each of which is a conversation.

Arrays are read element by element.  Each message is a source record, numbered by its place (or its
line); what stands around them is record 0, `[member, object]`, with null in place of the array.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, BinaryIO, NamedTuple

from eventlog.importers.common.importer import Report
from eventlog.importers.common.json_document import DamagedDocumentError, Document
from eventlog.importers.common.json_lines import DamagedLineError, check_depth, dump, is_object, lines, parse
from eventlog.importers.common.message_shapes import ALONE, shape_of, shape_of_object
from eventlog.importers.common.torn_lines import IsRecord, values
from eventlog.streams.records import object_of

SINGLE = "="
"""Behind the name of a member that has one message instead of an array."""


class ListedConversation(NamedTuple):
    """Conversation in a file; `name` is its place if there are several.

    `around` is what stands around the messages. `head` names the session's id, title, time,
    directory and version where `around` has them under other names. A `snapshot` is a file that is
    written anew as the conversation grows: what stands around the messages then changes, and is
    kept behind them, as of the time `updated`.
    """

    name: str
    member: str
    around: dict[str, Any]
    messages: Iterator[tuple[int, Any, bool]]
    """(number, message, whether it is plain)."""
    head: dict[str, Any] | None = None
    snapshot: bool = False
    updated: object = None
    current: str = ""
    """The record of a tree that the conversation stands behind at the end."""


def conversations(file: BinaryIO, report: Report) -> Iterator[ListedConversation]:
    """Yield the conversations of the file in order; each must be read before the next.

    Damage is reported.

    In an array or object, U+FFFD stands in the place of bytes that are not UTF-8, and each such
    place is reported: the messages after it are sound. A line of its own is not imported when it
    has some.
    """
    shape = shape_of(file)
    if shape.kind == "array":
        yield from array_conversations(file, report)
    elif shape.kind == "object":
        yield document_conversation(file, shape.member, report)
    elif shape.kind == "reply":
        whole, plain = whole_object(file, report)
        yield from _inside("", whole, plain=plain)
    elif shape.kind == "conversations":
        for number, value, plain in record_values(file, report, _is_conversation):
            if is_object(value):
                yield from _inside(f":{number}", value, plain=plain)
            else:
                report.skip(number, "not an object")
    elif shape.kind == "none":
        report.skip(1, "no list of messages is found in it")
    else:
        yield ListedConversation("", "", {}, record_values(file, report, _is_message))


def whole_object(file: BinaryIO, report: Report) -> tuple[dict[str, Any], bool]:
    """Return the one object that a file is, on one line or several, and whether it is plain."""
    whole = dict(_sound(Document(file, "", report.skip).members(), report))
    return whole, _is_plain(whole)


def array_conversations(file: BinaryIO, report: Report) -> Iterator[ListedConversation]:
    """Yield the conversation of a file that is one array of messages."""
    yield ListedConversation("", "", {}, numbered(Document(file, "", report.skip).elements(), report))


def line_conversations(
    file: BinaryIO, report: Report, is_record: IsRecord, head: Callable[[dict[str, Any]], dict[str, Any]]
) -> Iterator[ListedConversation]:
    """Yield the conversation of a file with one record a line; none if no line has one.

    `is_record` tells a whole record on a torn line; `head` makes the head of the first record.
    """
    found = record_values(file, report, is_record)
    first = next(found, None)
    if first is not None:
        yield ListedConversation("", "", {}, chain([first], found), head(object_of(first[1])))


def document_conversation(file: BinaryIO, member: str, report: Report) -> ListedConversation:
    """Return the conversation of a file that is one object, with the messages in a member."""
    begin = file.tell()
    around = _around(file, member, report)
    file.seek(begin)
    members = Document(file, member, report.skip).members()
    return ListedConversation(
        "", member, around, numbered((value for name, value in members if name == member), report)
    )


def _is_conversation(value: dict[str, Any]) -> bool:
    return shape_of_object(value).kind in {"object", "reply"}


def _is_message(value: dict[str, Any]) -> bool:
    return shape_of_object(value).kind == "messages"


def _inside(name: str, value: dict[str, Any], *, plain: bool) -> Iterator[ListedConversation]:
    """Yield the conversation of one JSON object."""
    shape = shape_of_object(value)
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


def numbered(elements: Iterator[Any], report: Report) -> Iterator[tuple[int, Any, bool]]:
    """Yield the elements of a document with their places; damage is reported, and ends them."""
    number = 0
    try:
        for number, value in enumerate(elements, start=1):  # `number` is needed below when the document is damaged
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


def record_values(file: BinaryIO, report: Report, is_record: IsRecord) -> Iterator[tuple[int, Any, bool]]:
    """Yield the values of a file of lines with their places; damage is reported."""
    for number, value, plain, _ in values(lines(file), report, is_record):
        yield number, value, plain
