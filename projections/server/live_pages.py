"""An ASGI app with the pages of sessions: server-sent events, older messages, long texts.

    GET /SESSION/live       the newest messages, then patches; goes on behind `Last-Event-ID`
    GET /SESSION/messages   a page of older messages: `before=VERSION`, `limit=NUMBER`
    GET /SESSION/parts/ID   a part with its whole texts

Mount it in an app of your own, or run it as it is: `projections/live/README.md` has both.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from inspect import isawaitable
from time import monotonic
from typing import TYPE_CHECKING, TypeAlias

from sse_starlette import EventSourceResponse
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from eventlog.errors import BusyError, CallError, ClosedError, NotFoundError
from eventlog.errors.base import brief
from eventlog.store import Store
from eventlog.validation import require, require_function
from projections.live.aio import AsyncLive
from projections.live.live_session import LIMIT, LONGEST, page_of, part_of
from projections.live.patches import Update, encoded
from projections.transcript.message_json import Form, Json
from projections.transcript.transcript import Transcript

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

MOST = 1_000
"""Most messages of a page."""
ASK_AGAIN = 10.0
"""Seconds after which it is asked again whether a stream may be read."""
Authorize: TypeAlias = Callable[["Request", str], "bool | Awaitable[bool]"]
"""Is given the request and the session's id; says whether it may be read."""


def live_app(store: Store, *, authorize: Authorize) -> Starlette:
    """Return an ASGI app with the pages of a store's sessions.

    `authorize(request, session)` says whether the request may read the session, also as a
    coroutine; it is asked before anything is read, and again while a stream is open. It may look at
    the session: its `NotFoundError` is 404, and `gone` in an open stream.
    """
    require(Store, store, "an app is that of a Store")
    require_function(authorize, "authorize is a function that is given the request and the session's id")

    async def may(request: Request) -> bool:
        allowed = authorize(request, request.path_params["session"])
        return (await allowed if isawaitable(allowed) else allowed) is True

    async def asked(request: Request) -> str:
        """Return the session that a request may read."""
        if not await may(request):
            raise HTTPException(403)
        session: str = request.path_params["session"]
        return session

    async def live(request: Request) -> Response:
        session, query = await asked(request), request.query_params
        after = request.headers.get("last-event-id") or query.get("after")
        updates = aiter(AsyncLive(store, session, after, limit=number(query, "limit", LIMIT, least=1, most=MOST)))
        first = await anext(updates)
        return EventStream(_stream(first, updates, lambda: may(request)), sep="\n")

    async def read(request: Request, reading: Callable[[str], Json]) -> Response:
        session = await asked(request)
        value = await asyncio.to_thread(reading, session)
        return Response(encoded(value), media_type="application/json", headers={"Cache-Control": "no-store"})

    async def messages(request: Request) -> Response:
        def page(name: str) -> Json:
            limit = number(request.query_params, "limit", LIMIT, least=1, most=MOST)
            before = number(request.query_params, "before", 0, least=1) or None
            session = store.session(name)
            return page_of(session, Transcript(session), Form(LONGEST), limit, before)

        return await read(request, page)

    async def part(request: Request) -> Response:
        name: str = request.path_params["part"]
        return await read(request, lambda session: part_of(store.session(session), name))

    return Starlette(
        routes=[
            Route("/{session:path}/live", live),
            Route("/{session:path}/messages", messages),
            Route("/{session:path}/parts/{part:path}", part),
        ],
        exception_handlers=dict.fromkeys((NotFoundError, CallError, ClosedError, BusyError), _refused),
    )


def _refused(_request: Request, error: Exception) -> Response:
    """Return the answer to a request that the store refuses."""
    match error:
        case NotFoundError():
            return PlainTextResponse("Not Found", 404)
        case CallError():
            return PlainTextResponse(str(error), 400)
        case _:
            words = "the server stops" if isinstance(error, ClosedError) else "the store is being rewritten"
            return PlainTextResponse(words, 503, {"Retry-After": "1"})


def number(query: Mapping[str, str], name: str, default: int, *, least: int = 0, most: int = 1 << 53) -> int:
    """Return a whole number of a query; `CallError` unless it is one in its bounds."""
    text = query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) <= 20) or not least <= int(text) <= most:
        raise CallError(f"{name} is a whole number from {least} to {most}, not {brief(text)}")
    return int(text)


class EventStream(EventSourceResponse):
    """Server-sent events whose answer has an end, also when the server stops.

    The library breaks its answers off when uvicorn stops: uvicorn then complains of each open page,
    and a proxy of an answer that is cut.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events, and the end of the answer if they broke off."""
        waits = False  # whether a client waits for more

        async def received() -> Message:
            nonlocal waits
            message = await receive()
            waits = waits and message["type"] != "http.disconnect"
            return message

        async def sent(message: Message) -> None:
            nonlocal waits
            waits = message["type"] == "http.response.start" or message.get("more_body", False)
            await send(message)

        await super().__call__(scope, received, sent)
        if waits:
            await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _stream(
    first: Update, updates: AsyncGenerator[Update], may: Callable[[], Awaitable[bool]]
) -> AsyncIterator[bytes]:
    """Yield updates as server-sent events until the store closes, or refuses the reader."""
    asked = monotonic()
    with suppress(ClosedError, BusyError):
        async with aclosing(updates):
            page = _event(first)
            del first  # an idle client holds no page
            yield page
            del page
            async for update in updates:
                if monotonic() - asked > ASK_AGAIN:
                    try:
                        if not await may():
                            return
                    except NotFoundError:  # `authorize` looked at the session, which was erased
                        yield _event(Update.of(None, [{"gone": "erased"}]))
                        return
                    asked = monotonic()
                patches = _event(update)
                del update
                yield patches
                del patches


def _event(update: Update) -> bytes:
    cursor = b"" if update.cursor is None else b"id: %b\n" % update.cursor.encode()
    return b"%bdata: %b\n\n" % (cursor, update.data)
