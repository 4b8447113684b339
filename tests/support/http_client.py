"""A small HTTP client for asyncio: a request at a time, and server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

__all__ = ["ask", "events"]


async def _sent(port: int, method: str, path: str, body: bytes, extra: str) -> tuple[int, asyncio.StreamReader, Any]:
    """Send a request; return the status, and streams at the beginning of the body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{extra}Content-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    status = int((await reader.readline()).split()[1])
    while (await reader.readline()).strip():
        pass
    return status, reader, writer


async def ask(port: int, method: str, path: str, value: object = None) -> tuple[int, Any]:
    """Return status and JSON value of an answer; `ConnectionError` if it breaks off."""
    body = b"" if value is None else json.dumps(value).encode()
    try:
        status, reader, writer = await _sent(port, method, path, body, "")
        data = await reader.read()
        writer.close()
        return status, json.loads(data) if status == 200 else None
    except (OSError, IndexError, json.JSONDecodeError, asyncio.IncompleteReadError) as error:
        raise ConnectionError from error


async def events(port: int, path: str, after: str | None) -> AsyncIterator[tuple[str | None, str]]:
    """Yield id and data of server-sent events until the connection ends."""
    extra = "" if after is None else f"Last-Event-ID: {after}\r\n"
    try:
        status, reader, writer = await _sent(port, "GET", path, b"", extra)
    except (OSError, IndexError):
        return
    buffer = b""
    try:
        while status == 200:
            size = int((await reader.readline()).strip() or b"0", 16)  # chunked
            if not size:
                return
            buffer += (await reader.readexactly(size + 2))[:-2]
            while b"\n\n" in buffer:
                block, _, buffer = buffer.partition(b"\n\n")
                fields = dict(line.split(": ", 1) for line in block.decode().splitlines() if line[:1] != ":")
                if "data" in fields:
                    yield fields.get("id"), fields["data"]
    except (OSError, asyncio.IncompleteReadError, ValueError):
        return
    finally:
        writer.close()
