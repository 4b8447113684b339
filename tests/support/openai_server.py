"""A small OpenAI-compatible server on 127.0.0.1 with scripted answers: chat and Responses."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self, cast

from tests.support.openai_responses import events_of, response_of


@dataclass(frozen=True)
class ToolCall:
    """A call that the model makes; `arguments` are JSON text, streamed in two pieces."""

    call: str
    tool: str
    arguments: str = "{}"


@dataclass(frozen=True)
class Answer:
    """A scripted answer: text pieces, calls, usage; or an error; or one that breaks off."""

    text: str | Sequence[str] = ""
    calls: Sequence[ToolCall] = ()
    reasoning: str = ""
    """Streamed before the text as `reasoning_content`."""
    usage: tuple[int, int] | None = None
    """Prompt and completion tokens."""
    finish: str | None = None
    """Default: "tool_calls" with calls, else "stop"."""
    status: int = 200
    error: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    cut: int | None = None
    """Close the connection after this many pieces of text, without an end."""
    raw: Callable[[], Iterator[bytes]] | None = None
    """The body in these pieces, with `status` and `headers`; it may be endless."""
    hold: threading.Event | None = None
    """An event to wait for after the first piece."""

    @property
    def pieces(self) -> list[str]:
        """The text in its pieces."""
        return [self.text] if isinstance(self.text, str) else [*self.text]

    @property
    def reason(self) -> str:
        """The reason why the answer ends."""
        return self.finish or ("tool_calls" if self.calls else "stop")


@dataclass(frozen=True)
class Asked:
    """A request as it arrived."""

    path: str
    headers: dict[str, str]
    """Header names are in lower case."""
    body: dict[str, Any]

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The request's messages, or its items."""
        return cast("list[dict[str, Any]]", self.body.get("messages") or self.body["input"])


class _QuietServer(ThreadingHTTPServer):
    """Does not log clients that disconnect in the middle of an answer."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class OpenAIServer:
    """The server while its `with` block runs; `url` is its address, `asked` the requests."""

    def __init__(self, *answers: Answer, by: Callable[[Asked], Answer] | None = None) -> None:
        self._answers = list(answers)
        self._by = by
        self._lock = threading.Lock()
        self.asked: list[Asked] = []
        self._server = _QuietServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        """The base address for clients of the protocol."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, asked: Asked) -> Answer:
        """Record a request and return its answer."""
        with self._lock:
            self.asked.append(asked)
            if self._by is not None:
                return self._by(asked)
            return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                sent = self.rfile.read(int(self.headers["content-length"]))
                if len(sent) < int(self.headers["content-length"]):
                    self.close_connection = True  # the client died
                    return
                body: dict[str, Any] = json.loads(sent)
                headers = {name.lower(): value for name, value in self.headers.items()}
                answer = server.answer(Asked(self.path, headers, body))
                try:
                    _reply(self, answer, body)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True  # the client disconnected

            def log_message(self, format: str, *args: object) -> None:
                """Log nothing."""

        return Handler


def _reply(handler: BaseHTTPRequestHandler, answer: Answer, body: dict[str, Any]) -> None:
    if handler.path == "/v1/responses":
        _send_response(handler, answer, body)
    elif handler.path != "/v1/chat/completions":
        _send_whole(handler, 404, {"error": {"message": "not found"}}, {})
    elif answer.raw is not None:
        _send_raw(handler, answer, answer.raw())
    elif answer.error is not None or answer.status != 200:
        _send_whole(handler, answer.status, {"error": answer.error or {"message": "scripted"}}, answer.headers)
    elif body.get("stream"):
        _send_stream(handler, answer, body)
    else:
        _send_whole(handler, 200, _completion(answer, body), answer.headers)


def _send_response(handler: BaseHTTPRequestHandler, answer: Answer, body: dict[str, Any]) -> None:
    number, pieces = len(body["input"]), answer.pieces
    response = response_of(body.get("model"), number, pieces, list(answer.calls), answer.usage)
    if not body.get("stream"):
        _send_whole(handler, 200, response, answer.headers)
        return
    events = events_of(response, pieces)
    _send_raw(handler, answer, (f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in events))


def _send_whole(
    handler: BaseHTTPRequestHandler, status: int, value: Mapping[str, Any], headers: Mapping[str, str]
) -> None:
    data = json.dumps(value).encode()
    handler.send_response(status)
    for name, text in {"content-type": "application/json", "content-length": str(len(data)), **headers}.items():
        handler.send_header(name, text)
    handler.end_headers()
    handler.wfile.write(data)


def _send_raw(handler: BaseHTTPRequestHandler, answer: Answer, pieces: Iterator[bytes]) -> None:
    handler.send_response(answer.status)
    for name, text in {"content-type": "text/event-stream", "transfer-encoding": "chunked", **answer.headers}.items():
        handler.send_header(name, text)
    handler.end_headers()
    for piece in pieces:
        handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
    handler.wfile.write(b"0\r\n\r\n")


def _send_stream(handler: BaseHTTPRequestHandler, answer: Answer, body: dict[str, Any]) -> None:
    handler.send_response(200)
    for name, text in {"content-type": "text/event-stream", "transfer-encoding": "chunked", **answer.headers}.items():
        handler.send_header(name, text)
    handler.end_headers()

    def send(value: Mapping[str, Any] | str) -> None:
        data = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        line = f"data: {data}\n\n".encode("utf-8", "surrogatepass")
        handler.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
        handler.wfile.flush()

    def chunk(delta: Mapping[str, Any], reason: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": body.get("model"), "choices": [choice]}

    send(chunk({"role": "assistant", "content": ""}))
    if answer.reasoning:
        send(chunk({"reasoning_content": answer.reasoning}))
    for index, piece in enumerate(answer.pieces):
        if index == answer.cut:
            break
        send(chunk({"content": piece}))
        if index == 0 and answer.hold is not None:
            answer.hold.wait(60)
    if answer.cut is not None:
        handler.close_connection = True
        return
    for index, call in enumerate(answer.calls):
        first = {"index": index, "id": call.call, "type": "function", "function": {"name": call.tool, "arguments": ""}}
        send(chunk({"tool_calls": [first]}))
        half = len(call.arguments) // 2
        for piece in (call.arguments[:half], call.arguments[half:]):
            send(chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}))
    send(chunk({}, answer.reason))
    if answer.usage is not None and body.get("stream_options") == {"include_usage": True}:
        send({"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [], "usage": _usage(answer.usage)})
    send("[DONE]")
    handler.wfile.write(b"0\r\n\r\n")


def _completion(answer: Answer, body: dict[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": "".join(answer.pieces)}
    if answer.calls:
        message["tool_calls"] = [
            {"id": call.call, "type": "function", "function": {"name": call.tool, "arguments": call.arguments}}
            for call in answer.calls
        ]
    choice = {"index": 0, "message": message, "finish_reason": answer.reason}
    whole: dict[str, Any] = {"id": "chatcmpl-1", "object": "chat.completion", "model": body.get("model")}
    whole["choices"] = [choice]
    if answer.usage is not None:
        whole["usage"] = _usage(answer.usage)
    return whole


def _usage(usage: tuple[int, int]) -> dict[str, int]:
    return {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
