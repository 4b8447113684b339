"""The answer of a provider, whose API the first chunks tell.

`AnswerReader` gives the chunks to the reader of their API. It takes mappings, as they go over the
wire, and the objects of providers' packages, those of their helper streams included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, TypeAlias, cast

from eventlog.errors import ArgumentValueError, StreamError, UnknownStreamError
from eventlog.errors.base import brief
from eventlog.streams.anthropic import AnthropicReader
from eventlog.streams.gemini import GeminiReader
from eventlog.streams.openai_chat import ChatReader
from eventlog.streams.openai_responses import ResponsesReader
from eventlog.streams.reader import Reader
from eventlog.streams.records import dump, object_of, objects_of, text_of
from eventlog.streams.steps import Step
from eventlog.validation import a_kind, require_function, require_or_none

API: TypeAlias = Literal["openai-chat", "openai-responses", "anthropic", "gemini"]


_READERS: dict[str, type[Reader]] = {
    "openai-chat": ChatReader,
    "openai-responses": ResponsesReader,
    "anthropic": AnthropicReader,
    "gemini": GeminiReader,
}
_ANTHROPIC = frozenset(
    {
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "message",
    }
)
"""Types of the events and of the whole answer of Anthropic."""
_FIELDS = {
    "choices": "openai-chat",
    "candidates": "gemini",
    "usageMetadata": "gemini",
    "promptFeedback": "gemini",
}
"""Fields that one API alone has at the top of a chunk."""
_NOT_READ = {
    "messageStart": "Bedrock Converse",
    "contentBlockStart": "Bedrock Converse",
    "contentBlockDelta": "Bedrock Converse",
    "messageStop": "Bedrock Converse",
    "done": "Ollama chat",
}
"""Fields of APIs that are known and not read."""
_SILENT = frozenset({"ping", "keepalive"})
_MOST_HELD = 8
"""Chunks that are held until one tells the API."""
_STATUSES = range(400, 600)
_MOST_SAID = 1_000
"""Characters of a provider's error that are quoted."""


class AnswerReader:
    """Reads one answer, chunk by chunk, into steps."""

    def __init__(self, api: API | None = None) -> None:
        """`api` is the API of the answer; by default the first chunks tell it."""
        require_or_none(str, api, "an api is a str")
        if api is not None and api not in _READERS:
            raise ArgumentValueError(f"an api is one of {', '.join(_READERS)}, not {brief(str(api))}")
        self._reader: Reader | None = None if api is None else _READERS[api]()
        self._held: list[Mapping[str, Any]] = []

    @property
    def api(self) -> str:
        """The name of the API; "" while no chunk has told it."""
        return "" if self._reader is None else self._reader.api

    @property
    def is_over(self) -> bool:
        """Whether the answer has its end; later chunks may tell its usage."""
        return self._reader is not None and self._reader.is_over

    def take(self, chunk: Mapping[str, Any]) -> list[Step]:
        """Return the steps of a chunk.

        Raises `StreamError` for an error of the provider, `UnknownStreamError` for a chunk of an
        API that is not read, and `ConnectionError` for a damaged one.
        """
        if self._reader is None or _may_be_error(chunk):
            return [*self.steps(chunk)]
        found = self._reader.take(chunk)
        return cast("list[Step]", found) if type(found) is list else [*found]

    def steps(self, chunk: Mapping[str, Any]) -> Iterator[Step]:
        """Yield the steps of a chunk, those before an error too; errors as in `take`."""
        if _may_be_error(chunk):
            error = _error_in(chunk)
            if error is not None:
                raise error
        if self._reader is not None:
            yield from self._reader.take(chunk)
            return
        name = _api_of(chunk)
        if name is None:
            self._held.append(chunk)
            if len(self._held) > _MOST_HELD:
                raise UnknownStreamError(_named(chunk))
            return
        self._reader = _READERS[name]()
        held, self._held = self._held, []
        for each in (*held, chunk):
            yield from self._reader.take(each)

    def end(self) -> list[Step]:
        """Return what is left once the stream is over; without `Ended` it broke off."""
        unknown = next(
            (chunk for chunk in self._held if chunk.keys() - {"usage"} and chunk.get("type") not in _SILENT), None
        )
        if self._reader is None and unknown is not None:
            raise UnknownStreamError(_named(unknown))
        return [] if self._reader is None else [*self._reader.end()]


def plain(chunk: Any) -> Mapping[str, Any]:
    """Return a chunk as it goes over the wire; it may be an object of a package.

    What a helper stream adds, the answer so far, is left out: it would be read again at each chunk.
    """
    if type(chunk) is dict or isinstance(chunk, Mapping):
        return cast("Mapping[str, Any]", chunk)
    fields = getattr(chunk.__class__, "model_fields", None)
    if (fields is None or "chunk" in fields) and getattr(chunk, "type", None) == "chunk" and hasattr(chunk, "chunk"):
        return plain(chunk.chunk)
    write: object = getattr(chunk, "model_dump", None)
    if not callable(write):
        require_function(write, f"a chunk is a mapping, or has `model_dump`, a function; not {a_kind(chunk)}")
    dump_model = cast("Callable[..., Any]", write)
    more: dict[str, Any] = {"exclude": {"snapshot"}} if fields is None or "snapshot" in fields else {}
    return cast("Mapping[str, Any]", dump_model(mode="json", by_alias=True, exclude_unset=True, warnings=False, **more))


def is_known(chunk: Mapping[str, Any]) -> bool:
    """Return whether any API that is read has such a chunk."""
    try:
        _api_of(chunk)
    except UnknownStreamError:
        return False
    return True


def _api_of(chunk: Mapping[str, Any]) -> str | None:
    """Return the API that has such a chunk; None for one that any may have."""
    kind = text_of(chunk.get("type"))
    if kind.startswith("response.") or chunk.get("object") == "response":
        return "openai-responses"
    if kind in _ANTHROPIC:
        return "anthropic"
    if text_of(chunk.get("object")).startswith("chat.completion"):
        return "openai-chat"
    known = next((api for field, api in _FIELDS.items() if field in chunk), None)
    if known is not None or not chunk or kind in _SILENT or chunk.keys() <= {"usage", "id", "created", "model"}:
        return known
    other = next((api for field, api in _NOT_READ.items() if field in chunk), None)
    raise UnknownStreamError(_named(chunk), other or "")


def _named(chunk: Mapping[str, Any]) -> str:
    return text_of(chunk.get("type")) or ", ".join(sorted(map(str, chunk))[:8])


def _may_be_error(chunk: Mapping[str, Any]) -> bool:
    """Return whether a chunk may say an error of the provider: a quick look at each chunk."""
    if "error" in chunk:
        return True
    choices: Any = chunk.get("choices")
    return bool(choices) and not (choices.__class__ is list and len(choices) == 1 and "error" not in choices[0])


def _error_in(chunk: Mapping[str, Any]) -> StreamError | None:
    """Return the provider's error that a chunk, or a choice of it, says; None if it says none."""
    found = next((error for place in (chunk, *objects_of(chunk.get("choices"))) if (error := place.get("error"))), None)
    if found is None:
        return None
    error = object_of(found) or {"message": found}
    said = error.get("message") or error
    codes = [error.get(name) for name in ("code", "status", "type")]
    status = next((code for code in codes if isinstance(code, int) and code in _STATUSES), None)
    code = next((code for code in codes if isinstance(code, str)), "")
    return StreamError((said if isinstance(said, str) else dump(said))[:_MOST_SAID], status_code=status, code=code)
