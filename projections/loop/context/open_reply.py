"""The reply that a window opens, to be filled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eventlog.errors import NotFoundError, RefusedError
from eventlog.session.subsessions import stop_subsessions

if TYPE_CHECKING:
    from eventlog.session.reply import Reply
    from eventlog.session.session import Session
    from eventlog.values import Model
    from projections.loop.context.model_request import ModelRequest
    from projections.loop.context.window_state import WindowState

__all__ = ["open_reply", "require_no_reply"]


def require_no_reply(session: Session, state: WindowState) -> None:
    """Refuse to open a reply while another is open, or without the lease."""
    if state.open_reply is not None and state.open_reply.is_open:
        raise RefusedError("a reply is open", expected="its end")
    if not session.holds_lease:
        raise RefusedError("the lease is not held", expected="`with ContextWindow(…) as window`")


def open_reply(
    session: Session,
    state: WindowState,
    reply_to: str,
    view: ModelRequest | int | None,
    model: Model | str | None,
    *,
    agent: str = "",
) -> Reply:
    """Open a reply to a message, and stop the sub-sessions of calls that do not go on.

    `view` is the request, or its version; None: all up to the message. `model` and `agent` are
    those of the message by default.
    """
    asked = state.conversation.messages.get(reply_to)
    if asked is None:
        raise NotFoundError("message", reply_to, session=session.id)
    reply = session.assistant(
        model or asked.model,
        reply_to=reply_to,
        agent=agent or asked.agent,
        variant=asked.variant,
        view=asked.place if view is None else view,
    )
    stop_subsessions(session.store.registry, session.executor, "its call does not go on")
    reply.begin()
    state.open_reply = reply
    return reply
