"""A provider's refusal of a request, as the error of the reply that it ends."""

from __future__ import annotations

from msgspec.structs import replace

from eventlog.session.outcome import provider_error
from eventlog.validation import require
from eventlog.values import MessageError
from projections.window.compaction.chat_stream import is_too_large

__all__ = ["refusal"]

_ANY_REFUSAL = 400


def refusal(error: Exception) -> MessageError:
    """Return the error of a reply that a provider refused, for `reply.abort`.

    It has the provider's status and text. A request that was refused for its size is "overflow",
    which the loop answers with a compaction; `error.status_code` and `error.code` say so, or the
    text, in the words of the large providers.
    """
    require(Exception, error, "a refusal is an exception of the provider's client")
    said = provider_error(error)
    status = getattr(error, "status_code", None)
    is_size = getattr(error, "code", None) == "context_length_exceeded" or is_too_large(
        status if isinstance(status, int) else _ANY_REFUSAL, str(error).encode("utf-8", "replace")
    )
    return replace(said, name="overflow") if is_size else said
