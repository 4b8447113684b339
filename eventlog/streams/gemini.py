"""Reader of Gemini `generateContent`, streamed or whole.

A chunk has whole parts: text, thoughts, calls with their arguments, files, code that the provider
ran. A thought signature belongs to the part it stands on. Calls have no ids in older versions. With
`streamFunctionCallArguments` a call goes on in chunks without a name, up to one that says no
`willContinue`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from eventlog.streams.arguments_at_paths import ArgumentsAtPaths
from eventlog.streams.reader import Reader
from eventlog.streams.records import dump, metadata_of, object_of, objects_of, text_of, unused_id
from eventlog.streams.steps import Answered, Argued, Attached, Called, Closed, Kept, Said, Step, Used
from eventlog.streams.tokens import gemini_usage
from eventlog.values import File

_PROVIDER = "google"
_REASONS = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    **dict.fromkeys(
        ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT"),
        "content-filter",
    ),
}


class GeminiReader(Reader):
    """Reads the chunks of one answer, or a whole answer."""

    api = "Gemini generateContent"

    def __init__(self) -> None:
        super().__init__()
        self._code = ""
        """Key of the code that the provider runs now."""
        self._streamed: tuple[Called, ArgumentsAtPaths] | None = None
        """The call whose arguments stream, and these: it begins once they are whole."""
        self._grounding: list[Any] = []

    def take(self, chunk: Mapping[str, Any]) -> Iterator[Step]:
        """Yield the steps of a chunk."""
        usage = object_of(chunk.get("usageMetadata"))
        if usage:
            yield Used(gemini_usage(usage))
        if object_of(chunk.get("promptFeedback")).get("blockReason"):
            self._reason = "content-filter"
            yield Kept("google.promptFeedback", dump(chunk["promptFeedback"]))
        for candidate in objects_of(chunk.get("candidates"))[:1]:
            for part in objects_of(object_of(candidate.get("content")).get("parts")):
                yield from self._part(part)
            for name in ("groundingMetadata", "citationMetadata", "urlContextMetadata"):
                if candidate.get(name):
                    self._grounding.append({name: candidate[name]})
            reason = text_of(candidate.get("finishReason"))
            if reason and reason != "FINISH_REASON_UNSPECIFIED":
                self._reason = _REASONS.get(reason, reason)

    def end(self) -> Iterator[Step]:
        """Yield what is left once the stream is over; no `Ended` for an answer that broke off."""
        yield from self._argued(whole=self._reason == "stop")
        yield Closed()
        if self._grounding:
            yield Kept("google.grounding", dump(self._grounding))
        yield from super().end()

    def _part(self, part: dict[str, Any]) -> Iterator[Step]:
        signature = part.get("thoughtSignature")
        about = metadata_of(_PROVIDER, thoughtSignature=signature)
        if "functionCall" in part:
            yield from self._call(object_of(part["functionCall"]), about)
        elif "executableCode" in part:
            self._code = unused_id(self._ids, "", "code")
            yield Closed()
            yield Called(self._code, self._code, "code_execution", by_provider=True, metadata=about)
            yield Argued(self._code, dump(part["executableCode"]))
        elif "codeExecutionResult" in part:
            found = object_of(part["codeExecutionResult"])
            yield Answered(self._code, dump(found), text_of(found.get("outcome")) not in {"", "OUTCOME_OK"})
        elif "inlineData" in part or "fileData" in part:
            yield from self._file(part)
        elif "text" in part:
            kind = "reasoning" if part.get("thought") else "text"
            yield Said("reasoning" if part.get("thought") else "text", text_of(part["text"]), kind)
            if about is not None:
                yield Closed(about)
        elif part.keys() - {"thoughtSignature", "thought"}:
            yield Kept("google.part", dump(part))
        elif about is not None:
            yield Said("text", "", "signature")
            yield Closed(about)

    def _call(self, found: dict[str, Any], about: str | None) -> Iterator[Step]:
        name = text_of(found.get("name"))
        if self._streamed is None or name:
            yield from self._argued(whole=False)
            key = unused_id(self._ids, text_of(found.get("id")), "call")
            self._calls += 1
            yield Closed()
            called, given = Called(key, key, name or "unknown", metadata=about), found.get("args")
            if given and not object_of(given):
                yield called
                yield Argued(key, dump(given))
                return
            self._streamed = called, ArgumentsAtPaths(dict(object_of(given)))
        elif about is not None:
            self._streamed = self._streamed[0]._replace(metadata=about), self._streamed[1]
        self._streamed[1].take(found.get("partialArgs"))
        if found.get("willContinue") is not True:
            yield from self._argued(whole=True)

    def _argued(self, *, whole: bool) -> Iterator[Step]:
        """Yield the call that streams, and its arguments."""
        if self._streamed is not None:
            called, arguments = self._streamed
            self._streamed = None
            yield Closed()
            yield called
            text = arguments.text(whole=whole)
            if text != "{}":
                yield Argued(called.key, text)

    @staticmethod
    def _file(part: dict[str, Any]) -> Iterator[Step]:
        inline, stored = object_of(part.get("inlineData")), object_of(part.get("fileData"))
        found = inline or stored
        mime = text_of(found.get("mimeType")) or "application/octet-stream"
        data = text_of(inline.get("data")).replace("-", "+").replace("_", "/")  # the SDK's are url-safe
        yield Closed()
        yield Attached(File(mime, f"data:{mime};base64,{data}" if inline else text_of(stored.get("fileUri"))))
