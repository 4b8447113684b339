"""A small HTTP client for asyncio: JSON requests, and server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

BROKEN_OFF = (OSError, IndexError, ValueError, asyncio.IncompleteReadError)


@asynccontextmanager
async def _sent(
    port: int, method: str, path: str, body: bytes, extra: str
) -> AsyncGenerator[tuple[int, asyncio.StreamReader]]:
    """Send a request; give the status, and a stream at the beginning of the body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        line = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        writer.write(f"{line}{extra}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        status = int((await reader.readline()).split()[1])
        while (await reader.readline()).strip():
            pass
        yield status, reader
    finally:
        writer.transport.abort()
        writer.close()


async def ask(port: int, method: str, path: str, value: object = None) -> tuple[int, Any]:
    """Return status and JSON value of an answer; `ConnectionError` if it breaks off."""
    body = b"" if value is None else json.dumps(value).encode()
    try:
        async with _sent(port, method, path, body, "") as (status, reader):
            data = await reader.read()
        return status, json.loads(data) if status == 200 else None
    except BROKEN_OFF as error:
        raise ConnectionError from error


async def events(port: int, path: str, after: str | None) -> AsyncGenerator[tuple[str | None, str]]:
    """Yield id and data of server-sent events until the connection ends."""
    extra = "" if after is None else f"Last-Event-ID: {after}\r\n"
    buffer: bytes = b""
    try:
        async with _sent(port, "GET", path, b"", extra) as (status, reader):
            while status == 200 and (size := int((await reader.readline()).strip() or b"0", 16)):  # chunked
                buffer += (await reader.readexactly(size + 2))[:-2]
                while b"\n\n" in buffer:
                    end = buffer.index(b"\n\n")
                    block, buffer = buffer[:end], buffer[end + 2 :]
                    fields = dict(line.split(": ", 1) for line in block.decode().split("\n") if line[:1] != ":")
                    if "data" in fields:
                        yield fields.get("id"), fields["data"]
    except BROKEN_OFF:
        return
