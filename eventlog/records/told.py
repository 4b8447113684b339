"""A conversation while records are told to it: open answers and calls are in its state.

`importers/common/conversation.py` has the vocabulary. A file's conversation is in the memory of its
reader; that of a feed is in the session's command state, right after the record that the new ones
come behind, so any process goes on where another one stopped. It costs what is open, and no more.

* An answer's step ends when the next message comes, its message with the last result of its calls.
  A framework's last text in an append ends both at once.
* An answer that a dead owner left open, not a feed, is settled here: its text stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import methodcaller
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from eventlog import events as ev
from eventlog.codec.large_texts import to_content
from eventlog.errors import RefusedError
from eventlog.importers.common.builder import RecordBuilder
from eventlog.importers.common.conversation import MAX_OPEN, Conversation
from eventlog.importers.common.conversation_parts import CallResult, OpenAnswer, OpenCall
from eventlog.importers.common.importer import ImportBatch, Report, bounded_id, own_id
from eventlog.importers.common.remainder import UNFIT, put_back
from eventlog.records.json_value import digest_of, dumped, parsed
from eventlog.records.state_questions import (
    Earlier,
    OpenThings,
    answered_part,
    interrupted_call,
    is_effective,
)
from eventlog.records.unseen import NumberOf, Seen, Unseen
from eventlog.state.state import GOES_ON, State
from eventlog.values import Content, MessageError, Model, Text, Tokens, Usage

if TYPE_CHECKING:
    from eventlog.events import Event
    from eventlog.importers.common.builder import RecordMapping

T = TypeVar("T")
Ask = Callable[[Callable[[State], T]], T]

_UNKNOWN = Usage(Tokens())


class _ToldBatch(ImportBatch):
    """Events and bodies of an append, with the texts of its bodies."""

    __slots__ = ("texts",)

    def __init__(self, session: str) -> None:
        super().__init__(session)
        self.texts: dict[bytes, str] = {}

    def content(self, text: str) -> Content:
        content = to_content(text, self.bodies)
        if not isinstance(content, str):
            self.texts[content.digest] = text
        return content

    def text(self, content: Content) -> str:
        """Return the text of a content of this batch."""
        return content if isinstance(content, str) else self.texts[content.digest]


class ToldConversation(Conversation):
    """The conversation, and the events of the append that records are told in."""

    def __init__(
        self,
        session: str,
        format: str,
        now: int,
        *,
        ask: Ask[Any],
        earlier: Earlier,
        new_id: Callable[[str], str],
        base: int,
        seen: Seen | None,
        number_of: NumberOf,
        priced: Callable[[Usage, Model | None], tuple[Usage, str]],
    ) -> None:
        """Go on from the state that `ask` asks; `earlier` reads what no state has.

        `base` is the version before the first event, `number_of` the record that has a version,
        `priced` a usage with its cost, and the date of the prices that gave it.
        """
        super().__init__(session, Report("", format), None, now)
        self._batch = _ToldBatch(session)
        self.batch: ImportBatch = self._batch
        self.format = format
        self._ask, self._earlier, self._new_id, self._priced = ask, earlier, new_id, priced
        found: OpenThings = ask(lambda state: OpenThings(state, now))
        self.settling: list[Event] = found.settling
        self.begun: bool = found.begun
        self.last_user: str | None = found.last_user
        self.calls: dict[str, OpenCall] = found.calls
        self.compaction: tuple[str, str] | None = found.compaction
        self._ended = found.ended
        self._finishes: dict[str, str] = {}
        """Ids of the parts that end steps, by their answer."""
        self._inherited = {answer.id for answer in found.answers}
        self.waiting: list[OpenAnswer] = [answer for answer in found.answers if answer.id in found.ended]
        going = [answer for answer in found.answers if answer.id not in found.ended]
        self.open = going[-1] if going else None
        self.waiting[:0] = going[:-1]
        self.latest: OpenAnswer | None = self.open or found.latest
        self._ids: set[str] = set()
        self._removed: set[str] = set()
        """Messages that records of this append remove."""
        self._start = 0
        """Index of the record's first event."""
        self._base, self._seen, self._number_of = base, seen, number_of
        self._late: list[tuple[int, str]] | None = None
        """Questions that the model was not sent, by their place, once an answer begins."""
        self._upto = 0
        """The version up to which the newest answer has seen the history."""
        self._looked = 0
        """Index of the first event that is not looked at for what answers have seen."""
        for event in self.settling:
            self.add(now, event)
        if seen is not None and self.open is not None:
            birth = ask(methodcaller("message", self.open.id)).added
            if birth > seen.upto and number_of(birth, is_told=True) not in seen.own:
                self.supersede()  # another run's

    def fresh(self, wanted: Sequence[str]) -> str:
        """Return an unused message id: the first of these that is one, else a new one."""
        for one in wanted:
            name = bounded_id(one)
            if name not in self._ids and not self._ask(methodcaller("has_message", name)):
                self._ids.add(name)
                return name
        return self._new_id("msg_")

    # -- records -------------------------------------------------------------------------------

    def begin_record(self) -> None:
        """Begin a record: the events from here on are its own."""
        self._start = len(self._batch.items)
        self.remainder.begin()

    def _without_closing(self, before: int) -> None:
        """Leave out of the record what closed earlier answers, before it said anything."""
        if before == self._start:
            self.begin_record()

    def keep_record(self, time: int, record: Any, text: str) -> None:
        """End the record, whose exact text this is: store what no event has of it.

        What is stored is read back first. Should an event not hold what the mapping said it does,
        the record is stored whole.
        """
        rest, moved, large = self.remainder.split(record)
        items = self._batch.items
        before = len(items)
        for one in large:
            self.add(time, ev.ForeignKept("record", self._batch.content(one)))
        left, places = dumped(rest), dumped(moved) if moved else ""
        if moved:
            try:
                group = [event for _, event in items[self._start :]]
                is_exact = dumped(put_back(parsed(left), parsed(places), group, self._batch.text)) == text
            except UNFIT:
                is_exact = False
            if not is_exact:
                del items[before:]
                left, places = text, ""
        content, events = self._batch.content, len(items) - self._start
        self.add(time, ev.RecordKept(self.format, content(left), events, content(places)))

    # -- answers and calls -----------------------------------------------------------------------

    def supersede(self) -> None:
        """End the step of the open answer; its message ends with the last result of its calls."""
        before = len(self._batch.items)
        answer = self.open
        if answer is not None and answer.calls:
            self.open = None
            self._end_step(answer, answer.reason or "tool-calls")
            self.waiting.append(answer)
            if len(self.waiting) > MAX_OPEN:
                self._interrupt(self.waiting.pop(0), None)
        else:
            super().supersede()
        self._without_closing(before)

    def end_final(self) -> None:
        """End a framework's answer whose last text was told: what comes later is another answer."""
        answer = self.open
        if self._seen is None or answer is None or answer.calls or not answer.reason or answer.reason in GOES_ON:
            return
        said = (
            event.kind for _, event in reversed(self._batch.items[self._start :]) if isinstance(event, ev.PartStarted)
        )
        if isinstance(next(said, None), Text):
            self.supersede()

    def interrupt_all(self, error: MessageError | None) -> None:
        """Finish all answers; calls without a result fail as interrupted."""
        before = len(self._batch.items)
        super().interrupt_all(error)
        self._without_closing(before)

    def answer(self, time: int, event: ev.AssistantMessageStarted) -> OpenAnswer:
        """Begin an answer, with what it has seen."""
        self.supersede()
        return super().answer(time, event if self._seen is None else self._with_seen(time, event, self._seen))

    def _with_seen(self, time: int, event: ev.AssistantMessageStarted, seen: Seen) -> ev.AssistantMessageStarted:
        """Return the first event of an answer with what it has seen.

        Questions that the model was not sent take their place behind those that it was sent.
        """
        items = self._batch.items
        asks = any(isinstance(one, (ev.UserMessageAdded, ev.MessagePromoted)) for _, one in items[self._looked :])
        if self._late is None:
            unseen = Unseen(seen, self._ask, self._earlier, self._number_of, self._finish_of)
            self._upto, self._late = unseen.upto, unseen.late
        if asks:
            self._upto = self._base + len(items)
        before = len(items)
        for index, (place, message) in enumerate(self._late):
            if place <= self._upto:
                self.add(time, ev.MessagePromoted(message))
                self._late[index] = self._base + len(items), message
        self._without_closing(before)
        self._looked = len(items)
        asked = self.last_user if self._upto > self._base else self._ask(methodcaller("last_user", self._upto))
        return replace(event, seen=self._upto, reply_to=asked)

    def _finish_of(self, message: str) -> ev.MessageFinished | None:
        """Return the event of this append that finishes an answer, if one does."""
        events = (event for _, event in reversed(self._batch.items))
        return next((one for one in events if isinstance(one, ev.MessageFinished) and one.message == message), None)

    def _end_step(self, answer: OpenAnswer, reason: str) -> None:
        if answer.id not in self._ended:
            self._ended.add(answer.id)
            self.add(answer.time, ev.StepFinished(answer.id, self._finish_id(answer), reason))

    def _finish_id(self, answer: OpenAnswer) -> str:
        """Return the id of the part that ends an answer's step."""
        name = self._finishes.get(answer.id)
        if name is None:
            name = own_id(answer.id, "finish")
            if answer.id in self._inherited and self._ask(methodcaller("has_part", name)):
                name = self._new_id("prt_")  # a rollback hid the part of that id
            self._finishes[answer.id] = name
        return name

    def usage(self, time: int, usage: Usage, *, failed: bool = False, purpose: str = "turn") -> None:
        """Record the usage of the newest answer; of a call that was made just now, it is priced."""
        answer = self.latest
        model = None if answer is None else answer.model
        usage, date = self._priced(usage, model)
        message, step = (None, None) if answer is None else (answer.id, self._finish_id(answer))
        self.add(time, ev.UsageRecorded(usage, message, step, model, purpose, failed, date))

    def remove(self, time: int, message: str) -> bool:
        """Take a finished message out of the conversation; False if there is none of this id."""
        if message in self._ids or message in self._removed or not self._ask(partial(is_effective, message)):
            return False
        self._removed.add(message)
        if message in {answer.id for answer in (*self.waiting, self.open) if answer is not None}:
            self.interrupt_all(None)
        self.add(time, ev.MessageRemoved(message))
        return True

    def result(
        self, time: int, name: str, result: CallResult, *, held: bool = True, metadata: object = None
    ) -> OpenCall | None:
        """Complete the newest call of this id, one that was settled as interrupted as well."""
        if name not in self.calls and name not in self.interrupted:
            found: tuple[str, str] | None = self._ask(partial(interrupted_call, name))
            if found is not None:
                self.interrupted[name] = OpenCall(found[1], OpenAnswer(found[0], time, None), "", "")
        return super().result(time, name, result, held=held, metadata=metadata)

    def holds(self, message: str) -> bool:
        """Whether a message is effective, or told in this append."""
        return message in self._ids or self._ask(partial(is_effective, message))

    def prunable(self, call: str) -> str:
        """Return the part of the newest call of this id, told earlier or now, with a result."""
        if call in self.done:
            return super().prunable(call)
        part: str = self._ask(partial(answered_part, call))
        return part

    def hold(self, name: str, line: int | None, result: CallResult) -> bool:
        """Hold nothing: a call that comes later may come from another process."""
        del name, line, result
        return False

    def tool_of(self, call: OpenCall) -> str:
        """Return the tool of an open call; of one told earlier, its first events say it."""
        if not call.tool:
            call.tool, call.input = self._earlier.call(call.part)
        return call.tool

    def spent(self, answer: OpenAnswer) -> Usage:
        """Return the usage that was recorded for an open answer, in earlier appends as well."""
        if answer.id in self._inherited and answer.usage == _UNKNOWN:
            answer.usage = self._earlier.spent(answer.id)
        return answer.usage

    def title_now(self) -> str:
        """Return the session's title, read once it is asked for."""
        self.title: str = self.title or self._earlier.title()
        return self.title

    def has_prompt(self) -> bool:
        """Whether there is a system prompt; of an earlier append, its events say it."""
        self.prompted: bool = self.prompted or self._earlier.has_prompt()
        return self.prompted


class ToldBuilder(RecordBuilder):
    """Takes what records mean, one after the other."""

    conversation: ToldConversation

    def __init__(self, conversation: ToldConversation, time: int) -> None:
        super().__init__(conversation, time)
        self.begun: bool = conversation.begun

    def fresh(self, wanted: Sequence[str]) -> str:
        """Return an unused message id."""
        return self.conversation.fresh(wanted)

    def tell(self, mapping: RecordMapping, record: Any, text: str, *, is_last: bool) -> None:
        """Have a mapping tell what a record means, and keep the record; `is_last` of its append."""
        self.number += 1
        self.conversation.begin_record()
        time = self.time
        try:
            mapping.read(record, self)
        except Exception as error:
            error.add_note(f"record {self.number} of these, as the mapping {mapping.format!r} reads it")
            raise
        if is_last:
            self.conversation.end_final()
        self.conversation.keep_record(self.time, record, text)
        self.time = time


def require_none_open(conversation: ToldConversation, session: str) -> None:
    """Raise `RefusedError` if an answer that is not told in records is open."""
    if conversation.settling:
        raise RefusedError("a message is open", expected="a finished message", session=session)


def digest_of_request(
    format: str, told: Sequence[tuple[Any, str]], after: int | None, keep: Mapping[str, Any]
) -> bytes:
    """Return the digest of what a request asks for: records, their place, and values to keep."""
    parts = [format, repr(after), *(text for _, text in told), *map(repr, sorted(keep.items()))]
    return digest_of("\0".join(parts))
