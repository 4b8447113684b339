"""A provider's refusal of a request, as the error of the reply that it ends."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from eventlog.errors import StreamError
from eventlog.session.outcome import provider_error
from eventlog.session.reply import Reply
from eventlog.session.session import Session
from eventlog.streams.refusals import is_too_large
from eventlog.validation import require, require_or_none
from eventlog.values import MessageError
from projections.loop.context.window_state import WindowState
from projections.loop.decision.loop_state import MEDIA
from projections.loop.decision.refused_media import is_media_refusal, media_to_replace, target_of

__all__ = ["close_open_reply", "end_reply", "refusal"]

_ANY_REFUSAL = 400


def refusal(error: Exception, session: Session | None = None) -> MessageError:
    """Return the error of a reply that a provider refused, for `reply.abort`.

    It has the provider's status and text. A request that was refused for its size is "overflow",
    which the loop answers with a compaction; one that was refused for an image or a document is
    "media", which the loop answers by naming it instead. `error.status_code` and `error.code` say
    so, or the text, in the words of the large providers. With the `session` of a reply that has no
    window the error says which parts, and the command that names them.
    """
    require(Exception, error, "a refusal is an exception of the provider's client")
    require_or_none(Session, session, "a session is a Session")
    said = provider_error(error)
    found = getattr(error, "status_code", None)
    status = found if isinstance(found, int) else _ANY_REFUSAL
    code = getattr(error, "code", None)
    if is_media_refusal(status, f"{code or ''} {error}"):
        said = replace(said, name=MEDIA)
        return said if session is None else _with_parts(said, session)
    is_size = is_too_large(found if isinstance(found, int) else None, code, str(error))
    return replace(said, name="overflow") if is_size else said


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
    data = {**msgspec.json.decode(error.data or "{}"), "media": media, "target": target_of(now)}
    listed = ", ".join(f"Media({one.part!r}, {one.mime!r}, {one.name!r})" for one in media)
    return MessageError(
        error.name,
        f"{error.message}; name it instead of sending it: `session.context.replace_media([{listed}])`",
        msgspec.json.encode(data).decode(),
    )
