"""Hooks: change the system prompt, the messages, or a summary's prompt; veto continuing.

The change that a hook makes is recorded with the step as a patch of the view, so that the request
can be rebuilt without the hook.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import msgspec

from eventlog.errors import DamagedError
from eventlog.validation import each, require
from projections.view.neutral import Call, NeutralMessage, Result
from projections.view.system_prompt import SystemHook

MessagesHook: TypeAlias = Callable[[list[NeutralMessage]], Sequence[NeutralMessage]]
"""Is given the messages of a request and returns those to be sent."""


class AutoContinue(msgspec.Struct, frozen=True):
    """The argument of the hook that may stop the loop after an automatic compaction."""

    session: str
    compaction: str
    overflow: bool
    agent: str


class Hooks(msgspec.Struct, frozen=True):
    """Functions that change requests; all optional.

    `system`, `messages`: for each model call (`window.begin`), `messages` for each summary, too.
    `prompt`, `context`: once for each summary, and for nothing else.
    They are code, so the recorded policy does not hold them; steps record their effect.
    """

    system: SystemHook | None = None
    """Is given the system prompt's segments, returns those to send; more than two become two."""
    messages: MessagesHook | None = None
    """Is given the messages to send or to summarise, a list, and returns others.

    A call that lost its result is left out, as is a result that lost its call.
    """
    context: Callable[[], Sequence[str]] | None = None
    """Is given nothing, returns texts to add to a summary's prompt."""
    prompt: Callable[[str], str | None] | None = None
    """Is given a summary's template, returns a prompt of its own; None: the usual one.

    A prompt of its own does not ask for the template's sections.
    """
    auto_continue: Callable[[AutoContinue], bool] | None = None
    """Is asked behind an automatic compaction whether a message tells the model to go on."""


def messages_by(hook: MessagesHook, messages: Sequence[NeutralMessage]) -> list[NeutralMessage]:
    """Return the messages of a hook, without calls and results that lost each other.

    A provider refuses these. Those that were alone before stay.
    """
    changed = each(hook([*messages]), "the hook `messages` returns a list of NeutralMessage")
    alone = {(type(part), part.call) for _, part in _alone(messages)}
    lost = {place for place, part in _alone(changed) if (type(part), part.call) not in alone}
    if not lost:
        return [*changed]
    whole: list[NeutralMessage] = []
    for at, message in enumerate(changed):
        parts = tuple(part for number, part in enumerate(message.parts) if (at, number) not in lost)
        if parts:
            whole.append(msgspec.structs.replace(message, parts=parts))
    return whole


def _alone(messages: Sequence[NeutralMessage]) -> Iterator[tuple[tuple[int, int], Call | Result]]:
    """Yield the place of each call without a result, or result without a call, and itself."""
    waiting: dict[str, list[tuple[tuple[int, int], Call]]] = {}
    for at, message in enumerate(messages):
        for number, part in enumerate(message.parts):
            if isinstance(part, Call):
                waiting.setdefault(part.call, []).append(((at, number), part))
            elif isinstance(part, Result) and waiting.get(part.call):
                waiting[part.call].pop()
            elif isinstance(part, Result):
                yield (at, number), part
    for places in waiting.values():
        yield from places


class Patch(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a request differs from the view.

    `messages[start:stop]` of the view are replaced; so is the system prompt, if there is one here.
    """

    start: int = 0
    stop: int = 0
    messages: tuple[NeutralMessage, ...] = ()
    system: tuple[str, ...] | None = None


def patch_of(
    before: Sequence[NeutralMessage],
    after: Sequence[NeutralMessage],
    system: tuple[str, ...],
    sent_system: tuple[str, ...],
) -> str | None:
    """Return the patch as JSON, with only the messages that differ; None if none do."""
    shorter = min(len(before), len(after))
    start = next((index for index in range(shorter) if before[index] != after[index]), shorter)
    same = 0
    while same < shorter - start and before[len(before) - 1 - same] == after[len(after) - 1 - same]:
        same += 1
    changed = tuple(after[start : len(after) - same])
    stop = len(before) - same
    if not changed and start == stop and system == sent_system:
        return None
    patch = Patch(start, stop, changed, None if system == sent_system else sent_system)
    try:
        return msgspec.json.encode(patch, order="deterministic").decode()
    except UnicodeEncodeError:  # a lone surrogate: escaped
        return json.dumps(msgspec.to_builtins(patch, order="deterministic"), separators=(",", ":"))


def apply_patch(
    messages: Sequence[NeutralMessage], system: tuple[str, ...], patch: str
) -> tuple[list[NeutralMessage], tuple[str, ...]]:
    """Return the request that was sent; `DamagedError` if the patch does not fit the view."""
    messages = each(messages, "messages are a list of NeutralMessage")
    require(tuple, system, "a system prompt is a tuple of texts")
    require(str, patch, "a patch is JSON, a str")
    try:
        found = msgspec.convert(json.loads(patch), Patch)
    except (msgspec.ValidationError, ValueError, RecursionError) as error:
        raise DamagedError(f"a patch of a view that cannot be read: {error}") from None
    if not 0 <= found.start <= found.stop <= len(messages):
        raise DamagedError("a patch of another view")
    whole = [*messages[: found.start], *found.messages, *messages[found.stop :]]
    return whole, system if found.system is None else found.system
