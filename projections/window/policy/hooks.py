"""Hooks: change the system prompt, the messages, or a summary's prompt; veto continuing.

The change that a hook makes is recorded with the step as a patch of the view, so that the request
can be rebuilt without the hook.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from eventlog.errors import DamagedError
from eventlog.validation import each, require
from projections.view.neutral import NeutralMessage
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

    They are code, so the recorded policy does not hold them; steps record their effect.
    """

    system: SystemHook | None = None
    """Changes the system prompt's segments; more than two become two again."""
    messages: MessagesHook | None = None
    """Changes the messages of a request, and those that are to be summarised."""
    context: Callable[[], Sequence[str]] | None = None
    """Gives texts to be added to the prompt for a summary."""
    prompt: Callable[[str], str | None] | None = None
    """Receives the prompt for a summary and may return another.

    The template's sections are then not asked for.
    """
    auto_continue: Callable[[AutoContinue], bool] | None = None
    """Whether a message that asks to go on is added after an automatic compaction."""


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
