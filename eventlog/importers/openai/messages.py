"""Lists of OpenAI Chat messages, requests with them, and chat completions, to events.

* Leading system messages are the system prompt; later ones, and developer's, are synthetic user
  messages.
* A `tool` or `function` message is the result of the call it names, else of the oldest open call of
  its name; one without a call is a synthetic user message, and reported.
* Of a completion choice 0 is imported; its usage and finish reason are those of the answer.
"""

from __future__ import annotations

from typing import Any

from eventlog.importers.common.conversation_parts import CallResult
from eventlog.importers.common.json_lines import is_array, is_object, text_or_empty
from eventlog.importers.common.message_reader import ConversationReader, MessageList
from eventlog.importers.common.message_shapes import OPENAI
from eventlog.importers.openai import items
from eventlog.importers.openai.chat_sse import chat_usage, finish_reason
from eventlog.values import File, Tool

__all__ = ["OpenAIMessages"]


class OpenAIMessages(MessageList):
    """The importer."""

    name = "openai_messages"
    family = OPENAI
    provider = ""

    def read_message(self, reader: ConversationReader, number: int, message: dict[str, Any]) -> None:
        """Add the events of one message, or of a completion."""
        if is_array(message.get("choices")):
            _completion(reader, number, message)
            return
        role = text_or_empty(message.get("role"))
        if role == "assistant":
            _assistant(reader, number, message)
            reader.conversation.supersede()
        elif role in {"tool", "function"}:
            _result(reader, number, message, role)
        elif role == "system" and not reader.begun:
            reader.system(message.get("content"))
        elif role in {"user", "system", "developer"}:
            _user(reader, number, message, role)
        else:
            reader.report.skip(number, "a message of an unknown role")


def _user(reader: ConversationReader, number: int, message: dict[str, Any], role: str) -> None:
    synthetic = role != "user"
    said, strange = items.user_parts(message.get("content"), reader.conversation.batch, synthetic=synthetic)
    if strange:
        reader.report.skip(number, f"{strange} blocks of a {role} message that are neither text nor a file")
    agent = role if synthetic else text_or_empty(message.get("name"))
    reader.user(number, message, said, agent=agent, synthetic=synthetic)


def _result(reader: ConversationReader, number: int, message: dict[str, Any], role: str) -> None:
    call, content = text_or_empty(message.get("tool_call_id")), message.get("content")
    several = message.get("tool_call_ids")
    if not call and is_array(several) and several:
        call = text_or_empty(several[0])
    if not call:
        tool = text_or_empty(message.get("name"))
        calls = reader.conversation.calls.items()
        call = next((name for name, found in calls if tool and found.tool == tool), "")
    texts = items.texts_of(content)
    text = "\n".join(texts)
    result = CallResult(text, attachments=items.attachments_of(content, reader.conversation.batch))
    if reader.conversation.result(reader.time, call, result, held=len(texts) == 1) is None:
        reader.conversation.hold(call, None, result)
        reader.report.skip(number, f"a {role} message for no open call: imported as a synthetic user message")
        _user(reader, number, message, role)


def _assistant(reader: ConversationReader, number: int, message: dict[str, Any]) -> None:
    answer = reader.answer(number, message)
    name = answer.id
    parts = 0

    def part() -> str:
        nonlocal parts
        parts += 1
        return f"{name[:200]}:{parts - 1}"

    for key in ("reasoning_content", "reasoning", "thinking"):
        thought = message.get(key)
        if isinstance(thought, str) and thought:
            reader.conversation.reasoning(reader.time, part(), thought)
            break
    content = message.get("content")
    blocks: list[Any] = content if is_array(content) else [content]
    for place, block in enumerate(blocks):
        texts = items.texts_of([block] if block is not None else [])
        found = None if texts or not is_object(block) else items.file_of(block, reader.conversation.batch)
        if texts:
            refused = is_object(block) and block.get("type") == "refusal"
            reader.conversation.text(reader.time, part(), texts[0], _REFUSAL if refused else None)
        elif found is not None:
            reader.conversation.remainder.move(found[1], found[2])
            reader.conversation.complete(reader.time, part(), found[0])
        elif block is not None:
            reader.report.skip(number, f"content block {place} of an assistant message is of an unknown type")
    refusal = message.get("refusal")
    if isinstance(refusal, str) and refusal:
        reader.conversation.text(reader.time, part(), refusal, _REFUSAL)
    audio = message.get("audio")
    if is_object(audio) and isinstance(audio.get("data"), str):
        url = reader.conversation.batch.content(f"data:audio/*;base64,{audio['data']}")
        reader.conversation.remainder.move(audio["data"], "file")
        reader.conversation.complete(reader.time, part(), File("audio/*", url))
    calls = message.get("tool_calls")
    for place, call in enumerate(calls if is_array(calls) else []):
        if is_object(call):
            _call(reader, number, call, part(), f"call-{number}-{place}")
        else:
            reader.report.skip(number, "a tool call that is not an object")
    legacy = message.get("function_call")
    if is_object(legacy):
        _call(reader, number, {"function": legacy}, part(), f"call-{number}")


_REFUSAL = '{"openai":{"refusal":true}}'


def _call(reader: ConversationReader, number: int, call: dict[str, Any], part: str, fallback: str) -> None:
    found = call.get("function")
    function = found if is_object(found) else call
    custom = call.get("custom")
    if is_object(custom):
        function = {"name": custom.get("name"), "arguments": custom.get("input")}
    wanted = text_or_empty(call.get("id")) or fallback
    assert reader.conversation.open is not None
    if wanted in reader.conversation.open.call_ids:
        reader.report.skip(number, "a second call with the same id in one message: its id was changed")
        wanted = f"{wanted}#{fallback}"
    kind = Tool(wanted, text_or_empty(function.get("name")))
    reader.conversation.call(reader.time, part, kind, items.call_input(function.get("arguments")))


def _completion(reader: ConversationReader, number: int, reply: dict[str, Any]) -> None:
    reader.model = reader.model_named(reply.get("model")) or reader.model
    choices = [choice for choice in reply["choices"] if is_object(choice)]
    if len(choices) != 1:
        reader.report.skip(number, f"{len(choices)} choices: only the first is imported")
    for choice in choices[:1]:
        message = choice.get("message")
        if not is_object(message):
            reader.report.skip(number, "a choice without a message")
            continue
        _assistant(reader, number, {"id": reply.get("id"), **message})
        answer = reader.conversation.open
        assert answer is not None
        answer.reason = finish_reason(choice.get("finish_reason"))
    usage = reply.get("usage")
    if is_object(usage):
        reader.conversation.usage(reader.time, chat_usage(usage))
    reader.conversation.supersede()
