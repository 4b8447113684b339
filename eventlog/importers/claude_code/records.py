"""Records of a Claude Code file: reading, recognising and naming them.

A file is JSONL, or one `{"loglines": [...]}` document.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

from eventlog.importers.common.importer import Report, bounded_id
from eventlog.importers.common.json_document import Document
from eventlog.importers.common.json_lines import (
    ARRAY,
    OBJECT,
    START,
    has_record,
    is_array,
    is_object,
    lines,
    milliseconds,
    title_of,
)
from eventlog.importers.common.message_lists import numbered
from eventlog.importers.common.torn_lines import values
from eventlog.streams.records import text_of

CONVERSATION = frozenset({"user", "assistant"})
ASIDE = frozenset(
    {
        "agent-color", "agent-name", "agent-setting", "ai-title", "attachment", "custom-title", "file-history-snapshot",
        "last-prompt", "mode", "permission-mode", "pr-link", "progress", "queue-operation", "summary", "system", "tag",
        "worktree-state",
    }
)  # fmt: skip
"""Known types of records that are no messages."""
_NAMES = frozenset({"leafUuid", "parentUuid", "sessionId", "snapshot"})
"""Members that records have, and no object inside one."""
NOTIFICATION = "<task-notification>"
"""How the text begins that tells the model of a task's end."""
INTERRUPT = "[Request interrupted by user"
"""How the text begins that says a user stopped the answer."""


class ClaudeRecord(NamedTuple):
    """A record as read; `key` is an id of its `uuid`, else of its line."""

    line: int
    record: Any
    plain: bool
    kind: str
    uuid: str
    key: str
    time: int | None


def is_claude_code(start: bytes) -> bool:
    """Whether one of the first lines of a file is a Claude Code record."""
    if is_document(start) and b'"loglines"' in start[:64]:
        return True
    return has_record(start, 50, _is_record, lambda data: b'"parentUuid"' in data and b'"sessionId"' in data)


def _is_record(record: dict[str, Any]) -> bool:
    kind = text_of(record.get("type"))
    if kind in CONVERSATION:
        message = record.get("message")
        if not is_object(message) or not ("uuid" in record or "sessionId" in record or "parentUuid" in record):
            return False
        content = message.get("content")
        return isinstance(content, str) or is_array(content)
    return (
        (kind == "summary" and "leafUuid" in record)
        or (kind == "file-history-snapshot" and "snapshot" in record)
        or (kind in ASIDE and ("sessionId" in record or "parentUuid" in record))
    )


def _is_whole(record: dict[str, Any]) -> bool:
    """Whether an object on a torn line is a record, not a member of one."""
    return isinstance(record.get("type"), str) and not record.keys().isdisjoint(_NAMES)


def entries(file: BinaryIO, report: Report, after: int = 0) -> Iterator[ClaudeRecord]:
    """Yield the records of the file, `after` lines of which were read; report unreadable ones."""
    begin = file.tell() if not after and file.seekable() else None  # one that grows is no document
    start = b"" if begin is None else file.read(START)
    if begin is not None:
        file.seek(begin)
    if is_document(start):
        members = Document(file, "loglines", report.skip).members()
        listed = (value for name, value in members if name == "loglines")
        for number, value, plain in numbered(listed, report):
            yield _entry(number, value, plain=plain)
        return
    for number, value, plain, _ in values(lines(file, after=after), report, _is_whole):
        yield _entry(number, value, plain=plain)


def is_document(start: bytes) -> bool:
    """Whether a file that begins with these bytes is one document of loglines."""
    data = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    return data.startswith(b"{") and (data[1:2] in b"\r\n" or b'"loglines"' in data[:64])


def _entry(line: int, value: Any, *, plain: bool) -> ClaudeRecord:
    record: dict[str, Any] = value if isinstance(value, OBJECT) else {}
    kind, uuid = record.get("type"), record.get("uuid")
    uuid = uuid if isinstance(uuid, str) else ""
    key = bounded_id(uuid) if uuid else f"line-{line}"
    kind = kind if isinstance(kind, str) else ""
    return ClaudeRecord(line, value, plain, kind, uuid, key, milliseconds(record.get("timestamp")))


def content_of(record: dict[str, Any]) -> list[Any] | None:
    """Return the content blocks of a record's message, None if it has none."""
    message: Any = record.get("message")
    content: Any = message.get("content") if isinstance(message, OBJECT) else None
    if isinstance(content, str):
        return [content]
    return content if isinstance(content, ARRAY) else None


def queued_prompt(record: dict[str, Any]) -> list[Any] | None:
    """Return the content of a prompt that a person typed while the model was busy, else None.

    What a program queues, as the notification that a task is over, is no prompt.
    """
    found = record.get("attachment") if record.get("type") == "attachment" else None
    if not is_object(found) or found.get("type") != "queued_command":
        return None
    prompt, origin = found.get("prompt"), found.get("origin")
    content = [prompt] if isinstance(prompt, str) else prompt if is_array(prompt) else []
    kind = origin.get("kind") if is_object(origin) else origin
    if found.get("commandMode", "prompt") != "prompt" or kind not in (None, "human") or not content:
        return None
    is_told = kind is None and any(text.lstrip().startswith(NOTIFICATION) for text in texts_of(content))
    return None if is_told else content


def is_message(record: object) -> bool:
    """Whether a record is of a message of the conversation."""
    if not is_object(record):
        return False
    return text_of(record.get("type")) in CONVERSATION or queued_prompt(record) is not None


def kept_of(record: dict[str, Any]) -> tuple[str, ...]:
    """Return the records that a compaction keeps, by their uuids in order.

    Those of a segment are its first and its last, with "" between them for all that are there.
    """
    found = record.get("compactMetadata")
    metadata = found if is_object(found) else {}
    listed, segment = metadata.get("preservedMessages"), metadata.get("preservedSegment")
    uuids = listed.get("uuids") if is_object(listed) else None
    if is_array(uuids) and uuids:
        return tuple(uuid for uuid in uuids if isinstance(uuid, str) and uuid)
    ends = [segment.get(name) for name in ("headUuid", "tailUuid")] if is_object(segment) else []
    named = [uuid for uuid in ends if isinstance(uuid, str) and uuid]
    return (named[0], "", named[1]) if len(named) == 2 else ()


def is_custom_title(record: object) -> bool:
    """Whether a record gives the session the title that a person wrote."""
    return is_object(record) and record.get("type") == "custom-title" and bool(text_of(record.get("customTitle")))


def is_prompt(content: list[Any]) -> bool:
    """Whether a user record says something besides the results of tools."""
    return not content or any(not is_object(block) or block.get("type") != "tool_result" for block in content)


def is_root(record: dict[str, Any]) -> bool:
    """Whether a message says that nothing comes before it: a first prompt that was edited."""
    return record.get("type") == "user" and record.get("parentUuid", "") is None


def texts_of(content: list[Any], *, bare: bool = True) -> list[str]:
    """Return the texts of content blocks; those that are no object only if `bare`."""
    found = [block.get("text") if is_object(block) else block for block in content if bare or is_object(block)]
    return [text for text in found if isinstance(text, str)]


def prompt_of(record: dict[str, Any]) -> str:
    """Return the first line of a user's prompt as a title; "" if no person wrote it."""
    if record.get("isMeta") or record.get("isCompactSummary") or not is_object(record.get("message")):
        return ""
    content = record["message"].get("content")
    for block in content if is_array(content) else [content]:
        text = block.get("text") if is_object(block) else block
        if isinstance(text, str) and text.strip() and not text.lstrip().startswith(("<", INTERRUPT)):
            return title_of(text)
    return ""
