"""Calls an ASGI app in the running loop, and reads what it streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote


class Call:
    """One request; inside `async with` its body can be read, and leaving disconnects.

    A GET, or a POST of what is `sent`.
    """

    def __init__(
        self, app: Any, path: str, query: str = "", headers: Mapping[str, str] | None = None, sent: bytes | None = None
    ) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self._app = app
        self._scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": "GET" if sent is None else "POST",
            "scheme": "http",
            "path": path,
            "raw_path": quote(path).encode(),
            "root_path": "",
            "query_string": query.encode(),
            "headers": [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
        }
        self._sent = sent
        self._left = asyncio.Event()
        self._started = asyncio.Event()
        self._body: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.writable = asyncio.Event()
        """Cleared, the client takes nothing more."""
        self.writable.set()

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._app(self._scope, self._receive, self._send))
        started = asyncio.create_task(self._started.wait())
        await asyncio.wait([self._task, started], return_when=asyncio.FIRST_COMPLETED)
        started.cancel()
        if self._task.done():
            await self._task
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left.set()
        await asyncio.wait_for(self._task, 30)

    async def _receive(self) -> dict[str, Any]:
        if self._sent is not None:
            sent, self._sent = self._sent, None
            return {"type": "http.request", "body": sent}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            self._started.set()
            return
        await self.writable.wait()
        self._body.put_nowait(message["body"])
        if not message.get("more_body", False):
            self._body.put_nowait(None)

    async def body(self) -> bytes:
        """Return the whole body."""
        return b"".join([piece async for piece in self.pieces()])

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body as it is sent."""
        while (piece := await asyncio.wait_for(self._body.get(), 30)) is not None:
            yield piece

    async def events(self) -> AsyncIterator[tuple[str | None, str]]:
        """Yield id and data of the server-sent events; each is sent as one piece."""
        async for piece in self.pieces():
            fields = dict(line.split(": ", 1) for line in piece.decode().splitlines() if line and line[0] != ":")
            if "data" in fields:
                yield fields.get("id"), fields["data"]
