"""Vocabulary in which a mapping says what a record means: user, answer, call, result ….

A *mapping* is a format's name and one method, which is given a record and a `RecordBuilder`. It
calls the builder's methods in the order of what the record says. Importers and feeds share
mappings: the records of an imported file and those of a live feed give equal views.

What a mapping does not tell is no loss: the record itself is kept and comes back whole. Texts that
it hands over as the record has them, the same objects, are stored once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from eventlog import events as ev
from eventlog.errors import RefusedError
from eventlog.importers.common.conversation import Conversation
from eventlog.importers.common.conversation_parts import CallInput, CallResult, OpenAnswer, UserPart
from eventlog.importers.common.importer import ImportBatch, own_id
from eventlog.importers.common.json_lines import dump
from eventlog.session.inputs import model_of
from eventlog.validation import each, require
from eventlog.values import Attachment, File, Json, Model, Reasoning, Text, Tokens, Tool, Usage


class RecordBuilder:
    """Turns the meaning of one record into events of the conversation."""

    def __init__(self, conversation: Conversation, time: int = 0) -> None:
        self.conversation = conversation
        self.time = time
        """UTC milliseconds of the record's events."""
        self.number = 0
        """Place of the record among those that are told."""
        self.model: Model | None = None
        """The model of answers that name none."""
        self.begun: bool = False
        """Whether a message of the conversation itself has come."""

    @property
    def batch(self) -> ImportBatch:
        """Events and bodies told so far."""
        return self.conversation.batch

    @property
    def leading(self) -> bool:
        """Whether neither a system prompt nor a message of the conversation has come."""
        return not self.begun and not self.conversation.has_prompt()

    def fresh(self, wanted: Sequence[str]) -> str:
        """Return an unused message id: the first of these that is one, else one made up."""
        raise NotImplementedError

    def skip(self, reason: str) -> None:
        """Note that something of the record means nothing here."""
        self.conversation.report.skip(self.number, reason)

    # -- messages ------------------------------------------------------------------------------

    def system(self, text: str) -> None:
        """Set the system prompt from here on."""
        self.conversation.remainder.move(text, "header")
        self.conversation.add(self.time, ev.SystemPromptSet(self.batch.content(text)))
        self.conversation.prompted = True

    def user(
        self,
        said: str | Sequence[str | File | UserPart],
        *,
        id: str | Sequence[str] = (),
        agent: str = "",
        synthetic: bool = False,
        system: str = "",
    ) -> str:
        """Add a user message of texts and files; return its id, `id` if that is unused.

        `agent` is the agent that is asked. `synthetic` marks a message that a program wrote.
        `system` is the system prompt of this message, behind that of the session.
        """
        self.begun = True
        parts: list[UserPart] = []
        for one in [said] if isinstance(said, str) else each(said, "a user says a str, or a list of texts and files"):
            if isinstance(one, UserPart):
                parts.append(one)
            elif isinstance(one, File):
                parts.append(UserPart(one))
            else:
                parts.append(UserPart(Text(self.batch.content(one), synthetic), one, "text"))
        message = self.fresh(_names(id))
        prompt = None
        if system:
            self.conversation.supersede()
            self.conversation.remainder.move(system, "system")
            prompt = self.batch.content(system)
        added = ev.UserMessageAdded(message, agent, system=prompt, synthetic=synthetic)
        self.conversation.user(self.time, added, parts)
        return message

    def answer(self, *, id: str | Sequence[str] = (), model: Model | str | None = None, agent: str = "") -> OpenAnswer:
        """Begin an answer, for the texts, reasoning and calls that follow; see `end`.

        The one before it is over; its calls may still get results. `id` is as in `user`; `model`
        and `agent` are those that answer.
        """
        self.begun = True
        model = self.model if model is None else model_of(model)
        started = ev.AssistantMessageStarted(
            self.fresh(_names(id)), self.conversation.last_user, agent=agent, model=model
        )
        return self.conversation.answer(self.time, started)

    def end(self, reason: str | None = None) -> None:
        """End the open answer, with the reason why the model stopped if the record gives one."""
        if self.conversation.open is not None:
            self.conversation.open.reason = reason or self.conversation.open.reason
        self.conversation.supersede()

    def remove(self, message: str) -> bool:
        """Take an earlier message out of the conversation; False if there is none of this id."""
        return self.conversation.remove(self.time, message)

    # -- parts of the open answer ----------------------------------------------------------------

    def text(self, text: str, *, part: str = "", metadata: Json | None = None) -> None:
        """Add a text to the open answer.

        `part` is the part's id in the source, `metadata` the provider's JSON of it.
        """
        self.conversation.text(self.time, part or self.next_part(), text, metadata)

    def reasoning(self, text: str, *, metadata: Json | None = None, secret: str = "") -> None:
        """Add reasoning to the open answer; `secret` is a text of the record in `metadata`.

        `metadata` is as in `text`.
        """
        self.conversation.reasoning(self.time, self.next_part(), text, metadata, secret)

    def file(self, file: File, held: str = "", field: str = "") -> None:
        """Add a file to the open answer; it holds the text `held` of the record, as `field`."""
        if held:
            self.conversation.remainder.move(held, field)
        self.conversation.complete(self.time, self.next_part(), file)

    def call(
        self,
        call: str,
        tool: str,
        input: CallInput | Mapping[str, Any] | str = "{}",
        *,
        provider_executed: bool = False,
        metadata: Json | None = None,
    ) -> str:
        """Add a call to the open answer; return its id, another one if that is taken.

        `input` is the record's own object, or JSON text. `metadata` is as in `text`;
        `provider_executed` says that the provider runs the tool.
        """
        if not isinstance(input, CallInput):
            if isinstance(input, str):
                input = CallInput(input, input, "arguments")
            else:
                input = CallInput(dump(input), input, "input")
        require(str, call, "the id of a call is a str")
        kind = Tool(self._unused(call), tool, provider_executed, metadata)
        self.conversation.call(self.time, self.next_part(), kind, input)
        return kind.call

    def result(
        self,
        call: str,
        output: str,
        *,
        tool: str = "",
        failed: bool = False,
        interrupted: bool = False,
        attachments: Sequence[Attachment] = (),
        metadata: Json | None = None,
        held: bool = True,
        early: bool = False,
    ) -> bool:
        """Complete the newest call of this id; False if no call waits for a result.

        Of several calls that an answer has under one id, or under none, the oldest that waits, and
        before it one of `tool`. `held`: the record has this very text. `failed` says that `output`
        is an error, `interrupted` that the tool was stopped. `attachments` are its files,
        `metadata` is JSON of the tool. `early` holds the result until its call comes, if it may.
        """
        require(str, call, "the id of a call is a str")
        result = CallResult(output, failed, interrupted, metadata, tuple(attachments))
        if self.conversation.result(self.time, self._waiting(call, tool), result, held=held) is not None:
            return True
        return early and self.conversation.hold(call, self.number, result)

    def _unused(self, call: str) -> str:
        """Return the id of a call, with a number if the open answer has a call of that id."""
        taken = self.conversation.open.call_ids if self.conversation.open is not None else ()
        number, own = 1, call
        while own in taken:
            number += 1
            own = f"{call}#{number}"
        return own

    def _waiting(self, call: str, tool: str) -> str:
        """Return the id under which the call of a result waits; the given one if none does."""
        calls, head = self.conversation.calls, f"{call}#"
        alike = [one for one in calls if one == call or (one.startswith(head) and one[len(head) :].isdecimal())]
        if not alike:
            return call or self.open_call(tool)
        alike.sort(key=lambda one: (len(one), one))
        return alike[0] if len(alike) == 1 else self.open_call(tool, alike) or alike[0]

    def open_call(self, tool: str, among: Sequence[str] | None = None) -> str:
        """Return the oldest call of a tool that waits for a result, "" if none does.

        `among` are the ids that are looked at, by default all.
        """
        calls = self.conversation.calls
        names = () if not tool else calls if among is None else among
        return next((name for name in names if self.conversation.tool_of(calls[name]) == tool), "")

    def usage(self, usage: Usage | Tokens, *, failed: bool = False) -> None:
        """Record what the newest answer cost.

        `failed` says that the call brought no answer.
        """
        self.conversation.usage(self.time, usage if isinstance(usage, Usage) else Usage(usage), failed=failed)

    # -- compaction ------------------------------------------------------------------------------

    def compaction(self, summary: str, *, id: str | Sequence[str] = ()) -> None:
        """Let a summary stand for all messages so far; without a text it stands for none.

        `id` is as in `user`.
        """
        self.begun = True
        asked, message = self.fresh(()), self.fresh(_names(id))
        part = self.conversation.compact(self.time, asked, auto=True, before=None)
        kinds: list[tuple[Text | Reasoning, str, str]] = [(Text(self.batch.content(summary)), summary, "text")]
        self.conversation.summary(self.time, part, asked, message, kinds)

    def next_part(self) -> str:
        """Return the id of the open answer's next part."""
        answer = self.conversation.open
        if answer is None:
            raise RefusedError("a part without an answer", expected="`answer()` before its parts")
        return own_id(answer.id, str(answer.parts))


class RecordMapping(Protocol):
    """A format of records, and what its records mean."""

    @property
    def format(self) -> str:
        """Name of the format, stored with each record."""
        ...

    def read(self, record: Any, to: RecordBuilder) -> None:
        """Tell the builder the meaning of a record; nothing for one outside the conversation."""
        ...


def _names(id: str | Sequence[str]) -> Sequence[str]:
    return ((id,) if id else ()) if isinstance(id, str) else id
