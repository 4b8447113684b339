"""Reader of OpenAI Chat Completions, and of the dialects of servers that speak it.

* A call is told apart by its index, its id or its name, whichever a server sends: index 0 for every
  call, none at all, equal ids, a name in pieces, arguments whole, as an object, or behind `{}`.
* Reasoning comes as `reasoning_content`, `reasoning`, `reasoning_details` or in parts of content.
* Only the first choice is read.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from eventlog.errors import UnknownStreamError
from eventlog.streams.reader import Reader
from eventlog.streams.records import dump, is_whole, metadata_of, object_of, objects_of, text_of, unused_id
from eventlog.streams.steps import Argued, Attached, Called, Closed, Said, Step, Used
from eventlog.streams.tokens import chat_usage
from eventlog.values import File

_REASONS = {"tool_calls": "tool-calls", "function_call": "tool-calls", "content_filter": "content-filter"}
_TEXT = frozenset({"role", "content"})
_ARGUMENTS = frozenset({"index", "type", "function"})
"""Fields of a delta that has nothing but a piece of text, or of a call that goes on."""
_DETAILS_ARE_TEXT = frozenset({"text", "summary"})


class _Call:
    """A call of the answer: begun with its first arguments, once its name is whole."""

    def __init__(self, key: int, given: str, id: str) -> None:
        self.key = key
        self.given = given
        """Its id in the stream; other calls may have the same."""
        self.id = id
        self.name = ""
        self.begun = False
        self.pieces: list[str] = []
        self.held = ""
        """Empty arguments, `{}`, until it is known whether others follow."""

    def goes_on(self, id: str, name: str, arguments: object) -> bool:
        """Return whether a delta at its place is of this call, and not of another one."""
        if id and id != self.given:
            return not name
        so_far = "".join(self.pieces) or self.held
        return not (name and arguments and so_far and is_whole(so_far))


class ChatReader(Reader):
    """Reads the chunks of one answer, or a whole answer."""

    api = "OpenAI Chat Completions"

    def __init__(self) -> None:
        super().__init__()
        self._begun: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._details: list[dict[str, Any]] = []
        self._refuses = False
        self._in_call = False
        """Whether nothing but arguments came behind the newest call."""
        self._audio: list[bytes] = []
        self._spoken = "wav"

    def take(self, chunk: Mapping[str, Any]) -> Iterable[Step]:
        """Return the steps of a chunk."""
        return self._plain_text(chunk) or self._take(chunk)

    def _plain_text(self, chunk: Mapping[str, Any]) -> list[Step]:
        """Return the step of a chunk that is one piece of text, or of a call's arguments.

        Nearly all chunks are; [] for any other one.
        """
        choices: Any = chunk.get("choices")
        if choices.__class__ is not list or len(choices) != 1:
            return []
        if chunk.get("usage") or chunk.get("type") is not None or chunk.get("x_groq"):
            return []
        choice: Any = choices[0]
        delta: Any = choice.get("delta") if choice.__class__ is dict else None
        if delta.__class__ is not dict or choice.get("finish_reason") is not None or choice.get("index"):
            return []
        content: Any = delta.get("content")
        if content.__class__ is str and content:
            if self._details or (len(delta) > 1 and any(delta[name] for name in delta.keys() - _TEXT)):
                return []
            self._in_call = False
            return [Said("text", content)]
        calls: Any = delta.get("tool_calls")
        if not self._in_call or len(delta) != 1 or calls.__class__ is not list or len(calls) != 1:
            return []
        found: Any = calls[0]
        if found.__class__ is not dict or not found.keys() <= _ARGUMENTS:
            return []
        call, function = self._by_index.get(found.get("index", -1)), found.get("function")
        if call is None or function.__class__ is not dict or function.keys() != {"arguments"}:
            return []
        text: Any = function["arguments"]
        if text.__class__ is not str or not text or not call.pieces:
            return []
        call.pieces.append(text)
        return [Argued(call.key, text)]

    def _take(self, chunk: Mapping[str, Any]) -> Iterator[Step]:
        self._in_call = False
        kind = chunk.get("type")
        if kind is not None:  # an event of `chat.completions.stream`: only its chunks count
            inner = chunk.get("chunk")
            if kind != "chunk" or not isinstance(inner, Mapping):
                return
            chunk = cast("Mapping[str, Any]", inner)
        usage = chunk.get("usage") or object_of(chunk.get("x_groq")).get("usage")
        if usage:
            yield Used(chat_usage(object_of(usage)))
        for choice in objects_of(chunk.get("choices")):
            if choice.get("index", 0) in {0, None}:
                yield from self._choice(choice)
                break

    def end(self) -> Iterator[Step]:
        """Yield what is left once the stream is over; no `Ended` for an answer that broke off."""
        yield from self._end_calls()
        yield from self._close()
        if self._audio:
            data = b64encode(b"".join(self._audio)).decode()
            yield Attached(File(f"audio/{self._spoken}", f"data:audio/{self._spoken};base64,{data}"))
        yield from super().end()

    # -- texts -------------------------------------------------------------------------------------

    def _choice(self, choice: Mapping[str, Any]) -> Iterator[Step]:
        given = choice.get("delta")
        said = choice.get("message") if given is None else given
        if said is not None and not isinstance(said, Mapping):
            raise UnknownStreamError(f"a delta that is a {type(said).__name__}")
        if said:
            yield from self._delta(cast("Mapping[str, Any]", said))
        else:
            yield from self._text("text", choice.get("text"), None)  # legacy completions
        self._reason = reason_of(choice.get("finish_reason")) or self._reason

    def _delta(self, said: Mapping[str, Any]) -> Iterator[Step]:
        thought = said.get("reasoning_content") or said.get("reasoning")
        details = said.get("reasoning_details")
        if thought:
            yield from self._text("reasoning", thought, "thought")
        if details:
            yield from self._reasoned(objects_of(details), texts=not thought)
        content, refusal = said.get("content"), said.get("refusal")
        if self._details and (content or refusal):  # they belong to the reasoning before it
            yield from self._close()
        if content:
            yield from self._text("text", content, None)
        if isinstance(refusal, str) and refusal:
            self._refuses = True
            yield Said("text", refusal, "refusal")
        spoken = said.get("audio")
        if spoken:
            yield from self._spoken_text(object_of(spoken))
        calls = said.get("tool_calls")
        legacy = said.get("function_call")
        if calls or legacy:
            yield from self._close()
            for call in objects_of(calls):
                yield from self._call(call)
            if isinstance(legacy, dict):
                yield from self._call({"index": 0, "function": legacy})
            self._in_call = True

    def _text(self, kind: Any, content: object, part: object) -> Iterator[Step]:
        """Yield the texts of a content: a text, a part, or a list of either."""
        if isinstance(content, str):
            if content:
                yield Said(kind, content, part)
        elif isinstance(content, list):
            for item in cast("list[object]", content):
                yield from self._text(kind, item, part)
        elif isinstance(content, Mapping):
            found = cast("Mapping[str, Any]", content)
            if "thinking" in found:
                yield from self._text("reasoning", found["thinking"], "thought")
            elif "text" in found or "refusal" in found:
                yield from self._text(kind, found.get("text") or found.get("refusal"), part)
            elif found.get("type") in {"image_url", "output_image"}:
                yield from self._image(found)
            else:
                raise UnknownStreamError(f"a part of content of type {found.get('type')}")
        elif content is not None:  # of no API: a damaged chunk
            raise ConnectionError(f"the answer broke off: its content is a {type(content).__name__}")

    @staticmethod
    def _image(part: Mapping[str, Any]) -> Iterator[Step]:
        found = part.get("image_url")
        url = text_of(object_of(found).get("url")) or text_of(found)
        if url:
            mime = url.partition(":")[2].partition(";")[0] if url.startswith("data:") else ""
            yield Attached(File(mime or "image/*", url))

    def _reasoned(self, details: list[dict[str, Any]], *, texts: bool) -> Iterator[Step]:
        """Yield the reasoning of a router; signatures and ciphers go with the end of the part."""
        for detail in details:
            text = text_of(detail.get("text")) or text_of(detail.get("summary"))
            if texts and text:
                yield Said("reasoning", text, "thought")
            if detail.get("signature") or detail.get("data"):
                if not text:
                    yield Said("reasoning", "", "thought")
                self._details.append({name: value for name, value in detail.items() if name not in _DETAILS_ARE_TEXT})

    def _spoken_text(self, audio: dict[str, Any]) -> Iterator[Step]:
        text = text_of(audio.get("transcript"))
        if text:
            yield Said("text", text, None)
        try:
            piece = b64decode(text_of(audio.get("data")), validate=True)
        except (Base64Error, ValueError):
            raise ConnectionError("the answer broke off: a piece of its audio is no base64") from None
        if piece:
            self._audio.append(piece)
            self._spoken = text_of(audio.get("format")) or self._spoken

    def _close(self) -> Iterator[Step]:
        """Close the open text; what belongs to it goes with it."""
        details, self._details = self._details, []
        refuses, self._refuses = self._refuses, False
        if refuses:
            yield Closed(metadata_of("openai", refusal=True))
        else:
            yield Closed(metadata_of("openrouter", reasoning_details=details))

    # -- calls -------------------------------------------------------------------------------------

    def _call(self, delta: dict[str, Any]) -> Iterator[Step]:
        function = object_of(delta.get("function"))
        name, arguments = text_of(function.get("name")), function.get("arguments")
        call = self._at(delta, name)
        if call is None or not call.goes_on(text_of(delta.get("id")), name, arguments):
            for earlier in self._begun:
                yield from self._begin(earlier)
            call = self._new(delta)
        if not call.begun and name != call.name:
            call.name += name
        text = dump(object_of(arguments)) if object_of(arguments) else text_of(arguments)
        if not text:
            return
        if not call.pieces and not call.held and text.strip() == "{}":
            call.held = text
            return
        call.held = ""
        call.pieces.append(text)
        yield from self._begin(call)
        yield Argued(call.key, text)

    def _at(self, delta: dict[str, Any], name: str) -> _Call | None:
        """Return the call at the place of a delta: by index, else by id, else the newest."""
        index, id = delta.get("index"), text_of(delta.get("id"))
        if isinstance(index, int):
            return self._by_index.get(index)
        if id:
            return next((call for call in reversed(self._begun) if call.given == id), None)
        newest = self._begun[-1] if self._begun else None
        return None if newest is not None and name not in {"", newest.name} else newest

    def _new(self, delta: dict[str, Any]) -> _Call:
        key, index, given = len(self._begun), delta.get("index"), text_of(delta.get("id"))
        call = _Call(key, given, unused_id(self._ids, given, "call"))
        self._begun.append(call)
        self._calls += 1
        if isinstance(index, int):
            self._by_index[index] = call
        return call

    @staticmethod
    def _begin(call: _Call) -> Iterator[Step]:
        if not call.begun:
            call.begun = True
            yield Called(call.key, call.id, call.name or "unknown")

    def _end_calls(self) -> Iterator[Step]:
        """Begin the calls whose arguments have not come: they have none."""
        for call in self._begun:
            yield from self._begin(call)
            if call.held:
                yield Argued(call.key, call.held)


def reason_of(found: object) -> str:
    """Return our word for a `finish_reason`, the server's if it is unknown, "" for none."""
    reason = text_of(found)
    return _REASONS.get(reason, reason)
