"""A summariser from the loop's own callable: one way to ask a model."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Generator
from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from eventlog.errors import (
    RequestTooLargeError,
    StreamError,
    SummarizerError,
    SummarizerRefusedError,
    UnknownStreamError,
)
from eventlog.session.filling import chunks_of, is_whole_answer
from eventlog.streams.answer import API, AnswerReader, plain
from eventlog.streams.steps import Called, Ended, Said, Step, Used
from eventlog.validation import require_function
from projections.loop.context.model_request import ModelRequest
from projections.loop.context.refused_request import refusal
from projections.loop.context.retrying import Backoff, is_transient
from projections.requests.forms import RequestForm, form_named
from projections.view.options import DEFAULT
from projections.window.compaction.request import SummaryRequest
from projections.window.compaction.summarizer import HOME, FailedCall, Piece, Summarizer, ToolCalled, driven

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def summarize_with(
    ask: Callable[[ModelRequest], object],
    *,
    api: API | None = None,
    form: RequestForm | str | None = None,
    attempts: int = 4,
    first_wait: float = 0.5,
    longest_wait: float = 60.0,
    sleep: Callable[[float], None] = time.sleep,
) -> Summarizer:
    """Return a summariser that asks a model as the loop does.

    `ask` is given a request, the conversation and the prompt without tools, and returns the answer,
    as for `fill_retrying` or `afill_retrying`: also a coroutine, or an async iterable. `api` names
    the API of the answer, `form` the provider's form of `request.body`, as in
    `ContextWindow.begin`. An answer that failed
    before any text is asked for again, `attempts` times in all: the wait doubles from `first_wait`
    seconds to `longest_wait`, as in `fill_retrying`; `sleep` waits so many seconds.
    """
    require_function(ask, "`ask` is a function that returns an answer")
    require_function(sleep, "sleep is a function that is given seconds")
    named = None if form is None else form_named(form)
    waits = partial(Backoff, attempts=attempts, first=first_wait, longest=longest_wait)
    waits()  # checks the numbers now

    def summarize(request: SummaryRequest) -> Generator[Piece]:
        backoff = waits()
        while True:
            reading = _Reading(api)
            try:
                answer = ask(_request(request, named))
                if isawaitable(answer) or _is_async(answer):
                    yield from driven(reading.later(answer), HOME.get())
                else:
                    for chunk in chunks_of(answer):
                        yield from reading.pieces(chunk)
                yield from reading.end()
            except Exception as error:  # noqa: BLE001  # raised again unless it passes
                wait = reading.wait(error, backoff)
            else:
                return
            yield from reading.told
            sleep(wait)

    return summarize


class _Reading:
    """The pieces of one answer."""

    def __init__(self, api: API | None) -> None:
        self._reader = AnswerReader(api)
        self._reason = ""
        self._has_said = False
        self.told: tuple[FailedCall, ...] = ()
        """The cost of the call, if it fails and its provider told the usage."""

    def pieces(self, chunk: Any) -> Iterator[Piece]:
        """Yield the pieces of a chunk; reasoning is no part of a summary."""
        yield from self._pieces(self._reader.take(plain(chunk)))

    async def later(self, answer: Any) -> AsyncGenerator[Piece]:
        """Yield the pieces of an answer that is awaited, or an async iterable."""
        answer = await answer if isawaitable(answer) else answer
        if _is_async(answer):
            async for chunk in answer:
                for piece in self.pieces(chunk):
                    yield piece
        else:
            for chunk in chunks_of(answer):
                for piece in self.pieces(chunk):
                    yield piece

    def end(self) -> Iterator[Piece]:
        """Yield the rest; raises an error for a summary that is not whole."""
        yield from self._pieces(self._reader.end())
        if not self._reason:
            raise ConnectionError("the answer broke off: its stream ended without a finish reason")
        if self._reason in {"length", "content-filter"}:
            raise SummarizerRefusedError(f"the summary was not written to its end ({self._reason})")

    def wait(self, error: Exception, backoff: Backoff) -> float:
        """Return the seconds before the answer to an error is asked for again.

        Where it is not, as once any of the summary has come, the error that the compaction records
        is raised.
        """
        seconds = None if self._has_said or not is_transient(error) else backoff.wait(error)
        if seconds is None:
            raise _failure(error, backoff.made) from error
        return seconds

    def _pieces(self, steps: Iterable[Step]) -> Iterator[Piece]:
        for step in steps:
            if isinstance(step, Said) and step.kind == "text":
                self._has_said = True
                yield step.text
            elif isinstance(step, Used):
                self.told = (FailedCall(step.usage),)
                yield step.usage
            elif isinstance(step, Called):
                yield ToolCalled(step.tool)
            elif isinstance(step, Ended):
                self._reason = step.reason


def _is_async(answer: object) -> bool:
    return not is_whole_answer(answer) and isinstance(answer, AsyncIterable)


def _request(asked: SummaryRequest, form: RequestForm | None) -> ModelRequest:
    system = (asked.system,) if asked.system else ()
    request = ModelRequest(asked.conversation(), system, None, None, 0, b"", DEFAULT, asked.tokens, None)
    return request.in_form(form)


def _failure(error: Exception, attempts: int) -> Exception:
    """Return the error that the compaction records."""
    if isinstance(error, (SummarizerError, SummarizerRefusedError)):
        return error
    status = getattr(error, "status_code", None)
    if refusal(error).name == "overflow":
        return RequestTooLargeError(f"the request for a summary was refused for its size: {error}", status=status)
    if is_transient(error):
        return SummarizerError(f"the summary broke off: {type(error).__name__}: {error}", attempts=attempts)
    if isinstance(error, (StreamError, UnknownStreamError)) or isinstance(status, int):
        return SummarizerRefusedError(f"the request for a summary was refused: {error}", status=status)
    return error
