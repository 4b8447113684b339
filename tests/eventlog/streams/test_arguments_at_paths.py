"""A call whose arguments stream as values at paths is one call with the whole object."""

from __future__ import annotations

import json
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eventlog
from eventlog import events as ev
from eventlog.session.filling import Filled
from eventlog.streams.arguments_at_paths import ArgumentsAtPaths
from eventlog.streams.gemini import GeminiReader
from eventlog.streams.steps import Argued, Called, Step
from eventlog.values import Tool
from tests.support.shared import shared_path

Chunk = dict[str, Any]


def chunk(reason: str | None = None, **call: Any) -> Chunk:
    """A chunk with a piece of a call."""
    candidate: Chunk = {"content": {"parts": [{"functionCall": call}]}}
    return {"candidates": [candidate if reason is None else candidate | {"finishReason": reason}]}


def piece(path: str, value: object, *, more: bool = False) -> Chunk:
    """A value at a path; a text goes on in the next piece if there is `more`."""
    kinds: dict[type, str] = {str: "stringValue", bool: "boolValue", type(None): "nullValue"}
    kind = kinds.get(type(value), "numberValue")
    return {"jsonPath": path, kind: value} | ({"willContinue": True} if more else {})


BEGUN = chunk(name="write", willContinue=True)
PIECES = [
    chunk(partialArgs=[piece("$.items[0].name", "ap", more=True)], willContinue=True),
    chunk(partialArgs=[piece("$.items[0].name", "ple")], willContinue=True),
    chunk(willContinue=True),
    chunk(partialArgs=[piece("$.items[0]['a price']", 0.5), piece("$.items[1].name", "")], willContinue=True),
    chunk(partialArgs=[piece("$.done", True), piece("$.note", None)], willContinue=True),
]
WHOLE = {"items": [{"name": "apple", "a price": 0.5}, {"name": ""}], "done": True, "note": None}


def filled(*chunks: Chunk) -> tuple[Filled, list[tuple[str, str, str]]]:
    """Fill a reply; return its end, and of its calls the tool, the arguments and the error."""
    with eventlog.open("memory:") as store:
        session = store.create_session()
        session.user("go")
        with session.assistant("google/g") as reply:
            end = reply.fill(iter(chunks))
            for call in end.calls:
                call.start()
                call.succeed("ok")
            if reply.is_open:
                reply.finish("tool-calls")
        events = [known.event for known in session.events()]
        tools = {
            event.part: event.kind.tool
            for event in events
            if isinstance(event, ev.PartStarted) and isinstance(event.kind, Tool)
        }
        given = {event.part: session.text(event.input) for event in events if isinstance(event, ev.ToolRunning)}
        errors = {event.part: session.text(event.error) for event in events if isinstance(event, ev.ToolFailed)}
    return end, [(tool, given.get(part, ""), errors.get(part, "")) for part, tool in tools.items()]


@pytest.mark.parametrize("end", [[chunk("STOP")], [{"candidates": [{"finishReason": "STOP"}]}]], ids=["ended", "not"])
def test_streamed_arguments_are_one_call(end: list[Chunk]) -> None:
    """The pieces are one object, also where the last chunk of the call is missing."""
    found, calls = filled(BEGUN, *PIECES, *end)
    assert (found.reason, len(found.calls)) == ("tool-calls", 1)
    assert [(tool, json.loads(given), error) for tool, given, error in calls] == [("write", WHOLE, "")]
    two, calls = filled(BEGUN, *PIECES, chunk(), chunk("STOP", name="read", args={"p": 1}))
    assert [(tool, json.loads(given)) for tool, given, _ in calls] == [("write", WHOLE), ("read", {"p": 1})]
    assert len(two.calls) == 2


@pytest.mark.parametrize(
    "bad",
    [
        piece("$.items[7]", 1),
        piece("$.items.name", 1),
        piece("$[0]", 1),
        piece("items", 1),
        piece("$", 1),
        piece("$..x", 1),
        piece("$.items[0].name.first", 1),
    ],
)
def test_pieces_without_a_place_run_no_tool(bad: Chunk) -> None:
    """A call with a piece that fits nowhere fails with a sentence for the model."""
    found, ((tool, _, error),) = filled(BEGUN, *PIECES, chunk("STOP", partialArgs=[bad]))
    assert (tool, len(found.calls)) == ("write", 0)
    assert "not a whole JSON object" in error


def test_arguments_that_are_nested_too_deep_say_so() -> None:
    """A call whose arguments are JSON that not every program can read asks for flatter ones."""
    deep = "[" * 300 + "]" * 300
    call = {"index": 0, "id": "c", "function": {"name": "write", "arguments": f'{{"a":{deep}}}'}}
    ends = {"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]}
    found, ((tool, _, error),) = filled(ends)
    assert (tool, len(found.calls)) == ("write", 0)
    assert error.startswith("the arguments are nested more than 200 levels deep, and the tool did not run")
    assert "flatter" in error


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab", max_size=3),
    lambda inner: st.lists(inner, min_size=1, max_size=3) | st.dictionaries(st.sampled_from("xyz"), inner, min_size=1),
    max_leaves=8,
)


def leaves(value: Any, path: str) -> list[tuple[str, Any]]:
    """The values of an object with their paths."""
    if isinstance(value, dict):
        return [leaf for key, item in cast("Chunk", value).items() for leaf in leaves(item, f"{path}.{key}")]
    if isinstance(value, list):
        return [
            leaf
            for at, item in enumerate(cast("list[Any]", cast("object", value)))
            for leaf in leaves(item, f"{path}[{at}]")
        ]
    return [(path, value)]


@given(st.dictionaries(st.sampled_from("abc"), VALUES), st.integers(1, 3))
def test_any_object_comes_back_from_its_leaves(value: dict[str, Any], size: int) -> None:
    """Any object is the same again from its leaves, its texts cut anywhere."""
    made = ArgumentsAtPaths({})
    for path, leaf in leaves(value, "$"):
        texts = [leaf[at : at + size] for at in range(0, len(leaf), size)] if isinstance(leaf, str) and leaf else [leaf]
        for text in texts[:-1]:
            made.take([piece(path, text, more=True)])
        made.take([piece(path, texts[-1])])
    assert msgspec.json.decode(made.text(whole=True)) == value
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(made.text(whole=False))


@pytest.mark.parametrize(
    ("name", "tool", "leaf"),
    [
        ("google-stream-tool-call-array-arguments-missing-terminal-function-call", "writeItems", "banana_001"),
        ("google-vertex-stream-tool-call-arguments-nested.1", "cookRecipe", "Cover with foil and bake for 25 minutes."),
    ],
)
def test_recorded_streams_have_one_call(name: str, tool: str, leaf: str) -> None:
    """Recordings of Gemini with streamed arguments have one call with all values."""
    path = shared_path(f"data/vercel_ai/packages__google__src____fixtures____{name}.chunks.txt")
    reader = GeminiReader()
    steps: list[Step] = [step for line in path.read_text().splitlines() for step in reader.take(json.loads(line))]
    steps += reader.end()
    called = [step for step in steps if isinstance(step, Called)]
    (argued,) = [step for step in steps if isinstance(step, Argued)]
    assert [step.tool for step in called] == [tool]
    assert leaf in argued.text
    assert json.loads(argued.text)


def test_pieces_without_a_value_begin_and_end_a_text() -> None:
    """A text may begin with an empty piece, and end with one: no null takes its place."""
    texts = [
        chunk(partialArgs=[{"jsonPath": "$.a", "willContinue": True}], willContinue=True),
        chunk(partialArgs=[piece("$.a", "x", more=True)], willContinue=True),
        chunk(partialArgs=[{"jsonPath": "$.a"}, piece("$.b", None)], willContinue=True),
    ]
    _, calls = filled(BEGUN, *texts, chunk(), {"candidates": [{"finishReason": "STOP"}]})
    assert [(tool, json.loads(given), error) for tool, given, error in calls] == [("write", {"a": "x", "b": None}, "")]


def test_a_signature_of_a_later_chunk_is_of_the_call() -> None:
    """A call that streams keeps a signature that comes with a later chunk."""
    last: Chunk = {"functionCall": {}, "thoughtSignature": "signed"}
    reader = GeminiReader()
    steps = [step for one in (BEGUN, *PIECES) for step in reader.take(one)]
    steps += reader.take({"candidates": [{"content": {"parts": [last]}}]})
    (called,) = [step for step in steps if isinstance(step, Called)]
    assert called.metadata == '{"google":{"thoughtSignature":"signed"}}'
