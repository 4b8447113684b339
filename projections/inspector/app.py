"""The inspector's ASGI application: its page, and the JSON that the page asks for."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from functools import partial
from importlib.resources import files
from time import time
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from eventlog.errors import CallError, DamagedError, EventlogError, KeyMissingError, NotFoundError, RefusedError
from eventlog.errors.base import brief
from eventlog.search.usage import total
from eventlog.validation import require, require_or_none
from projections.exports.html_text import visible
from projections.inspector import answers as of_session
from projections.inspector.asked import AskedCalls
from projections.inspector.catalogue import Catalogue, Query
from projections.inspector.gate import Gate, is_loopback
from projections.inspector.markup import found_pieces
from projections.inspector.room import Rooms
from projections.inspector.taken_out import message_copies, session_file, stored_file
from projections.reports.usage_days import sums_by, sums_json
from projections.reports.wording import DAMAGE_ADVICE, KEY_ADVICE
from projections.server.live_pages import live_app, number

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from eventlog import SearchHit, Store

_PAGE = str(files("projections.inspector") / "page")
_HITS = 100
"""Hits of a page of a search, at most."""
_WAIT = 1.0
"""Seconds for which the index of usage is brought up to date, until the page asks on."""
_NAMED = 200
"""Models and scopes that are listed; the others are one sum."""
_BODY = 1_000_000
"""Bytes of a request that is posted, at most."""
_UNCHANGED = 10
"""Seconds after which an unchanged list is answered again: a lease may be over."""
_LEAST_TOKEN = 32
"""Characters of a token, at least."""
_REFUSALS = {
    NotFoundError: (404, ""),
    RefusedError: (409, ""),
    CallError: (400, ""),
    KeyMissingError: (500, f": {KEY_ADVICE}"),
    DamagedError: (500, f": {DAMAGE_ADVICE}"),
}
"""The status of an answer about an error, and what to do where no other address avoids it."""


def inspector(
    store: Store, *, host: str = "127.0.0.1", token: str | None = None, answers: bool = False, scope: str | None = None
) -> ASGIApp:
    """Return an application that shows the sessions of a store to people.

    `host` is what it is served on: requests that name another are refused. With a `token`, of 32
    characters or more, requests without it are refused; a host that other machines reach needs one.
    It only reads, unless `answers` lets a person answer for calls that wait; this needs a token and
    a store that may be written. With a `scope` it shows the sessions of that scope, and of all
    others nothing. It may be mounted under a path.
    """
    require(str, host, "a host is a str")
    require_or_none(str, scope, "a scope is a str")
    require_or_none(str, token, "a token is a str")
    advice = "give `token=` a secret, as `secrets.token_urlsafe(32)` makes one, and keep it"
    if token is not None and len(token) < _LEAST_TOKEN:
        raise CallError(f"a token has at least {_LEAST_TOKEN} characters, not {len(token)}: {advice}")
    if token is None and not is_loopback(host.lower()):
        raise CallError(f"other machines reach the host {brief(host)}, so it needs a token: {advice}")
    if token is None and answers:
        raise CallError(f"answers need a token, else other programs of this machine could give them: {advice}")
    catalogue, rooms, asked = Catalogue(store, scope), Rooms(store), AskedCalls(store, answers=answers, scope=scope)
    within = partial(_within, store, scope)
    told: dict[str, Callable[[Query], Any]] = {
        "search": partial(_found, store),
        "scopes": lambda _: {"scopes": catalogue.scopes()},
        "usage": partial(usage, store),
        "asked": asked.listed,
        "export": partial(session_file, store),
        **{name: partial(_in_room, rooms, catalogue, answer) for name, answer in _ABOUT_A_SESSION.items()},
    }
    app = Starlette(
        routes=[
            Route("/", _index),
            Route("/api/sessions", partial(_sessions, catalogue, within)),
            Route("/api/answer", _posted(within, asked.answer), methods=["POST"]),
            *(Route(f"/api/{name}", _answered(within, answer)) for name, answer in told.items()),
            Mount("/live", live_app(store, authorize=lambda _request, name: bool(within({"session": name})))),
            Mount("/page", StaticFiles(directory=_PAGE)),
        ],
        exception_handlers={EventlogError: _failed},
    )
    return Gate(app, host=host, token=token, answers=answers)


def _within(store: Store, scope: str | None, asked: Query) -> Query:
    """Return what is asked for, with the scope that bounds it.

    A session of another scope is `NotFoundError`, as one that is not there.
    """
    if scope is None:
        return asked
    if "session" in asked and store.info(asked["session"]).scope != scope:
        raise NotFoundError("session", asked["session"])
    return {**asked, "scope": scope}


def _in_room(rooms: Rooms, catalogue: Catalogue, answer: Callable[..., Any], query: Query) -> Any:
    """Return an answer that is given with the lock of the session that is asked about."""
    room = rooms.enter(query.get("session", ""))
    if answer is of_session.window_now:  # counts for seconds
        return answer(room, query)
    with room.lock:
        room.refresh()
        return answer(room, query, *((catalogue,) if answer in _WITH_CATALOGUE else ()))


_ABOUT_A_SESSION: dict[str, Callable[..., Any]] = {
    "session": of_session.session,
    "messages": of_session.messages,
    "part": of_session.part,
    "history": of_session.history,
    "view": of_session.view,
    "changes": of_session.changes,
    "window": of_session.window,
    "window-now": of_session.window_now,
    "steps": of_session.steps,
    "copies": message_copies,
    "file": stored_file,
    "spent": of_session.spent,
    "audited": of_session.audited,
    "verdicts": of_session.verdicts,
    "request": of_session.request,
    "tree": of_session.tree,
    "replay": of_session.events_to_play,
}
_WITH_CATALOGUE = (of_session.session, of_session.history, of_session.tree)


def _index(_request: Request) -> Response:
    return FileResponse(f"{_PAGE}/index.html", headers={"cache-control": "no-cache"})


def _answered(within: Callable[[Query], Query], find: Callable[[Query], Any]) -> Callable[[Request], Response]:
    """Return a route that answers with a response, or with JSON."""

    def route(request: Request) -> Response:
        found = find(within(request.query_params))
        return found if isinstance(found, Response) else _json(found)

    return route


def _posted(within: Callable[[Query], Query], act: Callable[[Query], Any]) -> Callable[[Request], Awaitable[Response]]:
    """Return a route that acts on the JSON object of texts in a request."""

    async def route(request: Request) -> Response:
        body = bytearray()
        async for piece in request.stream():
            body += piece
            if len(body) > _BODY:
                return _json({"error": f"an answer has at most {_BODY} bytes"}, 413)
        try:
            given = msgspec.json.decode(body, type=dict[str, str])
        except msgspec.MsgspecError as error:
            raise CallError(f"an answer is a JSON object of texts: {error}") from error
        return _json(await run_in_threadpool(lambda: act(within(given))))

    return route


def _failed(_request: Request, error: Exception) -> Response:
    """Return an error as a sentence."""
    status, remedy = next((found for kind, found in _REFUSALS.items() if isinstance(error, kind)), (500, ""))
    return _json({"error": str(error) if "repair" in str(error) else f"{error}{remedy}"}, status)


def _sessions(catalogue: Catalogue, within: Callable[[Query], Query], request: Request) -> Response:
    """A page of the list; unchanged since the client asked last, it is not sent again.

    That would tell who sees one scope when the others change, so such a page is always sent.
    """
    if catalogue.scope is not None:
        return _json(catalogue.page(within(request.query_params)))
    mark = f'"{catalogue.store.cursor()} {int(time()) // _UNCHANGED}"'
    if request.headers.get("if-none-match") == mark:
        return Response(status_code=304, headers={"etag": mark})
    response = _json(catalogue.page(request.query_params))
    response.headers.update({"etag": mark, "cache-control": "no-cache"})
    return response


def _found(store: Store, query: Query) -> dict[str, Any]:
    """A page of a search over all that was said."""
    page = store.search(
        query.get("words", ""),
        session=query.get("session"),
        scope=query.get("scope"),
        kinds=[query["kind"]] if "kind" in query else None,  # type: ignore[list-item]  # checked there
        ranked=query.get("order") == "ranked",
        cursor=query.get("cursor"),
        limit=number(query, "limit", 30, least=1, most=_HITS),
    )
    return {
        "hits": [_hit(store, hit) for hit in page.hits],
        "next": page.next,
        "behind": page.behind > 0,
        "damaged": page.damaged,
    }


def _hit(store: Store, hit: SearchHit) -> dict[str, Any]:
    """A hit with its session's title, and its snippet as pieces: text, and whether found."""
    return {
        "session": hit.session,
        "title": visible(store.info(hit.session).title),
        "version": hit.version,
        "time": hit.time,
        "kind": hit.kind,
        "tool": visible(hit.tool),
        "pieces": found_pieces(hit.snippet, hit.found, prose=hit.kind not in {"call", "result"}),
        "before": hit.before,
        "after": hit.after,
        "marks": [mark for mark, on in (("rolled back", hit.rolled_back), ("removed", hit.removed)) if on],
    }


def usage(store: Store, query: Query) -> dict[str, Any]:
    """Usage over time: the sums of what is asked for, in all, by day, by model and by scope."""
    found = store.usage_by_day(
        since=number(query, "since", 0),
        until=number(query, "until", 1 << 52),
        scope=query.get("scope"),
        model=query.get("model"),
        wait=_WAIT,
    )
    models, scopes = sums_by(found.days, "model"), sums_by(found.days, "scope")
    return {
        "behind": found.behind > 0,
        "damaged": found.damaged,
        "prices": store.host.models.date,
        "total": sums_json(total(found.days)),
        "days": sums_by(found.days, "day"),
        "models": [{**sums, "shown": visible(sums["model"])} for sums in models[:_NAMED]],
        "scopes": [{**sums, "shown": visible(sums["scope"])} for sums in scopes[:_NAMED]],
        "more_models": len(models[_NAMED:]),
        "more_scopes": len(scopes[_NAMED:]),
    }


def _json(value: Any, status: int = 200) -> Response:
    """Return a JSON response; as ASCII, for ids may hold what UTF-8 cannot."""
    body = json.dumps(value, separators=(",", ":"))
    return Response(body, status, {"cache-control": "no-store"}, "application/json")
