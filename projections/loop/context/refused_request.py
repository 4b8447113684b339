"""A provider's refusal of a request, as the error of the reply that it ends."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from eventlog.errors import StreamError
from eventlog.session.failure import provider_error
from eventlog.session.reply import Reply
from eventlog.session.session import Session
from eventlog.streams.refusals import MEDIA, OPAQUE, OVERFLOW, refusal_kind
from eventlog.validation import require, require_or_none
from eventlog.values import MessageError
from projections.loop.context.window_state import WindowState
from projections.loop.decision.refused_turn import media_to_replace


def refusal(error: Exception, session: Session | None = None) -> MessageError:
    """Return the error of a reply that a provider refused, for `reply.abort`.

    It has the provider's status and text, and one of the kinds of `eventlog/streams/refusals.py`,
    which `error.status_code` and `error.code` say, or the text in the words of the large providers.
    The loop answers "overflow" with a compaction, "media" by naming the image or document instead,
    and "opaque-state" by a request without the provider's own state. "rate" has the time before
    which the loop does not ask again. Any other ends the turn, and the step says what helps. With
    the `session` of a reply that has no window the error of media says which parts, and the command
    that names them.
    """
    require(Exception, error, "a refusal is an exception of the provider's client")
    require_or_none(Session, session, "a session is a Session")
    said, kind = provider_error(error, ends=True), refusal_kind(error)
    if kind in {MEDIA, OPAQUE, OVERFLOW}:
        said = replace(said, name=str(kind))
    return said if session is None or kind != MEDIA else _with_parts(said, session)


def end_reply(reply: Reply, error: BaseException | None) -> None:
    """Close a reply that an error ended; a provider's error in the stream is its refusal."""
    if isinstance(error, StreamError):
        reply.abort(refusal(error))
    else:
        reply.close(error)


def close_open_reply(state: WindowState, error: BaseException | None) -> None:
    """Close the reply that a window is filling, if one is open; `error` says why."""
    reply, state.open_reply = state.open_reply, None
    if reply is not None:
        end_reply(reply, error)


def _with_parts(error: MessageError, session: Session) -> MessageError:
    """The error with the media that it is about."""
    now = WindowState(session).situation()
    media = media_to_replace(now, error, 1)
    if not media:
        return error
    data = {**msgspec.json.decode(error.data or "{}"), "media": media, "target": now.options.asked}
    listed = ", ".join(f"Media({one.part!r}, {one.mime!r}, {one.name!r})" for one in media)
    return MessageError(
        error.name,
        f"{error.message}; name it instead of sending it: `session.context.replace_media([{listed}])`",
        msgspec.json.encode(data).decode(),
    )
