"""`serve`: show the sessions of the store in the browser.

Every user of a machine can read the command lines of its programs. So the browser is not started
with an address that has the token, but with a private file that leads there.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Generator
from contextlib import contextmanager
from html import escape
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import TYPE_CHECKING

from click import option

from projections.cli import output
from projections.cli.exits import Fault
from projections.cli.screen import safe
from projections.cli.store_option import Context, reading, writing
from projections.cli.words import command, flag, integer

if TYPE_CHECKING:
    import uvicorn

PORT = 8377
"""The port where none is named; a free one if it is taken."""
MAX_PORT = 65_535
_NEEDED = ("uvicorn", "starlette", "sse_starlette", "markdown_it", "nh3", "pygments")
"""The packages of the extra `server`."""
_ENTRANCE = """<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={address}">
<title>eventlog</title>
<a href="{address}">The sessions of the store</a>
"""


@command(json=False)
@option(
    "--host",
    default="127.0.0.1",
    metavar="HOST",
    help="Address to listen on. Beyond this machine, a token is asked for and printed once.",
)
@integer("--port", metavar="PORT", help=f"Port to listen on; 0 is any free one [default: {PORT}].")
@flag("--token", help="Ask for a token on this machine, too: a random one, on no command line.")
@flag("--allow-answers", help="Let the page answer for calls that wait for a person; needs --token.")
@flag("--no-open", help="Do not open the page in the browser.")
def serve(context: Context, *, host: str, port: int | None, token: bool, allow_answers: bool, no_open: bool) -> None:
    """Show the sessions of the store in the browser, until Ctrl-C.

    Only reads, unless answers are allowed. Needs the packages of `pip install '.[server]'`.
    """
    if allow_answers and not token:
        raise Fault("--allow-answers needs --token: answers are given by who knows it")
    for name in _NEEDED:
        if find_spec(name) is None:
            raise Fault(f"{name} is missing: pip install '.[server]'")
    from secrets import token_urlsafe

    import uvicorn

    from projections.inspector import inspector
    from projections.inspector.gate import is_loopback

    secret = token_urlsafe(32) if token or not is_loopback(host) else None
    with (writing if allow_answers else reading)(context) as store, _listening(host, port) as listener:
        app = inspector(store, host=host, token=secret, answers=allow_answers)
        address = _address(host, listener.getsockname()[1], secret)
        output.line(f"the sessions are at {address}  (Ctrl-C ends)")
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, lifespan="off", server_header=False, timeout_graceful_shutdown=1
        )
        _serve(uvicorn.Server(config), listener, None if no_open else address)


def _serve(server: uvicorn.Server, listener: socket.socket, opened: str | None) -> None:
    """Serve until a signal ends it; the page is opened in the browser if there is one."""
    if opened is None:
        server.run(sockets=[listener])
        return
    import webbrowser

    with _leading_to(opened) as shown:
        Thread(target=webbrowser.open, args=(shown,), daemon=True).start()
        server.run(sockets=[listener])


@contextmanager
def _leading_to(address: str) -> Generator[str]:
    """Yield what the browser opens: the address, or a private file if that has a token."""
    if "?" not in address:
        yield address
        return
    with TemporaryDirectory(prefix="eventlog-") as folder:
        before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # removes the file
        entrance = Path(folder, "open.html")
        with os.fdopen(os.open(entrance, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(_ENTRANCE.format(address=escape(address)))
        try:
            yield entrance.as_uri()
        finally:
            signal.signal(signal.SIGTERM, before)


def _listening(host: str, port: int | None) -> socket.socket:
    """Return a socket that listens: connections wait until the server takes them."""
    try:
        family = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][0]
    except (OSError, UnicodeError) as error:
        raise Fault(f"{safe(host, one_line=True)} is no host of this machine: {error}") from None
    if port is not None and port > MAX_PORT:
        raise Fault(f"a port is at most {MAX_PORT}, not {port}")
    for wanted in (PORT, 0) if port is None else (port,):
        try:
            return socket.create_server((host, wanted), family=family, dualstack_ipv6=family == socket.AF_INET6)
        except OSError as error:
            if port is None and wanted:
                continue
            raise Fault(f"cannot listen on {host}, port {wanted}: {error.strerror}") from None
    raise AssertionError("a free port was refused and not reported")


def _address(host: str, port: int, token: str | None) -> str:
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104
    return f"http://{shown}:{port}/" + ("" if token is None else f"?token={token}")
