"""Calls of tools as the steps name them."""

from __future__ import annotations

from eventlog.session.answering import AskedCall
from eventlog.session.subsessions import subsession_in
from projections.conversation.parts import Message, ToolPart
from projections.loop.decision.steps import PendingCall
from projections.window.sizing.sizes import Sizes


def asked_call(message: Message, part: ToolPart, measure: Sizes) -> AskedCall:
    """Return a call that waits for a person; `measure` reads its arguments."""
    arguments, reason = ("{}", "") if part.redacted else (measure.text(part.input), part.reason)
    child = subsession_in(part.details)
    return AskedCall(message.id, part.call, part.id, part.tool, arguments, reason, part.asked, child)


def pending_call(part: ToolPart, measure: Sizes) -> PendingCall:
    """Return a call that waits to run; `measure` reads its arguments."""
    ran = part.status == "running" or (part.input != "" and not part.waits)
    given = [part.input] if part.input != "" else part.pieces
    return PendingCall(part.id, part.call, part.tool, "".join(map(measure.text, given)), ran, part.status == "allowed")
