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
from abc import ABC, abstractmethod
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, BinaryIO

from eventlog import events as ev
from eventlog.importers.common.conversation import Conversation
from eventlog.importers.common.conversation_parts import OpenAnswer, UserPart
from eventlog.importers.common.importer import ImportBatch, Report, bounded_id, path_identity
from eventlog.importers.common.json_lines import dump, is_array, is_object, milliseconds, text_or_empty
from eventlog.importers.common.message_lists import ListedConversation, conversations
from eventlog.importers.common.message_shapes import family
from eventlog.importers.common.record_index import RecordIndex
from eventlog.values import Model, Origin

__all__ = ["ConversationReader", "MessageList"]

_NAMES = ("session_id", "conversation_id", "sessionId", "conversationId")
_TIMES = ("timestamp", "created_at", "created")


class ConversationReader:
    """State of one conversation while it is read."""

    def __init__(self, name: str, provider: str, path: str, found: ListedConversation, report: Report) -> None:
        self.report = report
        self.provider = provider
        identity = path_identity(path)
        names = [name for name in map(text_or_empty, map(found.around.get, _NAMES)) if name]
        foreign = names[0] if names else identity + found.name
        digest = sha256(foreign.encode("utf-8", "surrogatepass")).hexdigest()
        self.time = time_of(found.around) or 0
        title = os.path.basename(path) + found.name  # noqa: PTH119  # not always a path
        started = ev.SessionStarted(title, origin=Origin(name, foreign, identity))
        self.conversation = Conversation(f"{name}-{digest[:26]}", report, started, self.time)
        report.sessions.append(self.conversation.session)
        self.model: Model | None = None
        self.ids = RecordIndex()
        self.begun = False
        """Whether a message of the conversation itself has come."""

    def settings(self, around: dict[str, Any]) -> None:
        """Set the model, tools and system prompt that a request has beside its messages."""
        self.conversation.remainder.plain = False
        self.model = self.model_named(around.get("model"))
        if self.model is not None:
            self.conversation.add(self.time, ev.SettingsSet(self.model))
        system = around.get("system")
        if system:
            self.system(system)
        tools = around.get("tools") or around.get("functions")
        if is_array(tools) and tools:
            self.conversation.add(self.time, ev.ToolsSet(self.conversation.batch.content(dump(tools, plain=False))))

    def system(self, content: object) -> None:
        """Set the system prompt."""
        blocks: list[Any] = content if is_array(content) else [content]
        found = [block.get("text") if is_object(block) else block for block in blocks]
        texts = [text for text in found if isinstance(text, str)]
        text = "\n\n".join(texts)
        if len(texts) == 1:
            self.conversation.remainder.move(text, "header")
        self.conversation.add(self.time, ev.SystemPromptSet(self.conversation.batch.content(text)))

    def model_named(self, name: object) -> Model | None:
        """Return the model of this name, None for no name."""
        return Model(self.provider, name) if isinstance(name, str) and name else None

    def new_id(self, number: int, message: dict[str, Any]) -> str:
        """Return an unused message id: the message's own, else its number's."""
        for key in ("id", "message_id"):
            wanted = text_or_empty(message.get(key))
            name = bounded_id(wanted) if wanted else ""
            if name and not name.startswith("message-") and self.ids.put(name, 0):
                return name
        return f"message-{number}"

    def user(
        self, number: int, message: dict[str, Any], said: list[UserPart], *, agent: str = "", synthetic: bool = False
    ) -> None:
        """Add a user message of these parts."""
        self.begun = True
        event = ev.UserMessageAdded(self.new_id(number, message), agent, synthetic=synthetic)
        self.conversation.user(self.time, event, said)

    def answer(self, number: int, message: dict[str, Any]) -> OpenAnswer:
        """Begin an answer."""
        self.begun = True
        names = (message.get(key) for key in ("model", "model_id"))
        model = next((found for found in map(self.model_named, names) if found is not None), self.model)
        started = ev.AssistantMessageStarted(self.new_id(number, message), self.conversation.last_user, model=model)
        return self.conversation.answer(self.time, started)


class MessageList(ABC):
    """Base of the importers of lists of messages."""

    name: str
    family: str
    provider: str

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
        if is_object(value):
            self.read_message(reader, number, value)
        else:
            reader.report.skip(number, "not an object")
        reader.conversation.end_record(reader.time, number, value)
        if reader.conversation.batch.full():
            yield reader.conversation.pop_batch()

    @abstractmethod
    def read_message(self, reader: ConversationReader, number: int, message: dict[str, Any]) -> None:
        """Add the events of one message."""


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
