"""A small server of Gemini's API on 127.0.0.1, with the answers of a script."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.openai_server import Answer


def chunks_of(answer: Answer) -> list[dict[str, Any]]:
    """Return the chunks of a streamed answer; the last has the reason of its end."""
    parts: list[dict[str, Any]] = [{"text": answer.reasoning, "thought": True}] if answer.reasoning else []
    parts += [{"text": piece} for piece in answer.pieces if piece]
    parts += [
        {"functionCall": {"id": one.call, "name": one.tool, "args": json.loads(one.arguments)}} for one in answer.calls
    ]
    asked, told = answer.usage or (0, 0)
    usage = {"promptTokenCount": asked, "candidatesTokenCount": told, "totalTokenCount": asked + told}
    none: dict[str, str] = {}
    ends = [none] * (len(parts) - 1) + [{"finishReason": "STOP"}]
    return [
        {"responseId": "r", "usageMetadata": usage, "candidates": [{"content": {"role": "model", "parts": [part]}, **end}]}
        for part, end in zip(parts, ends, strict=True)
    ]  # fmt: skip


@contextmanager
def gemini_server(by: Callable[[dict[str, Any]], Answer]) -> Generator[str]:
    """Run the server for a block and give its address; `by` answers the body of a request."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            found = chunks_of(by(body))
            parts = [part for chunk in found for part in chunk["candidates"][0]["content"]["parts"]]
            whole = {
                **found[-1],
                "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}],
            }
            kind, text = "application/json", json.dumps({"totalTokens": 9} if "countTokens" in self.path else whole)
            if "stream" in self.path:
                kind, text = "text/event-stream", "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in found)
            data = text.encode()
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
