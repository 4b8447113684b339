"""The message behind the summary of a compaction, and the tokens of a request with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from eventlog import events as ev
from eventlog.session.inputs import stored_kind
from eventlog.values import PartKind, Text
from projections.window.compaction.continuation import continuation, overflow_replay
from projections.window.policy.hooks import AutoContinue, Hooks

if TYPE_CHECKING:
    from eventlog.session.session import Session
    from projections.conversation.parts import Message
    from projections.loop.decision.situation import Situation
    from projections.loop.decision.steps import Compact
    from projections.window.compaction.selection import Selection

__all__ = ["continuation_events", "tokens_after"]


def tokens_after(now: Situation, step: Compact, selection: Selection, text: str) -> int:
    """Tokens of the first request after a compaction with this summary."""
    said = _said_then(now, step, selection)
    then = [now.measure.text(kind.text) for kind in said if isinstance(kind, Text)]
    return now.tokens_after(selection, text, then, marker=step.message)


def continuation_events(
    session: Session,
    now: Situation,
    step: Compact,
    selection: Selection,
    bodies: dict[bytes, bytes],
    *,
    like: Message | None,
    hooks: Hooks,
) -> list[ev.Event]:
    """Return the events of the message that follows an automatic compaction, [] without one.

    A message to continue has the agent and the model of `like`; large texts are put into `bodies`.
    """
    kinds = _said_then(now, step, selection)
    if selection.replay is not None:
        again = now.summarisable.messages[selection.replay]
        return _user(session, step.part, kinds, bodies, like=again, synthetic=again.synthetic)
    if not kinds or not now.policy.compaction.auto_continue:
        return []
    agent = "" if like is None else like.agent
    hook = hooks.auto_continue
    if hook is not None and not hook(AutoContinue(session.id, step.part, step.overflow, agent)):
        return []
    return _user(session, step.part, kinds, bodies, like=like, synthetic=True)


def _said_then(now: Situation, step: Compact, selection: Selection) -> list[PartKind]:
    """Return the parts said after the summary: the refused message again, or a continuation.

    A hook or the policy may still leave them out.
    """
    if selection.replay is not None:
        return overflow_replay(now.summarisable.messages[selection.replay], now.measure.text)
    if not step.auto:
        return []
    return [Text(continuation(now.policy.preset, overflow=step.overflow), synthetic=True)]


def _user(
    session: Session,
    cause: str,
    kinds: Sequence[PartKind],
    bodies: dict[bytes, bytes],
    *,
    like: Message | None,
    synthetic: bool,
) -> list[ev.Event]:
    host = session.store.host
    message = host.new_id("msg_")
    added = (
        ev.UserMessageAdded(message, synthetic=synthetic, cause=cause)
        if like is None
        else ev.UserMessageAdded(
            message,
            like.agent,
            like.model,
            like.variant,
            like.system,
            like.tools,
            like.format,
            synthetic,
            cause=cause,
        )
    )
    parts = [ev.PartStarted(message, host.new_id("prt_"), stored_kind(kind, bodies)) for kind in kinds]
    return [added, *parts]
