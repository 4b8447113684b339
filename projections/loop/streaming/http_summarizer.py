"""`HttpSummarizer`: summaries from an OpenAI-compatible HTTP endpoint, streamed.

Needs the extra `http` (`pip install '.[http]'`), loaded with the first request.  The API
key is sent and shown nowhere else: errors hold a status and an error code, never an address, a
header, or a provider's words.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from eventlog.errors import CallError, SummarizerError, SummarizerRefusedError
from eventlog.validation import require, require_call, require_function, require_or_none, require_wait
from projections.loop.streaming.backoff import AGAIN, Backoff, seconds_asked
from projections.loop.streaming.chat_stream import (
    LARGEST_REFUSAL,
    LARGEST_STREAM,
    LARGEST_WHOLE,
    pieces_of_answer,
    pieces_of_stream,
    refused,
    unpacked,
)
from projections.requests.openai import chat_messages
from projections.window.compaction.request import SummaryRequest
from projections.window.compaction.summarizer import Piece

if TYPE_CHECKING:
    import httpx2

__all__ = ["API_KEY", "HttpSummarizer"]

API_KEY = "OPENAI_API_KEY"
"""The environment variable that the key is taken from by default."""

LONGEST_SILENCE = 600.0
"""Seconds in which an endpoint may send no data.

It may send something to keep the connection open.
"""


class HttpSummarizer:
    """Asks an endpoint for summaries.  Thread-safe, unless the given `client` is not.

    A request is tried again, `attempts` times in all, when it did not get through, or was answered
    with 429, 5xx and the like, and nothing of an answer had come. The wait doubles from `backoff`
    seconds, half of it random, or is what `Retry-After` asks for, and is never longer than
    `longest_wait`. `timeout` and `connect_timeout` are seconds without any byte; without data
    `LONGEST_SILENCE` holds. `body` holds further fields of the request (`temperature`, `max_tokens`
    …), `headers` further headers; the key is `api_key`, or the environment's `api_key_variable`.
    `client` is an own client, `sleep` waits seconds, `now` tells the time. `report_usage` off
    spares servers that refuse `stream_options`.
    """

    def __init__(
        self,
        base_url: str,
        model: str = "",
        *,
        api_key: str | None = None,
        api_key_variable: str = API_KEY,
        headers: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        timeout: float = 120.0,
        connect_timeout: float = 10.0,
        attempts: int = 4,
        backoff: float = 0.5,
        longest_wait: float = 30.0,
        report_usage: bool = True,
        client: httpx2.Client | None = None,
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        require(str, base_url, "an address is a str")
        require(str, model, "a model is named by a str")
        require_or_none(str, api_key, "a key is a str")
        require(str, api_key_variable, "an environment variable is named by a str")
        for mapping in (headers, body):
            require_or_none(Mapping, mapping, "headers and body are mappings")
        for seconds in (timeout, connect_timeout):
            require_wait(seconds)
        require_function(sleep, "sleep is a function that is given seconds")
        require_call(now, "now is a function that gives a time")
        self._url = f"{base_url.rstrip('/')}/chat/completions"
        self._model = model
        self._api_key = api_key
        self._api_key_variable = api_key_variable
        self._headers = dict(headers or {})
        self._body = dict(body or {})
        self._timeouts = (timeout, connect_timeout)
        self._backoff = Backoff(attempts=attempts, first=backoff, longest=longest_wait)
        self._report_usage = report_usage
        self._client = client
        self._sleep = sleep
        self._now = now or (lambda: datetime.now(UTC))

    def __call__(self, request: SummaryRequest) -> Generator[Piece]:
        """The pieces of the summary as they arrive.

        Raises `SummarizerError` when the endpoint was not reached or broke off,
        `SummarizerRefusedError` when it refused, and `RequestTooLargeError` when it did so for the
        size.
        """
        content = msgspec.json.encode(self._asked(request))
        client, owned = self._connected()
        try:
            yield from self._tried(client, content)
        finally:
            if owned:
                client.close()

    # -- helpers -------------------------------------------------------------------------------

    def _asked(self, request: SummaryRequest) -> dict[str, Any]:
        model = self._model or (request.model.name if request.model is not None else "")
        if not model:
            raise CallError("no model for the summary; expected one given to HttpSummarizer or to the request")
        system = (request.system,) if request.system else ()
        asked: dict[str, Any] = {
            "model": model,
            "messages": chat_messages(request.conversation(), system),
            "stream": True,
        }
        if self._report_usage:
            asked["stream_options"] = {"include_usage": True}
        return asked | self._body

    def _connected(self) -> tuple[httpx2.Client, bool]:
        if self._client is not None:
            return self._client, False
        try:
            import httpx2
        except ImportError:
            raise CallError("a summary over HTTP needs the extra `http`: pip install '.[http]'") from None
        timeout, connect = self._timeouts
        return httpx2.Client(timeout=httpx2.Timeout(timeout, connect=connect)), True

    def _sent(self) -> dict[str, str]:
        key = (os.environ.get(self._api_key_variable, "") if self._api_key is None else self._api_key).strip()
        if not (key.isascii() and key.isprintable()):
            raise CallError("the API key has characters that no header may hold")
        authorized = {"authorization": f"Bearer {key}"} if key else {}
        return {
            "content-type": "application/json",
            "accept": "text/event-stream",
            "accept-encoding": "gzip, deflate",
            **authorized,
            **self._headers,
        }

    def _tried(self, client: httpx2.Client, content: bytes) -> Iterator[Piece]:
        """The pieces of the first attempt that brings any."""
        for attempt in range(1, self._backoff.attempts + 1):
            asked_wait: float | None = None
            begun = False
            try:
                with closing(self._attempt(client, content)) as found:
                    for piece in found:
                        begun = True
                        yield piece
            except SummarizerError as error:
                if begun or attempt == self._backoff.attempts:
                    failure = SummarizerError(str(error), status=error.status, attempts=attempt)
                else:
                    failure = None
                asked_wait = error.wait if isinstance(error, _WaitError) else None
            else:
                return
            if failure is not None:
                raise failure
            self._sleep(self._backoff.seconds(attempt, asked_wait))

    def _attempt(self, client: httpx2.Client, content: bytes) -> Generator[Piece]:
        import httpx2

        try:
            with client.stream("POST", self._url, content=content, headers=self._sent()) as response:
                if response.status_code != 200:
                    raise self._unwelcome(response)
                if "json" in response.headers.get("content-type", ""):
                    yield from pieces_of_answer(b"".join(_bytes_of(response, LARGEST_WHOLE)))
                else:
                    yield from pieces_of_stream(_bytes_of(response, LARGEST_STREAM))
        except (httpx2.InvalidURL, httpx2.UnsupportedProtocol, httpx2.LocalProtocolError) as error:
            failure: Exception = CallError(f"the request for a summary cannot be sent ({type(error).__name__})")
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            failure = SummarizerError(
                f"the endpoint for summaries was not reached, or broke off ({type(error).__name__})"
            )
        else:
            return
        raise failure  # outside the handlers, so that it does not bring the request with its headers along

    def _unwelcome(self, response: httpx2.Response) -> Exception:
        """The error for an answer that is none."""
        status = response.status_code
        if status not in AGAIN:
            return refused(status, _beginning(response))
        return _WaitError(status, seconds_asked(response.headers.get("retry-after"), self._now))


def _bytes_of(response: httpx2.Response, most: int) -> Iterator[bytes]:
    """The answer's bytes, unpacked; `SummarizerError` if none come for `LONGEST_SILENCE`."""
    newest = time.monotonic()
    for chunk in unpacked(response.iter_raw(), response.headers.get("content-encoding", ""), most):
        now = time.monotonic()
        if b"data:" in chunk or b"{" in chunk:
            newest = now
        elif now - newest > LONGEST_SILENCE:
            raise SummarizerError(f"the endpoint for summaries sent no data for {LONGEST_SILENCE:g} seconds")
        yield chunk


def _beginning(response: httpx2.Response) -> bytes:
    """As much of a refusal as is read."""
    found = bytearray()
    with suppress(SummarizerError, SummarizerRefusedError):  # it says no more
        for chunk in _bytes_of(response, LARGEST_REFUSAL):
            found += chunk
    return bytes(found)


class _WaitError(SummarizerError):
    """A status after which a retry may succeed; `wait` are the seconds the endpoint asked for."""

    def __init__(self, status: int, wait: float | None) -> None:
        super().__init__(f"the endpoint for summaries answered with HTTP {status}", status=status)
        self.wait = wait
