"""Reader of OpenAI Responses: the events of a stream, or a whole response.

Texts and pieces of reasoning are parts of their items; item ids, phases and encrypted reasoning are
their metadata. What the provider runs has its result in the answer. Items of unknown types are kept
as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, cast

from eventlog.errors import StreamError
from eventlog.streams.reader import Reader
from eventlog.streams.records import dump, metadata_of, object_of, objects_of, text_of, unused_id
from eventlog.streams.steps import Answered, Argued, Attached, Called, Closed, Compacted, Kept, Said, Step, Used
from eventlog.streams.tokens import responses_usage
from eventlog.values import File

COMPACTION = "openai.compaction"
"""Kind of an `Opaque` part."""
COMPACTIONS = frozenset({"compaction", "compaction_summary", "context_compaction"})
"""Types of items with an encrypted compaction."""
_PROVIDER = "openai"
_TEXTS = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "refusal",
    "response.reasoning_text.delta": "reasoning",
    "response.reasoning_summary_text.delta": "summary",
}
"""Events with a piece of text, and where it belongs in its item."""
_ARGUMENTS = frozenset({"response.function_call_arguments.delta", "response.mcp_call_arguments.delta"})
"""Events with a piece of JSON arguments; other inputs are read from the whole item."""
_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})
_INCOMPLETE = {"max_output_tokens": "length", "content_filter": "content-filter"}
HOSTED = frozenset(
    {"web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call"}
)
"""Calls that the provider runs, with their result in the item."""
_NAMED = frozenset({"function_call", "custom_tool_call", "mcp_call"})
_OUTPUTS = ("output", "outputs", "results", "tools", "result")


class _Item:
    """An item of the answer, as far as it has come."""

    def __init__(self, item: dict[str, Any]) -> None:
        self.kind = text_of(item.get("type"))
        self.call = text_of(item.get("call_id"))
        self.key = text_of(item.get("id")) or self.call
        self.id = ""
        """Of a call: its id in the answer, which names it in steps."""
        self.has_input = False
        self.is_said = False
        """Whether any of its text has come."""
        self.annotations: list[Any] = []
        self.by_provider = is_hosted(item)


class ResponsesReader(Reader):
    """Reads the events of one answer, or a whole answer."""

    api = "OpenAI Responses"

    def __init__(self) -> None:
        super().__init__()
        self._items: dict[str, _Item] = {}
        self._refuses = False
        self._open: tuple[_Item, tuple[str, object]] | None = None
        """The item, and the place in it, of the text that is open."""

    def take(self, chunk: Mapping[str, Any]) -> Iterator[Step]:
        """Yield the steps of an event."""
        kind = text_of(chunk.get("type"))
        where = _TEXTS.get(kind)
        if where is not None:
            yield from self._said(where, chunk)
        elif kind == "response.output_item.added":
            yield from self._added(object_of(chunk.get("item")))
        elif kind == "response.output_item.done":
            yield from self._done(object_of(chunk.get("item")))
        elif kind == "response.output_text.annotation.added":
            self._item(chunk).annotations.append(chunk.get("annotation"))
        elif kind in _ENDS:
            yield from self._end(kind.partition(".")[2], object_of(chunk.get("response")))
        elif kind in _ARGUMENTS:
            yield from self._argued(chunk)
        elif kind == "error":
            raise _error(chunk)
        elif chunk.get("object") == "response" and not kind:
            for item in objects_of(chunk.get("output")):
                yield from self._whole(item)
            yield from self._end(text_of(chunk.get("status")) or "completed", chunk)

    def end(self) -> Iterator[Step]:
        """Yield what is left once the stream is over; no `Ended` for an answer that broke off."""
        yield Closed(metadata_of(_PROVIDER, refusal=self._refuses or None))
        yield from super().end()

    def _end(self, status: str, response: Mapping[str, Any]) -> Iterator[Step]:
        usage = object_of(response.get("usage"))
        if usage:
            yield Used(responses_usage(usage))
        status = text_of(response.get("status")) or status
        if status == "failed":
            raise _error(object_of(response.get("error")))
        if status == "cancelled":
            raise ConnectionError("the answer broke off: the response was cancelled")
        reason = text_of(object_of(response.get("incomplete_details")).get("reason"))
        self._reason = "stop" if status != "incomplete" else _INCOMPLETE.get(reason, reason or "unknown")

    # -- texts -------------------------------------------------------------------------------------

    def _said(self, where: str, chunk: Mapping[str, Any]) -> Iterator[Step]:
        item, text = self._item(chunk), text_of(chunk.get("delta"))
        if not text:
            return
        self._refuses = self._refuses or where == "refusal"
        number = chunk.get("summary_index" if where == "summary" else "content_index")
        yield from self._piece(
            "reasoning" if where in {"reasoning", "summary"} else "text", text, item, (where, number)
        )

    def _piece(
        self, kind: Literal["text", "reasoning"], text: str, item: _Item, place: tuple[str, object]
    ) -> Iterator[Step]:
        """Yield a piece; another place in the item is another part, which names the item, too."""
        if self._open not in {None, (item, place)}:
            yield Closed(metadata_of(_PROVIDER, itemId=self._open[0].key if self._open else None))
        self._open = (item, place)
        item.is_said = True
        yield Said(kind, text, (item.key, *place))

    def _item(self, chunk: Mapping[str, Any]) -> _Item:
        """Return the item that an event is about; one that was not announced is a message."""
        key = text_of(chunk.get("item_id"))
        if key not in self._items:
            self._items[key] = _Item({"type": "message", "id": key})
        return self._items[key]

    def _close(self, item: _Item, **about: object) -> Iterator[Step]:
        refuses, self._refuses = self._refuses, False
        self._open = None
        yield Closed(
            metadata_of(_PROVIDER, itemId=item.key, annotations=item.annotations, refusal=refuses or None, **about)
        )

    # -- items -------------------------------------------------------------------------------------

    def _added(self, found: dict[str, Any]) -> Iterator[Step]:
        item, known = _Item(found), self._items.get(text_of(found.get("id")))
        is_call = item.kind.endswith("_call")
        if known is not None and known.call == item.call and (known.id or not is_call):  # it has come, or some of it
            known.kind = item.kind
            return
        self._items[item.key] = item
        if not is_call:
            return
        item.id = unused_id(self._ids, item.call or item.key, "call")
        self._calls += not item.by_provider
        tool = text_of(found.get("name")) if item.kind in _NAMED else item.kind.removesuffix("_call")
        about = metadata_of(_PROVIDER, itemId=text_of(found.get("id")))
        self._open = None
        yield Closed()
        yield Called(item.id, item.id, tool or "unknown", item.by_provider, about)

    def _argued(self, chunk: Mapping[str, Any]) -> Iterator[Step]:
        item, text = self._items.get(text_of(chunk.get("item_id"))), text_of(chunk.get("delta"))
        if item is not None and item.kind.endswith("_call") and text:
            item.has_input = True
            yield Argued(item.id, text)

    def _done(self, found: dict[str, Any]) -> Iterator[Step]:
        key = text_of(found.get("id")) or text_of(found.get("call_id"))
        item = self._items.get(key)
        if item is None:
            yield from self._whole(found)
            return
        kind = text_of(found.get("type"))
        if kind == "reasoning":
            if not item.is_said:
                yield from self._piece("reasoning", "", item, ("reasoning", 0))
            yield from self._close(item, reasoningEncryptedContent=found.get("encrypted_content"))
        elif kind == "message":
            if item.is_said:
                yield from self._close(item, phase=found.get("phase"))
        elif kind.endswith("_call"):
            yield from self._call_done(item, found)
        elif kind.endswith("_output"):
            yield from self._output(found)
        elif kind in COMPACTIONS and found.get("encrypted_content"):
            yield Compacted(COMPACTION, dump(found))
        elif kind not in {"mcp_list_tools", "mcp_approval_request"} or found:
            yield Kept(f"openai.{kind}", dump(found))

    def _call_done(self, item: _Item, found: dict[str, Any]) -> Iterator[Step]:
        arguments = _arguments(found)
        if arguments is not None and not item.has_input:
            yield Argued(item.id, arguments)
        if item.kind == "image_generation_call":
            yield from self._image(item, found)
        elif item.kind in HOSTED:
            yield from self._answered(item.id, found)

    @staticmethod
    def _image(item: _Item, found: dict[str, Any]) -> Iterator[Step]:
        data, mime = text_of(found.get("result")), f"image/{text_of(found.get('output_format')) or 'png'}"
        if data:
            url = data if data.startswith(("http://", "https://", "data:")) else f"data:{mime};base64,{data}"
            yield Attached(File(mime, url))
        yield Answered(item.id, "", failed=not data)

    @staticmethod
    def _answered(key: str, found: dict[str, Any]) -> Iterator[Step]:
        failed = found.get("status") == "failed" or bool(found.get("error"))
        output = found.get("error") or next((found[name] for name in _OUTPUTS if found.get(name) is not None), "")
        yield Answered(key, output if isinstance(output, str) else dump(output), failed)

    def _output(self, found: dict[str, Any]) -> Iterator[Step]:
        """Yield the result of a call that the provider ran, in an item of its own."""
        kind = text_of(found.get("type")).removesuffix("_output")
        kind = kind if kind.endswith("_call") else f"{kind}_call"
        of_kind = [item.id for item in self._items.values() if item.kind == kind and item.by_provider]
        if of_kind:
            yield from self._answered(of_kind[-1], found)

    def _whole(self, found: dict[str, Any]) -> Iterator[Step]:
        """Yield the steps of an item that comes at once."""
        yield from self._added(found)
        item = self._items[text_of(found.get("id")) or text_of(found.get("call_id"))]
        for number, part in enumerate(objects_of(found.get("content"))):
            refusal = text_of(part.get("refusal"))
            text = text_of(part.get("text")) or refusal
            if text:
                item.annotations += objects_of(part.get("annotations"))
                self._refuses = bool(refusal)
                yield from self._piece(
                    "reasoning" if item.kind == "reasoning" else "text", text, item, ("content", number)
                )
        for number, part in enumerate(objects_of(found.get("summary"))):
            if text_of(part.get("text")):
                yield from self._piece("reasoning", text_of(part.get("text")), item, ("summary", number))
        yield from self._done(found)


def is_hosted(item: dict[str, Any]) -> bool:
    """Return whether the provider runs the call of an item."""
    kind = text_of(item.get("type"))
    hosted = text_of(object_of(item.get("environment")).get("type")).startswith("container")
    return kind in HOSTED or item.get("execution") == "server" or (kind == "shell_call" and hosted)


def _arguments(item: dict[str, Any]) -> str | None:
    """Return the arguments of a whole call; None for one that has none in its item."""
    given = item.get("arguments", item.get("input"))
    if isinstance(given, dict):
        return dump(cast("dict[str, Any]", given))
    if isinstance(given, str):
        return given if item.get("type") != "custom_tool_call" else dump({"input": given})
    for name in ("action", "operation"):
        if isinstance(item.get(name), dict):
            return dump(item[name])
    for name in ("code", "queries"):
        if item.get(name):
            return dump({name: item[name]})
    return None


def _error(found: Mapping[str, Any]) -> StreamError:
    inner = found.get("error")
    fields = object_of(inner) or dict(found)
    code = text_of(fields.get("code")) or text_of(fields.get("type"))
    return StreamError(text_of(fields.get("message")) or dump(fields), code=code)
