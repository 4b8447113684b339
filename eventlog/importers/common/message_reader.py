"""One conversation of a list of messages while it is read: session, settings, times, ids.

`importers/openai/messages.py` and `importers/anthropic/content.py` say what a message means.

* A session is named after the format and its `session_id` or `conversation_id`, if the object
  around the messages has one; else after the path, and the place in the file if there are several.
* A message has the time it gives (`timestamp`, `created_at`, `ts` …), else one millisecond more
  than the one before.
* A message is whole, so an answer is finished with it, or with the last result of its calls.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import Any, BinaryIO

from eventlog import events as ev
from eventlog.importers.common.builder import RecordBuilder, RecordMapping
from eventlog.importers.common.conversation import Conversation
from eventlog.importers.common.conversation_parts import UserPart
from eventlog.importers.common.importer import ImportBatch, Report, bounded_id, own_id, path_identity
from eventlog.importers.common.json_lines import dump, is_array, is_object, milliseconds, title_of
from eventlog.importers.common.message_lists import ListedConversation
from eventlog.importers.common.record_index import RecordIndex
from eventlog.importers.common.record_tree import RecordTree
from eventlog.importers.common.remainder import AROUND
from eventlog.streams.records import text_of
from eventlog.streams.tokens import responses_usage
from eventlog.values import File, Model, Origin

_NAMES = ("session_id", "conversation_id", "sessionId", "conversationId")
_TIMES = ("timestamp", "created_at", "created", "create_time", "ts")


class ConversationReader(RecordBuilder):
    """State of one conversation while it is read."""

    def __init__(
        self, name: str, provider: str, path: str, found: ListedConversation, report: Report, *, taken: set[str]
    ) -> None:
        """Begin a session, whose id is none of those `taken` by earlier ones of the file."""
        self.provider = provider
        identity = path_identity(path)
        head = found.around if found.head is None else found.head
        names = [name for name in map(text_of, map(head.get, _NAMES)) if name]
        foreign = names[0] if names and names[0] not in taken else (names or [identity])[0] + found.name
        taken.add(foreign)
        digest = sha256(foreign.encode("utf-8", "surrogatepass")).hexdigest()
        time = time_of(head) or 0
        self._titled = found.head is None  # else a file that moves has the same first event
        title = os.path.basename(path) + found.name if self._titled else ""  # noqa: PTH119  # not always a path
        origin = Origin(name, foreign, identity, text_of(head.get("version")))
        started = ev.SessionStarted(title, directory=text_of(head.get("cwd")), origin=origin)
        super().__init__(Conversation(f"{name}-{digest[:26]}", report, started, time), time)
        report.sessions.append(self.conversation.session)
        self.ids: RecordIndex = RecordIndex()
        self.tree: RecordTree = RecordTree(self.conversation)
        self._snapshot = found.snapshot
        self.title: ev.SessionRenamed | None = None
        """Beginning of the first prompt, as a title."""

    def begin(self, found: ListedConversation) -> None:
        """Keep what stands around the messages, and set what it says; a snapshot is kept later."""
        if found.snapshot:
            self.conversation.batch.snapshot = []
        elif found.member:
            self.settings(found.around)
            self.conversation.end_record(self.time, 0, [found.member, found.around])

    def user(self, said: str | Sequence[str | File | UserPart], *, synthetic: bool = False, **more: Any) -> str:
        """Add a user message as `RecordBuilder.user` does; the first names the session."""
        message = super().user(said, synthetic=synthetic, **more)
        if not (self._titled or synthetic):
            texts = enumerate([said] if isinstance(said, str) else map(_text, said))
            number, first = next((found for found in texts if found[1].strip()), (0, ""))
            if first:
                self._titled, self.title = True, ev.SessionRenamed(title_of(first), own_id(message, str(number)))
                if not self._snapshot:
                    self.conversation.rename(self.time, self.title.title, self.title.part)
        return message

    def stand_behind(self, node: str, parent: str) -> None:
        """Begin a record of a tree: behind its parent, or without one behind the latest record."""
        if not self.tree.begin(self.time, node, parent or None):
            self.skip("its parent is not in the file: it follows the record before it")

    def close(self, found: ListedConversation) -> ImportBatch:
        """Return the last batch, with the snapshot of a file that has one."""
        self.conversation.report.skipped.extend(self.conversation.early.unsettled())
        if found.around.get("object") == "response":  # whose usage and end stand around its items
            usage = found.around.get("usage")
            if is_object(usage) and self.conversation.latest is not None:
                self.usage(responses_usage(usage))
            self.end()
        if found.current and found.current != self.tree.latest:
            self.tree.go_back(self.time, found.current)
        batch = self.conversation.pop_batch()
        if found.snapshot:
            time = max(self.time, time_of({"timestamp": found.updated}) or 0)
            title = text_of((found.head or {}).get("title"))
            renamed = ev.SessionRenamed(title) if title else self.title
            kept = ev.ForeignKept(AROUND, batch.content(dump([found.member, found.around], plain=False)))
            batch.snapshot = [(time, event) for event in (renamed, kept) if event is not None]
        return batch

    def settings(self, around: dict[str, Any]) -> None:
        """Set the model, tools and system prompt that a request has beside its messages."""
        self.conversation.remainder.plain = False
        self.model: Model | None = self.model_named(around.get("model"))
        if self.model is not None:
            self.conversation.add(self.time, ev.SettingsSet(self.model))
        system = around.get("system") or around.get("instructions")
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


def _text(said: str | File | UserPart) -> str:
    return said if isinstance(said, str) else said.held if isinstance(said, UserPart) and said.field == "text" else ""


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


class RecordLists:
    """Importer of conversations in one format; the mapping says what a record means."""

    def __init__(
        self,
        mapping: RecordMapping,
        detect: Callable[[bytes], bool],
        conversations: Callable[[BinaryIO, Report], Iterator[ListedConversation]],
        provider: str = "",
    ) -> None:
        self.name: str = mapping.format
        self.mapping = mapping
        self.provider = provider
        self._detect = detect
        self._conversations = conversations

    def detect(self, start: bytes, path: str) -> bool:
        """Whether a file that begins with these bytes is of this format."""
        del path
        return self._detect(start.removeprefix(b"\xef\xbb\xbf"))

    def read(self, file: BinaryIO, path: str, report: Report) -> Iterator[ImportBatch]:
        """Yield the events of the file's conversations."""
        taken: set[str] = set()
        for found in self._conversations(file, report):
            reader: ConversationReader | None = None
            for number, value, plain in found.messages:
                if reader is None:
                    reader = ConversationReader(self.name, self.provider, path, found, report, taken=taken)
                    reader.begin(found)
                self._record(reader, number, value, plain=plain)
                if reader.conversation.batch.full():
                    yield reader.conversation.pop_batch()
                    if found.snapshot:
                        reader.conversation.batch.snapshot = []
            if reader is not None:
                last = reader.close(found)
                if last.items or last.snapshot:
                    yield last

    def _record(self, reader: ConversationReader, number: int, value: Any, *, plain: bool) -> None:
        reader.conversation.remainder.plain = plain
        found = time_of(value) if is_object(value) else None
        reader.time = reader.time + 1 if found is None else found
        reader.number = number
        self.mapping.read(value, reader)
        reader.conversation.end_record(reader.time, number, value)
        reader.tree.end_record()


def time_of(fields: dict[str, Any]) -> int | None:
    """Return the UTC milliseconds of a message, from ISO 8601, seconds or milliseconds."""
    for key in _TIMES:
        value = fields.get(key)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 1e8 < value < 1e14:
            return int(value * 1000 if value < 1e11 else value)
        found = milliseconds(value)
        if found is not None:
            return found
    return None
