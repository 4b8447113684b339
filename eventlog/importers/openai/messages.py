"""Mapping of OpenAI Chat messages and chat completions, for imported files and live feeds.

* A leading system message is the system prompt; later ones, also those right behind it, and
  developer's are synthetic user messages: each record says its own text, and can be forgotten.
* A `tool` or `function` message is the result of the call it names, else of the oldest open call of
  its name; one without a call is a synthetic user message, and reported.
* Of a completion choice 0 is imported; its usage and finish reason are those of the answer.
"""

from __future__ import annotations

from typing import Any

from eventlog.importers.common.builder import RecordBuilder
from eventlog.importers.common.conversation_parts import CallResult
from eventlog.importers.common.json_lines import is_array, is_object
from eventlog.importers.common.message_reader import ids_of, model_name_of, system_prompt
from eventlog.importers.openai import items
from eventlog.streams.openai_chat import reason_of
from eventlog.streams.records import text_of
from eventlog.streams.tokens import chat_usage
from eventlog.values import File, Json, Model


class OpenAIChatMapping:
    """The mapping; a record is a message, or a completion."""

    format = "openai_messages"

    def read(self, record: Any, to: RecordBuilder) -> None:
        """Tell what one message, or a completion, means."""
        if not is_object(record):
            to.skip("not an object")
            return
        if is_array(record.get("choices")):
            _completion(to, record)
            return
        role = text_of(record.get("role"))
        if role == "assistant":
            _assistant(to, record)
            to.end()
        elif role in {"tool", "function"}:
            _result(to, record, role)
        elif role == "system" and to.leading:
            system_prompt(to, record.get("content"))
        elif role in {"user", "system", "developer"}:
            tell_user(to, record, role)
        else:
            to.skip("a message of an unknown role")


def tell_user(to: RecordBuilder, message: dict[str, Any], role: str) -> None:
    """Tell a message of the user, or a synthetic one of another role."""
    synthetic = role != "user"
    said, strange = items.user_parts(message.get("content"), to.batch, synthetic=synthetic)
    if strange:
        to.skip(f"{strange} blocks of a {role} message that are neither text nor a file")
    agent = role if synthetic else text_of(message.get("name"))
    to.user(said, id=ids_of(message), agent=agent, synthetic=synthetic)


def _result(to: RecordBuilder, message: dict[str, Any], role: str) -> None:
    call, content = text_of(message.get("tool_call_id")), message.get("content")
    several = message.get("tool_call_ids")
    if not call and is_array(several) and several:
        call = text_of(several[0])
    texts = items.texts_of(content)
    text, files = "\n".join(texts), items.attachments_of(content, to.batch)
    tool = text_of(message.get("name"))
    if not to.result(call, text, tool=tool, attachments=files, held=len(texts) == 1):
        to.conversation.hold(call, None, CallResult(text, attachments=files))
        to.skip(f"a {role} message for no open call: imported as a synthetic user message")
        tell_user(to, message, role)


def _assistant(to: RecordBuilder, message: dict[str, Any]) -> None:
    name = model_name_of(message)
    to.answer(id=ids_of(message), model=Model("", name) if name else None)
    for key in ("reasoning_content", "reasoning", "thinking"):
        thought = message.get(key)
        if isinstance(thought, str) and thought:
            to.reasoning(thought)
            break
    tell_blocks(to, message.get("content"))
    refusal = message.get("refusal")
    if isinstance(refusal, str) and refusal:
        to.text(refusal, metadata=_REFUSAL)
    audio = message.get("audio")
    if is_object(audio) and isinstance(audio.get("data"), str):
        url = to.batch.content(f"data:audio/*;base64,{audio['data']}")
        to.file(File("audio/*", url), audio["data"], "file")
    calls = message.get("tool_calls")
    for place, call in enumerate(calls if is_array(calls) else []):
        if is_object(call):
            _call(to, call, f"call-{to.number}-{place}")
        else:
            to.skip("a tool call that is not an object")
    legacy = message.get("function_call")
    if is_object(legacy):
        _call(to, {"function": legacy}, f"call-{to.number}")


def tell_blocks(to: RecordBuilder, content: object, metadata: Json | None = None) -> None:
    """Add the texts and files of a content to the open answer, with their metadata."""
    blocks: list[Any] = content if is_array(content) else [content]
    for place, block in enumerate(blocks):
        texts = items.texts_of([block])
        found = None if texts or not is_object(block) else items.file_of(block, to.batch)
        if texts:
            refused = is_object(block) and block.get("type") == "refusal"
            to.text(texts[0], metadata=metadata or (_REFUSAL if refused else None))
        elif found is not None:
            to.file(*found)
        elif not (block is None or (is_object(block) and items.is_stripped(block))):
            to.skip(f"content block {place} of an assistant message is of an unknown type")


_REFUSAL = '{"openai":{"refusal":true}}'


def _call(to: RecordBuilder, call: dict[str, Any], fallback: str) -> None:
    found = call.get("function")
    function = found if is_object(found) else call
    custom = call.get("custom")
    if is_object(custom):
        function = {"name": custom.get("name"), "arguments": custom.get("input")}
    wanted = text_of(call.get("id")) or fallback
    to.call(wanted, text_of(function.get("name")), items.call_input(function.get("arguments")))


def _completion(to: RecordBuilder, reply: dict[str, Any]) -> None:
    name = text_of(reply.get("model"))
    to.model = Model("", name) if name else to.model
    choices = [choice for choice in reply["choices"] if is_object(choice)]
    reason: str | None = None
    if len(choices) != 1:
        to.skip(f"{len(choices)} choices: only the first is imported")
    for choice in choices[:1]:
        message = choice.get("message")
        if not is_object(message):
            to.skip("a choice without a message")
            continue
        _assistant(to, {"id": reply.get("id"), **message})
        reason = reason_of(choice.get("finish_reason")) or None
    usage = reply.get("usage")
    if is_object(usage):
        to.usage(chat_usage(usage))
    to.end(reason)
