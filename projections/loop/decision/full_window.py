"""A full window: whether a compaction can help, and what helps where none can.

Pure; `next_step.py` asks.  A sentence names actions of the user, any one of which is enough for the
next question to be answered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from projections.loop.decision.loop_state import NOTHING
from projections.loop.decision.steps import Blocked

if TYPE_CHECKING:
    from projections.conversation.parts import Message
    from projections.loop.decision.situation import Situation
    from projections.window.compaction.selection import Selection

BY_HAND = "compact by hand without a model: `ContextWindow(session, summarizer=summarize_offline).compact()`"
OFFLINE_MOST = 4_000
"""Tokens that the offline summary has at most, in any language."""


def may_help(now: Situation, *, fits: bool, refused: bool) -> bool:
    """Return whether an automatic compaction may bring the request below its limit.

    That is `usable` for a request that `fits` as it is, and `largest` for one that does not. A
    request that a provider `refused` is compacted at any size, if anything else than its question
    is there; OpenCode summarises the question, too.
    """
    policy = now.policy.compaction
    if now.loop.failed_compactions(now.usable) >= policy.max_failures:
        return False
    selection = now.selection(None)
    if refused:
        return now.loop.latest_failure() != NOTHING and (selection is not None or not policy.replay_keeps_steps)
    if selection is None or not _is_shorter(now, selection):
        return False
    bound = now.usable if fits else now.largest
    return bound is None or now.tokens_after(selection) + now.unseen_tokens() < bound


def blocked(now: Situation, *, refused: bool) -> Blocked:
    """Return the step that ends the loop: the request does not fit, and no compaction helps."""
    largest = now.largest
    if not refused and largest is not None and now.fixed() >= largest:
        return Blocked(
            "window-too-small",
            f"the system prompt and the tools alone take {now.fixed()} of {largest} tokens; shorten the system prompt,"
            f" or {_larger(now)}",
        )
    helps, removed = what_helps(now)
    waiting = _unanswered(now)
    tokens = now.fixed() + now.measure.messages(waiting)
    if not refused and largest is not None and waiting and tokens >= largest:
        names = ", ".join(message.id for message in waiting)
        return Blocked(
            "window-too-small",
            f"with the system prompt the questions that wait for an answer take {tokens} of {largest} tokens: {names};"
            f" {helps}",
            removed,
        )
    failures, why = now.loop.failed_compactions(now.usable), now.loop.latest_failure()
    if failures or now.selection(None) is not None:
        said = f"{failures} automatic compaction(s) in a row did not bring the conversation below its window"
        said += f" (the latest failed: {why})" if why else ""
    else:
        said = "nothing older is left to summarise: what is newest is too large by itself"
    return Blocked("compaction-fails", f"{said}; {helps}", removed)


def what_helps(now: Situation) -> tuple[str, tuple[str, ...]]:
    """Name the actions that make room, the one that loses least first.

    Returns the messages that one of them takes out as well.
    """
    selection = now.selection(None)
    actions: list[str] = []
    removed: list[str] = []
    room = _room(now)
    most = room if now.largest is None else now.largest - OFFLINE_MOST
    if selection is not None and now.tokens_after(selection) + now.unseen_tokens() < most:
        actions.append(BY_HAND)
    else:
        removed = _too_large(now, room)
        if removed:
            commands = " and ".join(f"`session.remove_message({message!r})`" for message in removed)
            actions.append(f"take out what is too large: {commands}")
    back = _last_that_fits(now, room)
    if back is not None:
        actions.append(f"roll back: `session.rollback(before={back.id!r})`")
    waiting = _unanswered(now)
    if waiting and not actions:
        removed = [waiting[-1].id]
        actions.append(f"ask in fewer words, without the newest question: `session.remove_message({waiting[-1].id!r})`")
    return ", or ".join([*actions, _larger(now)]), tuple(removed)


# -- helpers -----------------------------------------------------------------------------------


def _unanswered(now: Situation) -> list[Message]:
    """Return the questions that no reply has answered: no compaction covers them."""
    answered = now.state.answered_place()
    messages = [message for message in now.messages if message.user and message.place > answered]
    return [message for message in messages if not (message.synthetic or message.is_marker)]


def _is_shorter(now: Situation, selection: Selection) -> bool:
    """Whether a view that has too many messages has fewer after this compaction."""
    most, messages = now.policy.overflow.max_messages, now.messages
    if most is None or len(messages) <= most:
        return True
    return len(now.staying(selection)) + len(("marker", "summary", "continuation")) < len(messages)


def _larger(now: Situation) -> str:
    return f"take a model with a larger window, for requests of {now.request()} tokens and more"


def _room(now: Situation) -> int:
    """Tokens that surely fit: a quarter of a request that was refused within its limits."""
    tokens = now.request()
    return now.usable if now.usable is not None and tokens >= now.usable else tokens // 4


def _too_large(now: Situation, room: int) -> list[str]:
    """Return the messages without which the rest fits; [] if three are not enough.

    A question that a compaction has repeated is gone once the repeated one is taken out, too.
    """
    left = now.request()
    found: list[str] = []
    said = [message for message in now.messages if not (message.is_marker or message.summary)]
    for message in sorted(said, key=now.measure.sent, reverse=True)[:3]:
        if left < room:
            break
        found.append(message.id)
        left -= now.measure.messages([message])
        asked = now.loop.said[-1][0] if message.cause and message.user and now.loop.said else ""
        if asked and asked not in now.state.messages:
            found.append(asked)
    return found if left < room else []


def _last_that_fits(now: Situation, room: int) -> Message | None:
    """Return the newest question before which all fits; None if even the summary does not."""
    messages = [message for message in now.messages if message.place > _in_force(now)]
    size = now.request() - now.measure.messages(messages)
    found: Message | None = None
    for message in messages:
        if size >= room:
            break
        if message.user and not message.is_marker:
            found = message
        size += now.measure.messages([message])
    return found


def _in_force(now: Situation) -> int:
    """Place of the summary in force."""
    compaction = now.state.compaction_in_force
    summary = now.state.messages.get(compaction.summary or "") if compaction is not None else None
    return 0 if summary is None else summary.place
