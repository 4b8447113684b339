"""One conversation of a list of messages as it is read: its session, its settings, its times and the ids of its messages.

For `importers/openai/messages.py` and `importers/anthropic/messages.py`, which say what a message means.

* A session is named after the format and its `session_id` or `conversation_id`, if what stands around the messages has one;
  else after the path, and the place in the file where there are several.
* A message has the time it gives (`timestamp`, `created_at`, `created`), else one millisecond more than the one before.
* A message is whole, so an answer is finished with it, or with the last result of its calls.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, BinaryIO

from eventlog import events as ev
from eventlog.importers.common.conversation import Answer, Conversation, Said
from eventlog.importers.common.importer import Piece, Report, bounded_id, path_identity
from eventlog.importers.common.json_lines import dump, is_array, is_object, milliseconds, text_or_empty
from eventlog.importers.common.message_lists import Found, conversations, family
from eventlog.importers.common.record_index import RecordIndex
from eventlog.values import Model, Origin

__all__ = ["MessageList", "Talk"]

_NAMES = ("session_id", "conversation_id", "sessionId", "conversationId")
_TIMES = ("timestamp", "created_at", "created")


class Talk:
    """The state of one conversation while it is read."""

    def __init__(self, name: str, provider: str, path: str, found: Found, report: Report) -> None:
        self.report = report
        self.provider = provider
        identity = path_identity(path)
        names = [name for name in map(text_or_empty, map(found.around.get, _NAMES)) if name]
        foreign = names[0] if names else identity + found.name
        digest = sha256(foreign.encode("utf-8", "surrogatepass")).hexdigest()
        self.time = time_of(found.around) or 0
        title = os.path.basename(path) + found.name  # noqa: PTH119  # not always a path
        started = ev.SessionStarted(title, origin=Origin(name, foreign, identity))
        self.talk = Conversation(f"{name}-{digest[:26]}", report, started, self.time)
        report.sessions.append(self.talk.session)
        self.model: Model | None = None
        self.ids = RecordIndex()
        self.begun = False
        """Whether a message of the conversation itself has come."""

    def settings(self, around: dict[str, Any]) -> None:
        """What a request sets beside its messages: its model, tools and system prompt; and what else stands there."""
        self.talk.group.plain = False
        self.model = self.known(around.get("model"))
        if self.model is not None:
            self.talk.add(self.time, ev.SettingsSet(self.model))
        system = around.get("system")
        if system:
            self.system(system)
        tools = around.get("tools") or around.get("functions")
        if is_array(tools) and tools:
            self.talk.add(self.time, ev.ToolsSet(self.talk.piece.content(dump(tools, plain=False))))

    def system(self, content: object) -> None:
        """The system prompt."""
        blocks: list[Any] = content if is_array(content) else [content]
        found = [block.get("text") if is_object(block) else block for block in blocks]
        texts = [text for text in found if isinstance(text, str)]
        text = "\n\n".join(texts)
        if len(texts) == 1:
            self.talk.group.holds(text, "header")
        self.talk.add(self.time, ev.SystemPromptSet(self.talk.piece.content(text)))

    def known(self, name: object) -> Model | None:
        """The model of this name."""
        return Model(self.provider, name) if isinstance(name, str) and name else None

    def fresh(self, number: int, message: dict[str, Any]) -> str:
        """An id that was not used before: the message's own, or its number's."""
        for key in ("id", "message_id"):
            wanted = text_or_empty(message.get(key))
            name = bounded_id(wanted) if wanted else ""
            if name and not name.startswith("message-") and self.ids.put(name, 0):
                return name
        return f"message-{number}"

    def user(
        self, number: int, message: dict[str, Any], said: list[Said], *, agent: str = "", synthetic: bool = False
    ) -> None:
        """A user message of these parts."""
        self.begun = True
        event = ev.UserMessageAdded(self.fresh(number, message), agent, synthetic=synthetic)
        self.talk.user(self.time, event, said)

    def answer(self, number: int, message: dict[str, Any]) -> Answer:
        """An answer begins."""
        self.begun = True
        names = (message.get(key) for key in ("model", "model_id"))
        model = next((found for found in map(self.known, names) if found is not None), self.model)
        started = ev.AssistantMessageStarted(self.fresh(number, message), self.talk.last_user, model=model)
        return self.talk.answer(self.time, started)


class MessageList(ABC):
    """An importer of lists of messages; subclasses say whose, and what a message means."""

    name: str
    family: str
    provider: str

    def detect(self, start: bytes, path: str) -> bool:
        """Whether the first messages of a file are of this family."""
        del path
        return family(start) == self.family

    def read(self, file: BinaryIO, path: str, report: Report) -> Iterator[Piece]:
        """Yield the events of the file's conversations."""
        for found in conversations(file, report):
            talk: Talk | None = None
            for number, value, plain in found.messages:
                if talk is None:
                    talk = Talk(self.name, self.provider, path, found, report)
                    if found.member:
                        talk.settings(found.around)
                        talk.talk.keep(talk.time, 0, [found.member, found.around])
                yield from self._message(talk, number, value, plain=plain)
            if talk is not None:
                talk.talk.early.close()
                if talk.talk.piece.items:
                    yield talk.talk.take()

    def _message(self, talk: Talk, number: int, value: Any, *, plain: bool) -> Iterator[Piece]:
        talk.talk.group.plain = plain
        found = time_of(value) if is_object(value) else None
        talk.time = talk.time + 1 if found is None else found
        if is_object(value):
            self.take(talk, number, value)
        else:
            talk.report.skip(number, "not an object")
        talk.talk.keep(talk.time, number, value)
        if talk.talk.piece.full():
            yield talk.talk.take()

    @abstractmethod
    def take(self, talk: Talk, number: int, message: dict[str, Any]) -> None:
        """The events of one message."""


def time_of(fields: dict[str, Any]) -> int | None:
    """The time that a message gives, in UTC milliseconds: ISO 8601, or seconds."""
    for key in _TIMES:
        value = fields.get(key)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 1e8 < value < 1e11:
            return int(value * 1000)
        found = milliseconds(value)
        if found is not None:
            return found
    return None
