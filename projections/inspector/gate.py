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
from collections.abc import Iterable
from ipaddress import ip_address
from socket import gethostname
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

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

    def __init__(
        self,
        inside: ASGIApp,
        *,
        hosts: Iterable[str],
        addresses: bool = False,
        token: str | None,
        answers: bool = False,
    ) -> None:
        """`hosts` are names without port; `addresses`: any numeric address is one, too.

        `answers`: the page may post answers for calls that wait.
        """
        self._answers = answers
        self._inside = inside
        self._hosts = frozenset(host.lower() for host in hosts)
        self._addresses = addresses
        self._token = None if token is None else token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._inside(scope, receive, send)
            return  # a websocket is never accepted
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                known = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *(
                        (name.encode(), value.encode())
                        for name, value in _HEADERS.items()
                        if name.encode() not in known
                    ),
                ]
            await send(message)

        mount: str = scope.get("root_path", "")  # an application has this one under a path
        path = scope["path"].removeprefix(mount)
        enters = path in {"", "/"} and self._knows(_queried(scope))
        refused = self._refusal(scope, headers, enters=enters, posts=self._answers and path == "/api/answer")
        if refused is not None:
            await _answer(guarded, *refused)
        elif self._token is None or self._brings_cookie(headers) or self._knows(_bearer(headers)):
            await self._inside(scope, receive, guarded)
        elif enters:
            name, value = self._cookie(headers["host"])
            cookie = ("set-cookie", f"{name}={value}; Path={mount}/; HttpOnly; SameSite=Strict; Max-Age={_FOREVER}")
            if _is_own(headers):
                await _answer(guarded, 303, "", ("location", f"{mount}/"), cookie)
            else:  # a redirect would belong to the file that led here, and bring no cookie
                await _answer(guarded, 200, f"The sessions are at {mount}/.", ("refresh", f"0; url={mount}/"), cookie)
        else:
            await _answer(guarded, 401, "This inspector asks for a token: open the address that it printed.")

    def _refusal(self, scope: Scope, headers: dict[str, str], *, enters: bool, posts: bool) -> tuple[int, str] | None:
        """Return status and sentence for a request that is refused.

        One that `enters` brings the token in its address: it may come from a file. One that `posts`
        names its origin, and is JSON, which a form of another site cannot send.
        """
        if posts:
            if scope["method"] != "POST":
                return 405, "An answer is posted: send POST."
            if "origin" not in headers or headers.get("content-type", "") != "application/json":
                return 403, "An answer comes from the page: JSON, with its Origin."
        elif scope["method"] not in {"GET", "HEAD"}:
            return 405, "The inspector only reads: send GET."
        host = headers.get("host", "")
        if not self._serves(host):
            return 403, "This server is not the host that the request names."
        if not enters and not _is_own(headers):
            return 403, "The request comes from another site."
        if "origin" in headers and headers["origin"] != f"{scope.get('scheme', 'http')}://{host}":
            return 403, "The request comes from another origin."
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

    def _brings_cookie(self, headers: dict[str, str]) -> bool:
        name, value = self._cookie(headers["host"])
        return hmac.compare_digest(_named(headers.get("cookie", ""), name).encode(), value.encode())

    def _knows(self, token: str) -> bool:
        return self._token is not None and hmac.compare_digest(token.encode(), self._token)


def is_loopback(host: str) -> bool:
    """Return whether only programs of this machine reach a host."""
    return host == "localhost" or (_is_address(host) and ip_address(host).is_loopback)


def served_hosts(host: str) -> tuple[frozenset[str], bool]:
    """Return the names by which a server on a host is reached, and whether any address is one."""
    if is_loopback(host):
        return frozenset({"localhost", "127.0.0.1", "[::1]", host, f"[{host}]"}), False
    everywhere = _is_address(host) and ip_address(host).is_unspecified
    own = {"localhost", "127.0.0.1", "[::1]", gethostname(), f"{gethostname()}.local"} if everywhere else set[str]()
    return frozenset({host, f"[{host}]", *own}), everywhere


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _is_own(headers: dict[str, str]) -> bool:
    """Whether a request comes from the user, or from a page of this server."""
    return headers.get("sec-fetch-site", "none") in {"none", "same-origin"}


def _named(header: str, cookie: str) -> str:
    """Return the value of a cookie, "" if the header has none of this name."""
    for pair in header.split(";"):
        name, _, value = pair.strip().partition("=")
        if name == cookie:
            return value
    return ""


def _bearer(headers: dict[str, str]) -> str:
    kind, _, value = headers.get("authorization", "").partition(" ")
    return value if kind.lower() == "bearer" else ""


def _queried(scope: Scope) -> str:
    query: str = scope["query_string"].decode("latin-1")
    return parse_qs(query).get("token", [""])[0]


async def _answer(send: Send, status: int, text: str, *headers: tuple[str, str]) -> None:
    named = [("content-type", "text/plain; charset=utf-8"), ("cache-control", "no-store"), *headers]
    start = [(name.encode(), value.encode()) for name, value in named]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": text.encode()})
