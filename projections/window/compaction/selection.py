"""Select what a compaction covers: head, tail, and messages kept between them.

A pure function of the conversation, a policy and the sizes; `request.py` asks for the summary.

The newest turns stay as far as the budget goes; a turn that does not fit is split between messages.
A call and its results are in one stored message, so they are never parted.  If everything fits and
a compaction was requested, the tail shrinks until there is something to summarise: first to the
newest turn, then to the newest message.  If that leaves nothing, there is nothing to compact.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import msgspec

from projections.conversation.parts import (
    Compaction,
    FilePart,
    Message,
    OpaquePart,
    ReasoningPart,
    SubtaskPart,
    TextPart,
    ToolPart,
)
from projections.conversation.state import Conversation
from projections.view.options import DEFAULT, RenderOptions
from projections.view.part_rendering import Resolver
from projections.view.selection import compaction_of, visible_messages
from projections.window.policy.policy import CompactionPolicy
from projections.window.sizing.sizes import Sizes


class Selection(msgspec.Struct, frozen=True):
    """The messages that a compaction covers, and those that stay.

    The covered range ends at `through`; the messages `kept` inside it are not covered.
    """

    head: tuple[Message, ...]
    """Messages to summarise, in the order of the view.

    The summary in force and its question are not among them.
    """
    through: str
    """The last message of the covered range, by its place."""
    tail: str | None
    """The first message after it; None: there is no tail."""
    kept: tuple[str, ...] = ()
    """Messages inside the range that stay visible.

    The newest of the user's, those that no reply has answered, those with an unanswered call, and
    those that the view shows behind the range though their place is in it.
    """
    previous: str | None = None
    """The summary in force, which is to be brought up to date."""
    replay: str | None = None
    """User message to add again after the summary: its first request was refused for its size."""


def tail_budget(policy: CompactionPolicy, usable: int | None) -> int:
    """Tokens that the tail may have; `usable` None: the window is unlimited or unknown."""
    if policy.preserve_recent_tokens is not None:
        return policy.preserve_recent_tokens
    if usable is None:
        return policy.preserve_max
    return min(policy.preserve_max, max(policy.preserve_min, usable // 4))


def select_tail(
    state: Conversation,
    policy: CompactionPolicy,
    measure: Sizes,
    *,
    usable: int | None,
    marker: str | None = None,
    options: RenderOptions = DEFAULT,
    most: int | None = None,
    room: int | None = None,
) -> Selection | None:
    """Return what a compaction should cover now; None if there is nothing to compact.

    `marker` is the message with the compaction's part, if it was requested: what came after it is
    left alone, and whether a refused request was the cause is told by it. `options` are those of
    the view. `most` are the messages that a view may have at most: the tail is held to half of
    them, so that there is room to go on. `room` are the tokens that the window leaves for the tail:
    its budget is never more. An open message is never covered, nor what follows it.
    """
    budget = tail_budget(policy, usable)
    budget = budget if room is None else min(budget, room)
    asked = next((found for found in state.compactions.values() if found.message == marker), None)
    shown = summarisable(state, options, marker)
    previous = previous_summary(state, measure.text)
    is_refused = asked is not None and asked.overflow and policy.replay and kept_turn(shown, policy) is None
    found = _refused(state, shown, policy, measure, budget) if is_refused else None
    if found is not None:
        return msgspec.structs.replace(found, previous=previous)
    if is_refused and not policy.replay_keeps_steps:  # as OpenCode does: nothing stays of the one message there is
        stay, starts = frozenset[str](), [len(shown)]
    else:
        stay = _staying(state, shown, policy)
        starts = _starts(shown, policy, measure, budget)
    if most is not None:
        starts = [max(start, len(shown) - max(most // 2, 1)) for start in starts]
    for start in starts:
        found = _selection(shown, min(start, _barrier(shown)), stay)
        if found is not None:
            return msgspec.structs.replace(found, previous=previous)
    return None


def kept_turn(shown: Sequence[Message], policy: CompactionPolicy) -> int | None:
    """Return the index of a refused question that stays where it is; None if it is replayed.

    A question stays in front of the steps of its turn. It stays as well if nothing comes before:
    a summary of the question alone would have the model answer a text that it has not seen.
    """
    place = _newest_turn(shown, policy) if policy.replay_keeps_steps else None
    if place is None:
        return None
    has_steps = any(not found.user and _says_something(found) for found in shown[place + 1 :])
    return place if has_steps or not any(map(_says_something, shown[:place])) else None


def _selection(shown: Sequence[Message], start: int, stay: frozenset[str]) -> Selection | None:
    """The selection whose tail begins at `start`, if it leaves anything to summarise.

    The messages that `stay` are kept, wherever the tail begins.
    """
    kept = [message for message in shown[:start] if message.id in stay or _unanswered(message)]
    names = {message.id for message in kept}
    head = tuple(message for message in shown[:start] if message.id not in names)
    if not any(map(_says_something, head)):
        return None
    through = max(shown[:start], key=_place)
    behind = [message for message in shown[start:] if message.place < through.place]
    tail = min((message for message in shown[start:] if message.place > through.place), key=_place, default=None)
    return Selection(
        head, through.id, None if tail is None else tail.id, tuple(message.id for message in (*kept, *behind))
    )


def _refused(
    state: Conversation, shown: Sequence[Message], policy: CompactionPolicy, measure: Sizes, budget: int
) -> Selection | None:
    """Select after a refused request: its user message is covered, to be added again.

    Returns None if that message is all there is. OpenCode covers what its turn had done as well,
    unsummarised, and takes a tail from what came before (`replay_keeps_steps`).
    """
    place = _newest_turn(shown, policy)
    if place is None:
        return None
    before = shown[:place]
    if not policy.replay_keeps_steps:
        shown = shown[: _first_waiting(shown)]
        if not any(_begins_turn(message, policy) for message in before):
            return None
        start = _starts(before, policy, measure, budget)[0]
        tail = before[start].id if start < len(before) else None
        through = before[start - 1].id if tail is not None else shown[-1].id
        return Selection(tuple(before[:start]), through, tail, replay=shown[place].id)
    stay = _pending(state, shown) - {shown[place].id}
    found = _selection(shown, min(place + 1, _barrier(shown)), stay)
    if found is None:
        return None
    others = tuple(message for message in found.head if message.id != shown[place].id)
    head = others if any(map(_says_something, others)) else found.head
    return msgspec.structs.replace(found, head=head, replay=shown[place].id)


# -- where the tail begins ---------------------------------------------------------------------


def _starts(shown: Sequence[Message], policy: CompactionPolicy, measure: Sizes, budget: int) -> list[int]:
    """Where the tail may begin, the best first: `len(shown)` is no tail."""
    turns = [index for index, message in enumerate(shown) if _begins_turn(message, policy)]
    if not policy.synthetic_turns and shown and (not turns or turns[0] != 0):
        turns.insert(0, 0)  # what a compaction left of an earlier turn
    limit = policy.tail_turns
    recent = turns if limit is None else turns[-limit:] if limit > 0 else []
    start, end = len(shown), len(shown)
    for turn in reversed(recent):
        size = measure.messages(shown[turn:end])
        if size > budget:
            split = _fitting(shown, turn + 1, end, budget, measure)
            start = split if split < end else start
            break
        budget -= size
        start = end = turn
    if not policy.tail_when_all_fits:
        return [start or len(shown)]
    return [start, *(place for place in (*turns[-1:], len(shown) - 1) if place > start)]


def _fitting(shown: Sequence[Message], first: int, end: int, budget: int, measure: Sizes) -> int:
    """Return the first message from which all up to `end` fit; `end` if not even one does."""
    if budget <= 0:
        return end
    return bisect_left(range(first, end), True, key=lambda place: measure.messages(shown[place:end]) <= budget) + first


def _barrier(shown: Sequence[Message]) -> int:
    """The first message that is open or has a call that waits: what follows it stays as well."""
    is_open = (not message.user and message.finished is None for message in shown)
    return min(next((index for index, found in enumerate(is_open) if found), len(shown)), _first_waiting(shown))


def _first_waiting(shown: Sequence[Message]) -> int:
    """The first message with a call that was asked and has no result."""
    return next((index for index, message in enumerate(shown) if message.waits_for_person), len(shown))


# -- messages ----------------------------------------------------------------------------------


def summarisable(state: Conversation, options: RenderOptions, marker: str | None) -> list[Message]:
    """Return the messages that may be covered: those before the marker, without summaries."""
    asked = state.messages.get(marker or "")
    return [
        message
        for message in visible_messages(state, options)
        if not _stands_for_summary(state, message)
        and message is not asked
        and (asked is None or message.place < asked.place)
    ]


def _stands_for_summary(state: Conversation, message: Message) -> bool:
    """Whether this is the question or the summary of a completed compaction."""
    found: Compaction | None = state.compactions.get(compaction_of(state, message) or "")
    if found is None or found.status != "completed" or message.id not in {found.message, found.summary}:
        return False
    return found.part == state.in_force or not message.user or not _says_something(message)


def previous_summary(state: Conversation, resolve: Resolver) -> str | None:
    """The text of the summary in force."""
    compaction = state.compaction_in_force
    message = state.messages.get(compaction.summary or "") if compaction is not None else None
    if compaction is None or message is None:
        return None
    if compaction.is_provided:
        part = state.where[compaction.part][1]
        return resolve(part.opaque.text or "") or None if isinstance(part, OpaquePart) else None
    texts = (
        "".join(map(resolve, part.pieces))
        for part in message.parts
        if isinstance(part, TextPart) and not (part.removed or part.redacted or part.ignored)
    )
    return "\n\n".join(text.strip() for text in texts if text.strip()) or None


def _newest_user(state: Conversation) -> str | None:
    """The newest message that the user wrote and that the model may see."""
    return next(
        (
            message.id
            for message in sorted(state.messages.values(), key=lambda message: message.place, reverse=True)
            if message.user
            and not (message.synthetic or message.removed or message.waiting or message.covered is not None)
            and not message.is_marker
        ),
        None,
    )


def _staying(state: Conversation, shown: Sequence[Message], policy: CompactionPolicy) -> frozenset[str]:
    """The messages of users that are not covered: the newest, and the questions that wait.

    OpenCode covers these, too: its loop goes on from the summary.
    """
    newest = _newest_user(state) if policy.keep_newest_user else None
    waiting = _pending(state, shown) if policy.keep_newest_user or policy.replay_keeps_steps else frozenset[str]()
    return waiting | frozenset(() if newest is None else (newest,))


def _pending(state: Conversation, shown: Sequence[Message]) -> frozenset[str]:
    """The questions that wait for their answer.

    A message of the program's is one while no reply has seen it, and while it is the newest.
    """
    answered, seen = state.answered_place(), state.seen_place()
    waiting = [message for message in shown if message.user and message.place > answered and not message.is_marker]
    newest = max(waiting, key=_place, default=None)
    return frozenset(
        message.id for message in waiting if message is newest or not message.synthetic or message.place > seen
    )


def _place(message: Message) -> int:
    return message.place


def _newest_turn(shown: Sequence[Message], policy: CompactionPolicy) -> int | None:
    return next((index for index in range(len(shown) - 1, -1, -1) if _begins_turn(shown[index], policy)), None)


def _begins_turn(message: Message, policy: CompactionPolicy) -> bool:
    return message.user and (policy.synthetic_turns or not message.synthetic) and not message.is_marker


def _unanswered(message: Message) -> bool:
    """Whether a call of this message has no result yet, as an import may have left it."""
    return any(
        isinstance(part, ToolPart) and not part.removed and part.status in {"pending", "running"}
        for part in message.parts
    )


def _says_something(message: Message) -> bool:
    return any(
        isinstance(part, (TextPart, ReasoningPart, ToolPart, FilePart, SubtaskPart)) and not part.removed
        for part in message.parts
    )
