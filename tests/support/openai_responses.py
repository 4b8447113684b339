"""Answers of the scripted server in the form of OpenAI Responses, whole and streamed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def response_of(
    model: object, number: int, pieces: list[str], calls: list[Any], usage: tuple[int, int] | None
) -> dict[str, Any]:
    """Return a whole response with a text and calls."""
    output: list[dict[str, Any]] = []
    if any(pieces):
        text: dict[str, Any] = {"type": "output_text", "text": "".join(pieces), "annotations": [], "logprobs": []}
        output.append(
            {"id": f"msg_{number}", "type": "message", "role": "assistant", "status": "completed", "content": [text]}
        )
    output += [
        {"id": f"fc_{one.call}", "type": "function_call", "status": "completed", "call_id": one.call, "name": one.tool, "arguments": one.arguments}
        for one in calls
    ]  # fmt: skip
    return _response(model, number, "completed", output) | {"usage": _usage(usage or (0, 0))}


def events_of(response: Mapping[str, Any], pieces: list[str]) -> Iterator[dict[str, Any]]:
    """Yield the events of a streamed response; its text comes in these pieces."""
    begun: dict[str, Any] = {**response, "status": "in_progress", "output": [], "usage": None}
    number = 0

    def event(kind: str, **fields: Any) -> dict[str, Any]:
        nonlocal number
        number += 1
        return {"type": f"response.{kind}", "sequence_number": number, **fields}

    yield event("created", response=begun)
    for index, item in enumerate(response["output"]):
        at = {"item_id": item["id"], "output_index": index}
        if item["type"] == "message":
            (part,) = item["content"]
            empty = {**part, "text": ""}
            yield event("output_item.added", output_index=index, item={**item, "status": "in_progress", "content": []})
            yield event("content_part.added", **at, content_index=0, part=empty)
            for piece in pieces:
                yield event("output_text.delta", **at, content_index=0, delta=piece, logprobs=[])
            yield event("output_text.done", **at, content_index=0, text=part["text"], logprobs=[])
            yield event("content_part.done", **at, content_index=0, part=part)
        else:
            yield event(
                "output_item.added", output_index=index, item={**item, "status": "in_progress", "arguments": ""}
            )
            yield event("function_call_arguments.delta", **at, delta=item["arguments"])
            yield event("function_call_arguments.done", **at, name=item["name"], arguments=item["arguments"])
        yield event("output_item.done", output_index=index, item=item)
    yield event("completed", response=response)


def _response(model: object, number: int, status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": f"resp_{number}", "object": "response", "created_at": 1, "status": status, "model": model, "output": output,
        "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
    }  # fmt: skip


def _usage(usage: tuple[int, int]) -> dict[str, Any]:
    return {
        "input_tokens": usage[0], "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": usage[1], "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": sum(usage),
    }  # fmt: skip
