"""Keeps strangers out: token, Host header, requests of other sites, headers of answers.

A page of another site may send requests to a server on this machine, and a name that it owns may
resolve to 127.0.0.1.  So a request must name this server as its host, and must not come from
another site, unless it brings the token: the file comes from elsewhere that leads a browser here.
The server answers reading methods only, and a posted answer for a call where these are allowed.

A browser sends a cookie to all ports of a host.  So the cookie is named after the port, that two
inspectors have one each, and its value is made from token and port: a server on another port that
is sent it learns no token.  It could use the cookie here, so a token keeps out other users, and not
a server of theirs that the user's browser visits under the same host name.
"""

from __future__ import annotations

import hmac
from ipaddress import ip_address
from socket import gethostname
from typing import TYPE_CHECKING

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "eventlog-inspector"
_FOREVER = 400 * 86_400
"""Seconds that a browser keeps a cookie at most."""
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
"""Headers of every answer: the page loads and runs nothing but its own files."""


class Gate:
    """An ASGI application that lets requests of the user's own browser through to another."""

    def __init__(self, inside: ASGIApp, *, host: str, token: str | None, answers: bool) -> None:
        """`host` is what is listened on; with `answers` the page may answer for calls that wait."""
        self._answers = answers
        self._inside = inside
        self._hosts, self._addresses = _served_hosts(host.lower())
        self._token = None if token is None else token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._inside(scope, receive, send)
            return  # a websocket is never accepted

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        answer = self._answer(Request(scope))
        await (self._inside if answer is None else answer)(scope, receive, guarded)

    def _answer(self, request: Request) -> Response | None:
        """Return the gate's own answer to a request; None for one that it lets through."""
        mount: str = request.scope.get("root_path", "")  # an application has this one under a path
        path = request.scope["path"].removeprefix(mount)
        enters = path in {"", "/"} and self._knows(request.query_params.get("token", ""))
        refused = self._refusal(request, enters=enters, posts=self._answers and path == "/api/answer")
        if refused is not None:
            return refused
        kind, _, bearer = request.headers.get("authorization", "").partition(" ")
        name, value = self._cookie(request.headers["host"])
        brought = hmac.compare_digest(request.cookies.get(name, "").encode(), value.encode())
        if self._token is None or brought or (kind.lower() == "bearer" and self._knows(bearer)):
            return None
        if not enters:
            return _told(401, "This inspector asks for a token: open the address that it printed.")
        if _is_own(request):
            answer: Response = RedirectResponse(f"{mount}/", 303, {"cache-control": "no-store"})
        else:  # a redirect would belong to the file that led here, and bring no cookie
            answer = _told(200, f"The sessions are at {mount}/.")
            answer.headers["refresh"] = f"0; url={mount}/"
        secure = request.url.scheme == "https"
        answer.set_cookie(name, value, _FOREVER, path=f"{mount}/", secure=secure, httponly=True, samesite="strict")
        return answer

    def _refusal(self, request: Request, *, enters: bool, posts: bool) -> Response | None:
        """Return the answer to a request that is refused.

        One that `enters` brings the token in its address: it may come from a file. One that `posts`
        names its origin, and is JSON, which a form of another site cannot send.
        """
        headers = request.headers
        if posts:
            if request.method != "POST":
                return _told(405, "An answer is posted: send POST.")
            if "origin" not in headers or headers.get("content-type") != "application/json":
                return _told(403, "An answer comes from the page: JSON, with its Origin.")
        elif request.method not in {"GET", "HEAD"}:
            return _told(405, "The inspector only reads: send GET.")
        host = headers.get("host", "")
        if not self._serves(host):
            return _told(403, "This server is not the host that the request names.")
        if not enters and not _is_own(request):
            return _told(403, "The request comes from another site.")
        own = f"{request.scope.get('scheme', 'http')}://{host}"
        if headers.get("origin", own) != own:
            return _told(403, "The request comes from another origin.")
        return None

    def _serves(self, host: str) -> bool:
        """Whether a Host header names this server; a numeric address needs no name server."""
        name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
        name = name.lower()
        return name in self._hosts or (self._addresses and _is_address(name.strip("[]")))

    def _cookie(self, host: str) -> tuple[str, str]:
        """Return the name and the value of the cookie of a Host header."""
        port = host.rpartition(":")[2] if not host.endswith("]") and ":" in host else "80"
        made = hmac.new(self._token or b"", b"cookie of port " + port.encode(), "sha256")
        return f"{COOKIE}-{port}", made.hexdigest()

    def _knows(self, token: str) -> bool:
        return self._token is not None and hmac.compare_digest(token.encode(), self._token)


def is_loopback(host: str) -> bool:
    """Return whether only programs of this machine reach a host."""
    return host == "localhost" or (_is_address(host) and ip_address(host).is_loopback)


def _served_hosts(host: str) -> tuple[frozenset[str], bool]:
    """Return the names by which a server on a host is reached, and whether any address is one."""
    if is_loopback(host):
        return frozenset({"localhost", "127.0.0.1", "[::1]", host, f"[{host}]"}), False
    everywhere = _is_address(host) and ip_address(host).is_unspecified
    name = gethostname().lower()
    own = {"localhost", "127.0.0.1", "[::1]", name, f"{name}.local"} if everywhere else set[str]()
    return frozenset({host, f"[{host}]", *own}), everywhere


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _is_own(request: Request) -> bool:
    """Whether a request comes from the user, or from a page of this server."""
    return request.headers.get("sec-fetch-site", "none") in {"none", "same-origin"}


def _told(status: int, text: str) -> Response:
    return PlainTextResponse(text, status, {"cache-control": "no-store"})
