"""An answer that another task gives, as the HTTP response that a chat interface reads."""

from __future__ import annotations

import asyncio

from starlette.responses import Response, StreamingResponse

from eventlog.errors import CallError
from eventlog.store import Store
from eventlog.validation import require
from projections.live.answer import Answer, asked_now
from projections.live.protocols import PROTOCOLS, written

_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", "x-vercel-ai-ui-message-stream": "v1"}


async def answer_response(store: Store, session: str, question: str | None = None, *, protocol: str) -> Response:
    """Return the response that tells an answer from its beginning to its end.

    `session` is an id, `question` the user message that is answered, by default the one that is
    being answered now: 204 if none is. `protocol` is "ai-sdk" (UI messages of Vercel's AI SDK) or
    "ag-ui". The answer is another task's, in any process; a reader that goes ends nothing.
    `NotFoundError` if there is no such session or question.
    """
    require(Store, store, "an answer is one of a Store")
    if protocol not in PROTOCOLS:
        raise CallError(f"a protocol is one of {', '.join(PROTOCOLS)}, not {protocol!r}")
    name = question or await asyncio.to_thread(asked_now, store, session)
    if name is None:
        return Response(status_code=204)
    answer = await asyncio.to_thread(Answer, store, session, name)
    return StreamingResponse(written(answer, protocol), media_type="text/event-stream", headers=_HEADERS)
