"""An ASGI app with the pages of sessions: server-sent events, older messages, long texts.

    GET /SESSION/live       the newest messages, then patches; goes on behind `Last-Event-ID`
    GET /SESSION/messages   a page of older messages: `before=VERSION`, `limit=NUMBER`
    GET /SESSION/parts/ID   a part with its whole texts

Mount it in an app of your own, or run it as it is: `projections/live/README.md` has both.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, suppress
from inspect import isawaitable
from time import monotonic
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from eventlog.errors import BusyError, CallError, ClosedError, NotFoundError
from eventlog.store import Store
from eventlog.validation import require, require_function
from projections.live.aio import AsyncLive
from projections.live.form import Form, Json
from projections.live.live_session import LIMIT, LONGEST, page_of, part_of
from projections.live.patches import Update, encoded
from projections.transcript.transcript import Transcript

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

MOST = 1_000
"""Most messages of a page."""
T = TypeVar("T")
ASK_AGAIN = 10.0
"""Seconds after which it is asked again whether a stream may be read."""
Authorize: TypeAlias = Callable[["Request", str], "bool | Awaitable[bool]"]
"""Is given the request and the session's id; says whether it may be read."""


def live_app(store: Store, *, authorize: Authorize, longest: int = LONGEST) -> Starlette:
    """Return an ASGI app with the pages of a store's sessions.

    `authorize(request, session)` says whether the request may read the session, also as a
    coroutine; it is asked before anything is read, and again while a stream is open. It may look at
    the session: its `NotFoundError` is 404, and `gone` in an open stream. Texts are cut at
    `longest` characters.
    """
    require(Store, store, "an app is that of a Store")
    require_function(authorize, "authorize is a function that is given the request and the session's id")
    try:
        from starlette.applications import Starlette
        from starlette.exceptions import HTTPException
        from starlette.responses import Response
        from starlette.routing import Route

        from projections.server.sse_ending import EventStream
    except ImportError:
        raise CallError("a server needs the extra `server`: pip install '.[server]'") from None

    async def may(request: Request) -> bool:
        allowed = authorize(request, request.path_params["session"])
        return (await allowed if isawaitable(allowed) else allowed) is True

    async def asked(request: Request) -> str:
        """Return the session that a request may read."""
        if not await found(may(request)):
            raise HTTPException(403)
        session: str = request.path_params["session"]
        return session

    def number(request: Request, name: str, default: int | None, most: int) -> int | None:
        """Return a number of the query."""
        text = request.query_params.get(name)
        if text is None:
            return default
        if not (text.isascii() and text.isdecimal() and len(text) <= 20 and 0 < int(text) <= most):
            raise HTTPException(400, f"{name} is a number from 1 to {most}")
        return int(text)

    async def found(reading: Awaitable[T]) -> T:
        """Await a reading of the store; its refusals are HTTP errors."""
        try:
            return await reading
        except NotFoundError as error:
            raise HTTPException(404) from error
        except ClosedError as error:
            raise HTTPException(503, "the server stops", {"Retry-After": "1"}) from error
        except BusyError as error:
            raise HTTPException(503, "the store is being rewritten", {"Retry-After": "1"}) from error

    async def live(request: Request) -> Response:
        session = await asked(request)
        limit = number(request, "limit", LIMIT, MOST)
        after = request.headers.get("last-event-id") or request.query_params.get("after")
        assert limit is not None
        updates = aiter(AsyncLive(store, session, after, limit=limit, longest=longest))
        first = await found(anext(updates))
        return EventStream(_stream(first, updates, lambda: may(request)), sep="\n")

    async def read(request: Request, reading: Callable[[str], Json]) -> Response:
        session = await asked(request)
        value = await found(asyncio.to_thread(reading, session))
        return Response(encoded(value), media_type="application/json", headers={"Cache-Control": "no-store"})

    async def messages(request: Request) -> Response:
        limit = number(request, "limit", LIMIT, MOST)
        before = number(request, "before", None, (1 << 63) - 1)
        assert limit is not None

        def page(name: str) -> Json:
            session = store.session(name)
            return page_of(session, Transcript(session), Form(longest), limit, before)

        return await read(request, page)

    async def part(request: Request) -> Response:
        name: str = request.path_params["part"]
        return await read(request, lambda session: part_of(store.session(session), name))

    return Starlette(
        routes=[
            Route("/{session:path}/live", live),
            Route("/{session:path}/messages", messages),
            Route("/{session:path}/parts/{part:path}", part),
        ]
    )


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
