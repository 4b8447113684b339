"""An answer in the protocols of chat interfaces: AI SDK UI messages, and AG-UI events."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import msgspec

from projections.live.answer import Answer
from projections.live.patches import encoded
from projections.transcript.message_json import Json


async def written(answer: Answer, protocol: str) -> AsyncGenerator[bytes]:
    """Yield an answer as server-sent events of a protocol: a name of `PROTOCOLS`."""
    async with aclosing(PROTOCOLS[protocol](answer)) as events:
        async for event in events:
            yield b"data: %b\n\n" % encoded(event)
    if protocol == "ai-sdk":
        yield b"data: [DONE]\n\n"


async def ai_sdk(answer: Answer) -> AsyncGenerator[Json]:
    """Yield the chunks of one UI message, named by the first reply; each reply is a step."""
    started = False
    async with aclosing(aiter(answer)) as happenings:
        async for kind, message, part, text in happenings:
            said = part.get("kind")
            call = {"toolCallId": part["id"]} if said == "tool" else {}
            match kind, said:
                case "reply", _:
                    if not started:
                        yield {"type": "start", "messageId": message}
                    started = True
                    yield {"type": "start-step"}
                case "replied", _:
                    yield {"type": "finish-step"}
                case "begin", "tool":
                    yield {"type": "tool-input-start", **call, "toolName": part["tool"]}
                case "delta", "tool":
                    yield {"type": "tool-input-delta", **call, "inputTextDelta": text}
                case "call", _:
                    yield {"type": "tool-input-available", **call, "toolName": part["tool"], "input": _input(part)}
                case "result", _ if part["status"] == "failed":
                    yield {"type": "tool-output-error", **call, "errorText": part["error"]}
                case "result", _:
                    yield {"type": "tool-output-available", **call, "output": part["text"]}
                case "begin", "file":
                    yield {"type": "file", "url": part["text"], "mediaType": part["mime"]}
                case "begin", _:
                    yield {"type": f"{said}-start", "id": part["id"]}
                case "delta", _:
                    yield {"type": f"{said}-delta", "id": part["id"], "delta": text}
                case "end", "text" | "reasoning":
                    yield {"type": f"{said}-end", "id": part["id"]}
                case _:
                    pass
    outcome = answer.outcome
    if outcome.state == "failed":
        yield {"type": "error", "errorText": _reason(answer)}
    yield {"type": "abort" if outcome.state in ("stopped", "withdrawn") else "finish"}


async def ag_ui(answer: Answer) -> AsyncGenerator[Json]:
    """Yield the events of one run, named by the question, of the thread that is the session."""
    run = {"threadId": answer.session, "runId": answer.question}
    yield {"type": "RUN_STARTED", **run}
    async with aclosing(aiter(answer)) as happenings:
        async for kind, message, part, text in happenings:
            name = {"toolCallId" if part.get("kind") == "tool" else "messageId": part.get("id")}
            match kind, part.get("kind"):
                case "begin", "tool":
                    yield {"type": "TOOL_CALL_START", **name, "toolCallName": part["tool"], "parentMessageId": message}
                case "delta", "tool":
                    yield {"type": "TOOL_CALL_ARGS", **name, "delta": text}
                case "call" | "end", "tool":
                    yield {"type": "TOOL_CALL_END", **name}
                case "result", _:
                    said = part["error"] if part["status"] == "failed" else part["text"]
                    own = {"messageId": f"{part['id']}-result", "role": "tool", "content": said}
                    yield {"type": "TOOL_CALL_RESULT", **name, **own}
                case "begin", "text":
                    yield {"type": "TEXT_MESSAGE_START", **name, "role": "assistant"}
                case "delta", "text":
                    yield {"type": "TEXT_MESSAGE_CONTENT", **name, "delta": text}
                case "end", "text":
                    yield {"type": "TEXT_MESSAGE_END", **name}
                case "begin", "reasoning":
                    yield {"type": "REASONING_START", **name}
                    yield {"type": "REASONING_MESSAGE_START", **name, "role": "reasoning"}
                case "delta", "reasoning":
                    yield {"type": "REASONING_MESSAGE_CONTENT", **name, "delta": text}
                case "end", "reasoning":
                    yield {"type": "REASONING_MESSAGE_END", **name}
                    yield {"type": "REASONING_END", **name}
                case _:
                    pass
    if answer.outcome.state == "failed":
        yield {"type": "RUN_ERROR", "message": _reason(answer)}
    else:
        yield {"type": "RUN_FINISHED", **run}


PROTOCOLS = {"ai-sdk": ai_sdk, "ag-ui": ag_ui}
"""The protocols by their names."""


def _input(part: Json) -> Any:
    """Return the arguments of a call as a value; text that is no JSON stays text."""
    try:
        return msgspec.json.decode(part["input"].encode("utf-8", "surrogatepass"))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return part["input"]


def _reason(answer: Answer) -> str:
    """Return the name of the error; a provider's own words may have keys in them."""
    error = answer.outcome.error
    return "the answer failed" if error is None or error.name == "unknown" else f"the answer failed: {error.name}"
