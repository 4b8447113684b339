"""The assistant messages of a page that are being filled, and what events change of them.

Events change these messages in memory. All others are complete, and a page reads them again in the
rare case that an event is about one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from eventlog.codec.decoded import Span
from eventlog.codec.deltas import DeltaRun
from eventlog.events import (
    AssistantMessageStarted,
    CompactionCompleted,
    CompactionFailed,
    CompactionStarted,
    CompactionUndone,
    Event,
    PartDelta,
    PartRedacted,
    UserMessageAdded,
)
from eventlog.session.session import Session
from projections.conversation import apply
from projections.conversation.parts import Message, Part, ReasoningPart, TextPart, ToolPart
from projections.conversation.state import Conversation
from projections.live.patches import delta, new_part, part_patches, part_set
from projections.transcript.message import transcript_message
from projections.transcript.message_json import Form, Json, units
from projections.view.part_rendering import Resolver

_OF_COVERAGE = (CompactionStarted, CompactionCompleted, CompactionFailed, CompactionUndone)
"""Events that change what covers a message, which is read from the transcript."""


_FIELDS = ("text", "input", "output")
"""Fields that deltas add to."""


class GrowingText:
    """A field of an open part that deltas add to."""

    def __init__(self, part: str, field: str, text: str, longest: int) -> None:
        self._part = part
        self._field = field
        self._room = max(longest - len(text), 0)
        """Characters that may be added before the text is cut."""
        self._cut = len(text) > longest
        self.units: int = units(text[:longest])
        """Length of what is committed and shown."""
        self.ahead: str = ""
        """Text that is shown beyond it."""

    def commit(self, text: str) -> Iterator[Json]:
        """Yield what is to be sent of text that was committed; nothing of what is shown already."""
        cut = len(text) > self._room
        text = text[: self._room]
        self._room -= len(text)
        ahead = self.ahead
        if not ahead.startswith(text):
            if not text.startswith(ahead):
                yield self.end()
                ahead = ""
            yield delta(self._part, self._field, self.units + units(ahead), text[len(ahead) :])
            ahead = text
        self.ahead = ahead[len(text) :]
        self.units += units(text)
        if cut and not self._cut:
            self._cut = True
            yield part_set(self._part, {"cut": True})

    def expect(self, text: str) -> Iterator[Json]:
        """Yield what shows exactly this text beyond what is committed."""
        text = text[: self._room]
        if not text.startswith(self.ahead):
            yield from self.retract()
        if len(text) > len(self.ahead):
            yield delta(self._part, self._field, self.units + units(self.ahead), text[len(self.ahead) :])
        self.ahead = text

    def retract(self) -> Iterator[Json]:
        """Yield what shows nothing beyond what is committed."""
        if self.ahead:
            self.ahead = ""
            yield self.end()

    def end(self) -> Json:
        """Return what cuts a field that may show more."""
        return {"part": self._part, "field": self._field, "end": self.units}


class OpenMessages:
    """The open messages, and those that began since the last `let_go`."""

    def __init__(self, form: Form, resolve: Resolver) -> None:
        self._form = form
        self._resolve = resolve
        self._state = Conversation(whole=True)
        self._growing: dict[tuple[str, str], GrowingText] = {}
        self.born: dict[str, Message] = {}
        """Messages that began since the last `let_go`: a page is told of them as a whole."""

    def load(self, session: Session, version: int, messages: Iterable[Json]) -> None:
        """Add the open ones among these messages, as they were right after a version."""
        wanted = {
            message["id"]: message
            for message in messages
            if message["role"] == "assistant" and message["finished"] is None and message["id"] not in self
        }
        if not wanted:
            return
        state = Conversation(whole=True)
        for span in session.reader.history(version, min(message["version"] for message in wanted.values()) - 1):
            _apply(state, span)
        redacted = {part["id"] for message in wanted.values() for part in message["parts"] if part["redacted"]}
        for name in [*state.messages]:
            if name in wanted:
                message = state.messages[name]
                message.covered = wanted[name]["covered"]
                self._state.add_message(message)
                for part in message.parts:
                    part.redacted = part.redacted or part.id in redacted
                    self._state.where[part.id] = message, part

    def __contains__(self, message: str) -> bool:
        return message in self._state.messages

    def message_of(self, part: str) -> str | None:
        """Return the open message that has a part."""
        found = self._state.where.get(part)
        return None if found is None else found[0].id

    def ends(self) -> list[Json]:
        """Return where growing texts end: a page may show more, which was never committed."""
        return [
            growing.end()
            for message in self._state.messages.values()
            for part in message.parts
            for field in _FIELDS
            if (growing := self._grown(part, field)) is not None
        ]

    # -- events

    def begin(self, event: UserMessageAdded | AssistantMessageStarted, version: int, time: int) -> None:
        """Add a message that begins."""
        apply.apply(self._state, event, version, time)
        self.born[event.message] = self._state.messages[event.message]

    def grow(self, part: str, field: str, text: str) -> Iterator[Json]:
        """Add committed text to a part of these messages."""
        message, found = self._state.where[part]
        growing = self._grown(found, field) if message.id not in self.born else None
        self._state.append_delta(PartDelta(part, field, text))
        if growing is not None:
            yield from growing.commit(text)

    def change(self, event: Event, version: int, time: int, parts: Iterable[str], message: str) -> Iterator[Json]:
        """Apply an event about one of these messages, and about some of its parts."""
        if isinstance(event, _OF_COVERAGE):
            return
        found = self._state.messages[message]
        if message in self.born:
            apply.apply(self._state, event, version, time)
            return
        form, resolve = self._form, self._resolve
        changed = [self._state.where[part][1] for part in parts if part in self._state.where]
        for part in changed:
            yield from self._retract(part)
        header, count = form.live_header(found), len(found.parts)
        before = [form.live_part(part, resolve) for part in changed]
        apply.apply(self._state, event, version, time)
        for old, part in zip(before, changed, strict=True):
            yield from part_patches(old, form.live_part(part, resolve))
        for part in found.parts[count:]:
            yield new_part(message, form.live_part(part, resolve))
        after = form.live_header(found)
        if after != header:
            yield {"message": after}

    def cover(self, message: str, covered: str | None) -> None:
        """Note which compaction covers a message."""
        self._state.messages[message].covered = covered

    def documents(self) -> Iterator[Json]:
        """Yield the messages that began, whole."""
        for message in self.born.values():
            yield self._form.message(transcript_message(message, self._resolve))

    def part(self, part: str) -> Json | None:
        """Return a part of these messages."""
        found = self._state.where.get(part)
        return None if found is None else self._form.live_part(found[1], self._resolve)

    def let_go(self) -> Iterator[Json]:
        """Forget the messages that are complete."""
        self.born.clear()
        for message in [*self._state.messages.values()]:
            if message.user or message.finished is not None:
                del self._state.messages[message.id]
                for part in message.parts:
                    del self._state.where[part.id]
                    yield from self._retract(part)

    # -- what is not committed yet

    def _retract(self, part: Part) -> Iterator[Json]:
        for field in _FIELDS:
            if (growing := self._growing.pop((part.id, field), None)) is not None:
                yield from growing.retract()

    def expect(self, accepted: Iterable[Span]) -> Iterator[Json]:
        """Yield what shows the accepted text of these messages, and no other uncommitted text."""
        texts: dict[tuple[str, str], list[str]] = {}
        for span in accepted:
            add_text(texts, span.item)
        for key, pieces in texts.items():
            found = self._state.where.get(key[0])
            growing = None if found is None else self._grown(found[1], key[1])
            if growing is not None:
                yield from growing.expect("".join(pieces))
        for key, growing in self._growing.items():
            if key not in texts:
                yield from growing.retract()

    def _grown(self, part: Part, field: str) -> GrowingText | None:
        """Return the text that deltas of a field add to; None if they are not shown."""
        growing = self._growing.get((part.id, field))
        if growing is not None:
            return growing
        shown = "text"
        if part.redacted:
            return None
        if isinstance(part, (TextPart, ReasoningPart)):
            if field != "text" or part.ended:
                return None
            pieces = part.pieces
        elif not isinstance(part, ToolPart):
            return None
        elif field == "input" and not part.input:
            pieces, shown = part.pieces, "input"
        elif field == "output" and part.output is None and part.full is None and part.status in {"pending", "running"}:
            pieces = part.live
        else:
            return None
        text = "".join(map(self._resolve, pieces))
        growing = self._growing[part.id, field] = GrowingText(part.id, shown, text, self._form.longest)
        return growing


def add_text(texts: dict[tuple[str, str], list[str]], item: Event | DeltaRun) -> bool:
    """Add the text of deltas by part and field; False for another event."""
    if isinstance(item, PartDelta):
        texts.setdefault((item.part, item.field), []).append(item.text)
    elif isinstance(item, DeltaRun):
        for key, text in item.joined().items():
            texts.setdefault(key, []).append(text)
    else:
        return False
    return True


def _apply(state: Conversation, span: Span) -> None:
    item = span.item
    if isinstance(item, DeltaRun):
        state.apply_run(item)
    elif not isinstance(item, (*_OF_COVERAGE, PartRedacted)):
        apply.apply(state, item, span.first, span.time)
