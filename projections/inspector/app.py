"""The inspector's ASGI application: its page, and the JSON that the page asks for."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from importlib.resources import files
from time import time
from typing import TYPE_CHECKING, Any

import msgspec

from eventlog.errors import CallError, DamagedError, EventlogError, KeyMissingError, NotFoundError, RefusedError
from eventlog.validation import require, require_or_none
from projections.exports.html_text import visible
from projections.inspector import answers
from projections.inspector.asked import AskedCalls
from projections.inspector.catalogue import Catalogue, Wanted, number
from projections.inspector.gate import Gate, served_hosts
from projections.inspector.markup import found_pieces
from projections.inspector.room import Rooms
from projections.inspector.stored_file import stored_file
from projections.inspector.taken_out import message_copies, session_file
from projections.inspector.usage import models_used, usage_over_time
from projections.reports.wording import DAMAGE_ADVICE, KEY_ADVICE
from projections.server import live_app

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

    from eventlog import SearchHit, Store

_LISTED = 100
"""Sessions of a page of the list, at most."""
_BODY = 1_000_000
"""Bytes of a request that is posted, at most."""
_UNCHANGED = 10
"""Seconds after which an unchanged list is answered again: a lease may be over."""


def inspector(store: Store, *, host: str = "127.0.0.1", token: str | None = None, answers: bool = False) -> ASGIApp:
    """Return an application that shows the sessions of a store to people.

    `host` is what it is served on: requests that name another are refused. With a `token` requests
    without it are refused. It only reads, unless `answers` lets a person answer for calls that
    wait; this needs a token and a store that may be written. It may be mounted under a path.
    """
    if answers and token is None:
        raise CallError("answers in the page need a token: other programs of this machine could give them")
    require(str, host, "a host is a str")
    require_or_none(str, token, "a token is a str")
    try:
        from starlette.applications import Starlette
        from starlette.routing import Mount, Route
        from starlette.staticfiles import StaticFiles
    except ImportError as error:
        raise CallError("the inspector needs the extra `server`: pip install '.[server]'") from error
    pages, asked = _Pages(store), AskedCalls(store, answers=answers)
    routes = [
        Route("/", pages.index),
        Route("/api/sessions", pages.sessions),
        Route("/api/search", pages.answer(pages.found)),
        Route("/api/scopes", pages.answer(lambda _: {"scopes": pages.catalogue.scopes()})),
        Route("/api/usage", pages.answer(lambda request: usage_over_time(store, request.query_params))),
        Route("/api/models", pages.answer(lambda _: {"models": models_used(store)})),
        Route("/api/families", pages.answer(lambda _: pages.catalogue.families())),
        Route("/api/asked", pages.answer(lambda request: asked.listed(request.query_params))),
        Route("/api/answer", pages.posted(asked.answer), methods=["POST"]),
        Route("/api/file", pages.file),
        Route("/api/export", pages.exported),
        *(Route(f"/api/{name}", pages.answer(_in_room(pages, told))) for name, told in _ABOUT_A_SESSION.items()),
        Mount("/live", live_app(store, authorize=lambda _request, _session: True)),  # the gate let it through
        Mount("/page", StaticFiles(directory=str(files("projections.inspector") / "page"))),
    ]
    hosts, addresses = served_hosts(host)
    return Gate(Starlette(routes=routes), hosts=hosts, addresses=addresses, token=token, answers=answers)


def _in_room(pages: _Pages, told: Callable[..., dict[str, Any]]) -> Callable[[Request], dict[str, Any]]:
    """Return an answer that is given with the lock of the session that is asked about."""

    def answer(request: Request) -> dict[str, Any]:
        room = pages.rooms.enter(request.query_params.get("session", ""))
        if told is answers.window_now:  # counts for seconds
            return told(room, request.query_params)
        with room.lock:
            room.refresh()
            more = (pages.catalogue,) if told in _WITH_CATALOGUE else ()
            return told(room, request.query_params, *more)

    return answer


_ABOUT_A_SESSION: dict[str, Callable[..., dict[str, Any]]] = {
    "session": answers.session,
    "messages": answers.messages,
    "part": answers.part,
    "history": answers.history,
    "view": answers.view,
    "changes": answers.changes,
    "window": answers.window,
    "window-now": answers.window_now,
    "steps": answers.steps,
    "copies": message_copies,
    "spent": answers.spent,
    "audited": answers.audited,
    "verdicts": answers.verdicts,
    "request": answers.request,
    "tree": answers.tree,
    "replay": answers.events_to_play,
}
_WITH_CATALOGUE = (answers.session, answers.history, answers.tree)


def _remedy(error: EventlogError) -> str:
    """Return what to do about an error that no other address avoids; "" if that is not known."""
    if isinstance(error, KeyMissingError):
        return f": {KEY_ADVICE}"
    if isinstance(error, DamagedError):
        return f": {DAMAGE_ADVICE}"
    return ""


class _Pages:
    """The store that the routes answer from, and what is kept of it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.catalogue = Catalogue(store)
        self.rooms = Rooms(store)

    def answer(self, find: Callable[[Request], Any]) -> Callable[[Request], Response]:
        """Return a route that answers with JSON, and with a sentence where that fails."""
        from starlette.responses import Response

        def route(request: Request) -> Response:
            try:
                found = find(request)
                return found if isinstance(found, Response) else _json(found)
            except NotFoundError as error:
                return _json({"error": str(error)}, 404)
            except RefusedError as error:
                return _json({"error": str(error)}, 409)
            except CallError as error:
                return _json({"error": str(error)}, 400)
            except EventlogError as error:
                return _json({"error": f"{error}{_remedy(error)}"}, 500)

        return route

    def posted(self, act: Callable[[dict[str, str]], Any]) -> Callable[[Request], Awaitable[Response]]:
        """Return a route that acts on the JSON object of texts in a request."""
        from starlette.concurrency import run_in_threadpool

        async def route(request: Request) -> Response:
            body = bytearray()
            async for piece in request.stream():
                body += piece
                if len(body) > _BODY:
                    return _json({"error": f"an answer has at most {_BODY} bytes"}, 413)
            try:
                given = msgspec.json.decode(body, type=dict[str, str])
            except msgspec.MsgspecError as error:
                return _json({"error": f"an answer is a JSON object of texts: {error}"}, 400)
            return await run_in_threadpool(self.answer(lambda _: act(given)), request)

        return route

    def index(self, request: Request) -> Response:
        """The page."""
        from starlette.responses import HTMLResponse

        del request
        text = (files("projections.inspector") / "page" / "index.html").read_text(encoding="utf-8")
        return HTMLResponse(text, headers={"cache-control": "no-cache"})

    def sessions(self, request: Request) -> Response:
        """A page of the list; unchanged since the client asked last, it is not sent again."""
        from starlette.responses import Response

        try:
            mark = f'"{self.store.cursor()} {int(time()) // _UNCHANGED}"'
        except EventlogError:
            return self.answer(self._listed)(request)  # it says what is wrong, or there is nothing wrong any more
        if request.headers.get("if-none-match") == mark:
            return Response(status_code=304, headers={"etag": mark})
        response = self.answer(self._listed)(request)
        response.headers["etag"] = mark
        response.headers["cache-control"] = "no-cache"
        return response

    def file(self, request: Request) -> Response:
        """A stored file: an image to be shown, anything else as a download."""
        from starlette.responses import Response

        def found(request: Request) -> Response:
            room = self.rooms.enter(request.query_params.get("session", ""))
            with room.lock:
                room.refresh()
                place = number(request.query_params, "index", 0)
                file = stored_file(room, request.query_params.get("part", ""), place)
            return Response(file.data, headers=file.headers)

        return self.answer(found)(request)

    def exported(self, request: Request) -> Response:
        """A session as a file."""
        from starlette.responses import StreamingResponse

        def found(request: Request) -> Response:
            file = session_file(self.store, request.query_params)
            return StreamingResponse(file.pieces, headers=file.headers)

        return self.answer(found)(request)

    def found(self, request: Request) -> dict[str, Any]:
        """A page of a search over all that was said."""
        query = request.query_params
        page = self.store.search(
            query.get("words", ""),
            session=query.get("session"),
            scope=query.get("scope"),
            kinds=[query["kind"]] if "kind" in query else None,  # type: ignore[list-item]  # checked there
            ranked=query.get("order") == "ranked",
            cursor=query.get("cursor"),
            limit=number(query, "limit", 30, least=1, most=_LISTED),
        )
        return {"hits": [self._hit(hit) for hit in page.hits], "next": page.next, "behind": page.behind}

    def _hit(self, hit: SearchHit) -> dict[str, Any]:
        """A hit with its session's title, and its snippet as pieces: text, and whether found."""
        return {
            "session": hit.session,
            "title": visible(self.store.info(hit.session).title),
            "version": hit.version,
            "time": hit.time,
            "kind": hit.kind,
            "tool": visible(hit.tool),
            "pieces": found_pieces(hit.snippet, hit.found, prose=hit.kind not in {"call", "result"}),
            "before": hit.before,
            "after": hit.after,
            "marks": [mark for mark, on in (("rolled back", hit.rolled_back), ("removed", hit.removed)) if on],
        }

    def _listed(self, request: Request) -> dict[str, Any]:
        query = request.query_params
        return self.catalogue.page(
            Wanted.asked(query),
            cursor=query.get("cursor"),
            limit=number(query, "limit", 50, least=1, most=_LISTED),
            estimates="estimates" in query,
        )


def _json(value: Any, status: int = 200) -> Response:
    """Return a JSON response; as ASCII, for ids may hold what UTF-8 cannot."""
    from starlette.responses import Response

    body = json.dumps(value, separators=(",", ":"))
    return Response(body, status, {"cache-control": "no-store"}, "application/json")
