"""One conversation of a list of messages while it is read: session, settings, times, ids.

`importers/openai/messages.py` and `importers/anthropic/messages.py` say what a message means.

* A session is named after the format and its `session_id` or `conversation_id`, if the object
  around the messages has one; else after the path, and the place in the file if there are several.
* A message has the time it gives (`timestamp`, `created_at`, `created`), else one millisecond more
  than the one before.
* A message is whole, so an answer is finished with it, or with the last result of its calls.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any, BinaryIO

from eventlog import events as ev
from eventlog.importers.common.builder import RecordBuilder, RecordMapping
from eventlog.importers.common.conversation import Conversation
from eventlog.importers.common.importer import ImportBatch, Report, bounded_id, path_identity
from eventlog.importers.common.json_lines import dump, is_array, is_object, milliseconds
from eventlog.importers.common.message_lists import ListedConversation, conversations
from eventlog.importers.common.message_shapes import family
from eventlog.importers.common.record_index import RecordIndex
from eventlog.streams.records import text_of
from eventlog.values import Model, Origin

__all__ = ["ConversationReader", "MessageList", "ids_of", "model_name_of", "system_prompt"]

_NAMES = ("session_id", "conversation_id", "sessionId", "conversationId")
_TIMES = ("timestamp", "created_at", "created")


class ConversationReader(RecordBuilder):
    """State of one conversation while it is read."""

    def __init__(self, name: str, provider: str, path: str, found: ListedConversation, report: Report) -> None:
        self.provider = provider
        identity = path_identity(path)
        names = [name for name in map(text_of, map(found.around.get, _NAMES)) if name]
        foreign = names[0] if names else identity + found.name
        digest = sha256(foreign.encode("utf-8", "surrogatepass")).hexdigest()
        time = time_of(found.around) or 0
        title = os.path.basename(path) + found.name  # noqa: PTH119  # not always a path
        started = ev.SessionStarted(title, origin=Origin(name, foreign, identity))
        super().__init__(Conversation(f"{name}-{digest[:26]}", report, started, time), time)
        report.sessions.append(self.conversation.session)
        self.ids = RecordIndex()

    def settings(self, around: dict[str, Any]) -> None:
        """Set the model, tools and system prompt that a request has beside its messages."""
        self.conversation.remainder.plain = False
        self.model = self.model_named(around.get("model"))
        if self.model is not None:
            self.conversation.add(self.time, ev.SettingsSet(self.model))
        system = around.get("system")
        if system:
            system_prompt(self, system)
        tools = around.get("tools") or around.get("functions")
        if is_array(tools) and tools:
            self.conversation.add(self.time, ev.ToolsSet(self.conversation.batch.content(dump(tools, plain=False))))

    def model_named(self, name: object) -> Model | None:
        """Return the model of this name, None for no name."""
        return Model(self.provider, name) if isinstance(name, str) and name else None

    def fresh(self, wanted: Sequence[str]) -> str:
        """Return an unused message id: the message's own, else its number's."""
        for one in wanted:
            name = bounded_id(one)
            if not name.startswith("message-") and self.ids.put(name, 0):
                return name
        return f"message-{self.number}"


def system_prompt(to: RecordBuilder, content: object) -> None:
    """Set the system prompt that a message or request has, as a text or blocks of text."""
    blocks: list[Any] = content if is_array(content) else [content]
    found = [block.get("text") if is_object(block) else block for block in blocks]
    texts = [text for text in found if isinstance(text, str)]
    to.system("\n\n".join(texts))


def ids_of(message: dict[str, Any]) -> list[str]:
    """Return the ids that a message says it has."""
    return [name for name in (text_of(message.get(key)) for key in ("id", "message_id")) if name]


def model_name_of(message: dict[str, Any]) -> str:
    """Return the name of the model that a message says it is of, "" if it says none."""
    return next((name for name in (text_of(message.get(key)) for key in ("model", "model_id")) if name), "")


class MessageList:
    """Importer of lists of messages in one format; the mapping says what a message means."""

    def __init__(self, name: str, family: str, provider: str, mapping: RecordMapping) -> None:
        self.name = name
        self.family = family
        self.provider = provider
        self.mapping = mapping

    def detect(self, start: bytes, path: str) -> bool:
        """Whether the first messages of a file are of this family."""
        del path
        return family(start) == self.family

    def read(self, file: BinaryIO, path: str, report: Report) -> Iterator[ImportBatch]:
        """Yield the events of the file's conversations."""
        for found in conversations(file, report):
            reader: ConversationReader | None = None
            for number, value, plain in found.messages:
                if reader is None:
                    reader = ConversationReader(self.name, self.provider, path, found, report)
                    if found.member:
                        reader.settings(found.around)
                        reader.conversation.end_record(reader.time, 0, [found.member, found.around])
                yield from self._message(reader, number, value, plain=plain)
            if reader is not None:
                reader.conversation.early.close()
                if reader.conversation.batch.items:
                    yield reader.conversation.pop_batch()

    def _message(self, reader: ConversationReader, number: int, value: Any, *, plain: bool) -> Iterator[ImportBatch]:
        reader.conversation.remainder.plain = plain
        found = time_of(value) if is_object(value) else None
        reader.time = reader.time + 1 if found is None else found
        reader.number = number
        self.mapping.read(value, reader)
        reader.conversation.end_record(reader.time, number, value)
        if reader.conversation.batch.full():
            yield reader.conversation.pop_batch()


def time_of(fields: dict[str, Any]) -> int | None:
    """Return the time of a message in UTC milliseconds, from ISO 8601 or seconds."""
    for key in _TIMES:
        value = fields.get(key)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 1e8 < value < 1e11:
            return int(value * 1000)
        found = milliseconds(value)
        if found is not None:
            return found
    return None
