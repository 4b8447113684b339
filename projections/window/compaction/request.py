"""The request to a summariser: the conversation's head, and the words that ask.

`selection.py` says which messages the head has.  Pure.  A head that is too large for one request is
asked for in chunks of whole messages, each anchored on the summary of the chunk before, so a call
and its result stay together.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import msgspec

from eventlog.errors import MessageTooLargeError
from eventlog.values import Model, Patch, Todo
from projections.conversation.parts import Message, NotePart
from projections.view.message_rendering import MessageRenderer
from projections.view.neutral import NeutralMessage, NeutralPart, Text
from projections.view.options import DEFAULT, RenderOptions
from projections.view.part_rendering import Resolver
from projections.window.compaction.template import SYSTEM, prompt_digest, summary_prompt
from projections.window.policy.hooks import MessagesHook, messages_by, patch_of
from projections.window.policy.policy import CompactionPolicy

RequestCounter: TypeAlias = Callable[[Sequence[NeutralMessage], Sequence[str]], int]
"""Tokens of a request with these messages and these system segments, by the counter of the
summary's model.
"""

GOES_ON = "(The conversation goes on here.)"
"""First message of a request that would begin with an assistant message.

Many providers refuse such requests.
"""


KEPT_CHARACTERS = 4_000
"""Of a message that stays in view, so much is told to the summariser of what is around it."""


class SummaryFacts(msgspec.Struct, frozen=True):
    """Facts missing from a request's messages, for summarisers without a model."""

    synthetic: frozenset[str] = frozenset()
    """User messages that the program wrote."""
    files: tuple[str, ...] = ()
    """Files that were changed, as patches tell."""
    todos: tuple[Todo, ...] = ()
    """The list of things to do as it is now."""


class SummaryRequest(msgspec.Struct, frozen=True):
    """One request for a summary.  No tools are offered; a tool call is a failure."""

    system: str
    messages: tuple[NeutralMessage, ...]
    """Messages to summarise; the prompt follows them as a user message."""
    prompt: str
    model: Model | None = None
    previous: str | None = None
    """The summary that is to be brought up to date; it stands in the prompt."""
    facts: SummaryFacts = SummaryFacts()
    tokens: int = 0
    """Tokens of all of it, as counted."""
    upto: int = 0
    """How many units of the job are summarised once this request is answered."""
    last: bool = True
    """Whether the job is done then."""

    @property
    def digest(self) -> bytes:
        """SHA-256 of the system prompt and of the prompt."""
        return prompt_digest(self.system, self.prompt)

    def conversation(self) -> tuple[NeutralMessage, ...]:
        """The messages with the prompt behind them, as they are to be sent."""
        return (*self.messages, NeutralMessage("user", (Text(self.prompt),)))


class SummaryJob:
    """A head to summarise, in as many requests as it takes; `request(after, previous)`."""

    def __init__(
        self,
        head: Iterable[Message],
        policy: CompactionPolicy,
        resolve: Resolver,
        count: RequestCounter,
        *,
        kept: Iterable[Message] = (),
        model: Model | None = None,
        options: RenderOptions = DEFAULT,
        max_input: int | None = None,
        todos: tuple[Todo, ...] = (),
        context: Sequence[str] = (),
        prompt: str | None = None,
        transform: MessagesHook | None = None,
    ) -> None:
        """Render the head.

        `kept` are messages that stay visible beside the summary; those of the user's among them are
        told at their place, cut to `KEPT_CHARACTERS`, because the rest is about them. `options` are
        those of the view; media are stripped from it and outputs capped. `max_input` are the tokens
        that the model may be sent (None: any number). `context` is put behind the prompt; `prompt`
        replaces it, and then the previous summary goes before it, so that it is not lost.
        """
        beside = {message.id: message for message in kept if message.user}
        messages = [*head]
        for message in beside.values():
            insort(messages, message, key=lambda other: other.place)
        chosen = summary_options(options, policy, model)
        rendered = [
            _shortened(found) if message.id in beside else found
            for message in messages
            for found in MessageRenderer(message, chosen, resolve).messages()
        ]
        self.patch: str | None = None
        """Changes that `transform` made, as a patch of the messages."""
        if transform is not None:
            changed = messages_by(transform, rendered)
            self.patch = patch_of(rendered, changed, (), ())
            rendered = changed
        self._units = _units(rendered)
        self._nothing = count((), ())
        self._sizes = [count(unit, ()) - self._nothing for unit in self._units]
        self._stored = {message.id: message for message in messages}
        self._count = count
        self._model = model
        self._max_input = max_input
        self._todos = todos
        self._context = tuple(context)
        self._prompt = prompt

    @property
    def tokens(self) -> int:
        """Tokens of all that is to be summarised, as counted."""
        return sum(self._sizes)

    def __len__(self) -> int:
        """How many units there are to summarise: messages, each with the results of its calls."""
        return len(self._units)

    def request(
        self,
        after: int = 0,
        previous: str | None = None,
        *,
        max_input: int | None = None,
        upto: int | None = None,
        more: str | None = None,
    ) -> SummaryRequest:
        """Return the request for the units from `after` on, as many as fit, at most up to `upto`.

        `previous` is the summary of the units before, `more` is put behind the prompt.

        `max_input` goes before the job's own, for a provider that turned out to take less. Raises
        `MessageTooLargeError` if not even the first unit fits.
        """
        limit = self._max_input if max_input is None else max_input
        prompt = self._worded(previous, more)
        tokens = self._asking(prompt)
        chunk: list[NeutralMessage] = []
        taken = after
        end = len(self._units) if upto is None else upto
        while taken < end:
            size = self._sizes[taken] + (0 if chunk else self._opening(taken))
            if limit is not None and tokens + size > limit:
                break
            if not chunk and self._units[taken][0].role != "user":
                chunk.append(_OPENING)
            chunk.extend(self._units[taken])
            tokens += size
            taken += 1
        if taken == after and taken < end:
            size, most = tokens + self._sizes[taken] + self._opening(taken), limit or 0
            before = 0 if previous is None else tokens - self._asking(self._worded(None, more))
            raise MessageTooLargeError(self._units[taken][0].source, size, most, before if size - before <= most else 0)
        return SummaryRequest(
            system=SYSTEM,
            messages=tuple(chunk),
            prompt=prompt,
            model=self._model,
            previous=previous,
            facts=self._facts(chunk),
            tokens=tokens,
            upto=taken,
            last=taken == len(self._units),
        )

    # -- helpers -------------------------------------------------------------------------------

    def _worded(self, previous: str | None, more: str | None) -> str:
        if self._prompt is None:
            return summary_prompt(previous, self._context if more is None else (*self._context, more))
        before = () if previous is None else (previous,)
        return "\n\n".join((*before, self._prompt, *self._context))

    def _asking(self, prompt: str) -> int:
        """Tokens of a request with nothing but the prompts."""
        return self._count((NeutralMessage("user", (Text(prompt),)),), (SYSTEM,))

    def _opening(self, index: int) -> int:
        """Tokens of what is said before this unit when a request begins with it."""
        return 0 if self._units[index][0].role == "user" else self._count((_OPENING,), ()) - self._nothing

    def _facts(self, chunk: Sequence[NeutralMessage]) -> SummaryFacts:
        sources = {message.source for message in chunk}
        stored = [message for name, message in self._stored.items() if name in sources]
        synthetic = frozenset(message.id for message in stored if message.user and message.synthetic)
        files = [
            name
            for message in stored
            for part in message.parts
            if isinstance(part, NotePart) and isinstance(part.note, Patch) and not (part.removed or part.redacted)
            for name in part.note.files
        ]
        return SummaryFacts(synthetic, tuple(dict.fromkeys(files)), self._todos)


def _shortened(message: NeutralMessage) -> NeutralMessage:
    """A message that stays in view, as much of it as is needed to know what it is about."""
    parts: list[NeutralPart] = []
    room = KEPT_CHARACTERS
    for part in message.parts:
        if isinstance(part, Text) and room > 0:
            parts.append(Text(part.text if len(part.text) <= room else f"{part.text[:room]}\n[…]"))
            room -= len(part.text)
    return msgspec.structs.replace(message, parts=tuple(parts))


_OPENING = NeutralMessage("user", (Text(GOES_ON),))


def summary_options(options: RenderOptions, policy: CompactionPolicy, model: Model | None) -> RenderOptions:
    """Return the view's options for a summary: no media, capped outputs, no reminders."""
    return msgspec.structs.replace(
        options,
        model=model or options.model,
        strip_media=True,
        tool_output_limit=policy.tool_output_limit,
        reminder=False,
        max_steps=None,
    )


def _units(messages: Iterable[NeutralMessage]) -> list[list[NeutralMessage]]:
    """Group messages that stay together: those of one stored message, and calls with results."""
    units: list[list[NeutralMessage]] = []
    for message in messages:
        if units and (message.role == "tool" or (message.source and message.source == units[-1][-1].source)):
            units[-1].append(message)
        else:
            units.append([message])
    return units
